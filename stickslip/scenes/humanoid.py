"""Scene "humanoid": a walker of 1.45 m and 39 kg that has every kind of MuJoCo constraint.

It has contacts of feet and body; limits of hinges, of a ball joint (neck) and of tendons; dry friction of joints and
tendons; and the equality constraints connect (a four-bar linkage on its back), weld (the backpack), joint (the two
halves of the spine bend together) and tendon (the arms swing in opposition).
"""

from __future__ import annotations

from stickslip.scenes.scene import Scene

SCENE = Scene(
    "humanoid", "a 39 kg walker with limits, tendons, dry friction and all four kinds of equality constraints"
)
