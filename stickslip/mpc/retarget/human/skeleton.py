"""A human: sizes of its body, and where its parts are over time.

The sizes are those of DeepMimic's human. x points forward, y to the left and z up, in the world and in every part.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from stickslip.mpc.retarget.motion import Array, rotated

HIP, THIGH, SHIN, SOLE, HAND = 0.084887, 0.421546, 0.40987, 0.05, 0.04
"""Half the distance of the hips, lengths of thigh and shin, height of the ankle over the sole, radius of a hand [m]."""
LEG = THIGH + SHIN + SOLE
"""From the hips to the soles, legs straight [m]."""
SIDES = {"left": 1.0, "right": -1.0}
"""Sides, and the sign of y there."""
RADII = {
    "pelvis": ((0.0, 0.0, 0.07), 0.09),
    "chest": ((0.0, 0.0, 0.12), 0.11),
    "neck": ((0.0, 0.0, 0.175), 0.1025),
    **{f"{side}_shoulder": ((0.0, 0.0, 0.0), 0.045) for side in SIDES},
    **{f"{side}_elbow": ((0.0, 0.0, 0.0), 0.04) for side in SIDES},
    **{f"{side}_hand": ((0.0, 0.0, 0.0), HAND) for side in SIDES},
    **{f"{side}_knee": ((0.0, 0.0, 0.0), 0.055) for side in SIDES},
}
"""Spheres of its body: the middle in the frame of the part, and the radius [m]."""
CORNERS = [(0.045 + x, y, -SOLE) for x in (-0.0885, 0.0885) for y in (-0.045, 0.045)]
"""Corners of the sole in the frame of the ankle [m]."""


@dataclasses.dataclass(frozen=True, eq=False)
class Human:
    """A motion of DeepMimic's human, z up, quaternions w first. Frame j is at the time j / fps.

    Attributes:
        name: name of the file
        fps: frames per second
        rotations: rotation of each joint in its parent's frame; of "pelvis" in the world        (T, 4) each
        positions: of joints and points: pelvis, chest, neck, head, hips, knees, ankles, feet (middle of the sole),
            shoulders, elbows and hands (the wrists) [m]                                          (T, 3) each
        orientations: of the bodies of all joints, of the feet (x towards the toes, z up from the sole) and of the hands
            (those of the forearms: z towards the elbow)                                          (T, 4) each
        notes: what was corrected when it was read
    """

    name: str
    fps: float
    rotations: Mapping[str, Array]
    positions: Mapping[str, Array]
    orientations: Mapping[str, Array]
    notes: tuple[str, ...] = ()

    def sole(self, foot: str) -> Array:
        """Height (T,) of the lowest corner of a foot's sole [m]."""
        ankle = foot.replace("foot", "ankle")
        place, turn = self.positions[ankle], self.orientations[ankle]
        return np.min([place[:, 2] + rotated(turn, corner)[:, 2] for corner in CORNERS], axis=0)

    def lowest(self) -> Array:
        """Height (T,) of the lowest point of the body [m]."""
        spheres = [
            self.positions[name][:, 2] + rotated(self.orientations[name], middle)[:, 2] - radius
            for name, (middle, radius) in RADII.items()
        ]
        return np.min([*spheres, *(self.sole(f"{side}_foot") for side in SIDES)], axis=0)
