"""Servos that differ from world to world: stiffness and damping, drawn when an episode starts."""

import mujoco
import numpy as np
import torch
import warp as wp

from stickslip.envs.random import Random
from stickslip.envs.task import Task
from stickslip.errors import InputError
from stickslip.simulation import Simulation


class Servos:
    """Draws the gains of a task's servos.

    A position servo has force `gainprm[0] * ctrl + biasprm[1] * length + biasprm[2] * velocity`, with biasprm[1] =
    -gainprm[0]. Both are multiplied by the same number: drawn apart, they would pull a servo off its target by their
    difference times its length.

    Args:
        sim: the simulation
        task: has the bounds
        random: draws
    """

    def __init__(self, sim: Simulation, task: Task, random: Random) -> None:
        self._sim, self._random, self._given, mjm = sim, random, task.gains, sim.mjm
        assert task.gains is not None
        for name, (low, high) in (("stiffness", task.gains.stiffness), ("damping", task.gains.damping)):
            if not 0.0 < low <= high:
                raise InputError(f"task {task.name!r}: {name} of gains is {(low, high)}: give 0 < least <= largest")
        servo = (mjm.actuator_gaintype == mujoco.mjtGain.mjGAIN_FIXED) & (
            mjm.actuator_biastype == mujoco.mjtBias.mjBIAS_AFFINE
        )
        if not servo.any():
            raise InputError(f"task {task.name!r}: gains are for position servos, and the model has none")
        for name in ("actuator_gainprm", "actuator_biasprm"):
            if name in task.randomize:
                raise InputError(
                    f"task {task.name!r}: {name} is both in randomize and drawn by gains: give one of them"
                )

        def put(rows: np.ndarray) -> torch.Tensor:
            return torch.tensor(rows, dtype=torch.float32, device=wp.device_to_torch(sim.device))

        stiff, damped = np.zeros((2, mjm.nu, mjm.actuator_biasprm.shape[1]))
        stiff[servo, 1] = damped[servo, 2] = 1.0
        self._own, self._bias = put(mjm.actuator_gainprm), put(mjm.actuator_biasprm)
        self._of_gain, self._stiff, self._damped = put(servo.astype(float)[:, None]), put(stiff), put(damped)
        names = ("actuator_gainprm", "actuator_biasprm")
        given = dict(zip(names, (mjm.actuator_gainprm, mjm.actuator_biasprm), strict=True))
        sim.set_model(np.zeros(sim.nworld, dtype=bool), **given)  # for no world: they become one per world
        self._in_place = sim.physics.in_place(sim.m, sim.d, names) is not None
        if self._in_place:
            self.drawn = {name: wp.to_torch(sim.physics.model_field(sim.m, name)) for name in names}
        else:
            values = (one.expand(sim.nworld, *one.shape).clone() for one in (self._own, self._bias))
            self.drawn = dict(zip(names, values, strict=True))
        """Values for all worlds: the model's own arrays, if they may be written."""

    def constants(self) -> list[torch.Tensor]:
        """What is the same for all worlds."""
        return [self._own, self._bias, self._of_gain, self._stiff, self._damped]

    def draw(self, mask: torch.Tensor) -> None:
        """Draw numbers for the worlds of a mask."""
        assert self._given is not None
        n = len(self._own) if self._given.each else 1
        stiffness = self._random.uniform(*self._given.stiffness, n)[:, :, None] - 1.0
        damping = self._random.uniform(*self._given.damping, n)[:, :, None] - 1.0
        gain = self._own * (1.0 + self._of_gain * stiffness)
        bias = self._bias * (1.0 + self._stiff * stiffness + self._damped * damping)
        for target, values in zip(self.drawn.values(), (gain, bias), strict=True):
            target.copy_(torch.where(mask[:, None, None], values, target))

    def write(self, mask: wp.array) -> None:
        """Give the worlds of a mask what was drawn for them, unless it is in the model's arrays already."""
        if not self._in_place:
            self._sim.set_model(mask, **{name: wp.from_torch(one) for name, one in self.drawn.items()})
