"""Plans by sampling: many rollouts with noise on the controls, averaged by how little they cost.

All that a plan does is one graph: put all worlds where the plan starts, draw controls, step with a kernel of cost and
control before each step, weigh, average. The host uploads one array before and reads one after. The graph can hold the
plans of several trials, each with its own worlds: on a GPU that one plan does not fill, that takes less time.
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
from stickslip.mpc import mppi_kernels as kernels
from stickslip.mpc.mppi_chains import make_chains
from stickslip.mpc.task import Array, Goal, Observation, Plan, Problem
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to plan.

    Attributes:
        samples: rollouts
        horizon: time steps of a rollout
        dt: time step [s]
        knot_steps: time steps that a control is held; None: as many as a control step of the task has
        temperature: of the weights exp(-(S - min S)/temperature), in units of the cost
        std: standard deviation of the noise in a time step [m or rad]; that of a control is the sum over its knot
        iterations: rounds of drawing and averaging in a plan
        shrink: factor of the noise from one round to the next
        top_fraction: share of the samples, the best, that count; below 1 their costs are standardised first
        nconmax: contacts to make room for in a world; None: the model's own hint, or a guess
        njmax: constraint rows to make room for, likewise
    """

    samples: int = 256
    horizon: int = 48
    dt: float = 0.004
    knot_steps: int | None = None
    temperature: float = 2e-3
    std: float = 0.02
    iterations: int = 1
    shrink: float = 0.5
    top_fraction: float = 1.0
    nconmax: int | None = None
    njmax: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("samples", 2), ("horizon", 1), ("iterations", 1), ("knot_steps", 1)):
            value = getattr(self, name)
            if name == "knot_steps" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise InputError(f"{name} is {value!r}: it must be a whole number, at least {least}")
        for name in ("dt", "temperature", "std"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise InputError(f"{name} is {value}: it must be a positive number; {getattr(Settings, name)} is usual")
        for name in ("shrink", "top_fraction"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0.0 < value <= 1.0):
                raise InputError(f"{name} is {value}: it must be above 0 and at most 1; 1 leaves it out")

    @property
    def top(self) -> int:
        """Samples that count; 0 for all of them."""
        return 0 if self.top_fraction == 1.0 else max(2, math.ceil(self.top_fraction * self.samples))


def usual_physics() -> Physics[Any, Any]:
    """What plans are made with where no physics is named: ComFree with the paper's numbers for a hand."""
    import stickslip as ss

    return ss.ComFree(stiffness=0.1, damping=0.002)


class Batch:
    """The plans of one or several trials of one problem, all at once.

    A control is how far a joint target is moved at the beginning of its knot. Targets stay within `task.bound` of where
    the joint is then, and within its limits. So a servo that pushes keeps pushing while the control is zero.

    Args:
        problem: the task, compiled
        physics: contact physics of the rollouts; `usual_physics()` if None
        settings: how to plan
        device: "cpu", "cuda:0", ...; the first CUDA device if there is one, else the CPU
        trials: plans that are made at once
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
            raise Unsupported(
                f"{physics.name} loops on the host, and mppi records a whole plan: take comfree or mujoco"
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
        self._dropped: tuple[str, ...] | None = None  # what the last plans say of buffers, once somebody asked
        self._times = np.full(self.trials, math.nan)
        self._goals = np.zeros((self.trials, 7))
        with wp.ScopedDevice(self.sim.device):
            self._allocate()
        nothing = Goal(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))
        self.reset([nothing] * self.trials, [0] * self.trials)

    def _allocate(self) -> None:
        mjm, nr, trials = self.problem.mjm, self.problem.nr, self.trials
        n = trials * self.settings.samples
        # what is uploaded for a trial: qpos, qvel, ctrl, goal, knots to shift by
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
        """Forget the last trials, and take a goal and a seed of random numbers for each of the next."""
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
        """Joint targets of every trial for the control step that begins."""
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
        """Joint targets of the first control, as `next_target` of the kernels has them."""
        joints, bound = observation.qpos[: self.problem.nr], self.problem.task.bound
        near = np.clip(observation.ctrl + u, joints - bound, joints + bound)
        return np.clip(near, *self.problem.limits())

    def _note(self, finite: float, bits: int) -> str:
        """What went wrong in the rollouts of a trial. Buffers are told of as they are in all trials."""
        notes = []
        if finite == 0:
            notes.append("no rollout stayed finite: the last plan is kept; take a smaller dt or softer contact")
        if bits & ~self._harmless:
            if self._dropped is None:
                self._dropped = self.sim.health().overflow
            if not self._dropped:  # bits that drop nothing, such as a solver at its iteration limit
                self._harmless |= bits
            notes.extend(self._dropped)
        return "; ".join(notes)

    def compile(self) -> None:
        """Compile all kernels and record the plans; the first time takes a minute."""
        if self._graph is not None:
            return
        with wp.ScopedDevice(self.sim.device):
            random, nominal = wp.clone(self._random), wp.clone(self._nominal)
            compilation.load_kernels(lambda: self._record(1), self.sim.device)
            self._record(1)  # loads what that missed: nothing can be loaded while capturing
            with wp.ScopedCapture(device=self.sim.device) as capture:
                self._record(self.settings.horizon)
            self._graph = capture.graph
            wp.copy(self._random, random)
            wp.copy(self._nominal, nominal)

    def _record(self, steps: int) -> None:
        """Launch everything that plans do, with rollouts of so many steps."""
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
    """The model without cameras and lights, that says what it has not, so that a step launches no kernels for it."""
    spec = mujoco.MjSpec.from_string(problem.xml or problem.task.build(problem.object))
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
    """Time steps of a plan in a control step of the task."""
    period = problem.task.substeps * problem.mjm.opt.timestep
    return max(1, round(period / dt))


def _weights_of(problem: Problem) -> Any:
    """The weights of the task's cost as a struct of Warp."""
    cost, weights = problem.task.cost, kernels.Weights()
    if cost.grasp:
        raise Unsupported(
            f"the cost of {problem.task.name} has grasp {cost.grasp}: mppi knows no such term; set it to 0"
        )
    for name in ("contact", "control", "posture", "orientation", "fallen", "final_position", "final_orientation"):
        setattr(weights, name, getattr(cost, name))
    weights.position = wp.vec3(*cost.position)
    weights.floor = cost.floor
    return weights
