"""The stages of a MuJoCo Warp step in their order, with those that a physics may replace left open."""

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


def run(stages: list[Stage], m: mjw.Model, d: mjw.Data, made: dict[str, Any]) -> None:
    """Run the stages of a physics without contact rows; on CUDA those beside each other that do not need each other.

    A branch is short of work for the whole GPU at a few hundred worlds, and a chain of small kernels is what takes the
    time. Collision runs beside all that needs no contacts, and meets it before "contact". Inertia, with what
    `made["after inertia"]` makes of it, runs beside velocities and actuation. "acceleration" runs beside the solve of
    the integration, which calls `made["join"]` before it advances.
    """
    if not d.qpos.device.is_cuda or _needs_contacts_early(m):
        for _, stage in stages:
            stage()
        return
    by_name = dict(stages)
    order = [name for name, _ in stages]
    main = wp.get_stream(d.qpos.device)
    side, second = _side_streams(d.qpos.device.alias)
    apart = not m.nsensor and not m.opt.enableflags & mjw.EnableBit.ENERGY and not m.opt.run_rne_postconstraint
    for name in order:
        if name == "contact":
            main.wait_stream(side)
        if name == "smooth acceleration" and apart:
            main.wait_stream(second)
        if name == "collision":
            continue
        if name == "inertia" and apart:
            with wp.ScopedStream(second):
                by_name[name]()
                made["after inertia"]()
        elif name == "acceleration" and apart:
            with wp.ScopedStream(second):
                by_name[name]()
            made["join"] = lambda: main.wait_stream(second)
        else:
            by_name[name]()
        if name == "kinematics":
            with wp.ScopedStream(side):
                by_name["collision"]()


def _needs_contacts_early(m: mjw.Model) -> bool:
    """Whether a stage before the contact forces reads contacts: sensors, adhesion, callbacks."""
    sensors = m.nsensorcollision + m.nsensortaxel + m.sensor_contact_pos_adr.size + m.sensor_contact_vel_adr.size
    return bool(sensors or m.flg_adhesion or any(vars(m.callback).values()))


@functools.cache
def _side_streams(alias: str) -> tuple[wp.Stream, wp.Stream]:
    return wp.Stream(wp.get_device(alias)), wp.Stream(wp.get_device(alias))
