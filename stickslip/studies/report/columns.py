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
        given: parameters of each row
        names: parameters that differ between rows, those that failed included
    """

    rows: "pyarrow.Table"
    done: NDArray[np.bool_]
    metrics: dict[str, NDArray[np.float64]]
    labels: dict[str, list[Any]]
    axes: list[Axis]
    given: list[dict[str, Any]]
    names: list[str]

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
    given = [json.loads(text) for text in table["parameters"].to_pylist()]
    kept = table.filter(done) if len(done) else table
    mine = [row for row, good in zip(given, done, strict=True) if good]
    metrics = {name: values.to_numpy().astype(float) for name, values in records.spread(kept["metrics"]).items()}
    labels = {name: values.to_pylist() for name, values in records.spread(kept["labels"]).items()}
    found = {name: [row.get(name) for row in mine] for name in dict.fromkeys(name for row in given for name in row)}
    axes = [axis for name, values in found.items() if (axis := _axis(name, values)) is not None]
    failed = [row for row, good in zip(given, done, strict=True) if not good]
    names = [name for name, values in found.items() if _varies([*values, *(row.get(name) for row in failed)])]
    return Columns(table, done, metrics, labels, axes, given, names)


def _varies(values: list[Any]) -> bool:
    """Whether not all values are the same."""
    return any(value != values[0] for value in values)


def keys(table: "pyarrow.Table", kind: str) -> list[str]:
    """Keys of a column of maps, each once."""
    pa, _ = records.package()
    found: dict[str, None] = {}
    for chunk in pa.chunked_array(table[kind]).chunks:
        found |= dict.fromkeys(chunk.keys.unique().to_pylist())
    return list(found)


def _axis(name: str, values: list[Any]) -> Axis | None:
    """A parameter; None if it is the same everywhere."""
    if not _varies(values):
        return None
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
