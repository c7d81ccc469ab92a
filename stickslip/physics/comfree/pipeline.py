"""One ComFree step as named stages over MuJoCo Warp's own, with the solver replaced by the closed form."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.comfree.constraints import Workspace, resolve_constraints
from stickslip.physics.comfree.contacts import resolve_contacts
from stickslip.physics.comfree.model import Model
from stickslip.physics.mjwarp import pipeline as rowfree
from stickslip.physics.mjwarp.advance import advance
from stickslip.physics.mjwarp.pipeline import Prediction, Step, accelerate, find_motion, predict
from stickslip.physics.mjwarp.plan import PlanStage, StepPlan


def check_options(m: Model) -> None:
    """Raise Unsupported for options of the device model that ComFree cannot honour; they can change after put_model."""
    rowfree.check_options(m, Model, "comfree")


def make_rows(m: Model, d: mjw.Data) -> None:
    """In the place of MuJoCo Warp's `make_constraint`: no rows, but those of limits for sensors that read them now.

    All rows come into being with their forces, in `constrain` and `touch`.
    """
    flags = m.opt.disableflags
    sensed = m.sensor_limitpos_adr.size + m.sensor_limitvel_adr.size
    if flags & mjw.DisableBit.CONSTRAINT or m.nv == 0:
        for count in (d.ne, d.nf, d.nl, d.nefc):
            count.zero_()
    elif sensed:
        resolve_constraints(m, d, wp.zeros((d.nworld, m.nv), dtype=float), limits_only=True)


def constrain(m: Model, d: mjw.Data, prediction: Prediction) -> Workspace | None:
    """Forces of equalities, dry friction and limits in closed form; needs no contacts. None if constraints are off."""
    if m.opt.disableflags & mjw.DisableBit.CONSTRAINT or m.nv == 0:
        return None
    return resolve_constraints(m, d, prediction.qacc)


def touch(m: Model, d: mjw.Data, prediction: Prediction, s: Workspace | None) -> None:
    """Forces of contacts in closed form: efc.force, contact.efc_address; `accelerate` sums all. None: no forces."""
    if s is None:
        make_rows(m, d)
        d.qfrc_constraint.zero_()
        wp.copy(d.efc.Ma, d.qfrc_smooth)
        return
    if not m.opt.disableflags & mjw.DisableBit.CONTACT:
        resolve_contacts(m, d, s, prediction.factor.H)


def solve(m: Model, d: mjw.Data) -> Prediction:
    """Constraint forces and qacc, in the place of MuJoCo Warp's `solve`."""
    prediction = predict(m, d)
    s = constrain(m, d, prediction)
    touch(m, d, prediction, s)
    accelerate(m, d, prediction, s and s.loads)
    return prediction


def integrate(m: Model, d: mjw.Data, prediction: Prediction) -> None:
    """Advance the state by what `solve` found."""
    motion = find_motion(m, d, prediction)
    advance(m, d, motion.qacc, motion.velocity)


class _Step(Step[Model, mjw.Data]):
    """A step with what "constraints" hands on to "contact"."""

    workspace: Workspace | None = None

    def constrain(self) -> None:
        self.workspace = constrain(self.m, self.d, self.prediction)

    def touch(self) -> None:
        touch(self.m, self.d, self.prediction, self.workspace)


def plan(m: Model, d: mjw.Data) -> StepPlan:
    """The stages of a step and what they need; each may be repeated on its own to be timed."""
    check_options(m)
    current = _Step(m, d, find_motion)
    return current.plan(
        rows=lambda: make_rows(m, d),
        solve=(
            PlanStage("constraints", current.constrain, ("prediction",)),
            PlanStage("contact", current.touch, ("constraints", "collision")),
        ),
        loads=lambda: current.workspace and current.workspace.loads,
    )


def step(m: Model, d: mjw.Data) -> None:
    """Advance every world by its timestep."""
    plan(m, d).run(d.qpos.device)
