"""Layers of small primitives above a block: what the scenes "drop-test" and "scaling" are made of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stickslip.scenes import look

if TYPE_CHECKING:
    import mujoco

FILE = "pile.xml"
"""The block on the floor, to which `add_layers` adds."""
PITCH = 0.07
"""Distance between neighbours in a layer and between layers [m]."""
TOP = 0.1
"""Height of the block's top face [m]."""
JITTER = 0.006
"""Largest displacement of a body from its grid point, along x and along y [m]."""

KINDS: dict[str, tuple[tuple[float, ...], str]] = {
    "cube": ((0.025, 0.025, 0.025), "blue"),
    "cylinder": ((0.025, 0.025, 0.0), "teal"),
    "ellipsoid": ((0.032, 0.026, 0.02), "sand"),
    "capsule": ((0.02, 0.015, 0.0), "coral"),
    "sphere": ((0.026, 0.0, 0.0), "plum"),
}
"""Size [m] and material of each primitive, all about 5 cm across."""


def add_layers(spec: mujoco.MjSpec, kinds: list[str], n: int) -> None:
    """Add layers of n x n primitives, one kind per layer from the bottom up, and fit block and view to them.

    The bodies are displaced from their grid by a fixed low-discrepancy sequence, so that they do not balance on one
    another and every run starts from the same state.
    """
    from mujoco import mjtGeom

    types = {
        "cube": mjtGeom.mjGEOM_BOX,
        "cylinder": mjtGeom.mjGEOM_CYLINDER,
        "ellipsoid": mjtGeom.mjGEOM_ELLIPSOID,
        "capsule": mjtGeom.mjGEOM_CAPSULE,
        "sphere": mjtGeom.mjGEOM_SPHERE,
    }
    half = 0.5 * n * PITCH + 0.04 * n + 0.06
    height = TOP + PITCH * len(kinds)
    center = (0.0, 0.0, 0.5 * height)
    reach = half + 0.4 * height
    look.set_extent(spec, center, 2.0 * reach)
    look.set_lights(spec, center, 2.5 * reach)
    eye = (1.4 * reach, -2.05 * reach, TOP + 1.35 * reach)
    look.set_camera(spec, eye, (0.1 * reach, -0.1 * reach, 0.4 * TOP + 0.2 * height))
    spec.geom("block").size = look.numbers((half, half, 0.5 * TOP), 6)
    index = 0
    for layer, kind in enumerate(kinds):
        z = TOP + PITCH * (layer + 0.6)
        size, material = KINDS[kind]
        for row in range(n):
            for column in range(n):
                index += 1
                x = (column - 0.5 * (n - 1)) * PITCH + JITTER * (2.0 * math.modf(index * 0.754877666)[0] - 1.0)
                y = (row - 0.5 * (n - 1)) * PITCH + JITTER * (2.0 * math.modf(index * 0.569840291)[0] - 1.0)
                body = spec.worldbody.add_body(name=f"{kind}_{layer}_{row}_{column}", pos=look.numbers((x, y, z)))
                body.add_freejoint()
                body.add_geom(type=types[kind], size=size, material=material)
