"""Scene "edge-grip": a hand with two soft round fingertips holds a plate by its edge.

The plate's center is 50 mm from the fingertips. Only friction about the normal holds it up: a contact patch of radius c
carries 2 mu N 8/15 c, three times what is needed by default. A point contact carries nothing (condim 3), and the plate
swings down. A servo moves the hand up and down: the first control is its height [m], the others are forces of the
fingers [N].
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

RADIUS = 0.015
"""Radius of a fingertip [m]."""
OFFSET = 0.05
"""Distance from the fingertips to the center of the plate [m]."""
MASS = 0.1
"""Mass of the plate [kg]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    force: float = parameter(20.0, "force of each finger [N]", 0.0, 1000.0)
    mu: float = parameter(1.0, "friction coefficient", 0.01, 5.0)
    modulus: float = parameter(2e6, "hydroelastic modulus of the fingertips [Pa]; 0: point contact", 0.0, 1e12)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    look.set_friction(spec, p.mu, "left", "right", "plate")
    for name in ("left", "right"):
        spec.geom(name).userdata[3] = look.rounded(p.modulus)
    spec.key("home").ctrl = [0.0, *[look.rounded(p.force)] * 2]


SCENE = Scene(
    "edge-grip",
    "a hand with two soft fingertips that holds a plate by its edge: points let it swing, patches hold it",
    Parameters,
    _edit,
)
