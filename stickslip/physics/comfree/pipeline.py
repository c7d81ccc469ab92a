"""One ComFree step as named stages over MuJoCo Warp's own, with the solver replaced by the closed form."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.comfree.bound import bound_forces
from stickslip.physics.comfree.contacts import resolve_contacts
from stickslip.physics.comfree.equalities import resolve_equalities
from stickslip.physics.comfree.joints import resolve_friction, resolve_limits
from stickslip.physics.comfree.model import Model
from stickslip.physics.comfree.rows import Workspace, make_workspace
from stickslip.physics.mjwarp import pipeline as rowfree
from stickslip.physics.mjwarp.pipeline import Prediction, Step, accelerate, advance, find_motion, predict
from stickslip.physics.mjwarp.plan import PlanStage, StepPlan
from stickslip.physics.mjwarp.tree import gather_forces, predict_twists


def check_options(m: Model) -> None:
    """Raise Unsupported for options of the device model that ComFree cannot honour; they can change after put_model."""
    rowfree.check_options(m, Model, "comfree")


def make_rows(m: Model, d: mjw.Data) -> None:
    """In the place of MuJoCo Warp's `make_constraint`: no rows, but those of limits for sensors that read them now.

    All rows come into being with their forces, in `constrain` and `touch`.
    """
    flags = m.opt.disableflags
    sensed = m.sensor_limitpos_adr.size + m.sensor_limitvel_adr.size
    if sensed or flags & mjw.DisableBit.CONSTRAINT or m.nv == 0:  # else `predict_twists` clears them
        for count in (d.ne, d.nf, d.nl, d.nefc):
            count.zero_()
    if sensed and not flags & _NO_LIMITS:
        at_rest = wp.zeros((d.nworld, m.nv), dtype=float)
        resolve_limits(m, d, make_workspace(m, d, at_rest))


_NO_LIMITS = mjw.DisableBit.CONSTRAINT | mjw.DisableBit.LIMIT


def constrain(m: Model, d: mjw.Data, prediction: Prediction) -> Workspace | None:
    """Forces of equalities, dry friction and limits in closed form; needs no contacts. None if constraints are off."""
    flags = m.opt.disableflags
    if flags & mjw.DisableBit.CONSTRAINT or m.nv == 0:
        return None
    s = make_workspace(m, d, prediction.qacc)
    predict_twists(m, d, s.qacc_free, s.twist, s.wrench)
    if not flags & mjw.DisableBit.EQUALITY:
        resolve_equalities(m, d, s)
    if not flags & mjw.DisableBit.FRICTIONLOSS:
        resolve_friction(m, d, s)
    if not flags & mjw.DisableBit.LIMIT:
        resolve_limits(m, d, s)
    return s


def touch(m: Model, d: mjw.Data, prediction: Prediction, s: Workspace | None) -> None:
    """Forces of contacts in closed form, and the sum: qfrc_constraint, efc.Ma, efc.force, contact.efc_address."""
    if s is None:
        make_rows(m, d)
        d.qfrc_constraint.zero_()
        wp.copy(d.efc.Ma, d.qfrc_smooth)
        return
    if not m.opt.disableflags & mjw.DisableBit.CONTACT:
        resolve_contacts(m, d, s, prediction.factor.H)
    gather_forces(m, d, s.wrench, s.qfrc_row)
    bound_forces(m, d, s, prediction)


def solve(m: Model, d: mjw.Data) -> Prediction:
    """Constraint forces and qacc, in the place of MuJoCo Warp's `solve`."""
    prediction = predict(m, d)
    touch(m, d, prediction, constrain(m, d, prediction))
    accelerate(m, d, prediction)
    return prediction


def integrate(m: Model, d: mjw.Data, prediction: Prediction) -> None:
    """Advance the state by what `solve` found."""
    advance(m, d, find_motion(m, d, prediction))


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
    )


def step(m: Model, d: mjw.Data) -> None:
    """Advance every world by its timestep."""
    plan(m, d).run(d.qpos.device)
