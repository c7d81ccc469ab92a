"""A user's function as the work of cells."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from stickslip.errors import InputError, StickslipError
from stickslip.studies.work.base import Outcome, Place, Resolved, Work, file_digest, function_of, listed

GIVEN = ("device", "folder")
"""Arguments that are not parameters of the study: where the cell runs."""
FILE = "file:"
"""Before the path of a file whose content counts."""


class Function(Work):
    """A function of the parameters, which gives a mapping of numbers, words and arrays."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._function = function_of(name)
        self._signature = inspect.signature(self._function)
        self._own = [one for one in GIVEN if one in self._signature.parameters]

    def resolve(self, given: Mapping[str, Any], device: str) -> Resolved:
        for name in given:
            if name in GIVEN:
                raise InputError(f"{name} is given: the study itself gives {name} to the function; leave it out")
        chosen = {**{name.replace(".", "_"): value for name, value in given.items()}, **dict.fromkeys(self._own)}
        try:
            bound = self._signature.bind(**chosen)
        except TypeError as error:
            raise InputError(f"{self.name}{self._signature} does not take these parameters: {error}") from None
        bound.apply_defaults()
        values = {name: listed(value) for name, value in bound.arguments.items() if name not in GIVEN}
        files = [v.removeprefix(FILE) for v in values.values() if isinstance(v, str) and v.startswith(FILE)]
        module = self._function.__module__
        modules = (module,) if module == self.name.partition(":")[0] else (self.name.partition(":")[0], module)
        return Resolved(values, "", modules, {path: file_digest(path) for path in files})

    def run(self, given: Mapping[str, Any], place: Place) -> Outcome:
        chosen = {
            name.replace(".", "_"): value.removeprefix(FILE) if isinstance(value, str) else value
            for name, value in given.items()
        }
        own = {"device": place.device, "folder": place.folder}
        found = self._function(**chosen, **{name: own[name] for name in self._own})
        if isinstance(found, Outcome):
            return found
        if not isinstance(found, Mapping):
            raise StickslipError(
                f"{self.name} gave a {type(found).__name__}: it must return a dict of numbers, words and arrays"
            )
        return sorted_out(found)


def sorted_out(found: Mapping[str, Any]) -> Outcome:
    """Numbers, words and arrays of a mapping."""
    metrics: dict[str, Any] = {}
    labels: dict[str, str] = {}
    arrays: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, str):
            labels[name] = value
        elif isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
            metrics[name] = value if isinstance(value, bool | int | float) else value.item()
        else:
            array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
            if array.dtype.kind not in "biufc":
                raise StickslipError(
                    f"{name!r} is a {type(value).__name__}: give a number, text or an array of numbers"
                )
            arrays[name] = array
    return Outcome(metrics, labels, arrays)
