"""Planning by sampling (MPPI): many rollouts with noise on the controls, averaged with weights by their cost.

A plan is one captured graph: reset all worlds to the start, draw controls, step with a kernel for cost and control
before each step, weight, average. The host uploads one array before and downloads one after. The graph can compute the
plans of several trials, each with its own worlds. On a GPU that one plan does not fill, this takes less time.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import warp as wp

from stickslip import compilation
from stickslip.errors import InputError, Unsupported
from stickslip.mpc.planners.mppi import kernels
from stickslip.mpc.planners.mppi.chains import make_chains
from stickslip.mpc.task import Array, Goal, Observation, Plan, Problem
from stickslip.parameters import checked, parameter
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation


@checked
@dataclasses.dataclass(frozen=True)
class Settings:
    """Parameters of the planner `mppi`."""

    samples: int = parameter(256, "rollouts of a plan", 2)
    horizon: int = parameter(48, "time steps of a rollout", 1)
    dt: float = parameter(0.004, "time step [s]", 0.0, above=True)
    knot_steps: int | None = parameter(
        None, "time steps that a control is held; none: one control step of the task", 1, kind=int
    )
    temperature: float = parameter(
        2e-3, "temperature of the weights exp(-(S - min S) / temperature), in units of the cost", 0.0, above=True
    )
    std: float = parameter(
        0.02, "standard deviation of the noise per time step, summed over a knot [m or rad]", 0.0, above=True
    )
    iterations: int = parameter(1, "rounds of sampling and averaging", 1)
    shrink: float = parameter(0.5, "factor of the noise from one round to the next", 0.0, 1.0, above=True)
    top_fraction: float = parameter(
        1.0, "fraction of the samples, the best, that count; below 1 their costs are standardised", 0.0, 1.0, above=True
    )
    nconmax: int | None = parameter(None, "capacity for contacts per world; none: an estimate", 1, kind=int)
    njmax: int | None = parameter(None, "capacity for constraint rows per world; none: an estimate", 1, kind=int)

    @property
    def top(self) -> int:
        """Number of samples that count; 0: all."""
        return 0 if self.top_fraction == 1.0 else max(2, math.ceil(self.top_fraction * self.samples))


def usual_physics() -> Physics[Any, Any]:
    """The default physics of the rollouts: ComFree with the paper's parameters for a hand."""
    import stickslip as ss

    return ss.ComFree(stiffness=0.1, damping=0.002)


