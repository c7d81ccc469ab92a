"""The step around a row-free solve: smooth stages, prediction and integration with one factorization, and its plan."""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Generic

import mujoco_warp as mjw
import warp as wp

from stickslip.errors import InputError, Unsupported
from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.adhesion import transmission
from stickslip.physics.mjwarp.advance import advance
from stickslip.physics.mjwarp.broadphase import collide
from stickslip.physics.mjwarp.model import DataT, Model, ModelT
from stickslip.physics.mjwarp.plan import MAIN, PlanStage, StepPlan
from stickslip.physics.mjwarp.smooth.factor import Factor, factorize
from stickslip.physics.mjwarp.smooth.response import Loads, respond, solve, solve_motion
from stickslip.physics.mjwarp.smooth.smooth import find_smooth, is_fused
from stickslip.physics.mjwarp.stages import COLLISION, INERTIA, compose, inertia, mark_near, streams_of


def check_options(m: mjw.Model, cls: type[Model], name: str, *, atomics: bool = True) -> None:
    """Raise Unsupported for options of the device model that cannot be honoured; they can change after put_model.

    Args:
        m: the model, which must be a `cls`
        cls: the physics' own model
        name: of the physics; its drop-in module has the same without hyphens
        atomics: whether it sums forces by atomics, so that it cannot keep their order
    """
    if not isinstance(m, cls):
        maker = "another physics'" if isinstance(m, Model) else "MuJoCo Warp's"
        raise InputError(f"this model is {maker}: make it with stickslip.{name.replace('-', '')}.put_model")
    wrong = []
    if m.opt.integrator not in (mjw.IntegratorType.EULER, mjw.IntegratorType.IMPLICITFAST):
        wrong.append(f"integrator {mjw.IntegratorType(m.opt.integrator).name} (use Euler or implicitfast)")
    if m.opt.enableflags & mjw.EnableBit.SLEEP:
        wrong.append("sleeping (clear the sleep flag)")
    if atomics and m.opt.deterministic & mjw.DeterminismType.ATOMICS:
        wrong.append("opt.deterministic ATOMICS (contact forces are summed by atomics; clear that bit)")
    if wrong:
        raise Unsupported(f"{name} does not support: " + "; ".join(wrong))


def fwd_position(m: ModelT, d: DataT, factorize: bool, make_rows: Callable[[ModelT, DataT], None]) -> None:
    """Position-dependent computations, as MuJoCo Warp's `fwd_position`, with the physics' own rows."""
    mjw.fwd_kinematics(m, d)
    inertia(m, d)
    if factorize:
        mjw.factor_m(m, d)
    if m.opt.run_collision_detection:
        mjw.collision(m, d)
        mark_near(m, d)
    make_rows(m, d)
    transmission(m, d)


def fwd_acceleration(m: Model, d: mjw.Data, factorize: bool = False) -> None:
    """qfrc_smooth and, unless opt.run_qacc_smooth is off and `predict` can do without it, qacc_smooth."""
    view = copy.copy(m)
    view.opt = copy.copy(m.opt)
    if m.opt.run_qacc_smooth or not damped(m):
        view.opt.run_qacc_smooth = True
        mjw.fwd_acceleration(view, d, factorize=factorize)
    else:
        # MuJoCo Warp skips qacc_smooth for its Newton solver from a warm start: give the view these settings
        view.opt.solver, view.opt.noslip_iterations, view.opt.iterations = mjw.SolverType.NEWTON, 0, 1
        view.opt.disableflags = m.opt.disableflags & ~mjw.DisableBit.WARMSTART
        mjw.fwd_acceleration(view, d, factorize=factorize)


def damped(m: Model) -> bool:
    """Whether the integrator's matrix can differ from M."""
    return private.has_implicit_part(m) and not (m.opt.integrator == mjw.IntegratorType.EULER and m.undamped)


@dataclasses.dataclass
class Prediction:
    """What the integrator would do without constraints.

    Attributes:
        qacc: H^-1 (tau - c), so that the velocity becomes v + dt qacc    (nworld, nv)
        factor: H and its factors; H is `d.M` where nothing is implicit
        M: M and its factors; `factor` itself where nothing is implicit
        motion: H^-1 (tau - c + J' lambda), once `accelerate` has found it               (nworld, nv)
    """

    qacc: wp.array
    factor: Factor
    M: Factor
    motion: wp.array | None = None


def integration_matrix(m: Model, d: mjw.Data) -> wp.array:
    """The integrator's matrix H, which follows from the inertia; `d.M` where nothing is implicit."""
    return private.integration_matrix(m, d) if damped(m) else d.M


def predict(m: Model, d: mjw.Data, H: wp.array | None = None) -> Prediction:
    """The acceleration without constraints, by the integrator's matrix H, made here unless it is given."""
    if not damped(m):
        factor = factorize(m, d, d.M)
        return Prediction(d.qacc_smooth, factor, factor)
    qacc = wp.empty((d.nworld, m.nv), dtype=float)
    factor = factorize(m, d, integration_matrix(m, d) if H is None else H)
    solve_motion(m, d, factor, qacc, d.qfrc_smooth)
    return Prediction(qacc, factor, factorize(m, d, d.M))


def predict_fused(m: Model, d: mjw.Data) -> Prediction:
    """All smooth dynamics and the prediction, in one launch."""
    implicit = damped(m)
    solve_M = m.opt.run_qacc_smooth or not implicit
    found = find_smooth(m, d, begins=True, factor_M=True, solve_M=solve_M, factor_H=implicit)
    if found.M is None:
        raise RuntimeError("the launch returned no factors")
    if found.H is not None and found.qacc is not None:
        return Prediction(found.qacc, found.H, found.M)
    return Prediction(d.qacc_smooth, found.M, found.M)


