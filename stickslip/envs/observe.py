"""Observations: the values of terms, scaled, with noise, side by side."""

from collections.abc import Mapping
from typing import Any

import torch

from stickslip.envs.state import State
from stickslip.envs.task import Observed
from stickslip.errors import InputError


class Observer:
    """Builds observations: what the policy sees, with noise, and what the critic sees, without.

    Args:
        parts: of the observation, by name
        critic: what only the critic sees, by name
        state: what the terms see
    """

    def __init__(self, parts: Mapping[str, Observed], critic: Mapping[str, Observed], state: State) -> None:
        self._history: dict[str, torch.Tensor] = {}
        self._parts, self._more = dict(parts), dict(critic)
        self.slices, self.size = self._placed("observation", self._parts, state)
        _, self._more_size = self._placed("critic", self._more, state)
        noise = [0.0] * self.size
        for name, place in self.slices.items():
            part = self._parts[name]
            noise[place] = [part.noise * abs(part.scale)] * (place.stop - place.start)
        self._noise = torch.tensor(noise, device=state.device) if any(noise) else None

    def _placed(self, group: str, parts: Mapping[str, Observed], state: State) -> tuple[dict[str, slice], int]:
        """Where parts are, side by side, and how many numbers they are; checks each."""
        slices, size = {}, 0
        for name, part in parts.items():
            value = called(f"{group} {name!r}", part.value, state)
            if value.ndim > 2:
                raise InputError(f"{group} {name!r} has shape {tuple(value.shape)}: give ({state.nworld}, n)")
            n = 1 if value.ndim == 1 else value.shape[1]
            if part.history < 1:
                raise InputError(f"{group} {name!r}: history is {part.history}: it must be at least 1")
            if part.history > 1:
                self._history[name] = torch.zeros((state.nworld, part.history, n), device=state.device)
            slices[name] = slice(size, size + n * part.history)
            size += n * part.history
        return slices, size

    @property
    def ncritic(self) -> int:
        """Numbers that the critic sees."""
        return self.size + self._more_size

    def buffers(self) -> dict[str, torch.Tensor]:
        """What is kept from step to step."""
        return dict(self._history)

    def constants(self) -> list[torch.Tensor]:
        """What is the same for all worlds."""
        return [] if self._noise is None else [self._noise]

    def observe(self, state: State, started: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """The observations of the present state, for policy and critic.

        Args:
            state: what the terms see
            started: worlds whose episode begins here; None: all worlds are a control step later
        """
        exact = self._values(self._parts, state, started)
        seen = exact
        if self._noise is not None:
            seen = exact + self._noise * state.random.uniform(-1.0, 1.0, self.size)
        if not self._more:
            return seen, exact
        return seen, torch.cat([exact, self._values(self._more, state, started)], dim=1)

    def _values(self, parts: Mapping[str, Observed], state: State, started: torch.Tensor | None) -> torch.Tensor:
        found = []
        for name, part in parts.items():
            value = part.value(state).float()
            value = value[:, None] if value.ndim == 1 else value
            if name in self._history:
                value = self._remembered(self._history[name], value, started)
            value = value if part.scale == 1.0 else part.scale * value
            found.append(value.clamp(-part.clip, part.clip))
        return torch.cat(found, dim=1)

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
        raise InputError(
            f"{what} returns {type(value).__name__}: a term returns a tensor, ({state.nworld}, ...); make it return one"
        )
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
