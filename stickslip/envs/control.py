"""From actions to controls: scale, offset, limits, and latency."""

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray

from stickslip.envs.state import State
from stickslip.envs.task import Task
from stickslip.errors import InputError, unknown


class Control:
    """Writes the controls of a simulation.

    Args:
        task: says how actions become controls
        mjm: the model
        ctrl: the simulation's controls, (nworld, nu)
    """

    def __init__(self, task: Task, mjm: mujoco.MjModel, ctrl: torch.Tensor) -> None:
        action, device = task.action, ctrl.device
        ids = _actuators(mjm, action.names)
        if not ids:
            raise InputError(f"task {task.name!r}: the model has no actuators, so that actions would do nothing")
        limited = mjm.actuator_ctrllimited[ids].astype(bool)
        low = np.where(limited, mjm.actuator_ctrlrange[ids, 0], -np.inf)
        high = np.where(limited, mjm.actuator_ctrlrange[ids, 1], np.inf)
        if action.scale is None and not limited.all():
            free = [mjm.actuator(ids[i]).name or ids[i] for i in np.flatnonzero(~limited)]
            raise InputError(f"task {task.name!r}: actuators without ctrlrange, {free}: give Action(scale=...)")
        middle = np.where(limited, 0.5 * (low + high), 0.0)
        home = mjm.key_ctrl[0][ids] if mjm.nkey else middle
        scale = 0.5 * (high - low) if action.scale is None else _row(task, "scale", action.scale, len(ids))
        offset = home if action.offset is None else _row(task, "offset", action.offset, len(ids))

        def put(row: NDArray[np.floating]) -> torch.Tensor:
            return torch.tensor(np.asarray(row), dtype=torch.float32, device=device)

        self.limit, self._relative = float(action.limit), action.relative
        self._scale, self._offset, self._low, self._high = put(scale), put(offset), put(low), put(high)
        self.ctrl = ctrl
        self._ids = None if ids == list(range(mjm.nu)) else torch.tensor(ids, device=device)
        self._decimation, self._delay = task.decimation, action.delay
        kept = 1 + -(-action.delay[1] // task.decimation)
        self._targets = torch.zeros((ctrl.shape[0], kept, len(ids)), device=device)  # the latest first
        self._lag = torch.zeros(ctrl.shape[0], dtype=torch.int64, device=device)
        self._steps = torch.arange(kept, device=device)
        self.naction = len(ids)

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """First timestep and number of timesteps between two writes of controls."""
        if self._delay[1] == 0:
            return [(0, self._decimation)]
        return [(k, 1) for k in range(self._decimation)]

    def buffers(self) -> dict[str, torch.Tensor]:
        """What is kept from step to step."""
        return {"targets": self._targets, "lag": self._lag}

    def constants(self) -> list[torch.Tensor]:
        """What is the same for all worlds."""
        found = [self._scale, self._offset, self._low, self._high, self._steps]
        return found if self._ids is None else [*found, self._ids]

    def take(self, asked: torch.Tensor, state: State) -> torch.Tensor:
        """Take actions; worlds with one that is not finite go on with their last one. Returns which those are."""
        fine = torch.isfinite(asked).all(dim=1)
        state.previous.copy_(state.action)
        clipped = asked.clamp(-self.limit, self.limit)
        state.action.copy_(torch.where(fine[:, None], clipped, state.action))
        base = self._targets[:, 0] if self._relative else self._offset
        target = torch.clamp(base + self._scale * state.action, self._low, self._high)
        self._targets.copy_(torch.cat([target[:, None], self._targets[:, :-1]], dim=1))
        return ~fine

    def apply(self, k: int) -> None:
        """Write the controls of timestep k of the control step."""
        target = self._targets[:, 0]
        if self._targets.shape[1] > 1:
            age = torch.clamp((self._lag - k + self._decimation - 1) // self._decimation, min=0)
            taken = age[:, None] == self._steps
            target = torch.where(taken[:, :, None], self._targets, 0.0).sum(dim=1)
        if self._ids is None:
            self.ctrl.copy_(target)
        else:
            self.ctrl.index_copy_(1, self._ids, target)

    def start(self, mask: torch.Tensor, state: State) -> None:
        """Begin an episode in some worlds, from the controls that they have."""
        own = self.ctrl if self._ids is None else self.ctrl.index_select(1, self._ids)
        self._targets.copy_(torch.where(mask[:, None, None], own[:, None], self._targets))
        if self._delay[1]:
            drawn = state.random.integers(*self._delay)[:, 0]
            self._lag.copy_(torch.where(mask, drawn, self._lag))
        for last in (state.action, state.previous):
            last.copy_(torch.where(mask[:, None], 0.0, last))


def _actuators(mjm: mujoco.MjModel, names: tuple[str, ...]) -> list[int]:
    if not names:
        return list(range(mjm.nu))
    known = [mjm.actuator(i).name for i in range(mjm.nu)]
    for name in names:
        if name not in known:
            raise unknown("actuator", name, known)
    return [known.index(name) for name in names]


def _row(task: Task, what: str, value: float | tuple[float, ...], n: int) -> NDArray[np.floating]:
    row = np.asarray(value, dtype=float)
    if row.shape not in ((), (n,)) or not np.isfinite(row).all():
        raise InputError(f"task {task.name!r}: {what} of the actions is {value!r}: give a number, or {n}, one each")
    return np.broadcast_to(row, (n,))
