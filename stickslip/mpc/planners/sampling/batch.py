"""Planning by sampling: many rollouts with noise on the controls, averaged with weights by their cost.

A plan is one captured graph: reset all worlds to the start, draw controls, step with a kernel for the controls before
and one for the cost after each step, weight, average. The host uploads one array before and downloads one after. The
graph can compute the plans of several trials, each with its own worlds. On a GPU that one plan does not fill, this
takes less time.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from stickslip import compilation
from stickslip.errors import InputError, Unsupported
from stickslip.mpc import variation
from stickslip.mpc.cost import Names, check_goal
from stickslip.mpc.planners.sampling import kernels
from stickslip.mpc.planners.sampling.model import plan_model
from stickslip.mpc.planners.sampling.settings import Mppi, Settings
from stickslip.mpc.success import Array, Goal
from stickslip.mpc.task import SPLINES, Observation, Plan, Problem, Sampling
from stickslip.mpc.trial.trial import draw
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation

DERIVED = ("sensordata", "site_xpos", "site_xmat", "xpos", "xmat")
"""Results of a step that terms of a cost may read."""


def usual_physics() -> Physics[Any, Any]:
    """The default physics of the rollouts: the cone sweep."""
    import stickslip as ss

    return ss.ConeSweep()


class Batch:
    """Plans of one or several trials of a problem, all at once.

    If the task has a bound, a control is the change of a joint target at its knot. Targets stay within `task.bound` of
    the joint's position at that time, and within its limits. So a servo that pushes keeps pushing at zero control.
    Otherwise controls are `ctrl` itself, a spline through the knots, held for a control step as in the plant.

    Args:
        problem: the task, compiled
        physics: contact physics of the rollouts; default: `usual_physics()`
        settings: parameters of one of the sampling planners; default: those of `mppi`
        device: "cpu", "cuda:0", ...; default: the first CUDA device, or the CPU if there is none
        trials: number of trials
    """

    def __init__(
        self,
        problem: Problem,
        physics: Physics[Any, Any] | None = None,
        settings: Settings | None = None,
        device: str | None = None,
        trials: int = 1,
    ) -> None:
        physics = physics or usual_physics()
        if not physics.capturable:
            import stickslip as ss

            usable = [name for name, kind in ss.PHYSICS.items() if kind.capturable]
            raise Unsupported(
                f"a sampling planner captures a whole plan as one graph, and {physics.name} cannot be captured; "
                f"use one of: {', '.join(usable)}"
            )
        if isinstance(trials, bool) or not isinstance(trials, (int, np.integer)) or trials < 1:
            raise InputError(f"trials is {trials!r}: it must be a whole number, at least 1")
        self.problem, self.settings, self.trials = problem, settings or Mppi(), int(trials)
        s, task = self.settings, problem.task
        usual: Sampling = task.sampling
        self.dt = dt = s.dt or usual.dt or float(problem.mjm.opt.timestep)
        self.horizon = s.horizon or usual.horizon
        self.hold_steps = _whole(problem, dt)
        self.knot_steps = s.knot_steps or usual.knot_steps or self.hold_steps
        spline = s.spline or usual.spline
        self._spline = SPLINES.index(spline)
        self._additive = task.bound is not None
        if self._additive and spline != "hold":
            raise Unsupported(f"spline {spline!r}: {task.name} has changes of joint targets as controls; use 'hold'")
        self.knots = -(-self.horizon // self.knot_steps) + (0 if spline == "hold" else 1)
        self.rule = s.rule(usual.temperature)
        self.std = s.std or usual.std
        self.sim = Simulation(
            plan_model(problem.task.build(problem.object)),
            physics,
            nworld=self.trials * s.samples * s.models,
            device=device,
            timestep=dt,
            nconmax=s.nconmax,
            njmax=s.njmax,
        )
        if s.models > 1:
            bodies = variation.bodies(problem)
            factors = np.tile(variation.factors(s.models, s.spread, s.size_spread), (self.trials * s.samples, 1))
            self.sim.set_model(**variation.fields(self.sim.mjm, bodies, factors))
        self._graph: Any = None
        self._harmless = 0
        self._dropped: tuple[str, ...] | None = None  # overflow messages of the last plans, once read
        self._times = np.full(self.trials, math.nan)
        with wp.ScopedDevice(self.sim.device):
            self._allocate()
        self.reset([self._no_goal] * self.trials, [0] * self.trials)

    def _allocate(self) -> None:
        problem, sim, s, trials = self.problem, self.sim, self.settings, self.trials
        mjm, nu = problem.mjm, problem.mjm.nu
        samples = trials * s.samples
        nworld = samples * s.models
        _, goal = draw(problem, 0)
        check_goal(problem.task.cost, len(goal.values), problem.task.name)
        self._no_goal = Goal(np.zeros_like(goal.values))
        ngoal = max(1, len(goal.values))
        self._goals = np.zeros((trials, ngoal))
        # uploaded per trial: qpos, qvel, ctrl, goal, knots to shift by
        ends = np.cumsum([mjm.nq, mjm.nv, nu, ngoal, 1])
        shape = (trials, int(ends[-1]))
        self._host = wp.zeros(shape, dtype=float, device="cpu", pinned=sim.device.is_cuda)
        self._inbox = wp.zeros(shape, dtype=float)
        self._qpos, self._qvel, self._ctrl, self._goal, self._shift = (
            self._inbox[:, int(a) : int(b)] for a, b in zip([0, *ends[:-1]], ends, strict=True)
        )
        self._random = wp.zeros((trials, 2), dtype=int)
        self._nominal = wp.zeros((trials, self.knots, nu), dtype=float)
        self._drawn = wp.zeros((samples, self.knots, nu), dtype=float)
        self._spread = wp.zeros((trials, self.knots, nu), dtype=float)
        self._cost = wp.zeros(samples, dtype=float)
        self._rank = wp.zeros(samples, dtype=int)
        self._weight = wp.zeros(samples, dtype=float)
        terms = problem.task.cost
        names = Names(sim.mjm)
        self._score_kernel = kernels.make_score([term.make(names) for term in terms])
        self._running = wp.array([term.weight for term in terms], dtype=float)
        self._final = wp.array([term.final for term in terms], dtype=float)
        self._sums = wp.zeros((nworld, len(terms)), dtype=float)
        self._terms = wp.zeros((nworld, len(terms)), dtype=float)
        self._answer = wp.zeros((trials, nu + 4 + len(terms)), dtype=float)
        self._action = wp.zeros((nworld, nu), dtype=float)
        self._seen = wp.zeros((nworld, mjm.nq), dtype=float), wp.zeros((nworld, mjm.nv), dtype=float)
        self._derived = [sim.physics.field(sim.m, sim.d, name) for name in DERIVED]
        missing = [name for name, array in zip(DERIVED, self._derived, strict=True) if array is None]
        if missing:
            raise Unsupported(f"{sim.physics.name} does not compute {', '.join(missing)}, which a cost may read")
        low, high = problem.limits()
        self._limits = [wp.array(limit, dtype=float) for limit in (low, high)]
        bound = problem.task.bound
        self._ranges = self._limits if bound is None else [wp.full(nu, x, dtype=float) for x in (-bound, bound)]
        self._joints = wp.array(problem.joints, dtype=int)
        scale = np.full(nu, math.sqrt(self.knot_steps)) if self._additive else 0.5 * (high - low)
        places = np.linspace(0.0, 1.0, self.knots) if self.knots > 1 else np.zeros(1)
        self._stds = [
            wp.array(self.std * np.array([[growth.at(place) * scale for place in places]]), dtype=float)
            for growth in self.rule.noise
        ]
        arrays = sim.physics.arrays(sim.m, sim.d)
        self._overflow = arrays["overflow"]
        memory = {k: a for k, a in arrays.items() if a.size and k not in ("qpos", "qvel", "ctrl", "overflow", "peak")}
        self._memory = [(array, wp.clone(array)) for array in memory.values()]

    def reset(self, goals: Sequence[Goal], seeds: Sequence[int]) -> None:
        """Start new trials, with a goal and a seed for each."""
        self._check(goals, "goals")
        self._check(seeds, "seeds")
        for goal in goals:
            values = np.asarray(goal.values, dtype=np.float64)
            if values.shape != self._no_goal.values.shape or not np.isfinite(values).all():
                raise InputError(
                    f"goal {values.tolist()}: {self.problem.task.name} has goals of {len(self._no_goal.values)} finite "
                    "numbers; take one from Task.sample"
                )
        for trial, goal in enumerate(goals):
            self._goals[trial, : len(goal.values)] = goal.values
        self._random.assign(np.array([[seed % 2**31, 0] for seed in seeds], dtype=np.int32))
        self._nominal.zero_()
        self._times[:] = math.nan

    def _check(self, given: Sequence[Any], name: str) -> None:
        if len(given) != self.trials:
            raise InputError(f"{len(given)} {name}: there must be one for each of the {self.trials} trials")

    def plan(self, observations: Sequence[Observation]) -> list[Plan]:
        """A plan for every trial, for the next control step."""
        self._check(observations, "observations")
        self.compile()
        period = self.knot_steps * self.dt
        host = self._host.numpy()
        for trial, seen in enumerate(observations):
            shift = self._passed(trial, seen, period)
            host[trial] = np.concatenate([seen.qpos, seen.qvel, seen.ctrl, self._goals[trial], [shift]])
        with wp.ScopedDevice(self.sim.device):
            wp.copy(self._inbox, self._host)
            wp.capture_launch(self._graph)
            answers = self._answer.numpy()
        nu = self.problem.mjm.nu
        self._dropped = None
        plans = []
        for seen, answer in zip(observations, answers, strict=True):
            best, _, finite, bits = (float(x) for x in answer[nu : nu + 4])
            terms = {term.name: float(x) for term, x in zip(self.problem.task.cost, answer[nu + 4 :], strict=True)}
            self._check_terms(seen, terms)
            note = self._note(finite, int(bits))
            plans.append(Plan(self._to_target(seen, answer[:nu]), best, len(self.rule.noise), note, terms))
        return plans

    def _passed(self, trial: int, seen: Observation, period: float) -> float:
        """Knots by which the last plan of a trial is shifted.

        Controls that are held are shifted by whole knots, and the rest of a knot counts the next time.
        """
        passed = (seen.time - self._times[trial]) / period
        if not math.isfinite(passed):  # the first plan of a trial
            if not self._additive:
                nominal = self._nominal.numpy()
                nominal[trial] = seen.ctrl
                self._nominal.assign(nominal)
            passed = 0.0
        elif -1.0 < passed <= self.knots and SPLINES[self._spline] == "hold":
            passed = max(0.0, round(passed))
            self._times[trial] += passed * period
            return passed
        self._times[trial] = seen.time
        return min(float(self.knots), max(0.0, passed))

    def _check_terms(self, seen: Observation, terms: dict[str, float]) -> None:
        """Raise InputError if a term is not finite at a state that is."""
        used = {term.name for term in self.problem.task.cost if term.weight or term.final}
        wrong = [name for name, value in terms.items() if name in used and not math.isfinite(value)]
        if wrong and np.isfinite(seen.qpos).all() and np.isfinite(seen.qvel).all():
            raise InputError(
                f"the term {wrong[0]!r} of the cost of {self.problem.task.name} is {terms[wrong[0]]} at the state "
                f"planned from (time {seen.time:g} s): a term must be finite there; look for a division by zero or the "
                "root of a negative number"
            )

    def _to_target(self, observation: Observation, u: Array) -> Array:
        """Controls of the first knot, as the kernels compute them."""
        low, high = self.problem.limits()
        bound = self.problem.task.bound
        if bound is None:
            return np.clip(u.astype(np.float64), low, high)
        joints = observation.qpos[self.problem.joints]
        near = np.clip(observation.ctrl + u, joints - bound, joints + bound)
        return np.clip(near, low, high)

    def _note(self, finite: float, bits: int) -> str:
        """Problems in the rollouts of a trial. Overflow messages are those of all trials."""
        notes = []
        if finite == 0:
            notes.append("no rollout stayed finite: the last plan is kept; use a smaller dt or softer contact")
        if bits & ~self._harmless:
            if self._dropped is None:
                self._dropped = self.sim.health().overflow
            if not self._dropped:  # bits without a dropped contact or row, such as a solver at its iteration limit
                self._harmless |= bits
            notes.extend(self._dropped)
        return "; ".join(notes)

    def compile(self) -> None:
        """Compile all kernels and capture the plans; this takes a minute the first time."""
        if self._graph is not None:
            return
        with wp.ScopedDevice(self.sim.device):
            random, nominal = wp.clone(self._random), wp.clone(self._nominal)
            compilation.load_kernels(lambda: self._record(1), self.sim.device)
            self._record(1)  # loads the rest: nothing can be loaded during capture
            with wp.ScopedCapture(device=self.sim.device) as capture:
                self._record(self.horizon)
            self._graph = capture.graph
            wp.copy(self._random, random)
            wp.copy(self._nominal, nominal)

    def _record(self, steps: int) -> None:
        """Launch all kernels of the plans, with rollouts of `steps` steps."""
        s, sim, rule = self.settings, self.sim, self.rule
        samples, nworld = self._cost.shape[0], self._sums.shape[0]
        width = max(self.problem.mjm.nq, self._sums.shape[1], self.problem.mjm.nu)
        self._overflow.zero_()
        for iteration, std in enumerate(self._stds):
            noise = self._spread if rule.least and iteration else std
            wp.launch(
                kernels._draw_knots,
                dim=self._drawn.shape,
                inputs=[
                    self._random,
                    self._shift,
                    self._nominal,
                    noise,
                    *self._ranges,
                    int(iteration == 0),
                    int(self._additive),
                    self._spline,
                ],
                outputs=[self._drawn],
            )
            for array, fresh in self._memory:
                wp.copy(array, fresh)
            wp.launch(
                kernels._start_rollout,
                dim=(nworld, width),
                inputs=[self._qpos, self._qvel, self._ctrl],
                outputs=[sim.qpos, sim.qvel, sim.ctrl, self._sums],
            )
            for step in range(steps):
                self._act(step, width)
                sim.physics.step(sim.m, sim.d)
                self._score(self._seen, 1.0 / self.horizon, 0.0, step == 0)
            sim.physics.forward(sim.m, sim.d)  # poses and sensors of the last state
            self._score((sim.qpos, sim.qvel), 0.0, 1.0, False)
            wp.launch(
                kernels._sum_cost,
                dim=samples,
                inputs=[self._sums, s.models, int(s.risk == "worst")],
                outputs=[self._cost],
            )
            if rule.top:
                wp.launch(kernels.rank_sample, dim=samples, inputs=[self._cost, s.samples], outputs=[self._rank])
            wp.launch(
                kernels.weigh_sample,
                dim=samples,
                inputs=[self._cost, self._rank, s.samples, rule.top, int(rule.uniform), rule.temperature, 0.0],
                outputs=[self._weight],
            )
            wp.launch(
                kernels._average_knots,
                dim=self._nominal.shape,
                inputs=[
                    self._cost,
                    self._weight,
                    self._drawn,
                    self._overflow,
                    self._terms,
                    self._stds[0],
                    s.samples,
                    s.models,
                    rule.least,
                ],
                outputs=[self._random, self._nominal, self._spread, self._answer],
            )

    def _act(self, step: int, width: int) -> None:
        """Set the controls of a time step and keep its state."""
        sim = self.sim
        wp.launch(
            kernels._act,
            dim=(self._sums.shape[0], width),
            inputs=[
                self._joints,
                *self._limits,
                sim.qpos,
                sim.qvel,
                self._drawn,
                self.problem.task.bound or 0.0,
                self._spline,
                step,
                self.knot_steps,
                self.hold_steps,
            ],
            outputs=[sim.ctrl, self._action, *self._seen],
        )

    def _score(self, state: Sequence[wp.array], share: float, ends: float, first: bool) -> None:
        """Add the cost of a state, which poses and sensors belong to."""
        wp.launch(
            self._score_kernel,
            dim=self._sums.shape,
            inputs=[
                *state,
                self.sim.ctrl,
                *self._derived,
                self._action,
                self._goal,
                self._running,
                self._final,
                share,
                ends,
                int(first),
            ],
            outputs=[self._sums, self._terms],
        )


def _whole(problem: Problem, dt: float) -> int:
    """Time steps of a rollout per control step of the task; raises InputError if that is no whole number."""
    steps = problem.period / dt
    whole = max(1, round(steps))
    if abs(steps - whole) > 1e-6 * whole:
        raise InputError(
            f"dt {dt:g}: a control step of {problem.task.name} takes {problem.period:g} s, which must be a whole "
            f"number of time steps; use {problem.period / whole:g}"
        )
    return whole
