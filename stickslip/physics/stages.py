"""The stages of a MuJoCo Warp step in their order, with those that a physics may replace left open."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import mujoco_warp as mjw
import warp as wp

from stickslip.physics import mjwarp_private as private
from stickslip.physics.base import Stage


def inertia(m: mjw.Model, d: mjw.Data) -> None:
    """The inertia matrix M, with the armature of tendons."""
    mjw.crb(m, d)
    private.tendon_armature(m, d)


def centre_of_mass(m: mjw.Model, d: mjw.Data) -> None:
    """The rest of `mujoco_warp.fwd_kinematics`: what collision does not need."""
    mjw.com_pos(m, d)
    mjw.camlight(m, d)
    mjw.flex(m, d)
    mjw.tendon(m, d)


def sense_force(m: mjw.Model, d: mjw.Data) -> None:
    """Forces between bodies, where something reads them, and the sensors of acceleration and force."""
    wanted = not (m.opt.disableflags & mjw.DisableBit.SENSOR) and m.sensor_rne_postconstraint
    if m.opt.run_rne_postconstraint or wanted:
        mjw.rne_postconstraint(m, d)
    mjw.sensor_acc(m, d, skip_rne_postconstraint=True)


def sense_position(m: mjw.Model, d: mjw.Data) -> None:
    """Sensors of position, and potential energy where it is enabled."""
    d.sensordata.zero_()
    mjw.sensor_pos(m, d)
    private.energy_pos(m, d)


def sense_velocity(m: mjw.Model, d: mjw.Data) -> None:
    """Sensors of velocity, and kinetic energy where it is enabled."""
    mjw.sensor_vel(m, d)
    private.energy_vel(m, d)


def control(m: mjw.Model, d: mjw.Data) -> None:
    """The user's control callback, if there is one."""
    if m.callback.control and not m.opt.disableflags & mjw.DisableBit.ACTUATION:
        m.callback.control(m, d)


def compose(
    m: mjw.Model,
    d: mjw.Data,
    *,
    rows: Callable[[], None],
    acceleration: Callable[[], None],
    solve: list[Stage],
    integration: Callable[[], None],
    collide: Callable[[], None] | None = None,
) -> list[Stage]:
    """A whole step. With MuJoCo Warp's own functions it is `mujoco_warp.step`, bit for bit (tests/parity)."""

    def collision() -> None:
        if m.opt.run_collision_detection:
            if collide is None:
                mjw.collision(m, d)
            else:
                collide()

    def rows_and_transmission() -> None:
        rows()
        mjw.transmission(m, d)

    def velocity() -> None:
        mjw.fwd_velocity(m, d)
        sense_velocity(m, d)

    def actuation() -> None:
        control(m, d)
        mjw.fwd_actuation(m, d)

    return [
        ("kinematics", lambda: mjw.kinematics(m, d)),
        ("centre of mass", lambda: centre_of_mass(m, d)),
        ("inertia", lambda: inertia(m, d)),
        ("collision", collision),
        ("rows", rows_and_transmission),
        ("position sensors", lambda: sense_position(m, d)),
        ("velocity", velocity),
        ("actuation", actuation),
        ("smooth acceleration", acceleration),
        *solve,
        ("force sensors", lambda: sense_force(m, d)),
        ("integration", integration),
    ]


def run(stages: list[Stage], m: mjw.Model, d: mjw.Data, made: dict[str, Any], *, apart: bool | None = None) -> None:
    """Run the stages of a physics without contact rows; on CUDA those beside each other that do not need each other.

    A branch is short of work for the whole GPU at a few hundred worlds, and a chain of small kernels is what takes the
    time. Collision runs beside all that needs no contacts, and meets it before "contact". Where no sensor, tendon or
    fluid couples them, inertia (with what `made["after inertia"]` makes of it), actuation with passive forces, and bias
    forces run beside each other and meet before "smooth acceleration"; "acceleration" runs beside the solve of the
    integration, which calls `made["join"]` before it advances.

    Args:
        stages: the step
        m: model
        d: data
        made: what stages hand to each other
        apart: whether to take the order of the branches also where there are none; for tests on a CPU
    """
    cuda = d.qpos.device.is_cuda
    if not (cuda if apart is None else apart) or _needs_contacts_early(m):
        for _, stage in stages:
            stage()
        return
    by_name = dict(stages)
    branch = _Branches(d.qpos.device if cuda else None)
    by_name["kinematics"]()
    with branch("collision"):
        by_name["collision"]()
    by_name["centre of mass"]()
    splits = _splits(m)
    if splits:
        with branch("inertia"):
            by_name["inertia"]()
            made["after inertia"]()
        with branch("actuation"):
            by_name["rows"]()
            private.actuator_velocity(m, d)
            mjw.passive(m, d)
            by_name["actuation"]()
        mjw.com_vel(m, d)
        mjw.rne(m, d)
        branch.join("inertia")
        branch.join("actuation")
    else:
        for name in ("inertia", "rows", "position sensors", "velocity", "actuation"):
            by_name[name]()
    order = [name for name, _ in stages]
    for name in order[order.index("smooth acceleration") :]:
        if name == "contact":
            branch.join("collision")
        if name == "acceleration" and splits:
            with branch("inertia"):
                by_name[name]()
            made["join"] = lambda: branch.join("inertia")
        else:
            by_name[name]()


def _splits(m: mjw.Model) -> bool:
    """Whether velocities, actuation and inertia need nothing of each other, and nobody asks for accelerations."""
    coupled = m.nsensor or m.ntendon or m.nflex or m.has_fluid or m.opt.run_rne_postconstraint
    discrete = m.opt.integrator not in (mjw.IntegratorType.EULER, mjw.IntegratorType.IMPLICITFAST)
    return not (coupled or discrete or m.opt.enableflags & mjw.EnableBit.ENERGY)


class _Branches:
    """Streams beside the current one; without a CUDA device everything runs where it stands."""

    def __init__(self, device: wp.Device | None) -> None:
        self._streams = {} if device is None else _side_streams(device.alias)
        self._main = None if device is None else wp.get_stream(device)

    def __call__(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """A context whose kernels run on the stream of that name, after what is on the current one so far."""
        return wp.ScopedStream(self._streams[name]) if self._streams else contextlib.nullcontext()

    def join(self, name: str) -> None:
        """Wait for what is on the stream of that name."""
        if self._main is not None:
            self._main.wait_stream(self._streams[name])


def _needs_contacts_early(m: mjw.Model) -> bool:
    """Whether a stage before the contact forces reads contacts: sensors, adhesion, callbacks."""
    sensors = m.nsensorcollision + m.nsensortaxel + m.sensor_contact_pos_adr.size + m.sensor_contact_vel_adr.size
    return bool(sensors or m.flg_adhesion or any(vars(m.callback).values()))


@functools.cache
def _side_streams(alias: str) -> dict[str, wp.Stream]:
    return {name: wp.Stream(wp.get_device(alias)) for name in ("collision", "inertia", "actuation")}
