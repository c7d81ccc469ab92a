"""A metric of several cases, as numbers and as bars."""

from collections.abc import Sequence
from typing import Any

from stickslip.bench.report import style
from stickslip.bench.result import Result


def metrics(result: Result, cases: Sequence[str], name: str) -> dict[str, list[float]]:
    """A metric of every method that ran one of the cases or more: one entry a case, NaN where it has none."""
    ran = [label for label in result.methods if any(result.has(label, case) for case in cases)]
    return {label: [result.metric(label, case, name) for case in cases] for label in ran}


def bars(ax: Any, result: Result, cases: Sequence[str], name: str, ticks: Sequence[str], *, log: bool = True) -> None:
    """A metric as bars, a group a case."""
    style.bars(ax, result, cases, metrics(result, cases, name), log=log, ticks=ticks)
