"""What is stored of an experiment: settings, machine, versions, and the metrics and series of every method."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip import files
from stickslip.errors import InputError

FORMAT = 3
"""Of the JSON files; raised when their meaning changes."""
CONDITIONS = ("quick", "seed", "device", "settings", "cases", "machine", "versions")
"""What the measurements in one file have in common."""
KIND = "a result of `stickslip bench run`"
"""What an error says a file should be."""


@dataclasses.dataclass
class Record:
    """A method as it was measured.

    Attributes:
        name: of the method without parameters
        parameters: every parameter by its name
        packages: versions of the packages it uses beside those of every method
        modules: where its code begins, for the digest
        source: digest of the code of method and experiment; "" if it is not known
        time: when its measurement began, UTC; "" if it is not known
        seconds: wall time of its measurements; None if it is not known
    """

    name: str
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    packages: dict[str, str] = dataclasses.field(default_factory=dict)
    modules: list[str] = dataclasses.field(default_factory=list)
    source: str = ""
    time: str = ""
    seconds: float | None = None

    def same(self, other: "Record") -> bool:
        """Whether both were measured with the same parameters, packages and code."""
        names = ("name", "parameters", "packages", "source")
        return all(getattr(self, name) == getattr(other, name) for name in names)


@dataclasses.dataclass
class Result:
    """One experiment on one machine; the content of its JSON file.

    Attributes:
        experiment: its name
        quick: whether it was a smoke test, whose metrics mean nothing
        seed: of every random number
        device: "cpu", "cuda:0", ...
        settings: every setting, by name
        methods: what is known of each method, by its label
        cases: labels of the cases, in order
        outcomes: label of the method -> label of the case -> metrics, series and problems, or why it cannot run
        machine: where it was measured
        versions: of everything that matters to a metric
    """

    experiment: str
    quick: bool
    seed: int
    device: str
    settings: dict[str, Any]
    methods: dict[str, Record]
    cases: list[str]
    machine: dict[str, Any]
    versions: dict[str, str]
    outcomes: dict[str, dict[str, dict[str, Any]]] = dataclasses.field(default_factory=dict)
    format: int = FORMAT

    @property
    def complete(self) -> bool:
        """Whether every method has an outcome in every case."""
        return all(case in self.outcomes.get(label, {}) for label in self.methods for case in self.cases)

    @property
    def seconds(self) -> float:
        """Wall time of all measurements for which it is known."""
        return sum(record.seconds or 0.0 for record in self.methods.values())

    @property
    def time(self) -> str:
        """When the last method was begun, UTC; "" if it is not known."""
        return max((record.time for record in self.methods.values()), default="")

    def has(self, label: str, case: str) -> bool:
        """Whether the method ran that case."""
        return "metrics" in self.outcomes.get(label, {}).get(case, {})

    def ran(self, case: str) -> list[str]:
        """The methods that ran a case, in order."""
        return [label for label in self.methods if self.has(label, case)]

    def metric(self, label: str, case: str, name: str) -> float:
        """A metric; NaN if it is missing or was not finite."""
        value = self.outcomes.get(label, {}).get(case, {}).get("metrics", {}).get(name)
        return float("nan") if value is None else float(value)

    def series(self, label: str, case: str, name: str) -> NDArray[np.float64]:
        """A series; empty if it is missing."""
        values = self.outcomes.get(label, {}).get(case, {}).get("series", {}).get(name, [])
        return np.array(values, dtype=float)

    def unsupported(self, label: str) -> dict[str, str]:
        """Why the method could not run, by case."""
        found = {case: outcome.get("unsupported") for case, outcome in self.outcomes.get(label, {}).items()}
        return {case: reason for case, reason in found.items() if reason}

    def problems(self, label: str, case: str) -> list[str]:
        """What makes the metrics of a method in a case doubtful."""
        return list(self.outcomes.get(label, {}).get(case, {}).get("problems", []))

    def comparable(self, other: "Result") -> bool:
        """Whether both were measured under the same conditions, so that they may share a file."""
        return not self.differences(other)

    def differences(self, other: "Result") -> list[str]:
        """Conditions in which another result differs: `versions (numpy: 2.0 there, 2.1 here)`."""
        found = []
        for name in CONDITIONS:
            here, there = getattr(self, name), getattr(other, name)
            if here == there:
                continue
            if isinstance(here, dict) and isinstance(there, dict):
                keys = [key for key in {**there, **here} if there.get(key) != here.get(key)]
                difference = ", ".join(f"{key}: {there.get(key)} there, {here.get(key)} here" for key in keys)
            else:
                difference = f"{there} there, {here} here"
            found.append(f"{name} ({difference})")
        return found

    def save(self, path: pathlib.Path) -> pathlib.Path:
        return files.write_json(path, dataclasses.asdict(self), flat_lists=True)


def load(path: pathlib.Path) -> Result:
    """Read what `Result.save` wrote; raises InputError if it is something else."""
    try:
        return _read(path, files.read_bytes(path, KIND))
    except OSError as error:
        raise InputError(f"{path} is not a result of `stickslip bench run`: {error}") from None


def _read(path: pathlib.Path, text: bytes) -> Result:
    try:
        files.check_seal(text, path, KIND)
        content = files.parse_json(text, path, KIND)
        if content.get("format") != FORMAT:
            raise InputError(
                f"{path} has format {content.get('format')!r}, this version reads {FORMAT}: run the experiment again"
            )
        methods = content.get("methods")
        if isinstance(methods, dict):
            content["methods"] = {label: Record(**record) for label, record in methods.items()}
        result = Result(**content)
        _check(result)
        return result
    except (AttributeError, TypeError) as error:
        raise InputError(f"{path} is not a result of `stickslip bench run`: {error}") from None


def _check(result: Result) -> None:
    """Raise TypeError if a field holds something else than it should."""
    kinds = {**dict.fromkeys(("settings", "methods", "machine", "versions", "outcomes"), dict), "cases": list}
    for name, kind in kinds.items():
        if not isinstance(getattr(result, name), kind):
            raise TypeError(f"{name} is not a {kind.__name__}")
    if not {"device", "cores", "arch"} <= result.machine.keys():
        raise TypeError("machine does not name device, cores and arch")
    for label, cases in result.outcomes.items():
        if not isinstance(cases, dict) or not all(isinstance(outcome, dict) for outcome in cases.values()):
            raise TypeError(f"the outcomes of {label} are not metrics by case")


class Store:
    """The file of a result, which several processes may add methods to.

    Args:
        path: of the file
        alone: whether the metrics of this run compare with each other only, as step times do; then nothing that another
            process writes meanwhile is merged, and the run ends with an error
    """

    def __init__(self, path: pathlib.Path, *, alone: bool = False) -> None:
        self.path, self.alone = path, alone
        self._seen: bytes | None = None

    def read(self) -> Result | None:
        """What is stored; None if there is no file. Raises InputError if the file is no result."""
        with files.locked(self.path.parent):
            self._seen = self._text()
        return None if self._seen is None else _read(self.path, self._seen)

    def _text(self) -> bytes | None:
        return self.path.read_bytes() if self.path.exists() else None

    def write(self, result: Result, own: set[str], relate: Callable[[Result], None]) -> None:
        """Store a result; of the methods that are not `own`, what another process stored meanwhile is kept.

        `relate` then adds the metrics that need several methods.

        Raises InputError if another process stored something that cannot share the file.
        """
        with files.locked(self.path.parent):
            text = self._text()
            if text is not None and text != self._seen:
                self._merge(result, _read(self.path, text), own)
            relate(result)
            result.save(self.path)
            self._seen = self._text()

    def _merge(self, result: Result, stored: Result, own: set[str]) -> None:
        differ = result.differences(stored)
        if self.alone or differ:
            why = f"; these differ: {'; '.join(differ)}" if differ else ", and step times compare within one run only"
            raise InputError(f"{self.path} was written by another process meanwhile{why}: name another folder (--out)")
        labels = [*stored.methods, *(label for label in result.methods if label not in stored.methods)]
        methods, outcomes = {}, {}
        for label in labels:
            there = stored.methods.get(label)
            mine = label in own or there is None
            methods[label] = result.methods[label] if mine or there is None else there
            cases = dict((result if mine else stored).outcomes.get(label, {}))
            if mine and there is not None and label in result.methods and there.same(result.methods[label]):
                cases = {**stored.outcomes.get(label, {}), **cases}
            if cases:
                outcomes[label] = cases
        result.methods, result.outcomes = methods, outcomes
