"""The optimisation of controls over a horizon: MPPI in rounds with noise that is annealed, for several trials at once.

A round is one captured graph: draw noise, put all worlds to the start, step with one kernel between steps that sums the
cost and sets the next controls, rank, weigh, move the controls. The host launches it and reads one number per trial,
how much the best sample improved. A trial that has stopped keeps its controls while others go on, so that it is the
same as it would be alone.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
import warp as wp

from stickslip import compilation
from stickslip.errors import InputError, Unsupported
from stickslip.mpc.planners.sampling.kernels import rank_sample, weigh_sample
from stickslip.mpc.planners.sampling.model import plan_model
from stickslip.mpc.retarget import kernels
from stickslip.mpc.retarget.motion import Array
from stickslip.mpc.retarget.problem import Problem
from stickslip.mpc.retarget.settings import Settings
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """Controls of one trial from an optimisation.

    Attributes:
        ctrl: controls until the next optimisation               (control_steps, nu)
        predicted: cost of each time step of the horizon that the plan's model predicts  (horizon,)
        rounds: rounds it took
        note: problem in the rollouts; empty: none
    """

    ctrl: Array
    predicted: Array
    rounds: int
    note: str = ""


def check_physics(physics: Physics[Any, Any]) -> None:
    """Raise Unsupported unless a physics can be that of the rollouts."""
    if not physics.capturable:
        raise Unsupported(f"a round is one captured graph, and {physics.name} cannot be captured; use cone-sweep")


class Batch:
    """Optimises the controls of several trials of a problem.

    Args:
        problem: robot and motion, compiled
        physics: contact physics of the rollouts
        settings: parameters
        device: "cpu", "cuda:0", ...; default: the first CUDA device, or the CPU if there is none
        trials: number of trials
    """

    def __init__(
        self,
        problem: Problem,
        physics: Physics[Any, Any],
        settings: Settings | None = None,
        device: str | None = None,
        trials: int = 1,
    ) -> None:
        check_physics(physics)
        self.problem, self.settings, self.trials = problem, settings or Settings(), trials
        s = self.settings
        if abs(s.dt - problem.dt) > 1e-9:
            raise InputError(f"dt is {s.dt:g} s in the settings and {problem.dt:g} s in the problem; give the same")
        mjm = plan_model(problem.robot.build(problem.options), sensors=False)
        self._many = _Worlds(problem, physics, s, mjm, device, trials, s.samples)
        self.device = self._many.sim.device
        self._judge = _Worlds(problem, physics, s, mjm, device, trials, 1)
        self._graphs: dict[str, Any] = {}
        with wp.ScopedDevice(self.device):
            self._allocate()

    def _allocate(self) -> None:
        s, nu, trials = self.settings, self.problem.mjm.nu, self.trials
        shape = (trials, s.horizon, nu)
        self._controls, self._moved, self._best = (wp.zeros(shape, dtype=float) for _ in range(3))
        self._best_cost = wp.zeros(trials, dtype=float)
        self._begin, self._shift, self._active = (wp.zeros(trials, dtype=int) for _ in range(3))
        self._random = wp.zeros((trials, 2), dtype=int)
        self._round = wp.zeros(1, dtype=int)
        self._start = wp.zeros((trials, self.problem.mjm.nq), dtype=float)
        self._start_vel = wp.zeros((trials, self.problem.mjm.nv), dtype=float)
        self._answer = wp.zeros((trials, 3), dtype=float)
        self._mean = wp.zeros((trials, s.knots, nu), dtype=float)
        self._rank = wp.zeros(trials * s.samples, dtype=int)
        self._weight = wp.zeros(trials * s.samples, dtype=float)
        growth = (s.last / s.first) ** np.linspace(0.0, 1.0, s.knots)
        self._std = wp.array(np.tile(s.noise * s.first * growth[:, None], (1, nu)), dtype=float)
        self._shrink = s.final ** (1.0 / s.iterations)
        self._guidance = wp.array(s.guided(), dtype=float)
        self._no_guidance = wp.zeros(1, dtype=float)

    def reset(self, seeds: Sequence[int]) -> None:
        """Start new trials at the beginning of the motion, with the reference's controls."""
        if len(seeds) != self.trials:
            raise InputError(f"{len(seeds)} seeds: there must be one for each of the {self.trials} trials")
        self._random.assign(np.array([[seed % 2**31, 0] for seed in seeds], dtype=np.int32))
        with wp.ScopedDevice(self.device):
            self._begin.zero_()
            self._refill(self.settings.horizon)

    def state(self) -> dict[str, Any]:
        """All that the next optimisation depends on, besides the states."""
        return {"controls": self._controls.numpy(), "begin": self._begin.numpy(), "random": self._random.numpy()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        for name, array in (("controls", self._controls), ("begin", self._begin), ("random", self._random)):
            array.assign(state[name])

    def _refill(self, moved: int) -> None:
        """Shift the controls by a number of steps; what is new is the reference's."""
        self._shift.fill_(moved)
        wp.launch(
            kernels.shift_controls,
            dim=self._controls.shape,
            inputs=[self._many.reference_ctrl, self._begin, self._shift, self._controls],
            outputs=[self._moved],
        )
        wp.copy(self._controls, self._moved)

    def optimise(self, qpos: Array, qvel: Array, begin: int) -> list[Answer]:
        """Controls of every trial from its state on.

        Args:
            qpos, qvel: states (trials, nq), (trials, nv)
            begin: time step of the motion that the states belong to
        """
        self.compile()
        s = self.settings
        with wp.ScopedDevice(self.device):
            self._start.assign(qpos.astype(np.float32))
            self._start_vel.assign(qvel.astype(np.float32))
            moved = begin - int(self._begin.numpy()[0])
            self._begin.fill_(begin)
            if moved:
                self._refill(moved)
            self._round.zero_()
            self._best_cost.fill_(math.inf)
            for worlds in (self._many, self._judge):
                worlds.overflow.zero_()
            rounds, finite = self._run_rounds(s.guided())
            wp.capture_launch(self._graphs["judge"])
            ctrl = self._controls.numpy().astype(np.float64)
            predicted = self._judge.steps.numpy().astype(np.float64)
        notes = self._notes(finite)
        low, high = self.problem.limits
        return [
            Answer(np.clip(ctrl[i, : s.control_steps], low, high), predicted[i], rounds[i], notes[i])
            for i in range(self.trials)
        ]

    def _run_rounds(self, guided: Sequence[float]) -> tuple[list[int], Array]:
        """Launch rounds until no trial improves; rounds of each trial, and its smallest number of finite samples."""
        s = self.settings
        rounds, still = np.zeros(self.trials, dtype=int), np.zeros(self.trials, dtype=int)
        active, finite = np.ones(self.trials, dtype=bool), np.full(self.trials, math.inf)
        for share in guided:
            self._active.assign(active.astype(np.int32))
            wp.capture_launch(self._graphs["round"])
            answer = self._answer.numpy()
            rounds += active
            finite = np.minimum(finite, answer[:, 2])
            if share > 0.0 or s.improvement == 0.0:
                continue
            with np.errstate(invalid="ignore"):
                gain = answer[:, 0] - answer[:, 1]
            still = np.where(gain >= s.improvement, 0, still + 1)
            active &= still < s.patience
            if not active.any():
                break
        return rounds.tolist(), finite

    def _notes(self, finite: Array) -> list[str]:
        dropped = ""
        if self._many.overflow.numpy().any():
            dropped = "; ".join(self._many.sim.health().overflow)
        notes = []
        for count in finite:
            own = [dropped] if dropped else []
            if count == 0:
                own.append("no rollout stayed finite: the controls are kept; use a smaller dt or softer contact")
            notes.append("; ".join(own))
        return notes

    def compile(self) -> None:
        """Compile all kernels and capture the graphs; this takes a minute the first time."""
        if self._graphs:
            return
        kept = (self._controls, self._random, self._round, self._best_cost)
        with wp.ScopedDevice(self.device):
            saved = [wp.clone(array) for array in kept]
            compilation.load_kernels(lambda: (self._record_round(1), self._record_judge(1)), self.device)
            self._record_round(1)  # loads the rest: nothing can be loaded during capture
            self._record_judge(1)
            graphs = {}
            for name, record in (("round", self._record_round), ("judge", self._record_judge)):
                with wp.ScopedCapture(device=self.device) as capture:
                    record(self.settings.horizon)
                graphs[name] = capture.graph
            for array, values in zip(kept, saved, strict=True):
                wp.copy(array, values)
        self._graphs = graphs

    def _record_round(self, steps: int) -> None:
        s, many = self.settings, self._many
        samples = self.trials * s.samples
        wp.launch(
            kernels.draw_noise,
            dim=many.noise.shape,
            inputs=[
                self._random,
                self._round,
                self._std,
                self._shrink,
                min(s.samples - 1, math.ceil(s.exploit * s.samples)),
                s.exploit_noise,
            ],
            outputs=[many.noise],
        )
        self._record_rollout(many, steps, self._guidance)
        wp.launch(rank_sample, dim=samples, inputs=[many.cost, s.samples], outputs=[self._rank])
        wp.launch(
            weigh_sample,
            dim=samples,
            inputs=[many.cost, self._rank, s.samples, s.top, 0, s.temperature, s.spread_floor],
            outputs=[self._weight],
        )
        wp.launch(
            kernels.average_noise,
            dim=self._mean.shape,
            inputs=[self._weight, many.noise, s.samples],
            outputs=[self._mean],
        )
        wp.launch(
            kernels.take_round,
            dim=self._controls.shape,
            inputs=[self._active, many.cost, self._mean, self._guidance, self._round, s.samples],
            outputs=[self._controls, self._best, self._best_cost],
        )
        wp.launch(
            kernels.end_round,
            dim=self.trials,
            inputs=[self._active, many.cost, self._guidance, self._round, s.samples],
            outputs=[self._best_cost, self._random, self._answer],
        )
        wp.launch(kernels.next_round, dim=1, outputs=[self._round])

    def _record_judge(self, steps: int) -> None:
        """Cost of the controls; if those of an earlier round were better, they come back, and are rolled out."""
        judge = self._judge
        self._record_rollout(judge, steps, self._no_guidance)
        wp.launch(
            kernels.keep_better,
            dim=self._controls.shape,
            inputs=[judge.cost, self._best, self._best_cost],
            outputs=[self._controls],
        )
        self._record_rollout(judge, steps, self._no_guidance)

    def _record_rollout(self, worlds: "_Worlds", steps: int, guidance: wp.array) -> None:
        sim, nworld = worlds.sim, worlds.cost.shape[0]
        for array, fresh in worlds.memory:
            wp.copy(array, fresh)
        mjm = self.problem.mjm
        wp.launch(
            kernels.start_rollout,
            dim=(nworld, max(mjm.nq, mjm.nv, mjm.nbody)),
            inputs=[self._start, self._start_vel],
            outputs=[sim.qpos, sim.qvel, sim.xfrc_applied, worlds.cost],
        )
        for step in range(steps + 1):
            wp.launch(
                kernels.follow,
                dim=(nworld, mjm.nu + 1),
                inputs=[
                    *worlds.model,
                    sim.qpos,
                    sim.qvel,
                    worlds.site_xpos,
                    *worlds.reference,
                    self._begin,
                    self._round,
                    guidance,
                    self._controls,
                    worlds.noise,
                    step,
                    self.settings.horizon,
                ],
                outputs=[sim.ctrl, sim.xfrc_applied, worlds.cost, worlds.steps],
            )
            if step < steps:
                sim.physics.step(sim.m, sim.d)
        wp.launch(kernels.mend_cost, dim=nworld, outputs=[worlds.cost])


class _Worlds:
    """Worlds of rollouts: `samples` for each trial. With one sample each, the cost of every step is kept."""

    def __init__(
        self,
        problem: Problem,
        physics: Physics[Any, Any],
        settings: Settings,
        mjm: mujoco.MjModel,
        device: str | None,
        trials: int,
        samples: int,
    ) -> None:
        s, nworld = settings, trials * samples
        self.sim = sim = Simulation(
            mjm, physics, nworld=nworld, device=device, timestep=s.dt, nconmax=s.nconmax, njmax=s.njmax
        )
        with wp.ScopedDevice(sim.device):
            self.cost = wp.zeros(nworld, dtype=float)
            self.noise = wp.zeros((nworld, s.knots, mjm.nu), dtype=float)
            self.steps = wp.zeros((nworld, s.horizon) if samples == 1 else (0, 0), dtype=float)
            self.model = _model_arrays(problem)
            r = problem.reference
            self.reference_ctrl = wp.array(r.ctrl, dtype=float)
            self.reference = [
                wp.array(r.qpos, dtype=float),
                wp.array(r.qvel, dtype=float),
                self.reference_ctrl,
                wp.array(r.contact, dtype=float, shape=r.contact.shape),
                wp.array(r.contact_pos, dtype=wp.vec3, shape=r.contact_pos.shape[:2]),
            ]
            self.site_xpos = sim.physics.field(sim.m, sim.d, "site_xpos")
            if self.site_xpos is None:
                raise Unsupported(f"{physics.name} does not compute site_xpos, which reference contacts need")
            arrays = sim.physics.arrays(sim.m, sim.d)
            self.overflow = arrays["overflow"]
            fixed = ("qpos", "qvel", "ctrl", "xfrc_applied", "overflow", "peak")
            self.memory = [(a, wp.clone(a)) for name, a in arrays.items() if a.size and name not in fixed]


def _model_arrays(problem: Problem) -> list[Any]:
    """What `kernels.follow` reads of the model and of the weights."""
    mjm, weights = problem.mjm, problem.weights
    free = problem.free_joints()
    guided = [joint for name, joint in free.items() if name != "base"] or list(free.values())
    bodies = [int(mjm.jnt_bodyid[joint]) for joint in guided]
    low, high = problem.limits
    return [
        wp.array(mjm.jnt_type, dtype=int),
        wp.array(mjm.jnt_qposadr, dtype=int),
        wp.array(mjm.jnt_dofadr, dtype=int),
        wp.array(problem.dof_weights, dtype=float),
        wp.array(problem.sites, dtype=int),
        wp.array(guided, dtype=int),
        wp.array(bodies, dtype=int),
        wp.array([mjm.body_subtreemass[body] for body in bodies], dtype=float),
        wp.array([mjm.body_inertia[body].mean() for body in bodies], dtype=float),
        wp.vec3(*mjm.opt.gravity),
        wp.array(low, dtype=float),
        wp.array(high, dtype=float),
        weights.velocity,
        weights.contact,
        weights.control,
    ]
