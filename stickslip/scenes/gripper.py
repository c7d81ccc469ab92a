"""Scene "gripper": a peg wedged between two fixed fingers stays in place as the gripper falls on the floor (CENIC,
Fig. 6 b).

Only the fit holds it: the peg is 0.02 mm wider than the gap, so each finger squeezes it by 0.01 mm. It stands upright
between fingers that stick out of a post, and touches each at the four corners of a 10 mm square. The post moves on a
vertical slide joint without a motor, and lands flat.

Peg and fingers in series have half of `stiffness` k at each corner. So each finger presses with four times k / 2 times
0.01 mm: 200 N by default. The two hold up to 2 mu of that, 400 N. The peg weighs 0.08 N, but stopping it with the post
at the impact of a fall from 0.1 m takes 260 N. The grip grows with k, the impact force with its square root: a stiffer
gripper holds by a larger margin; at 1e6 N/m it slips, if the impact is resolved. The paper has a contact patch
(hydroelastic) instead of the corners: with `modulus` E, each finger presses with E / 10 mm times 0.01 mm on the
square, 200 N for 2e9 Pa. MuJoCo's own contact does not use `user`, and there the peg creeps out at 5 mm/s.
MuJoCo Warp's `nativeccd` misses contacts of boxes that overlap so little: it is off here.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco

SQUEEZE = 1e-5
"""Depth of the peg in each finger [m]."""
POST = (0.02, 0.02, 0.1)
"""Half sizes of the post [m]."""
REACH = 0.14
"""Height of the fingers' centers above the bottom of the post [m]."""
DISSIPATION = 10.0
"""Hunt-Crossley dissipation [s/m]."""


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    stiffness: float = parameter(1e7, "stiffness of peg, fingers and post [N/m]", 1.0, 1e9)
    modulus: float = parameter(0.0, "hydroelastic modulus of these [Pa]; 0: point contact", 0.0, 1e12)
    height: float = parameter(0.1, "initial height of the post above the floor [m]", 0.0, 1.0)
    mu: float = parameter(1.0, "friction coefficient", 0.0, 5.0)
    stiction: float = parameter(1e-4, "velocity below which contacts stick [m/s]", 1e-9, 0.1)


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    top = p.height + 2.0 * POST[2]
    middle = (POST[0], 0.0, 0.5 * top)
    far = 0.12 + top
    look.set_extent(spec, middle, 2.0 * top)
    look.set_lights(spec, middle, 2.0 * top)
    look.set_camera(spec, (0.6 * far, -0.9 * far, middle[2] + 0.45 * far), middle)
    look.set_friction(spec, p.mu, "floor", "post", "left", "right", "peg")
    for name in ("post", "left", "right", "peg"):
        spec.geom(name).userdata[0] = look.rounded(p.stiffness)
        spec.geom(name).userdata[3] = look.rounded(p.modulus)
    spec.body("gripper").pos[2] = look.rounded(p.height)
    spec.body("peg").pos[2] = look.rounded(p.height + REACH, 7)
    spec.numeric("stiction_velocity").data = [look.rounded(p.stiction)]
    if p.modulus:
        look.set_buffers(spec, 128, 384)


SCENE = Scene(
    "gripper",
    "a peg wedged between two fingers, held by friction while the gripper falls on the floor",
    Parameters,
    _edit,
)
