"""Digests of the code behind stored metrics, and which metrics are stale by them."""

import functools
from collections.abc import Sequence
from typing import Any

from stickslip import provenance
from stickslip.bench.experiment import Experiment
from stickslip.bench.result import Record, Result


def source(experiment: Experiment[Any], modules: Sequence[str]) -> str:
    """Digest of the code of an experiment and of a method, given by the modules where the method's code begins."""
    return _digest((type(experiment).__module__, *modules))


@functools.cache
def _digest(modules: tuple[str, ...]) -> str:
    return provenance.digest(modules)


def stale(experiment: Experiment[Any], result: Result) -> set[str]:
    """The methods of a result that were measured by other code than there is now, or by code that is not known."""
    return {label for label, record in result.methods.items() if not _current(experiment, record)}


def _current(experiment: Experiment[Any], record: Record) -> bool:
    try:
        return bool(record.modules) and record.source == source(experiment, record.modules)
    except ModuleNotFoundError:  # the method is gone
        return False