class Batch:
    """Plans of one or several trials of a problem, all at once.

    A control is the change of a joint target at the beginning of its knot. Targets stay within `task.bound` of the
    joint's position at that time, and within its limits. So a servo that pushes keeps pushing at zero control.

    Args:
        problem: the task, compiled
        physics: contact physics of the rollouts; default: `usual_physics()`
        settings: parameters
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
                f"mppi captures a whole plan as one graph, and {physics.name} cannot be captured; "
                f"use one of: {', '.join(usable)}"
            )
        if isinstance(trials, bool) or not isinstance(trials, (int, np.integer)) or trials < 1:
            raise InputError(f"trials is {trials!r}: it must be a whole number, at least 1")
        self.problem, self.settings, self.trials = problem, settings or Settings(), int(trials)
        self.knot_steps = self.settings.knot_steps or _steps_of_control(problem, self.settings.dt)
        self.knots = -(-self.settings.horizon // self.knot_steps)
        s = self.settings
        self.sim = Simulation(
            _plan_model(problem),
            physics,
            nworld=self.trials * s.samples,
            device=device,
            timestep=s.dt,
            nconmax=s.nconmax,
            njmax=s.njmax,
        )
        self._graph: Any = None
        self._harmless = 0
        self._dropped: tuple[str, ...] | None = None  # overflow messages of the last plans, once read
        self._times = np.full(self.trials, math.nan)
        self._goals = np.zeros((self.trials, 7))
        with wp.ScopedDevice(self.sim.device):
            self._allocate()
        nothing = Goal(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))
        self.reset([nothing] * self.trials, [0] * self.trials)

    def _allocate(self) -> None:
        mjm, nr, trials = self.problem.mjm, self.problem.nr, self.trials
        n = trials * self.settings.samples
        # uploaded per trial: qpos, qvel, ctrl, goal, knots to shift by
        ends = np.cumsum([mjm.nq, mjm.nv, nr, 7, 1])
        shape = (trials, int(ends[-1]))
        self._host = wp.zeros(shape, dtype=float, device="cpu", pinned=self.sim.device.is_cuda)
        self._inbox = wp.zeros(shape, dtype=float)
        self._qpos, self._qvel, self._ctrl, self._target, self._shift = (
            self._inbox[:, int(a) : int(b)] for a, b in zip([0, *ends[:-1]], ends, strict=True)
        )
        self._random = wp.zeros((trials, 2), dtype=int)
        self._nominal = wp.zeros((trials, self.knots, nr), dtype=float)
        self._drawn = wp.zeros((n, self.knots, nr), dtype=float)
        self._sums = wp.zeros((n, nr + len(self.problem.tips) + 1), dtype=float)
        self._cost = wp.zeros(n, dtype=float)
        self._rank = wp.zeros(n, dtype=int)
        self._weight = wp.zeros(n, dtype=float)
        self._answer = wp.zeros((trials, nr + 4), dtype=float)
        self._chains = make_chains(self.problem)
        low, high = self.problem.limits()
        self._limits = [wp.array(limit, dtype=float) for limit in (low, high)]
        self._posture = wp.array(self.problem.posture, dtype=float)
        self._weights = _weights_of(self.problem)
        arrays = self.sim.physics.arrays(self.sim.m, self.sim.d)
        self._overflow = arrays["overflow"]
        memory = {k: a for k, a in arrays.items() if a.size and k not in ("qpos", "qvel", "ctrl", "overflow", "peak")}
        self._memory = [(array, wp.clone(array)) for array in memory.values()]

    def reset(self, goals: Sequence[Goal], seeds: Sequence[int]) -> None:
        """Start new trials, with a goal and a seed for each."""
        self._check(goals, "goals")
        self._check(seeds, "seeds")
        self._goals[:] = [[*goal.pos, *(goal.quat / np.linalg.norm(goal.quat))] for goal in goals]
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
        period = self.knot_steps * self.settings.dt
        host = self._host.numpy()
        for trial, seen in enumerate(observations):
            passed = seen.time - self._times[trial]
            shift = min(self.knots, max(0, round(passed / period))) if math.isfinite(passed) else 0
            self._times[trial] = seen.time
            host[trial] = np.concatenate([seen.qpos, seen.qvel, seen.ctrl, self._goals[trial], [shift]])
        with wp.ScopedDevice(self.sim.device):
            wp.copy(self._inbox, self._host)
            wp.capture_launch(self._graph)
            answers = self._answer.numpy()
        nr = self.problem.nr
        self._dropped = None
        plans = []
        for seen, answer in zip(observations, answers, strict=True):
            best, _, finite, bits = (float(x) for x in answer[nr:])
            note = self._note(finite, int(bits))
            plans.append(Plan(self._to_target(seen, answer[:nr]), best, self.settings.iterations, note))
        return plans

    def _to_target(self, observation: Observation, u: Array) -> Array:
        """Joint targets of the first control, as `next_target` of the kernels computes them."""
        joints, bound = observation.qpos[: self.problem.nr], self.problem.task.bound
        near = np.clip(observation.ctrl + u, joints - bound, joints + bound)
        return np.clip(near, *self.problem.limits())

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
                self._record(self.settings.horizon)
            self._graph = capture.graph
            wp.copy(self._random, random)
            wp.copy(self._nominal, nominal)

    def _record(self, steps: int) -> None:
        """Launch all kernels of the plans, with rollouts of `steps` steps."""
        s, sim = self.settings, self.sim
        n, bound = self.trials * s.samples, self.problem.task.bound
        self._overflow.zero_()
        for iteration in range(s.iterations):
            std = s.std * math.sqrt(self.knot_steps) * s.shrink**iteration
            wp.launch(
                kernels._draw_knots,
                dim=self._drawn.shape,
                inputs=[self._random, self._shift, self._nominal, s.samples, int(iteration == 0), std, bound],
                outputs=[self._drawn],
            )
            for array, fresh in self._memory:
                wp.copy(array, fresh)
            wp.launch(
                kernels._start_rollout,
                dim=(n, max(self.problem.mjm.nq, self._sums.shape[1])),
                inputs=[self._qpos, self._qvel, self._ctrl, s.samples],
                outputs=[sim.qpos, sim.qvel, sim.ctrl, self._sums],
            )
            for step in range(steps + 1):
                self._score(step)
                if step < steps:
                    sim.physics.step(sim.m, sim.d)
            wp.launch(kernels._sum_cost, dim=n, inputs=[self._sums], outputs=[self._cost])
            if s.top:
                wp.launch(kernels._rank_sample, dim=n, inputs=[self._cost, s.samples], outputs=[self._rank])
            wp.launch(
                kernels._weigh_sample,
                dim=n,
                inputs=[self._cost, self._rank, s.samples, s.top, s.temperature],
                outputs=[self._weight],
            )
            wp.launch(
                kernels._average_knots,
                dim=self._nominal.shape,
                inputs=[self._cost, self._weight, self._drawn, self._overflow, s.samples],
                outputs=[self._random, self._nominal, self._answer],
            )

    def _score(self, step: int) -> None:
        wp.launch(
            kernels._score_step,
            dim=self._sums.shape,
            inputs=[
                *self._chains.arrays(),
                *self._limits,
                self._posture,
                self.sim.qpos,
                self._target,
                self._drawn,
                self._weights,
                self.settings.samples,
                self.problem.task.bound,
                step,
                self.knot_steps,
                self.settings.horizon,
            ],
            outputs=[self.sim.ctrl, self._sums],
        )


def _plan_model(problem: Problem) -> mujoco.MjModel:
    """The model without cameras and lights, with unused features disabled, so that a step launches fewer kernels."""
    spec = problem.task.build(problem.object)
    for unseen in [*spec.cameras, *spec.lights]:
        spec.delete(unseen)
    mjm = spec.compile()
    off = mujoco.mjtDisableBit
    if not mjm.dof_frictionloss.any() and not mjm.tendon_frictionloss.any():
        mjm.opt.disableflags |= int(off.mjDSBL_FRICTIONLOSS)
    if not mjm.neq:
        mjm.opt.disableflags |= int(off.mjDSBL_EQUALITY)
    if not mjm.nsensor:
        mjm.opt.disableflags |= int(off.mjDSBL_SENSOR)
    return mjm


def _steps_of_control(problem: Problem, dt: float) -> int:
    """Time steps of a rollout per control step of the task."""
    period = problem.task.substeps * problem.mjm.opt.timestep
    return max(1, round(period / dt))


def _weights_of(problem: Problem) -> Any:
    """The weights of the task's cost as a Warp struct."""
    cost, weights = problem.task.cost, kernels.Weights()
    if cost.grasp:
        raise Unsupported(
            f"the cost of {problem.task.name} has grasp {cost.grasp}: mppi does not support this term; set it to 0"
        )
    for name in ("contact", "control", "posture", "orientation", "fallen", "final_position", "final_orientation"):
        setattr(weights, name, getattr(cost, name))
    weights.position = wp.vec3(*cost.position)
    weights.floor = cost.floor
    return weights
