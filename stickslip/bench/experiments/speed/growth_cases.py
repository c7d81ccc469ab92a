"""The cases of `growth`: curves, each a kind of scene that grows in one respect."""

import dataclasses
from typing import Literal

import mujoco

from stickslip.bench.experiments.speed import growth_scenes as scenes

Axis = Literal["worlds", "dofs", "contacts"]
HUMANOID, CHAIN, ROBOTS, SPHERES, BOXES, AMONG = (
    "humanoid",
    "chain of hinges",
    "robots",
    "spheres",
    "boxes",
    "quadruped among boxes",
)
AXES: dict[str, Axis] = {
    HUMANOID: "worlds",
    CHAIN: "dofs",
    ROBOTS: "dofs",
    SPHERES: "contacts",
    BOXES: "contacts",
    AMONG: "contacts",
}
"""What grows along each curve."""
QUADRUPED, PER_HUMANOID = 18, 33
"""Dofs of a robot."""
FEET = 4
"""Contacts of a quadruped that stands."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One point of a curve.

    Attributes:
        curve: name of the curve
        size: worlds, dofs or contacts of a world; see `AXES`
        worlds: number of worlds
    """

    curve: str
    size: int
    worlds: int

    @property
    def label(self) -> str:
        """The curve, and the size that distinguishes the case from the others in it: `boxes, 64 contacts`."""
        unit = AXES[self.curve]
        return f"{self.curve}, {self.size} {unit if self.size != 1 else unit[:-1]}"

    @property
    def model(self) -> mujoco.MjModel:
        """Its scene."""
        if self.curve == HUMANOID:
            return scenes.humanoids(1)
        if self.curve == CHAIN:
            return scenes.chain(self.size)
        if self.curve == ROBOTS:
            return scenes.quadruped() if self.size == QUADRUPED else scenes.humanoids(self.size // PER_HUMANOID)
        if self.curve == AMONG:
            return scenes.bodies("box", (self.size - FEET) // scenes.PER_BOX, robot=True)
        kind, each = ("sphere", 1) if self.curve == SPHERES else ("box", scenes.PER_BOX)
        return scenes.bodies(kind, max(1, self.size // each), high=self.size == 0)
