"""Scene "stiff-arm": an arm of six hinges moved to a pose by controllers of any stiffness (CENIC, Fig. 12).

Each hinge has a position servo with kp = kd = `gain`. As with the paper's controller, the arm carries its own weight
(`gravcomp`). So for any gain but the lowest the inertia hardly matters: every hinge approaches its target as exp(-t),
after a transient of some inertia / gain seconds. The motion stays slow as the gain grows, and so should the steps of a
good integrator; one that treats the servo explicitly needs ever shorter steps. MuJoCo's integrator is `implicitfast`
here, without which it diverges. The links touch the floor but not each other.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

START = (-0.8, -0.5, 1.9, 0.0, 0.6, 0.0)
"""Initial angles of the hinges [rad]."""
TARGET = (0.7, 0.5, 0.8, 0.9, 1.1, -1.0)
"""Target angles of the hinges [rad]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    gain: float = parameter(1e2, "kp of the servos [N m/rad], and kd of the same value [N m s/rad]", 1.0, 1e7)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    gain = look.rounded(p.gain)
    for servo in spec.actuators:
        servo.gainprm[0], servo.biasprm[1:3] = gain, [-gain, -gain]


SCENE = Scene(
    "stiff-arm",
    "an arm of six hinges moved to a pose by position servos of any gain: stiff control without contact",
    Parameters,
    _edit,
)
