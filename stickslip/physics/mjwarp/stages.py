"""The stages of a MuJoCo Warp step, and the plan they make with those that a physics replaces."""

import dataclasses
from collections.abc import Callable, Sequence

import mujoco_warp as mjw

from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.adhesion import transmission
from stickslip.physics.mjwarp.model import Model
from stickslip.physics.mjwarp.plan import MAIN, PlanStage, StepPlan
from stickslip.physics.mjwarp.smooth.smooth import find_reactions
from stickslip.physics.mjwarp.touches import mark_apart


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


def find_poses(m: mjw.Model, d: mjw.Data) -> None:
    """Poses of bodies, geoms, sites, cameras and lights, centres of mass, and tendons; nothing else."""
    mjw.kinematics(m, d)
    centre_of_mass(m, d)


def mark_near(m: mjw.Model, d: mjw.Data) -> None:
    """Keep contacts that are only near from sensors that read them before the solve."""
    if isinstance(m, Model) and m.structure.looks_ahead and _has_early_contact_sensors(m):
        mark_apart(d, m.structure.gaps)


def sense_touches(m: mjw.Model, d: mjw.Data) -> None:
    """Read such sensors again: a contact that was open, and then got a force in the solve, touches."""
    if isinstance(m, Model) and m.structure.looks_ahead and not m.opt.disableflags & mjw.DisableBit.SENSOR:
        private.sense_contacts(m, d, m.structure.contact_sensors)


def sense_force(m: mjw.Model, d: mjw.Data) -> None:
    """Forces between bodies, where something reads them, and the sensors of acceleration and force."""
    wanted = not (m.opt.disableflags & mjw.DisableBit.SENSOR) and m.sensor_rne_postconstraint
    if m.opt.run_rne_postconstraint or wanted:
        find_reactions(m, d)
    mjw.sensor_acc(m, d, skip_rne_postconstraint=True)


def sense_position(m: mjw.Model, d: mjw.Data, is_clear: bool = False) -> None:
    """Sensors of position, and potential energy where it is enabled.

    Args:
        m: model
        d: data
        is_clear: whether `sensordata` and `energy` have been cleared, and energy is not enabled
    """
    if not is_clear:
        d.sensordata.zero_()
    mjw.sensor_pos(m, d)
    if not is_clear or m.sensor_e_potential or m.sensor_e_kinetic:
        private.energy_pos(m, d)


def sense_velocity(m: mjw.Model, d: mjw.Data) -> None:
    """Sensors of velocity, and kinetic energy where it is enabled."""
    mjw.sensor_vel(m, d)
    private.energy_vel(m, d)


def control(m: mjw.Model, d: mjw.Data) -> None:
    """The user's control callback, if there is one."""
    if m.callback.control and not m.opt.disableflags & mjw.DisableBit.ACTUATION:
        m.callback.control(m, d)


COLLISION = "collision"
INERTIA = "inertia"
ACTUATION = "actuation"
SIDE_STREAMS = (COLLISION, INERTIA, ACTUATION)
"""Streams beside the main one."""


@dataclasses.dataclass(frozen=True)
class Streams:
    """Which streams the stages of a model may use; no stream but the main one where a physics uses none.

    A branch is short of work for the whole GPU at a few hundred worlds, and a chain of small kernels is what takes the
    time. Collision runs beside all that reads no contacts. Where no sensor, tendon or fluid couples them, inertia,
    actuation with passive forces, and bias forces run beside each other too, and `qacc` is found beside the motion.

    Attributes:
        collision: whether collision runs beside other stages
        smooth: whether inertia, actuation and bias forces do
    """

    collision: bool = False
    smooth: bool = False


def streams_of(m: mjw.Model) -> Streams:
    """The streams that a step without constraint rows may use."""
    if any(vars(m.callback).values()):  # a callback may read anything
        return Streams()
    coupled = (
        m.nsensor
        or m.ntendon
        or m.nflex
        or m.has_fluid
        or m.flg_adhesion
        or m.nacttrnbody
        or m.opt.run_rne_postconstraint
    )
    discrete = m.opt.integrator not in (mjw.IntegratorType.EULER, mjw.IntegratorType.IMPLICITFAST)
    return Streams(True, not (coupled or discrete or m.opt.enableflags & mjw.EnableBit.ENERGY))


