"""Layers of small primitives above a block: what the scenes "drop-test" and "scaling" are made of."""

from __future__ import annotations

import math

from stickslip.scenes import look

PITCH = 0.07
"""Distance between neighbours in a layer and between layers [m]."""
TOP = 0.1
"""Height of the block's upper face [m]."""
JITTER = 0.006
"""Largest shift of a body from its grid point, along x and along y [m]."""

KINDS: dict[str, str] = {
    "cube": 'type="box" size="0.025 0.025 0.025" material="blue"',
    "cylinder": 'type="cylinder" size="0.025 0.025" material="teal"',
    "ellipsoid": 'type="ellipsoid" size="0.032 0.026 0.02" material="sand"',
    "capsule": 'type="capsule" size="0.02 0.015" material="coral"',
    "sphere": 'type="sphere" size="0.026" material="plum"',
}
"""Geom attributes of each primitive, all about 5 cm across."""


def content(kinds: list[str], n: int) -> str:
    """MJCF of n x n primitives a layer, one kind a layer from the bottom up, above a block on the floor.

    The bodies are shifted off their grid by a fixed low-discrepancy sequence, so they do not balance on one another
    and every run starts from the same state.
    """
    half = 0.5 * n * PITCH + 0.04 * n + 0.06
    height = TOP + PITCH * len(kinds)
    center = (0.0, 0.0, 0.5 * height)
    reach = half + 0.4 * height
    eye = (1.4 * reach, -2.05 * reach, TOP + 1.35 * reach)
    world = (
        look.lights(center, 2.5 * reach)
        + look.camera(eye, (0.1 * reach, -0.1 * reach, 0.4 * TOP + 0.2 * height))
        + look.FLOOR
    )
    world += (
        f'    <geom name="block" type="box" size="{half:g} {half:g} {0.5 * TOP:g}" pos="0 0 {0.5 * TOP:g}"'
        ' material="slate"/>\n'
    )
    index = 0
    for layer, kind in enumerate(kinds):
        z = TOP + PITCH * (layer + 0.6)
        for row in range(n):
            for column in range(n):
                index += 1
                x = (column - 0.5 * (n - 1)) * PITCH + JITTER * (2.0 * math.modf(index * 0.754877666)[0] - 1.0)
                y = (row - 0.5 * (n - 1)) * PITCH + JITTER * (2.0 * math.modf(index * 0.569840291)[0] - 1.0)
                world += (
                    f'    <body name="{kind}_{layer}_{row}_{column}" pos="{look.numbers((x, y, z))}">'
                    f"<freejoint/><geom {KINDS[kind]}/></body>\n"
                )
    return (
        look.statistic(center, 2.0 * reach)
        + "  <worldbody>\n"
        + world
        + "  </worldbody>\n"
        + '  <keyframe><key name="home"/></keyframe>\n'
    )
