"""Values of parameters: the axes of a grid, and points drawn at random or by Sobol's sequence."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, MissingExtra, unknown

METHODS = ("sobol", "random")
RANGE = ("from", "to", "count", "log")
BOUNDS = ("from", "to", "log", "whole")
KEYS = ("count", "method", "seed", "ranges")


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Where a parameter is drawn from.

    Attributes:
        low, high: ends
        log: whether its logarithm is uniform
        whole: whether it is a whole number, both ends included
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def at(self, share: NDArray[np.float64]) -> list[Any]:
        """Values at shares of the range, from 0 to 1."""
        if self.whole:
            return np.minimum(np.floor(self.low + share * (self.high - self.low + 1.0)), self.high).astype(int).tolist()
        if self.log:
            return np.exp(np.log(self.low) + share * (np.log(self.high) - np.log(self.low))).tolist()
        return (self.low + share * (self.high - self.low)).tolist()


@dataclasses.dataclass(frozen=True)
class Samples:
    """Points in the ranges of some parameters.

    More points of the same seed begin with those of fewer, so that a study can be extended.

    Attributes:
        count: how many
        method: "sobol", scrambled, or "random"
        seed: of both
        ranges: by parameter
    """

    count: int
    method: str
    seed: int
    ranges: Mapping[str, Bounds]

    def draw(self) -> Iterator[dict[str, Any]]:
        """The points, by parameter."""
        shares = _SHARES[self.method](self.count, len(self.ranges), self.seed)
        columns = [bounds.at(shares[:, place]) for place, bounds in enumerate(self.ranges.values())]
        for row in zip(*columns, strict=True):
            yield dict(zip(self.ranges, row, strict=True))

    def written(self) -> dict[str, Any]:
        """For JSON; `parse` reads it back."""
        ranges = {
            name: {"from": one.low, "to": one.high, "log": one.log, "whole": one.whole}
            for name, one in self.ranges.items()
        }
        return {"count": self.count, "method": self.method, "seed": self.seed, "ranges": ranges}


def _random(count: int, dimensions: int, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).random((count, dimensions))


def _sobol(count: int, dimensions: int, seed: int) -> NDArray[np.float64]:
    try:
        from scipy.stats import qmc
    except ImportError:
        raise MissingExtra(
            "samples by Sobol's sequence need SciPy: pip install 'stickslip[study]', or method = \"random\""
        ) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of counts that are no power of two: said in the documentation
        return qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(seed)).random(count)


_SHARES = {"sobol": _sobol, "random": _random}


def axis(name: str, value: Any) -> list[Any]:
    """The values of a parameter of a grid: a list, or {from, to, count}."""
    if isinstance(value, Mapping):
        _keys(f"{name}, a range", value, RANGE)
        low, high = _ends(name, value)
        if "count" not in value:
            if not isinstance(value["from"], int) or not isinstance(value["to"], int) or value.get("log"):
                raise InputError(f"{name}: a range needs count, unless it goes from one whole number to another")
            return list(range(value["from"], value["to"] + 1))
        count = _whole(f"{name}: count", value["count"], 2)
        log = _log(name, value, low)
        points = np.geomspace(low, high, count) if log else np.linspace(low, high, count)
        return points.tolist()
    if not isinstance(value, list | tuple):
        raise InputError(
            f"{name} in grid is {value!r}: give a list of values or {{from = 0.0, to = 1.0, count = 5}}; what all "
            "cells share belongs to [fixed]"
        )
    if not value:
        raise InputError(f"{name} in grid is an empty list: give one value at least")
    seen: set[str] = set()
    for one in value:
        if repr(one) in seen:
            raise InputError(f"{name} in grid has {one!r} twice: give each value once")
        seen.add(repr(one))
    return list(value)


def parse(table: Mapping[str, Any], flat: Callable[[Mapping[str, Any], str], dict[str, Any]]) -> Samples:
    """The section [samples] of a study."""
    _keys("samples", table, KEYS)
    if "count" not in table:
        raise InputError("samples: count is missing: how many points are drawn; add count = 1000")
    count = _whole("samples: count", table["count"], 1)
    method = table.get("method", "sobol")
    if method not in METHODS:
        raise unknown("method of samples", method, METHODS)
    seed = _whole("samples: seed", table.get("seed", 0), 0)
    given = table.get("ranges")
    if not isinstance(given, Mapping) or not given:
        raise InputError("samples: ranges is missing: [samples.ranges] names parameters, such as mass = [0.1, 2.0]")
    return Samples(count, method, seed, {name: _bounds(name, one) for name, one in flat(given, "samples").items()})


def _bounds(name: str, value: Any) -> Bounds:
    if isinstance(value, list | tuple) and len(value) == 2:
        value = {"from": value[0], "to": value[1]}
    if not isinstance(value, Mapping):
        raise InputError(
            f"{name} in samples is {value!r}: give [low, high] or {{from = 0.1, to = 10.0, log = true}}; values that "
            "are no numbers belong to [grid]"
        )
    _keys(f"{name}, a range", value, BOUNDS)
    low, high = _ends(name, value)
    whole = _flag(name, value, "whole")
    if whole and (low != int(low) or high != int(high)):
        raise InputError(f"{name}: a range of whole numbers goes from one to another, not from {low:g} to {high:g}")
    log = _log(name, value, low)
    if whole and log:
        raise InputError(f"{name}: log and whole exclude each other; leave one out")
    return Bounds(low, high, log, whole)


def _keys(what: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            raise unknown(f"key of {what}", key, known)


def _ends(name: str, value: Mapping[str, Any]) -> tuple[float, float]:
    ends = [value.get(end) for end in ("from", "to")]
    for end, one in zip(("from", "to"), ends, strict=True):
        if isinstance(one, bool) or not isinstance(one, int | float) or not math.isfinite(one):
            raise InputError(f"{name}: {end} is {one!r}: it must be a number")
    low, high = (float(one) for one in ends)  # type: ignore[arg-type]
    if not low < high:
        raise InputError(f"{name}: a range goes from {low:g} to {high:g}: `to` must be above `from`")
    return low, high


def _log(name: str, value: Mapping[str, Any], low: float) -> bool:
    log = _flag(name, value, "log")
    if log and low <= 0.0:
        raise InputError(f"{name}: from is {low:g}: it must be above 0 with log")
    return log


def _flag(name: str, value: Mapping[str, Any], key: str) -> bool:
    found = value.get(key, False)
    if not isinstance(found, bool):
        raise InputError(f"{name}: {key} is {found!r}: it must be true or false")
    return found


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} is {value!r}: it must be a whole number of at least {least}")
    return value