def compose(
    m: mjw.Model,
    d: mjw.Data,
    *,
    rows: Callable[[], None],
    acceleration: Callable[[], None],
    solve: Sequence[PlanStage],
    integration: PlanStage,
    collide: Callable[[], None] | None = None,
    streams: Streams = Streams(),  # noqa: B008 - frozen
    smooth: Callable[[], None] | None = None,
) -> StepPlan:
    """A whole step. With MuJoCo Warp's own functions it is `mujoco_warp.step`, bit for bit (tests/parity).

    Args:
        m: model
        d: data
        rows: in the place of MuJoCo Warp's `make_constraint`
        acceleration: in the place of its `fwd_acceleration`; the stage "smooth acceleration"
        solve: in the place of its `solve`
        integration: advances the state
        collide: in the place of its `collision`
        streams: what may run beside each other on CUDA
        smooth: in the place of all that follows from the state without contacts, up to `acceleration`
            and what a stage "prediction" would find: one launch instead of MuJoCo Warp's stages; `find_smooth`
            with `begins`
    """

    def collision() -> None:
        if m.opt.run_collision_detection:
            if collide is None:
                mjw.collision(m, d)
            else:
                collide()
            mark_near(m, d)

    def rows_and_transmission() -> None:
        rows()
        transmission(m, d)

    def velocity() -> None:
        mjw.fwd_velocity(m, d)
        sense_velocity(m, d)

    def actuation() -> None:
        control(m, d)
        mjw.fwd_actuation(m, d)

    def early_sensors() -> None:
        sense_position(m, d, is_clear=True)
        sense_velocity(m, d)

    def after_solve() -> None:
        sense_touches(m, d)
        sense_force(m, d)

    contacts = ("collision",) if _reads_contacts_early(m) else ()
    collision_stream = COLLISION if streams.collision else MAIN
    if smooth is not None:
        return StepPlan(
            (
                PlanStage("smooth", smooth),
                PlanStage("collision", collision, ("smooth",), collision_stream),
                PlanStage("rows", rows, ("smooth", *contacts)),
                *((PlanStage("sensors", early_sensors, ("rows", *contacts)),) if m.nsensor else ()),
                *(_after_smooth(stage) for stage in solve),
                PlanStage("force sensors", after_solve, () if streams.smooth else tuple(stage.name for stage in solve)),
                integration,
            )
        )
    beside = streams.smooth
    inertia_stream, actuation_stream = (INERTIA, ACTUATION) if beside else (MAIN, MAIN)
    velocity_parts = (
        PlanStage("actuator velocity", lambda: private.actuator_velocity(m, d), ("rows",), ACTUATION),
        PlanStage("passive forces", lambda: mjw.passive(m, d), ("rows",), ACTUATION),
        PlanStage("body velocity", lambda: mjw.com_vel(m, d), ("centre of mass",)),
        PlanStage("bias forces", lambda: mjw.rne(m, d), ("body velocity",)),
    )
    return StepPlan(
        (
            PlanStage("kinematics", lambda: mjw.kinematics(m, d)),
            PlanStage("centre of mass", lambda: centre_of_mass(m, d), ("kinematics",)),
            PlanStage("inertia", lambda: inertia(m, d), ("centre of mass",), inertia_stream),
            PlanStage("collision", collision, ("kinematics",), collision_stream),
            PlanStage("rows", rows_and_transmission, ("centre of mass", *contacts), actuation_stream),
            PlanStage(
                "position sensors", lambda: sense_position(m, d), () if beside else ("rows", "inertia", *contacts)
            ),
            PlanStage("velocity", velocity, ("position sensors", *contacts), parts=velocity_parts if beside else ()),
            PlanStage(
                "actuation",
                actuation,
                ("actuator velocity", "passive forces") if beside else ("velocity",),
                actuation_stream,
            ),
            PlanStage("smooth acceleration", acceleration, ("inertia", "velocity", "actuation")),
            *solve,
            PlanStage("force sensors", after_solve, () if beside else tuple(stage.name for stage in solve)),
            integration,
        )
    )


def _after_smooth(stage: PlanStage) -> PlanStage:
    """A stage of the solve where "smooth" has found what "smooth acceleration" and "prediction" would."""
    after = ("smooth" if name in ("smooth acceleration", "prediction") else name for name in stage.after)
    return dataclasses.replace(stage, after=tuple(dict.fromkeys(after)))


def _reads_contacts_early(m: mjw.Model) -> bool:
    """Whether a stage before the contact forces reads contacts: sensors, adhesion."""
    sensed = m.nsensorcollision + m.nsensortaxel or _has_early_contact_sensors(m)
    return bool(sensed or m.flg_adhesion or m.nacttrnbody)


def _has_early_contact_sensors(m: mjw.Model) -> bool:
    return m.sensor_contact_pos_adr.size + m.sensor_contact_vel_adr.size > 0
