"""Starts of episodes: the state that the task gives, and a model drawn at random, for the worlds in a mask."""

from collections.abc import Mapping
from typing import Any

import torch
import warp as wp

from stickslip.envs.servos import Servos
from stickslip.envs.state import State
from stickslip.envs.task import Task
from stickslip.errors import InputError, Unsupported, unknown
from stickslip.simulation import Simulation

WRITTEN = ("qpos", "qvel", "ctrl", "mocap_pos", "mocap_quat")


class Starts:
    """Starts episodes.

    Attributes:
        mask, given: worlds that start, for torch and for Warp                        (nworld,)

    Args:
        sim: the simulation
        task: gives the values
        state: what the task sees
        seed: of the models
    """

    def __init__(self, sim: Simulation, task: Task, state: State, seed: int) -> None:
        self._sim, self._task, self._state, self._seed = sim, task, state, seed
        self.mask = torch.zeros(sim.nworld, dtype=torch.bool, device=state.device)
        self.given = wp.from_torch(self.mask, dtype=wp.bool)
        self.arrays = {name: wp.to_torch(getattr(sim, name), requires_grad=False) for name in self._possible()}
        self.servos = None if task.gains is None else Servos(sim, task, state.random)
        try:
            self.sensors: torch.Tensor | None = state.field("sensordata") if sim.mjm.nsensordata else None
        except Unsupported:  # the physics has none
            self.sensors = None

    def _possible(self) -> tuple[str, ...]:
        return WRITTEN if self._sim.mjm.nmocap else WRITTEN[:3]

    def renew(self) -> None:
        """Bring the worlds of the mask back to the start, with models drawn at random."""
        sim, task = self._sim, self._task
        if task.randomize:
            sim.randomize(self.given, seed=self._seed, **task.randomize)
        sim.reset(self.given)
        self._state.forget()

    def begin(self) -> None:
        """Write what the task starts with into the worlds of the mask; poses are left to find."""
        if self.servos is not None:
            self.servos.draw(self.mask)
        self._state.forget()
        self.remember("start", self._task.start(self._state), self.mask)
        if self.sensors is not None:
            self.sensors.copy_(torch.where(self.mask[:, None], 0.0, self.sensors))
        self._state.forget()

    def write_gains(self) -> None:
        """Give the worlds of the mask the gains that `begin` has drawn, where they are not in the model already."""
        if self.servos is not None:
            self.servos.write(self.given)

    def remember(self, what: str, values: Mapping[str, Any], mask: torch.Tensor) -> None:
        """Write values of the worlds in a mask into the state (for "start") and the memory."""
        for name, value in values.items():
            target = self._target(what, name)
            if tuple(value.shape) != tuple(target.shape):
                raise InputError(
                    f"task {self._task.name!r}: {what} gives {name!r} the shape {tuple(value.shape)}: it must be "
                    f"{tuple(target.shape)}"
                )
            taken = mask.view(-1, *(1,) * (target.ndim - 1))
            target.copy_(torch.where(taken, value.to(target.dtype), target))
        self._state.forget()

    def _target(self, what: str, name: str) -> torch.Tensor:
        if what == "start" and name in self.arrays:
            return self.arrays[name]
        memory = self._state.memory
        if name not in memory:
            there = (*self._possible(), *memory) if what == "start" else memory
            raise unknown(f"value that {what} of task {self._task.name!r} may give", name, there)
        return memory[name]
