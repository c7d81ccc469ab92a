"""A body at rest on an infinite plane, flat or tilted: what the scenes "pushed-box" and "bunny" share.

The plane descends along +x. Without friction, contacts have condim 1: MuJoCo never uses a coefficient below 1e-5, and
that already slows a spinning body.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from stickslip.parameters import parameter
from stickslip.scenes import look

if TYPE_CHECKING:
    import mujoco


def angle() -> Any:
    """The parameter `angle`."""
    return parameter(0.0, "slope of the plane, which descends along +x [rad]", 0.0, 1.2)


def mu() -> Any:
    """The parameter `mu`."""
    return parameter(0.4, "friction coefficient; 0: frictionless contacts", 0.0, 5.0)


def set_friction(spec: mujoco.MjSpec, mu: float, *geoms: str) -> None:
    """Set the sliding friction of geoms; without any they get condim 1."""
    look.set_friction(spec, mu, *geoms)
    for name in geoms:
        spec.geom(name).condim = 3 if mu > 0 else 1


def tilt(spec: mujoco.MjSpec, angle: float, body: str, height: float) -> None:
    """Tilt the plane, and put a body onto it with its frame at a height above it [m]."""
    sine, cosine = math.sin(angle), math.cos(angle)
    look.set_extent(spec, (0.0, 0.0, height), 1.0)
    look.set_camera(spec, (0.75, -1.05, 0.65), (0.25 * cosine, 0.0, 0.08 - 0.25 * sine))
    quat = look.numbers((math.cos(0.5 * angle), 0.0, math.sin(0.5 * angle), 0.0))
    spec.geom("plane").quat = spec.body(body).quat = quat
    spec.body(body).pos = look.numbers((height * sine, 0.0, height * cosine))
