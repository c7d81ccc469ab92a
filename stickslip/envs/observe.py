"""Observations: the values of terms, scaled, with noise, side by side."""

from collections.abc import Mapping
from typing import Any

import torch

from stickslip.envs.state import State
from stickslip.envs.task import Observed
from stickslip.errors import InputError


class Observer:
    """Builds one observation, (nworld, n).

    Args:
        group: what it is called in errors, "observation" or "critic"
        parts: by name
        state: what the terms see
        noisy: whether noise is added
    """

    def __init__(self, group: str, parts: Mapping[str, Observed], state: State, *, noisy: bool) -> None:
        self._parts, self._noisy = dict(parts), noisy
        self.slices: dict[str, slice] = {}
        self._history: dict[str, torch.Tensor] = {}
        size, noise = 0, []
        for name, part in self._parts.items():
            value = called(f"{group} {name!r}", part.value, state)
            if value.ndim > 2:
                raise InputError(f"{group} {name!r} has shape {tuple(value.shape)}: give ({state.nworld}, n)")
            n = 1 if value.ndim == 1 else value.shape[1]
            if part.history < 1:
                raise InputError(f"{group} {name!r}: history is {part.history}: it must be at least 1")
            if part.history > 1:
                self._history[name] = torch.zeros((state.nworld, part.history, n), device=state.device)
            self.slices[name] = slice(size, size + n * part.history)
            size += n * part.history
            noise += [part.noise * abs(part.scale)] * (n * part.history)
        self.size = size
        self._noise = torch.tensor(noise, device=state.device) if any(noise) else None

    def buffers(self) -> dict[str, torch.Tensor]:
        """What is kept from step to step."""
        return dict(self._history)

    def observe(self, state: State, started: torch.Tensor | None = None) -> torch.Tensor:
        """The observation of the present state.

        Args:
            state: what the terms see
            started: worlds whose episode begins here; None: all worlds are a control step later
        """
        found = []
        for name, part in self._parts.items():
            value = part.value(state).float()
            value = value[:, None] if value.ndim == 1 else value
            if name in self._history:
                value = self._remembered(self._history[name], value, started)
            found.append((part.scale * value).clamp(-part.clip, part.clip))
        whole = torch.cat(found, dim=1)
        if self._noisy and self._noise is not None:
            whole = whole + self._noise * state.random.uniform(-1.0, 1.0, self.size)
        return whole

    def _remembered(self, kept: torch.Tensor, value: torch.Tensor, started: torch.Tensor | None) -> torch.Tensor:
        if started is None:
            kept.copy_(torch.cat([value[:, None], kept[:, :-1]], dim=1))
        else:
            kept.copy_(torch.where(started[:, None, None], value[:, None], kept))
        return kept.flatten(1)


def called(what: str, term: Any, state: State) -> torch.Tensor:
    """The value of a term, if it is a tensor of every world on the device."""
    value = term(state)
    if not isinstance(value, torch.Tensor):
        raise InputError(f"{what} returns {type(value).__name__}: a term returns a tensor, ({state.nworld}, ...)")
    if value.ndim < 1 or value.shape[0] != state.nworld:
        raise InputError(f"{what} has shape {tuple(value.shape)}: the first axis must be worlds, {state.nworld}")
    if value.device != state.device:
        raise InputError(f"{what} is on {value.device}, the environment on {state.device}: make it there")
    return value


def one_each(what: str, term: Any, state: State, *, flags: bool = False) -> torch.Tensor:
    """The value of a term that gives one number, or one flag, per world."""
    value = called(what, term, state)
    if value.ndim != 1:
        raise InputError(f"{what} has shape {tuple(value.shape)}: it must be ({state.nworld},)")
    if flags and value.dtype is not torch.bool:
        raise InputError(f"{what} gives {value.dtype}: it must give torch.bool")
    return value
