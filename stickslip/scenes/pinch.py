"""Scene "pinch": a capsule held in the air by friction alone, between two vertical pads that press with a given force.

The capsule lies horizontally, parallel to the pads: each pad touches it at both ends of its straight part. The four
contacts are at the height of its center, so it neither swings nor tips; they only have to carry its weight. Each pad
must press with at least m g / (2 mu). The pads move on slide joints towards each other and touch it at the start;
motors push them with a constant force. The slides are damped, so that the grasp does not drift along them. The capsule
starts at the origin, where single precision resolves the slowest creep; the floor is below.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

PAD = (0.045, 0.01, 0.08)
"""Half sizes of a pad [m]; the capsule starts at the middle of its height."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    mass: float = parameter(0.3, "mass of the capsule [kg]", 0.001, 10.0)
    mu: float = parameter(1.0, "friction coefficient", 0.01, 5.0)
    force: float = parameter(3.0, "force of each pad [N]", 0.0, 1000.0)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    look.set_friction(spec, p.mu, "left", "right", "capsule")
    spec.geom("capsule").mass = look.rounded(p.mass)
    spec.key("home").ctrl = [look.rounded(p.force)] * 2


SCENE = Scene("pinch", "a capsule held between two pads by friction alone: creep of a grasp", Parameters, _edit)
