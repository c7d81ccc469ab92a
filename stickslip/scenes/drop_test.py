"""Scene "drop-test": arrays of five kinds of primitives dropped onto a block."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stickslip.parameters import checked, parameter
from stickslip.scenes import look, pile
from stickslip.scenes.scene import Scene

if TYPE_CHECKING:
    import mujoco


@checked
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Of the scene."""

    n: int = parameter(5, "bodies along each side of a layer", 1, 12)
    layers: int = parameter(
        5, "layers, of one kind each: cubes, cylinders, ellipsoids, capsules, spheres, cubes, ...", 1, 10
    )


def _edit(spec: mujoco.MjSpec, p: Parameters) -> None:
    kinds = list(pile.KINDS)
    pile.add_layers(spec, [kinds[layer % len(kinds)] for layer in range(p.layers)], p.n)
    # Cubes and cylinders rest on four points each, the layers above on fewer. The most that MuJoCo in C finds:
    # 340 contacts at n=5, layers=5; 100 at n=5, layers=1; 72 at n=3, layers=2; 205 at n=3, layers=10.
    nconmax = 16 + p.n * p.n * (6 * min(p.layers, 2) + 4 * max(p.layers - 2, 0))
    look.set_buffers(spec, nconmax, 4 * nconmax)  # a contact with condim 3 and a pyramidal cone has four rows


SCENE = Scene(
    "drop-test",
    "layers of n x n cubes, cylinders, ellipsoids, capsules and spheres of about 5 cm dropped onto a block",
    Parameters,
    _edit,
    file=pile.FILE,
)
