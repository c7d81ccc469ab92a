"""One ComFree step as named stages over MuJoCo Warp's own, with the solver replaced by the closed form."""

import copy
import dataclasses
from typing import Any

import mujoco_warp as mjw
import warp as wp

from stickslip.errors import InputError, Unsupported
from stickslip.physics import mjwarp_private as private
from stickslip.physics.base import Stage
from stickslip.physics.comfree.contacts import gather_forces, predict_twists, resolve_contacts
from stickslip.physics.comfree.equalities import resolve_equalities
from stickslip.physics.comfree.joints import resolve_friction, resolve_limits
from stickslip.physics.comfree.model import Model
from stickslip.physics.comfree.rows import Scratch, make_scratch
from stickslip.physics.mjwarp_private import Factor
from stickslip.physics.stages import compose, inertia, run


def check_options(m: Model) -> None:
    """Raise Unsupported for options of the device model that ComFree cannot honour; they can change after put_model."""
    if not isinstance(m, Model):
        raise InputError("this model is MuJoCo Warp's: make it with stickslip.comfree.put_model")
    wrong = []
    if m.opt.integrator not in (mjw.IntegratorType.EULER, mjw.IntegratorType.IMPLICITFAST):
        wrong.append(f"integrator {mjw.IntegratorType(m.opt.integrator).name} (use Euler or implicitfast)")
    if m.opt.enableflags & mjw.EnableBit.SLEEP:
        wrong.append("sleeping (clear the sleep flag)")
    if m.opt.deterministic & mjw.DeterminismType.ATOMICS:
        wrong.append("opt.deterministic ATOMICS (contact forces are summed by atomics; clear that bit)")
    if wrong:
        raise Unsupported("comfree does not support: " + "; ".join(wrong))


def make_rows(m: Model, d: mjw.Data) -> None:
    """In the place of MuJoCo Warp's `make_constraint`: no rows, but those of limits for sensors that read them now.

    All rows come into being with their forces, in `constrain` and `touch`.
    """
    for count in (d.ne, d.nf, d.nl, d.nefc):
        count.zero_()
    if m.sensor_limitpos_adr.size + m.sensor_limitvel_adr.size and not m.opt.disableflags & _NO_LIMITS:
        at_rest = wp.zeros((d.nworld, m.nv), dtype=float)
        resolve_limits(m, d, make_scratch(m, d, at_rest))


_NO_LIMITS = mjw.DisableBit.CONSTRAINT | mjw.DisableBit.LIMIT


def fwd_position(m: Model, d: mjw.Data, factorize: bool = True) -> None:
    """Position-dependent computations, as MuJoCo Warp's `fwd_position` without constraint rows."""
    mjw.fwd_kinematics(m, d)
    inertia(m, d)
    if factorize:
        mjw.factor_m(m, d)
    if m.opt.run_collision_detection:
        mjw.collision(m, d)
    make_rows(m, d)
    mjw.transmission(m, d)


def fwd_acceleration(m: Model, d: mjw.Data, factorize: bool = False) -> None:
    """qfrc_smooth and, unless opt.run_qacc_smooth is off and ComFree can do without it, qacc_smooth."""
    view = copy.copy(m)
    view.opt = copy.copy(m.opt)
    if m.opt.run_qacc_smooth or not _damped(m):
        view.opt.run_qacc_smooth = True
        mjw.fwd_acceleration(view, d, factorize=factorize)
    else:
        # MuJoCo Warp skips qacc_smooth for its Newton solver from a warm start: give the view these settings
        view.opt.solver, view.opt.noslip_iterations, view.opt.iterations = mjw.SolverType.NEWTON, 0, 1
        view.opt.disableflags = m.opt.disableflags & ~mjw.DisableBit.WARMSTART
        mjw.fwd_acceleration(view, d, factorize=factorize)


def _damped(m: Model) -> bool:
    """Whether the integrator's matrix can differ from M."""
    return private.has_implicit_part(m) and not (m.opt.integrator == mjw.IntegratorType.EULER and m.undamped)


@dataclasses.dataclass
class Prediction:
    """What the integrator would do without constraints.

    Attributes:
        qacc: H^-1 (tau - c), so that v_s = v + dt qacc                  (nworld, nv)
        factor: H and its factors; None where H = M
    """

    qacc: wp.array
    factor: Factor | None


def predict(m: Model, d: mjw.Data) -> Prediction:
    """Equation (2) with the integrator's matrix H."""
    if not _damped(m):
        return Prediction(d.qacc_smooth, None)
    qacc = wp.empty((d.nworld, m.nv), dtype=float)
    factor = private.factor_solve(m, d, private.integration_matrix(m, d), qacc, d.qfrc_smooth)
    return Prediction(qacc, factor)


def accelerate(m: Model, d: mjw.Data) -> None:
    """qacc = M^-1 (tau - c + J' lambda), with the factors of M that qacc_smooth took, or else fresh ones."""
    if m.opt.run_qacc_smooth or not _damped(m):
        mjw.solve_m(m, d, d.qacc, d.efc.Ma)
    else:
        private.factor_solve_m(m, d, d.qacc, d.efc.Ma)


def constrain(m: Model, d: mjw.Data, prediction: Prediction) -> Scratch | None:
    """Forces of equalities, dry friction and limits in closed form; needs no contacts. None if constraints are off."""
    flags = m.opt.disableflags
    if flags & mjw.DisableBit.CONSTRAINT or m.nv == 0:
        return None
    s = make_scratch(m, d, prediction.qacc)
    predict_twists(m, d, s)
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
    gather_forces(m, d, s)


def solve(m: Model, d: mjw.Data) -> Prediction:
    """Constraint forces and qacc, in the place of MuJoCo Warp's `solve`."""
    prediction = predict(m, d)
    touch(m, d, prediction, constrain(m, d, prediction))
    accelerate(m, d)
    return prediction


def integrate(m: Model, d: mjw.Data, prediction: Prediction) -> None:
    """Advance the state by H^-1 (tau - c + J' lambda), equation (9), with the factors of the prediction."""
    if prediction.factor is None:
        private.advance(m, d, d.qacc)
        return
    qacc = wp.empty((d.nworld, m.nv), dtype=float)
    private.solve(m, d, prediction.factor, qacc, d.efc.Ma)
    private.advance(m, d, qacc)


def stages(m: Model, d: mjw.Data) -> list[Stage]:
    """The step as stages, to be run in this order; each may be repeated on its own to be timed."""
    check_options(m)
    made: dict[str, Any] = {}

    def prediction() -> None:
        made["prediction"] = predict(m, d)

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
        integration=lambda: integrate(m, d, made["prediction"]),
    )


def step(m: Model, d: mjw.Data) -> None:
    """Advance every world by its timestep."""
    run(stages(m, d), m, d)
