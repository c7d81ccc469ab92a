"""Scenes, levels and settings of `work-precision`."""

import dataclasses
import re

import numpy as np

from stickslip.errors import InputError
from stickslip.parameters import parameter

GRAMMAR = re.compile(r"(?P<scene>\S+) for (?P<duration>\S+) compared at (?P<early>\S+)")
PAPER = "hard-clutter for 10 compared at 0.3"
"""The scene of the paper's tables."""


@dataclasses.dataclass(frozen=True)
class Settings:
    scenes: tuple[str, ...] = parameter(
        (
            "hard-clutter:timeconst=0.005 for 10 compared at 0.3",
            "hard-clutter:stiffness=1e6,timeconst=0.004 for 10 compared at 0.3",
        ),
        "what is run: SCENE for SECONDS compared at SECONDS; the first is scored",
    )
    timesteps: tuple[float, ...] = parameter(
        (0.002, 0.001), "length of a step at each level, of fixed steps [s]", low=1e-5, high=0.1
    )
    accuracies: tuple[float, ...] = parameter(
        (3e-3, 1e-3), "accuracy at each level, under error control", low=1e-9, high=1.0
    )
    interval: float = parameter(0.1, "time between reports under error control [s]", low=1e-3, high=1.0)
    stretch: float = parameter(
        1.0, "simulated time that is timed at once, with no looks in it [s]", low=1e-4, high=10.0
    )
    sample: float = parameter(0.1, "time between looks at the contacts, timed or not [s]", low=1e-4, high=1.0)
    reference_timestep: float = parameter(2e-4, "length of a step in the reference run [s]", low=1e-6, high=0.1)
    reference_accuracy: float = parameter(1e-4, "accuracy of the reference run", low=1e-10, high=1.0)
    trace: float = parameter(3.0, "simulated time over which steps are drawn [s]", low=0.01, high=100.0)
    worlds: int = parameter(1024, "worlds; one on a CPU", low=1, high=1 << 20)
    noise: float = parameter(1e-3, "standard deviation of velocities at the start [m/s, rad/s]", low=0.0, high=10.0)
    repeats: int = parameter(1, "runs, of which the fastest of each stretch counts", low=1, high=100)


@dataclasses.dataclass(frozen=True)
class Scene:
    """What is run, for how long, and when positions are compared [s]."""

    name: str
    duration: float
    early: float


@dataclasses.dataclass(frozen=True)
class Case:
    """A scene at one level; `traced` where the steps are drawn."""

    scene: Scene
    timestep: float
    accuracy: float
    traced: bool


def parse(text: str) -> Scene:
    """The scene that a text such as `hard-clutter for 10 compared at 0.3` means."""
    found = GRAMMAR.fullmatch(text)
    try:
        scene = Scene(found["scene"], float(found["duration"]), float(found["early"])) if found else None
    except ValueError:
        scene = None
    if scene is None or not 0.0 < scene.early <= scene.duration < np.inf:
        raise InputError(f"scenes has {text!r}: write SCENE for SECONDS compared at SECONDS, the latter no longer")
    return scene


def power(accuracy: float) -> str:
    """An accuracy as it is printed: 1e-3."""
    mantissa, exponent = f"{accuracy:.6e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def level(timestep: float, accuracy: float) -> str:
    """Both sides of a level as they are printed: `5 ms or 1e-3`."""
    return f"{1e3 * timestep:g} ms or {power(accuracy)}"
