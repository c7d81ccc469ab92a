"""A control step, as it is done: its parts, what they keep from step to step, and what they give."""

import functools
from collections.abc import Callable
from typing import Literal

import torch
import warp as wp

from stickslip.envs.accounts import Accounts
from stickslip.envs.control import Control
from stickslip.envs.kicks import Kicks
from stickslip.envs.observe import Observer, one_each
from stickslip.envs.random import Random
from stickslip.envs.starts import Starts
from stickslip.envs.state import State
from stickslip.envs.step import Step
from stickslip.envs.task import Task
from stickslip.simulation import Simulation
from stickslip.state import State as SimulationState

Autoreset = Literal["same-step", "next-step", "disabled"]


class Cycle:
    """Worlds of a task that go through control steps.

    Attributes:
        asked: actions to take                                                        (nworld, naction)
        over: worlds whose episode has ended and that have not started again          (nworld,)
        made: what the last control step gave, by the names of `Step`
        substitutes: what is called in the place of parts of a control step, by name, see `fused`

    Args:
        sim: a simulation of the task's model and timestep
        task: the task
        seed: of all random numbers
        autoreset: when a world that has ended starts again
    """

    def __init__(self, sim: Simulation, task: Task, seed: int, autoreset: Autoreset) -> None:
        self.sim, self.task, self.nworld = sim, task, sim.nworld
        self.autoreset: Autoreset = autoreset
        self.device = torch.device(wp.device_to_torch(sim.device))
        self.random = Random(self.nworld, seed, self.device)
        memory = {name: torch.zeros((self.nworld, *shape), device=self.device) for name, shape in task.memory.items()}
        self.control = Control(task, sim.mjm, wp.to_torch(sim.ctrl, requires_grad=False))
        self.naction = self.control.naction
        self.state = State(sim, self.naction, task.dt, memory, self.random)
        self.kicks = Kicks(task, self.state)
        self.starts = Starts(sim, task, self.state, seed)
        self.accounts = Accounts(self.nworld, list(task.rewards), self.device, task.dt)
        self.asked = torch.zeros((self.nworld, self.naction), device=self.device)
        self._everywhere = torch.ones(self.nworld, dtype=torch.bool, device=self.device)
        self.over = torch.zeros_like(self._everywhere)
        self.made: dict[str, torch.Tensor] = {}
        self.substitutes: dict[str, Callable[[], None]] = {}
        self._begin()

    def _begin(self) -> None:
        """Start all worlds, and check every term once."""
        sim, task, state = self.sim, self.task, self.state
        self.random.begin()
        self.mask.fill_(True)
        self.starts.renew()
        self.starts.begin()
        self.starts.write_gains()
        sim.kinematics()
        self.control.start(self._everywhere, state)
        for name, reward in task.rewards.items():
            one_each(f"reward {name!r}", reward.value, state)
        for name, term in task.terminations.items():
            one_each(f"termination {name!r}", term, state, flags=True)
        if task.success is not None:
            one_each("success", task.success, state, flags=True)
        self.observer = Observer(task.observations, task.critic, state)

    def keep(self) -> tuple[SimulationState, dict[str, torch.Tensor]]:
        """A copy of everything, for `put_back`."""
        return self.sim.get_state(device=True), {name: tensor.clone() for name, tensor in self.buffers().items()}

    def put_back(self, state: SimulationState, kept: dict[str, torch.Tensor]) -> None:
        """Bring everything back to where it was; sensors of force stay those of the last step."""
        self.sim.set_state(state)
        for name, tensor in self.buffers().items():
            tensor.copy_(kept[name])
        self.sim.kinematics()
        self.state.forget()

    def buffers(self) -> dict[str, torch.Tensor]:
        """All that is kept from step to step beside the simulation."""
        state = self.state
        own = {name: getattr(state, name) for name in ("action", "previous", "elapsed", "done", "succeeded")}
        parts = {
            "memory": state.memory,
            "control": self.control.buffers(),
            "kicks": self.kicks.buffers(),
            "accounts": self.accounts.buffers(),
            "observer": self.observer.buffers(),
        }
        inner = {f"{part}.{name}": tensor for part, found in parts.items() for name, tensor in found.items()}
        return {**own, **inner, "over": self.over, "moment": self.random.moment}

    def tensors(self) -> dict[str, torch.Tensor]:
        """All that the parts of a control step read and write, but what the state has, by name."""
        starts = self.starts
        own = {"asked": self.asked, "everywhere": self._everywhere, "mask": starts.mask, "ctrl": self.control.ctrl}
        own |= {} if starts.sensors is None else {"sensors": starts.sensors}
        own |= {} if starts.servos is None else starts.servos.drawn
        return {**self.buffers(), **own, **starts.arrays, **{f"made.{name}": one for name, one in self.made.items()}}

    def constants(self) -> list[torch.Tensor]:
        """What the parts of a control step read and that is the same for all worlds, for ever."""
        servos = self.starts.servos
        return [*self.control.constants(), *self.observer.constants(), *(servos.constants() if servos else [])]

    def reset(self, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Start all worlds, or those in a mask; the observations of all, for policy and critic."""
        self.mask.copy_(self._everywhere if mask is None else mask)
        self.random.begin()
        self.starts.renew()
        self._start()
        self.starts.write_gains()
        self.sim.kinematics()
        return self.observer.observe(self.state, self.mask)

    @property
    def mask(self) -> torch.Tensor:
        """Worlds that start, (nworld,)."""
        return self.starts.mask

    def advance(self) -> None:
        """A control step; what it gives is in `made`."""
        self.random.begin()
        for k, (first, n) in enumerate(self.control.pieces):
            self._do("act" if k == 0 else f"apply {first}")
            self.sim.step(n)
        self.sim.kinematics()
        self._do("judge")
        if self.autoreset != "disabled" and self._may_start():
            self.starts.renew()
            self._do("start")
            self.starts.write_gains()
            self.sim.kinematics(self.starts.given)
            self._do("see")

    def _may_start(self) -> bool:
        """Whether worlds start; on a GPU, where nothing is asked, they might."""
        return bool(self.substitutes) or self.sim.device.is_cuda or bool(self.mask.any())

    def _do(self, part: str) -> None:
        """A part of a control step: as it is written here, or what stands in its place."""
        self.substitutes.get(part, self.parts()[part])()

    def parts(self) -> dict[str, Callable[[], None]]:
        """The parts of a control step between which the physics runs, in their order."""
        later = self.control.pieces[1:]
        return {
            "act": self._act,
            **{f"apply {first}": functools.partial(self.control.apply, first) for first, _ in later},
            "judge": self._judge,
            "start": self._start,
            "see": self._see,
        }

    def _act(self) -> None:
        """Actions and pushes."""
        self.accounts.count("refused_actions", self.control.take(self.asked, self.state))
        self.kicks.kick(self.state)
        self.control.apply(0)

    def _judge(self) -> None:
        """Memory, ends, rewards and observations of the state after the timesteps; which worlds start."""
        state, task = self.state, self.task
        state.elapsed += 1
        state.forget()
        if task.update is not None:
            self.starts.remember("update", task.update(state), self._everywhere)
        finite = torch.isfinite(state.qpos).all(dim=1) & torch.isfinite(state.qvel).all(dim=1)
        terminated, truncated, success = self._ends(finite)
        reward = self._reward(finite)
        final, final_critic = self.observer.observe(state)
        final, final_critic = (torch.where(finite[:, None], one, 0.0) for one in (final, final_critic))
        starting = self.over.clone()
        if self.autoreset == "next-step":  # worlds that were over start now; this step was none of theirs
            reward = torch.where(starting, 0.0, reward)
            terminated, truncated = terminated & ~starting, truncated & ~starting
        done = (terminated | truncated) & ~starting
        self.accounts.count("diverged", ~finite & done)
        self.accounts.end(done, state.elapsed, success, terminated)
        if task.curriculum is not None:
            state.done.copy_(done)
            state.succeeded.copy_(success)
            self.starts.remember("curriculum", task.curriculum(state), done)
        if self.autoreset != "same-step":
            self.over |= done
        self.mask.copy_(starting if self.autoreset == "next-step" else done)
        given = (final, final_critic, reward, terminated, truncated, final, final_critic, success)
        self.made = dict(zip(Step.names(), given, strict=True))

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
        found = found * self.state.constant(*(part.weight * (1.0 if part.once else self.task.dt) for part in rewards))
        fine, counted = torch.isfinite(found), (finite & ~self.over)[:, None]
        found = torch.where(fine & finite[:, None], found, 0.0)
        self.accounts.add(torch.where(counted, found, 0.0), ~fine & counted)
        return found.sum(dim=1)

    def _start(self) -> None:
        """Begin episodes in the worlds of the mask; their poses are left to find."""
        state, mask = self.state, self.mask
        self.starts.begin()
        self.control.start(mask, state)
        self.kicks.start(mask, state)
        state.elapsed.copy_(torch.where(mask, 0, state.elapsed))
        self.over &= ~mask

    def _see(self) -> None:
        """The observations of worlds that start, and of the others as they are."""
        self.state.forget()
        mask = self.mask[:, None]
        observation, critic = self.observer.observe(self.state, self.mask)
        self.made["observation"] = torch.where(mask, observation, self.made["observation"])
        self.made["critic"] = torch.where(mask, critic, self.made["critic"])
