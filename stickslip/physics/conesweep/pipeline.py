"""One step of the cone sweep as named stages over MuJoCo Warp's own, with the solver replaced by the sweeps."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.conesweep import solver
from stickslip.physics.conesweep.model import Model, own_data
from stickslip.physics.mjwarp import pipeline as rowfree
from stickslip.physics.mjwarp.advance import advance
from stickslip.physics.mjwarp.pipeline import Motion, Prediction, Step, accelerate, predict
from stickslip.physics.mjwarp.plan import MAIN, PlanStage, StepPlan
from stickslip.physics.mjwarp.smooth.smooth import is_fused
from stickslip.physics.mjwarp.stages import COLLISION, streams_of
from stickslip.physics.mjwarp.touches import mark_apart

_NO_LIMITS = mjw.DisableBit.CONSTRAINT | mjw.DisableBit.LIMIT


def check_options(m: Model) -> None:
    """Raise Unsupported for options of the device model that cannot be honoured; they can change after put_model."""
    rowfree.check_options(m, Model, "cone-sweep", atomics=False)
    if m.sweep.deterministic and not is_fused(m):  # then MuJoCo Warp's stages add up forces, by atomics
        m.opt.deterministic |= mjw.DeterminismType.ATOMICS


def make_rows(m: Model, d: mjw.Data) -> None:
    """In the place of MuJoCo Warp's `make_constraint`: no rows, but those of limits for sensors that read them now.

    All rows come with their forces, in `resolve`.
    """
    sensed = m.sensor_limitpos_adr.size + m.sensor_limitvel_adr.size
    if sensed or m.opt.disableflags & mjw.DisableBit.CONSTRAINT or m.nv == 0:
        for count in (d.ne, d.nf, d.nl, d.nefc):
            count.zero_()
    if sensed and not m.opt.disableflags & _NO_LIMITS:
        solver.write_limit_rows(m, d, own_data(d).workspace)


def _is_off(m: Model) -> bool:
    """Whether there are no constraint forces."""
    return bool(m.opt.disableflags & mjw.DisableBit.CONSTRAINT or m.nv == 0)


def constrain(m: Model, d: mjw.Data, prediction: Prediction) -> None:
    """What contact space knows without contacts."""
    if m.sweep.traits.coupled and not _is_off(m):
        solver.constrain(m, d, own_data(d).workspace, prediction.qacc, prediction.factor)


def prepare(m: Model, d: mjw.Data, prediction: Prediction) -> None:
    """Contacts of each world, with the forces of the step before."""
    if not _is_off(m):
        solver.prepare(m, d, own_data(d).workspace, prediction.qacc, prediction.factor)


def resolve(m: Model, d: mjw.Data, prediction: Prediction) -> None:
    """Constraint forces: qfrc_constraint, efc.Ma, efc.force, contact.efc_address."""
    if _is_off(m):
        make_rows(m, d)
        own_data(d).memory.clear()
        d.qfrc_constraint.zero_()
        wp.copy(d.efc.Ma, d.qfrc_smooth)
        mark_apart(d, m.structure.gaps)
        return
    solver.solve(m, d, own_data(d).workspace, prediction.qacc)
    if not m.sweep.traits.coupled:
        solver.finish(m, d, own_data(d).workspace, prediction.qacc)


def report(m: Model, d: mjw.Data, prediction: Prediction) -> None:
    """Rows with their forces; free bodies have them already."""
    if m.sweep.traits.coupled and not _is_off(m):
        solver.finish(m, d, own_data(d).workspace, prediction.qacc)


def solve(m: Model, d: mjw.Data) -> Prediction:
    """Constraint forces and qacc, in the place of MuJoCo Warp's `solve`."""
    prediction = predict(m, d)
    constrain(m, d, prediction)
    prepare(m, d, prediction)
    resolve(m, d, prediction)
    report(m, d, prediction)
    accelerate(m, d, prediction)
    return prediction


def remember(m: Model, d: mjw.Data) -> None:
    """Keep the forces of the sweeps for the next step."""
    if not _is_off(m):
        solver.remember(m, d, own_data(d).workspace)


def find_motion(m: Model, d: mjw.Data, prediction: Prediction) -> Motion:
    """The motion that the sweeps found."""
    workspace = own_data(d).workspace
    if _is_off(m) and m.nv:
        solver.move_freely(m, d, workspace, prediction.qacc)
    return Motion(workspace.qacc, workspace.velocity)


def integrate(m: Model, d: mjw.Data, prediction: Prediction) -> None:
    """Advance the state by the motion that the sweeps found."""
    remember(m, d)
    motion = find_motion(m, d, prediction)
    advance(m, d, motion.qacc, motion.velocity)


def plan(m: Model, d: mjw.Data) -> StepPlan:
    """The stages of a step and what they need; each may be repeated on its own to be timed."""
    check_options(m)
    current = Step(m, d, find_motion, remember)
    side = COLLISION if streams_of(m).collision else MAIN
    return current.plan(
        rows=lambda: make_rows(m, d),
        solve=(
            PlanStage("constraints", lambda: constrain(m, d, current.prediction), ("prediction",)),
            PlanStage("contacts", lambda: prepare(m, d, current.prediction), ("prediction", "collision"), side),
            PlanStage("contact", lambda: resolve(m, d, current.prediction), ("constraints", "contacts")),
            PlanStage("report", lambda: report(m, d, current.prediction), ("contact",), side),
        ),
    )


def step(m: Model, d: mjw.Data) -> None:
    """Advance every world by its timestep."""
    plan(m, d).run(d.qpos.device)
