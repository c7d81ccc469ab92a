"""Scene "drop-test": arrays of five kinds of primitives dropped onto a block."""

from __future__ import annotations

from stickslip.scenes import pile
from stickslip.scenes.scene import Parameter, Scene


def _content(n: int, layers: int) -> str:
    kinds = list(pile.KINDS)
    return pile.content([kinds[layer % len(kinds)] for layer in range(layers)], n)


def _nconmax(n: int, layers: int) -> int:
    # Cubes and cylinders rest on four points each, the layers above on fewer. The most C MuJoCo sees in the fall:
    # 340 contacts at n=5, layers=5; 100 at n=5, layers=1; 72 at n=3, layers=2; 205 at n=3, layers=10.
    return 16 + n * n * (6 * min(layers, 2) + 4 * max(layers - 2, 0))


def _njmax(n: int, layers: int) -> int:
    # A contact with condim 3 and a pyramidal cone has four rows.
    return 4 * _nconmax(n, layers)


SCENE = Scene(
    name="drop-test",
    summary="layers of n x n cubes, cylinders, ellipsoids, capsules and spheres of about 5 cm dropped onto a block",
    content=_content,
    nconmax=_nconmax,
    njmax=_njmax,
    parameters=(
        Parameter("n", 5, 1, 12, "bodies along each side of a layer"),
        Parameter(
            "layers", 5, 1, 10, "layers, one kind each: cubes, cylinders, ellipsoids, capsules, spheres, cubes..."
        ),
    ),
)
