"""What an experiment is, and what is stored with its figures: settings, machine, versions."""

import dataclasses
import datetime
import importlib.metadata
import io
import json
import os
import pathlib
import platform
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

import stickslip
from stickslip import files
from stickslip.errors import InputError
from stickslip.physics.base import Physics
from stickslip.simulation import resolve_device


@dataclasses.dataclass(frozen=True)
class Settings:
    """What every experiment is told.

    Attributes:
        physics: the physics to run, by their names in results
        device: "cpu", "cuda:0", ...
        quick: a small form that shows the experiment works; its figures mean nothing
        seed: of every random number
        report: called with one line of progress at a time
    """

    physics: dict[str, Physics[Any, Any]]
    device: str
    quick: bool
    seed: int
    report: Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One experiment.

    Attributes:
        name: on the command line and of its files
        summary: one line
        measure: gives the figures, ready for JSON
        draw: draws the figures of `measure` into a matplotlib Figure
        physics: the physics it runs by default
    """

    name: str
    summary: str
    measure: Callable[[Settings], dict[str, Any]]
    draw: Callable[[dict[str, Any]], Any]
    physics: tuple[str, ...] = ("mujoco", "comfree")


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
    names = [line.split(":", 1)[1].strip() for line in told.stdout.splitlines() if line.startswith("Model name:")]
    return names[0] if names else platform.machine()


def versions() -> dict[str, str]:
    """Versions of everything that matters to a figure."""
    names = ("mujoco", "mujoco-warp", "warp-lang", "numpy")
    found = {name: importlib.metadata.version(name) for name in names}
    return {"stickslip": stickslip.__version__, "python": platform.python_version(), **found}


def run(
    name: str,
    *,
    physics: list[str] | None = None,
    device: str | None = None,
    out: pathlib.Path,
    quick: bool = False,
    progress: bool = True,
    picture: bool = True,
    seed: int = 0,
) -> pathlib.Path:
    """Run one experiment; writes out/NAME.json and, with `picture`, out/NAME.png. Returns the path of the first."""
    from stickslip.bench import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise InputError(f"no benchmark named {name!r}; there is: {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    chosen = {}
    for key in physics or experiment.physics:
        if key not in stickslip.PHYSICS:
            raise InputError(f"no physics named {key!r}; there is: {', '.join(stickslip.PHYSICS)}")
        chosen[key] = stickslip.PHYSICS[key]()
    where = resolve_device(device).alias
    settings = Settings(chosen, where, quick, seed, print if progress else lambda line: None)
    result = {
        "experiment": name,
        "summary": experiment.summary,
        "quick": quick,
        "seed": seed,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(where),
        "versions": versions(),
        "figures": experiment.measure(settings),
    }
    path = files.write_json(pathlib.Path(out) / f"{name}.json", result)
    if picture:
        draw(path)
    return path


def draw(path: pathlib.Path) -> pathlib.Path:
    """Draw the figures stored in a JSON file of `run` into the PNG beside it."""
    from stickslip.bench import EXPERIMENTS

    try:
        result = json.loads(path.read_text())
        experiment = EXPERIMENTS[result["experiment"]]
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a result of `stickslip bench run`: {error!r}") from None
    image = io.BytesIO()
    experiment.draw(result).savefig(image, format="png", dpi=150)
    return files.write_bytes_atomic(path.with_suffix(".png"), image.getvalue())


def generator(settings: Settings) -> np.random.Generator:
    """Random numbers of an experiment, the same in every run."""
    return np.random.default_rng(settings.seed)