def accelerate(m: Model, d: mjw.Data, prediction: Prediction, loads: Loads | None = None) -> None:
    """qacc = M^-1 (tau - c + J' lambda).

    Where forces of constraints are given, they are summed first, and the motion is found too.
    """
    if loads is None:
        solve(m, d, prediction.M, d.qacc, d.efc.Ma)
    else:
        H = None if prediction.factor is prediction.M else prediction.factor
        prediction.motion = respond(m, d, prediction.M, H, prediction.qacc, loads)


@dataclasses.dataclass
class Motion:
    """What advances the state by a step.

    Attributes:
        qacc: acceleration                                                                (nworld, nv)
        velocity: what moves the positions; None: the velocity at the end of the step     (nworld, nv)
    """

    qacc: wp.array
    velocity: wp.array | None = None


def find_motion(m: Model, d: mjw.Data, prediction: Prediction) -> Motion:
    """H^-1 (tau - c + J' lambda), with the factors of the prediction; where H = M, that is qacc."""
    if prediction.motion is not None:
        return Motion(prediction.motion)
    if prediction.factor is prediction.M:
        return Motion(d.qacc)
    qacc = wp.empty((d.nworld, m.nv), dtype=float)
    solve_motion(m, d, prediction.factor, qacc, d.efc.Ma)
    return Motion(qacc)


class Step(Generic[ModelT, DataT]):
    """One step of a row-free physics: what its stages hand on to each other.

    Args:
        m: model
        d: data
        find: finds the motion from the prediction, once the forces are known
        keep: keeps what the next step will start from, once the forces are known
    """

    def __init__(
        self,
        m: ModelT,
        d: DataT,
        find: Callable[[ModelT, DataT, Prediction], Motion],
        keep: Callable[[ModelT, DataT], None] | None = None,
    ) -> None:
        self.m, self.d, self._find, self._keep = m, d, find, keep
        self._H: wp.array | None = None
        self._prediction: Prediction | None = None
        self._motion: Motion | None = None

    @property
    def prediction(self) -> Prediction:
        """What the stage "prediction", or "smooth", made."""
        if self._prediction is None:
            raise RuntimeError("no stage of this step has predicted yet")
        return self._prediction

    def plan(
        self, rows: Callable[[], None], solve: Sequence[PlanStage], loads: Callable[[], Loads | None] | None = None
    ) -> StepPlan:
        """The plan of the step.

        Args:
            rows: in the place of MuJoCo Warp's `make_constraint`
            solve: stages that find the constraint forces from the prediction; after "contact" they are known
            loads: what they found, if the stage "acceleration" is to sum it
        """
        m, d = self.m, self.d
        streams = streams_of(m)
        implicit = m.opt.integrator == mjw.IntegratorType.IMPLICITFAST  # H then has the slopes of actuator forces
        prediction_parts = (
            PlanStage(
                "integration matrix",
                self._make_matrix,
                ("inertia", "actuation") if implicit else ("inertia",),
                INERTIA,
            ),
            PlanStage("predicted acceleration", self._predict, ("integration matrix", "smooth acceleration")),
        )
        known = (*(stage.name for stage in solve), "acceleration", "force sensors")
        memory_stream = COLLISION if streams.collision else MAIN
        motion_parts = (
            PlanStage("memory", self._remember, ("contact",), memory_stream),
            PlanStage("motion", self._find_motion, ("acceleration",) if loads else ("contact",)),
            PlanStage("advance", self._advance, ("motion", *known)),
        )
        beside = streams.smooth
        fused = is_fused(m)
        prediction = PlanStage(
            "prediction", self._predict_at_once, ("smooth acceleration",), parts=prediction_parts if beside else ()
        )
        accelerate_stage = PlanStage(
            "acceleration",
            lambda: accelerate(m, d, self.prediction, loads() if loads else None),
            ("contact",),
            INERTIA if beside and loads is None else MAIN,
        )
        return compose(
            m,
            d,
            rows=rows,
            acceleration=lambda: fwd_acceleration(m, d, factorize=True),
            solve=(*(() if fused else (prediction,)), *solve, accelerate_stage),
            integration=PlanStage(
                "integration",
                self._integrate,
                known,
                parts=motion_parts if beside or self._keep else (),
            ),
            collide=(lambda: collide(m, d)) if fused else None,
            streams=streams,
            smooth=self._predict_fused if fused else None,
        )

    def _make_matrix(self) -> None:
        self._H = integration_matrix(self.m, self.d)

    def _predict_fused(self) -> None:
        self._prediction = predict_fused(self.m, self.d)

    def _predict(self) -> None:
        self._prediction = predict(self.m, self.d, self._H)

    def _predict_at_once(self) -> None:
        self._make_matrix()
        self._predict()

    def _find_motion(self) -> None:
        self._motion = self._find(self.m, self.d, self.prediction)

    def _advance(self) -> None:
        if self._motion is None:
            raise RuntimeError("the stage 'motion' of this step has not run")
        advance(self.m, self.d, self._motion.qacc, self._motion.velocity)

    def _remember(self) -> None:
        if self._keep:
            self._keep(self.m, self.d)

    def _integrate(self) -> None:
        self._remember()
        self._find_motion()
        self._advance()
