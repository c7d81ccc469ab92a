"""Env: many worlds of a task, torch in and torch out, on the device of the simulation."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
import warp as wp

from stickslip import compilation, spec
from stickslip.envs.accounts import Accounts
from stickslip.envs.control import Control
from stickslip.envs.fused import Fused, fused
from stickslip.envs.graph import Recorded, check_host_reads
from stickslip.envs.kicks import Kicks
from stickslip.envs.observe import Observer, one_each
from stickslip.envs.random import Random
from stickslip.envs.starts import Starts
from stickslip.envs.state import State
from stickslip.envs.step import Step
from stickslip.envs.task import Task
from stickslip.errors import InputError, Unsupported
from stickslip.simulation import Simulation
from stickslip.state import State as SimulationState

Autoreset = Literal["same-step", "next-step", "disabled"]
AUTORESET = ("same-step", "next-step", "disabled")


class Env:
    """Many worlds of a task.

    Worlds that end begin the next episode by themselves, with randomised start and model. Worlds that are no longer
    finite end, too, and are counted. On a GPU a control step is one graph, and nothing waits for the device.

    Args:
        sim: a simulation of the task's model and timestep; `stickslip.envs.make` builds it
        task: the task
        seed: of all random numbers
        autoreset: when a world that has ended starts again: in the same step, in the next one, or by `reset` only
        check: look at actions and rewards on the host in each step, and raise; None: on a CPU. Otherwise they are
            looked at on the device, and `health` tells
        record: record a control step into a graph; None: on CUDA, if the physics can be captured
        fuse: translate the task into a few kernels, see `fused`; None: on CUDA, if it can be done; True: or raise
    """

    def __init__(
        self,
        sim: Simulation,
        task: Task,
        *,
        seed: int = 0,
        autoreset: Autoreset = "same-step",
        check: bool | None = None,
        record: bool | None = None,
        fuse: bool | None = None,
    ) -> None:
        if autoreset not in AUTORESET:
            raise InputError(f"autoreset is {autoreset!r}: it must be one of {', '.join(AUTORESET)}")
        if abs(sim.mjm.opt.timestep - task.timestep) > 1e-9:
            raise InputError(
                f"the simulation's timestep is {sim.mjm.opt.timestep:g} s, that of task {task.name!r} "
                f"{task.timestep:g} s: build it with timestep={task.timestep:g}, or take stickslip.envs.make"
            )
        self.sim, self.task, self.autoreset = sim, task, autoreset
        self.nworld = sim.nworld
        self.device = torch.device(wp.device_to_torch(sim.device))
        self._check = not sim.device.is_cuda if check is None else check
        self._record = self._may_record(record)
        self._seed = int(seed)
        self.random = Random(self.nworld, seed, self.device)
        memory = {name: torch.zeros((self.nworld, *shape), device=self.device) for name, shape in task.memory.items()}
        self._control = Control(task, sim.mjm, wp.to_torch(sim.ctrl, requires_grad=False))
        self.naction = self._control.naction
        self.state = State(sim, self.naction, task.dt, memory, self.random)
        self._kicks = Kicks(task, self.state)
        self._starts = Starts(sim, task, self.state, self._seed)
        self._accounts = Accounts(self.nworld, list(task.rewards), self.device, task.dt)
        self.asked = torch.zeros((self.nworld, self.naction), device=self.device)
        self._everywhere = torch.ones(self.nworld, dtype=torch.bool, device=self.device)
        self._over = torch.zeros_like(self._everywhere)
        """Worlds whose episode has ended and that have not started again."""
        self.made: dict[str, torch.Tensor] = {}
        """What a control step gives, by name."""
        self._graph: Recorded | None = None
        self._closed = False
        self._begin()
        self._fused: Fused | None = None
        if sim.device.is_cuda if fuse is None else fuse:
            self._fused = fused(self, always=bool(fuse))

    def _may_record(self, record: bool | None) -> bool:
        possible = self.sim.device.is_cuda and self.sim.physics.capturable
        if record and not possible:
            raise Unsupported(
                f"record=True: {self.sim.physics.name} on {self.sim.device.alias} cannot be recorded; leave it out"
            )
        return possible if record is None else record

    def _begin(self) -> None:
        """Start all worlds, and check every term once."""
        sim, task, state = self.sim, self.task, self.state
        self.random.begin()
        self.mask.fill_(True)
        self._starts.renew()
        self._starts.begin()
        sim.kinematics()
        self._control.start(self._everywhere, state)
        for name, reward in task.rewards.items():
            one_each(f"reward {name!r}", reward.value, state)
        for name, term in task.terminations.items():
            one_each(f"termination {name!r}", term, state, flags=True)
        if task.success is not None:
            one_each("success", task.success, state, flags=True)
        self._observer = Observer(task.observations, task.critic, state)
        self._names = tuple(task.rewards)

    # --- what callers see ---

    @property
    def dt(self) -> float:
        """Duration of a control step [s]."""
        return self.task.dt

    @property
    def physics(self) -> str:
        """The physics, with the parameters that are not the default."""
        physics = self.sim.physics
        inner: Any = getattr(physics, "physics", physics)  # of threads
        return spec.written(inner.name, inner)

    @property
    def elapsed(self) -> torch.Tensor:
        """Control steps since the start of each episode, (nworld,)."""
        return self.state.elapsed

    @elapsed.setter
    def elapsed(self, value: torch.Tensor) -> None:
        self.state.elapsed.copy_(value)

    def spread(self) -> None:
        """Set the worlds' clocks to random times of an episode, so that they do not all end at once."""
        if self.task.longest is not None:
            self.elapsed = self.random.integers(0, self.task.longest - 1)[:, 0]

    @property
    def nobservation(self) -> int:
        """Numbers in an observation."""
        return self._observer.size

    @property
    def ncritic(self) -> int:
        """Numbers that the critic sees."""
        return self._observer.ncritic

    @property
    def limit(self) -> float:
        """Largest size of an action."""
        return self._control.limit

    @property
    def observations(self) -> Mapping[str, slice]:
        """Where each part of the observation is, by name."""
        return dict(self._observer.slices)

    def reset(self, mask: Any = None, *, seed: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Start all worlds, or those in a mask, (nworld,) of bool; the observations of all, for policy and critic.

        Args:
            mask: worlds to start; None: all
            seed: begin all random numbers again with this seed
        """
        self._open()
        if seed is not None:
            if mask is not None:
                raise InputError("seed is for all worlds: leave out mask, or seed")
            self.random.reseed(seed)
        chosen = self._everywhere if mask is None else torch.as_tensor(mask, dtype=torch.bool, device=self.device)
        if tuple(chosen.shape) != (self.nworld,):
            raise InputError(f"mask has shape {tuple(chosen.shape)}: it must be ({self.nworld},)")
        self.random.begin()
        self.mask.copy_(chosen)
        self._starts.renew()
        self._start()
        self.sim.kinematics()
        return self._observer.observe(self.state, chosen)

    def step(self, action: Any) -> Step:
        """Advance all worlds by a control step.

        Args:
            action: (nworld, naction), within `limit`; what is beyond it is cut off
        """
        self._open()
        self._give(action)
        if self._record and self._graph is None:
            self._graph = self._recorded()
        if self._graph is not None:
            self._graph.replay()
        elif self._check:
            self._checked()
        else:
            self._advance()
        if self._fused is not None:
            return self._fused.step()
        found = Step(**self.made)
        return found.clone() if self._graph is not None else found

    def log(self) -> dict[str, float]:
        """Means over the episodes that ended since the last call, and counts; waits for the device."""
        return self._accounts.taken()

    def lately(self) -> dict[str, torch.Tensor]:
        """Means over the episodes of about the last hundred control steps; on the device, waits for nothing."""
        return self._accounts.lately()

    def health(self) -> list[str]:
        """What is wrong, one sentence each; empty if all is well. Waits for the device."""
        found = list(self.sim.health().messages)
        for name, times in zip(self._names, self._accounts.unfit.sum(dim=0).tolist(), strict=True):
            if times:
                found.append(f"reward {name!r} was not finite {times} times and counted as 0: check what it divides by")
        return found

    def poses(self, world: int = 0) -> tuple[Any, ...]:
        """What a picture of a world needs: positions, and positions and orientations of mocap bodies; on the host."""
        sim = self.sim
        mocap = (sim.mocap_pos, sim.mocap_quat) if sim.mjm.nmocap else ()
        return tuple(array.numpy()[world].copy() for array in (sim.qpos, *mocap))

    def close(self) -> None:
        """Drop the simulation."""
        self._closed = True
        self._graph = self._fused = None

    # --- a control step ---

    def _open(self) -> None:
        if self._closed:
            raise InputError("the environment is closed: make another one")

    def _give(self, action: Any) -> None:
        """Check actions, and copy them to the device."""
        given = torch.as_tensor(action)
        if tuple(given.shape) != (self.nworld, self.naction):
            raise InputError(f"action has shape {tuple(given.shape)}: it must be ({self.nworld}, {self.naction})")
        if given.is_complex() or given.dtype is torch.bool:
            raise InputError(f"action is of {given.dtype}: it must be real numbers")
        if self._check:
            fine = torch.isfinite(given).all(dim=1)
            if not bool(fine.all()):
                worlds = torch.nonzero(~fine)[:, 0].tolist()
                raise InputError(f"action is not finite in {_these(worlds)}: check the policy that gives it")
            if self.autoreset == "disabled" and bool(self._over.any()):
                worlds = torch.nonzero(self._over)[:, 0].tolist()
                raise InputError(f"the episode is over in {_these(worlds)}: start them with reset(mask)")
        self.asked.copy_(given)

    def _checked(self) -> None:
        """Advance; if a part of the reward is not finite, raise, with everything as before."""
        with self._undone_on_error():
            self._advance()
            for name, times in zip(self._names, self._accounts.unfit.unbind(dim=1), strict=True):
                worlds = torch.nonzero(times)[:, 0].tolist()
                if worlds:
                    raise InputError(
                        f"reward {name!r} is not finite in {_these(worlds)}: check what it divides by; the worlds are "
                        "as before this step"
                    )

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        state, kept = self.keep()
        try:
            yield
        except BaseException:  # also an error of a term, and Ctrl-C
            self.put_back(state, kept)
            raise

    def keep(self) -> tuple[SimulationState, dict[str, torch.Tensor]]:
        """A copy of everything, for `put_back`."""
        return self.sim.get_state(device=True), {name: tensor.clone() for name, tensor in self._buffers().items()}

    def put_back(self, state: SimulationState, kept: dict[str, torch.Tensor]) -> None:
        """Bring everything back to where it was; sensors of force stay those of the last step."""
        self.sim.set_state(state)
        for name, tensor in self._buffers().items():
            tensor.copy_(kept[name])
        self.sim.kinematics()
        self.state.forget()

    def _buffers(self) -> dict[str, torch.Tensor]:
        """All that is kept from step to step beside the simulation."""
        state = self.state
        own = {name: getattr(state, name) for name in ("action", "previous", "elapsed", "done", "succeeded")}
        parts = {
            "memory": state.memory,
            "control": self._control.buffers(),
            "kicks": self._kicks.buffers(),
            "accounts": self._accounts.buffers(),
            "observer": self._observer.buffers(),
        }
        inner = {f"{part}.{name}": tensor for part, found in parts.items() for name, tensor in found.items()}
        return {**own, **inner, "over": self._over, "moment": self.random.moment}

    def tensors(self) -> dict[str, torch.Tensor]:
        """All that the parts of a control step read and write, but what the state has, by name."""
        starts = self._starts
        own = {"asked": self.asked, "everywhere": self._everywhere, "mask": starts.mask, "ctrl": self._control.ctrl}
        own |= {} if starts.sensors is None else {"sensors": starts.sensors}
        return {**self._buffers(), **own, **starts.arrays, **{f"made.{name}": one for name, one in self.made.items()}}

    def constants(self) -> list[torch.Tensor]:
        """What the parts of a control step read and that is the same for all worlds, for ever."""
        return [*self._control.constants(), *self._observer.constants()]

    def _advance(self) -> None:
        """A control step; what it gives is in `_made`."""
        self.random.begin()
        for k, (first, n) in enumerate(self._control.pieces):
            self._do("act" if k == 0 else f"apply {first}")
            self.sim.step(n)
        self.sim.kinematics()
        self._do("judge")
        if self.autoreset != "disabled" and self._may_start():
            self._starts.renew()
            self._do("start")
            self.sim.kinematics()
            self._do("see")

    def _may_start(self) -> bool:
        """Whether worlds start; on a GPU, where nothing is asked, they might."""
        return self._fused is not None or self.sim.device.is_cuda or bool(self._starts.mask.any())

    def _do(self, part: str) -> None:
        """A part of a control step: fused, or as it is written here."""
        if self._fused is not None:
            self._fused.run(part)
        else:
            self.parts()[part]()

    @property
    def mask(self) -> torch.Tensor:
        """Worlds that start, (nworld,)."""
        return self._starts.mask

    def parts(self) -> dict[str, Callable[[], None]]:
        """The parts of a control step between which the physics runs, in their order."""
        later = self._control.pieces[1:]
        return {
            "act": self._act,
            **{f"apply {first}": functools.partial(self._control.apply, first) for first, _ in later},
            "judge": self._judge,
            "start": self._start,
            "see": self._see,
        }

    def _act(self) -> None:
        """Actions and pushes."""
        self._accounts.count("refused_actions", self._control.take(self.asked, self.state))
        self._kicks.kick(self.state)
        self._control.apply(0)

    def _judge(self) -> None:
        """Memory, ends, rewards and observations of the state after the timesteps; which worlds start."""
        state, task = self.state, self.task
        state.elapsed += 1
        state.forget()
        if task.update is not None:
            self._starts.remember("update", task.update(state), self._everywhere)
        finite = torch.isfinite(state.qpos).all(dim=1) & torch.isfinite(state.qvel).all(dim=1)
        terminated, truncated, success = self._ends(finite)
        reward = self._reward(finite)
        final, final_critic = self._observer.observe(state)
        final, final_critic = (torch.where(finite[:, None], one, 0.0) for one in (final, final_critic))
        starting = self._over.clone()
        if self.autoreset == "next-step":  # worlds that were over start now; this step was none of theirs
            reward = torch.where(starting, 0.0, reward)
            terminated, truncated = terminated & ~starting, truncated & ~starting
        done = (terminated | truncated) & ~starting
        self._accounts.count("diverged", ~finite & done)
        self._accounts.end(done, state.elapsed, success, terminated)
        if task.curriculum is not None:
            state.done.copy_(done)
            state.succeeded.copy_(success)
            self._starts.remember("curriculum", task.curriculum(state), done)
        if self.autoreset != "same-step":
            self._over |= done
        self._starts.mask.copy_(starting if self.autoreset == "next-step" else done)
        self.made = dict(
            zip(Step.names(), (final, final_critic, reward, terminated, truncated, final, final_critic, success))
        )

    def _ends(self, finite: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Which worlds end in a state of the task, which by time-out, and which have succeeded."""
        state, task = self.state, self.task
        terminated = ~finite
        for term in task.terminations.values():
            terminated = terminated | term(state)
        truncated = torch.zeros_like(terminated)
        if task.longest is not None:
            truncated = (state.elapsed >= task.longest) & ~terminated
        success = torch.zeros_like(terminated) if task.success is None else task.success(state) & finite
        return terminated, truncated, success

    def _reward(self, finite: torch.Tensor) -> torch.Tensor:
        """The sum of its parts; a part that is not finite counts as 0, and is counted."""
        rewards = self.task.rewards.values()
        found = torch.stack([part.value(self.state).float() for part in rewards], dim=1)
        found = found * self.state.constant(*(part.weight * (1.0 if part.once else self.dt) for part in rewards))
        fine, counted = torch.isfinite(found), (finite & ~self._over)[:, None]
        found = torch.where(fine & finite[:, None], found, 0.0)
        self._accounts.add(torch.where(counted, found, 0.0), ~fine & counted)
        return found.sum(dim=1)

    def _start(self) -> None:
        """Begin episodes in the worlds of the mask; their poses are left to find."""
        state, mask = self.state, self._starts.mask
        self._starts.begin()
        self._control.start(mask, state)
        self._kicks.start(mask, state)
        state.elapsed.copy_(torch.where(mask, 0, state.elapsed))
        self._over &= ~mask

    def _see(self) -> None:
        """The observations of worlds that start, and of the others as they are."""
        self.state.forget()
        mask = self._starts.mask[:, None]
        observation, critic = self._observer.observe(self.state, self._starts.mask)
        self.made["observation"] = torch.where(mask, observation, self.made["final"])
        self.made["critic"] = torch.where(mask, critic, self.made["final_critic"])

    # --- the graph ---

    def _recorded(self) -> Recorded:
        """Run a control step until nothing is compiled or uploaded any longer, record it, and undo these runs."""
        state, kept = self.keep()
        with wp.ScopedDevice(self.sim.device), compilation.quiet():
            self._advance()
            check_host_reads(self.task, self.state)
            self._advance()
            graph = Recorded(self._advance, self.device)
        self.put_back(state, kept)
        return graph


def _these(worlds: list[int]) -> str:
    shown = ", ".join(map(str, worlds[:8])) + (", ..." if len(worlds) > 8 else "")
    return f"{'world' if len(worlds) == 1 else 'worlds'} {shown}"
