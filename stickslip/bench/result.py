"""What is stored of an experiment: settings, machine, versions, and every figure and series."""

import dataclasses
import hashlib
import importlib.metadata
import inspect
import json
import os
import pathlib
import platform
import subprocess
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

import stickslip
from stickslip import files
from stickslip.errors import InputError

SHARED = (
    "experiment", "host", "qp", "drake", "drake_plant", "motion", "pushing", "decay", "series", "timing", "penetration",
    "throughput", "spheres", "seven_tests", "mjx",
)  # fmt: skip
"""Modules that several experiments measure with."""
FORMAT = 2
"""Of the JSON files; raised when their meaning changes."""


@dataclasses.dataclass
class Result:
    """One experiment on one machine; the content of its JSON file.

    Attributes:
        experiment: its name
        quick: whether it was the small form, whose figures mean nothing
        seed: of every random number
        device: "cpu", "cuda:0", ...
        settings: every setting, by name
        contenders: physics and parameters of each label
        cases: labels of the cases, in order
        outcomes: label of the contender -> label of the case -> figures, series and problems, or why it cannot run
        machine: where it was measured
        versions: of everything that matters to a figure
        source: digest of the code of all physics, scenes and the experiment, but for contenders in `added`
        time: when it was begun, UTC
        seconds: wall time of all measurements
        added: label of a contender that was added later -> source, time and seconds of its own
    """

    experiment: str
    quick: bool
    seed: int
    device: str
    settings: dict[str, Any]
    contenders: dict[str, dict[str, Any]]
    cases: list[str]
    machine: dict[str, Any]
    versions: dict[str, str]
    time: str
    source: str = ""
    seconds: float = 0.0
    outcomes: dict[str, dict[str, dict[str, Any]]] = dataclasses.field(default_factory=dict)
    added: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    format: int = FORMAT

    @property
    def complete(self) -> bool:
        """Whether every contender has an outcome in every case."""
        return all(case in self.outcomes.get(label, {}) for label in self.contenders for case in self.cases)

    def source_of(self, label: str) -> str:
        """Digest of the code that a contender was measured with."""
        return str(self.added.get(label, {}).get("source", self.source))

    def has(self, label: str, case: str) -> bool:
        """Whether the contender ran that case."""
        return "figures" in self.outcomes.get(label, {}).get(case, {})

    def ran(self, case: str) -> list[str]:
        """The contenders that ran a case, in order."""
        return [label for label in self.contenders if self.has(label, case)]

    def figure(self, label: str, case: str, name: str) -> float:
        """A figure; NaN if it is not there or was not finite."""
        value = self.outcomes.get(label, {}).get(case, {}).get("figures", {}).get(name)
        return float("nan") if value is None else float(value)

    def series(self, label: str, case: str, name: str) -> NDArray[np.float64]:
        """A series, empty if it is not there."""
        values = self.outcomes.get(label, {}).get(case, {}).get("series", {}).get(name, [])
        return np.array(values, dtype=float)

    def unsupported(self, label: str) -> dict[str, str]:
        """Why the contender could not run, by case."""
        found = {case: outcome.get("unsupported") for case, outcome in self.outcomes.get(label, {}).items()}
        return {case: reason for case, reason in found.items() if reason}

    def problems(self, label: str, case: str) -> list[str]:
        """What makes the figures of a contender in a case doubtful."""
        return list(self.outcomes.get(label, {}).get(case, {}).get("problems", []))

    def save(self, path: pathlib.Path) -> pathlib.Path:
        return files.write_json(path, dataclasses.asdict(self), flat_lists=True)


def load(path: pathlib.Path) -> Result:
    """Read what `Result.save` wrote; raises InputError if it is something else."""
    try:
        content = json.loads(path.read_text())
        if content.get("format") != FORMAT:
            raise InputError(
                f"{path} has format {content.get('format')!r}, this version reads {FORMAT}: run the experiment again"
            )
        result = Result(**content)
        _check(result)
        return result
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, AttributeError, TypeError) as error:
        raise InputError(f"{path} is not a result of `stickslip bench run`: {error}") from None


def _check(result: Result) -> None:
    """Raise TypeError if a field holds something else than it should."""
    names = ("settings", "contenders", "machine", "versions", "outcomes", "added")
    kinds = {**dict.fromkeys(names, dict), "cases": list}
    for name, kind in kinds.items():
        if not isinstance(getattr(result, name), kind):
            raise TypeError(f"{name} is not a {kind.__name__}")
    if not {"device", "cores", "arch"} <= result.machine.keys():
        raise TypeError("machine does not name device, cores and arch")
    for label, cases in result.outcomes.items():
        if not isinstance(cases, dict) or not all(isinstance(outcome, dict) for outcome in cases.values()):
            raise TypeError(f"the outcomes of {label} are not figures by case")


def machine(device: str) -> dict[str, Any]:
    """Where figures were measured."""
    chosen = wp.get_device(device)
    return {
        "device": chosen.name if chosen.is_cuda else _cpu_name(),
        "cores": os.cpu_count(),
        "arch": platform.machine(),
        "system": platform.system(),
        "cuda": ".".join(map(str, wp.get_cuda_driver_version())) if chosen.is_cuda else None,
    }


def _cpu_name() -> str:
    """The processor's name as lscpu tells it (the kernel's own list has none on ARM), else the architecture."""
    try:
        told = subprocess.run(["lscpu"], capture_output=True, text=True, timeout=10, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.TimeoutExpired):
        return platform.processor() or platform.machine()
    found = [line.split(":", 1)[1].strip() for line in told.stdout.splitlines() if line.startswith("Model name:")]
    return found[0] if found else platform.machine()


def versions() -> dict[str, str]:
    """Versions of everything that matters to a figure."""
    names = ("mujoco", "mujoco-warp", "warp-lang", "numpy")
    found = {"stickslip": stickslip.__version__, "python": platform.python_version()}
    return {**found, **{name: package_version(name) for name in names}}


def package_version(name: str) -> str:
    """The version of an installed package, or "none"."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def source(experiment: type) -> str:
    """A digest of the code that a figure depends on: physics, scenes, simulation, the experiment and what it shares.

    What draws and reports does not count, so that a picture can change without a new measurement.
    """
    root = pathlib.Path(stickslip.__file__).parent
    paths = [*root.glob("physics/**/*.py"), *root.glob("scenes/**/*.py"), root / "simulation.py"]
    if experiment.__module__.startswith("stickslip.bench.plan_"):
        paths += [*root.glob("mpc/**/*.py"), root / "bench" / "planning.py", root / "bench" / "planners.py"]
    paths += [root / "bench" / f"{name}.py" for name in SHARED]
    paths.append(pathlib.Path(inspect.getfile(experiment)))
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]
