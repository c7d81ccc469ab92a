"""The columns of a study's table as arrays: which are parameters, metrics and words, and which of them vary."""

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stickslip.studies import records

if TYPE_CHECKING:
    import pyarrow

FEW = 30
"""Values of a parameter up to which each has a place of its own."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """A parameter that varies, over the cells that are done.

    Attributes:
        name: of the parameter
        values: its values, in order; numbers, or text
        index: which of them each cell has                       (cells,)
        numbers: its value in each cell; None if it is no number (cells,)
    """

    name: str
    values: Sequence[Any]
    index: NDArray[np.int64]
    numbers: NDArray[np.float64] | None

    @property
    def few(self) -> bool:
        """Whether each value has a place of its own."""
        return len(self.values) <= FEW


@dataclasses.dataclass(frozen=True)
class Columns:
    """What a page is made of.

    Attributes:
        rows: all cells that ended, by columns
        done: which of them are done                     (rows,)
        metrics: numbers of those that are done, by name (cells,)
        labels: words of those that are done, by name
        axes: parameters that vary
        parameters: names of all parameters
    """

    rows: "pyarrow.Table"
    done: NDArray[np.bool_]
    metrics: dict[str, NDArray[np.float64]]
    labels: dict[str, list[Any]]
    axes: list[Axis]
    parameters: list[str]

    @property
    def varied(self) -> dict[str, NDArray[np.float64]]:
        """Metrics that have more than one value."""
        found = {}
        for name, values in self.metrics.items():
            finite = values[np.isfinite(values)]
            if finite.size and finite.min() < finite.max():
                found[name] = values
        return found


def columns(table: "pyarrow.Table") -> Columns:
    """The columns of a table of records."""
    done = np.array([status == records.DONE for status in table["status"].to_pylist()], dtype=bool)
    kept = table.filter(done) if len(done) else table
    wide = records.wide(kept)
    given = [json.loads(text) for text in kept["parameters"].to_pylist()]
    names = list(dict.fromkeys(name for row in given for name in row))
    whole = [json.loads(text) for text in table["parameters"].to_pylist()]
    everywhere = list(dict.fromkeys(name for row in whole for name in row))
    metrics = {name: wide[name].to_numpy().astype(float) for name in keys(kept, "metrics")}
    labels = {name: wide[name].to_pylist() for name in keys(kept, "labels")}
    axes = [axis for name in names if (axis := _axis(name, [row.get(name) for row in given])) is not None]
    return Columns(table, done, metrics, labels, axes, everywhere)


def keys(table: "pyarrow.Table", kind: str) -> list[str]:
    """Keys of a column of maps, each once."""
    pa, _ = records.package()
    found: dict[str, None] = {}
    for chunk in pa.chunked_array(table[kind]).chunks:
        found |= dict.fromkeys(chunk.keys.unique().to_pylist())
    return list(found)


def _axis(name: str, values: list[Any]) -> Axis | None:
    """A parameter; None if it is the same everywhere."""
    plain = [json.dumps(value) if isinstance(value, list | dict) else value for value in values]
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in plain if v is not None)
    if numeric and any(v is not None for v in plain):
        numbers = np.array([np.nan if v is None else v for v in plain], dtype=float)
        distinct, index = np.unique(numbers, return_inverse=True)
        if len(distinct) < 2:
            return None
        return Axis(name, [int(v) if v == int(v) else v for v in distinct if np.isfinite(v)], index, numbers)
    words = [str(v) for v in plain]
    order = {word: place for place, word in enumerate(dict.fromkeys(words))}
    if len(order) < 2:
        return None
    return Axis(name, list(order), np.array([order[word] for word in words]), None)
