"""One ComFree step as named stages over MuJoCo Warp's own, with the solver replaced by the closed form."""

from typing import Any

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.base import Stage
from stickslip.physics.comfree.contacts import resolve_contacts
from stickslip.physics.comfree.equalities import resolve_equalities
from stickslip.physics.comfree.joints import resolve_friction, resolve_limits
from stickslip.physics.comfree.model import Model
from stickslip.physics.comfree.rows import Scratch, make_scratch
from stickslip.physics.rowfree import pipeline as rowfree
from stickslip.physics.rowfree.pipeline import Prediction, accelerate, fwd_acceleration, integrate, matrix, predict
from stickslip.physics.rowfree.tree import gather_forces, predict_twists
from stickslip.physics.stages import compose, run


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
        resolve_limits(m, d, make_scratch(m, d, at_rest))


_NO_LIMITS = mjw.DisableBit.CONSTRAINT | mjw.DisableBit.LIMIT


def constrain(m: Model, d: mjw.Data, prediction: Prediction) -> Scratch | None:
    """Forces of equalities, dry friction and limits in closed form; needs no contacts. None if constraints are off."""
    flags = m.opt.disableflags
    if flags & mjw.DisableBit.CONSTRAINT or m.nv == 0:
        return None
    s = make_scratch(m, d, prediction.qacc)
    predict_twists(m, d, s.qacc_free, s.twist, s.wrench)
    if not flags & mjw.DisableBit.EQUALITY:
        resolve_equalities(m, d, s)
    if not flags & mjw.DisableBit.FRICTIONLOSS:
        resolve_friction(m, d, s)
    if not flags & mjw.DisableBit.LIMIT:
        resolve_limits(m, d, s)
    return s


def touch(m: Model, d: mjw.Data, prediction: Prediction, s: Scratch | None) -> None:
    """Forces of contacts in closed form, and the sum: qfrc_constraint, efc.Ma, efc.force, contact.efc_address."""
    if s is None:
        make_rows(m, d)
        d.qfrc_constraint.zero_()
        wp.copy(d.efc.Ma, d.qfrc_smooth)
        return
    if not m.opt.disableflags & mjw.DisableBit.CONTACT:
        resolve_contacts(m, d, s, prediction.factor.H if prediction.factor else d.M)
    gather_forces(m, d, s.wrench, s.qfrc_row)


def solve(m: Model, d: mjw.Data) -> Prediction:
    """Constraint forces and qacc, in the place of MuJoCo Warp's `solve`."""
    prediction = predict(m, d)
    touch(m, d, prediction, constrain(m, d, prediction))
    accelerate(m, d)
    return prediction


def stages(m: Model, d: mjw.Data, made: dict[str, Any] | None = None) -> list[Stage]:
    """The step as stages, to be run in this order; each may be repeated on its own to be timed.

    What one hands to another is in `made`; `run` adds to it.
    """
    check_options(m)
    made = {} if made is None else made

    def after_inertia() -> None:
        made["matrix"] = matrix(m, d)

    made["after inertia"] = after_inertia

    def prediction() -> None:
        made["prediction"] = predict(m, d, made.pop("matrix", None))

    def constraints() -> None:
        made["scratch"] = constrain(m, d, made["prediction"])

    def contact() -> None:
        touch(m, d, made["prediction"], made["scratch"])

    return compose(
        m,
        d,
        rows=lambda: make_rows(m, d),
        acceleration=lambda: fwd_acceleration(m, d, factorize=True),
        solve=[
            ("prediction", prediction),
            ("constraints", constraints),
            ("contact", contact),
            ("acceleration", lambda: accelerate(m, d)),
        ],
        integration=lambda: integrate(m, d, made["prediction"], made.pop("join", None)),
    )


def step(m: Model, d: mjw.Data) -> None:
    """Advance every world by its timestep."""
    made: dict[str, Any] = {}
    run(stages(m, d, made), m, d, made)
