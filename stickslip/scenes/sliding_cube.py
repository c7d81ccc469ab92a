"""Scene "sliding-cube": a cube thrown flat over a plane, which lands, slides and comes to rest."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

HALF = 0.05
"""Half of the cube's side [m]."""
GAP = 0.005
"""Initial height of the cube's bottom face above the plane [m]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    mu: float = parameter(0.3, "friction coefficient between cube and plane", 0.0, 5.0)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    look.set_friction(spec, p.mu, "floor", "cube")


SCENE = Scene("sliding-cube", "a cube thrown flat over a plane at 2 m/s: impact, sliding, rest", Parameters, _edit)
