"""What a built-in scene is: a name, a summary, its parameters and the function that writes its MJCF."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from stickslip.errors import SceneError
from stickslip.scenes import look


@dataclass(frozen=True)
class Parameter:
    """One number a scene can be built with. It is an integer if `default` is one."""

    name: str
    default: int | float
    low: int | float
    """Smallest allowed value, included."""
    high: int | float
    """Largest allowed value, included."""
    meaning: str
    """What it sets, with its SI unit."""

    def __str__(self) -> str:
        kind = "integer" if isinstance(self.default, int) else "number"
        return f"{self.name}={self.default} ({kind}, {self.low} to {self.high}): {self.meaning}"

    def check(self, scene: str, value: object) -> int | float:
        """Returns `value` as this parameter's kind of number, or raises SceneError.

        Args:
            scene: name of the scene, for the message
            value: a number, or the text of one
        """
        problem = SceneError(f"scene {scene!r}: {self.name}={value} is not allowed; use {self}")
        if isinstance(value, bool):
            raise problem
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise problem from None
        if not math.isfinite(number) or not self.low <= number <= self.high:
            raise problem
        if isinstance(self.default, int):
            if number != int(number):
                raise problem
            return int(number)
        return number


@dataclass(frozen=True)
class Scene:
    """A built-in scene."""

    name: str
    summary: str
    """One line: what is in it and what it is good for."""
    content: Callable[..., str]
    """Takes every parameter by name; gives what stands inside `<mujoco>`, without the shared look and the hints."""
    nconmax: int | Callable[..., int]
    """Contacts to make room for in one world, or a function of the parameters."""
    njmax: int | Callable[..., int]
    """Constraint rows to make room for in one world, or a function of the parameters."""
    parameters: tuple[Parameter, ...] = ()

    def values(self, **given: object) -> dict[str, int | float]:
        """Returns every parameter: the given ones checked, the others at their defaults."""
        known = {p.name: p for p in self.parameters}
        for name in given:
            if name not in known:
                allowed = "; ".join(str(p) for p in self.parameters) or "none"
                raise SceneError(f"scene {self.name!r} has no parameter {name!r}; allowed: {allowed}")
        return {n: p.check(self.name, given[n]) if n in given else p.default for n, p in known.items()}

    def buffers(self, **given: object) -> tuple[int, int]:
        """Returns (nconmax, njmax): contacts and constraint rows to make room for in one world."""
        values = self.values(**given)
        nconmax = self.nconmax if isinstance(self.nconmax, int) else self.nconmax(**values)
        njmax = self.njmax if isinstance(self.njmax, int) else self.njmax(**values)
        return nconmax, njmax

    def build(self, **given: object) -> str:
        """Returns the scene as MJCF text."""
        nconmax, njmax = self.buffers(**given)
        return (
            f'<mujoco model="{self.name}">\n'
            f"{look.SHARED}"
            f"{self.content(**self.values(**given)).rstrip()}\n"
            "  <custom>\n"
            f'    <numeric name="nconmax" data="{nconmax}"/>\n'
            f'    <numeric name="njmax" data="{njmax}"/>\n'
            "  </custom>\n"
            "</mujoco>\n"
        )
