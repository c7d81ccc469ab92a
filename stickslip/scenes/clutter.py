"""Scenes "soft-clutter" and "hard-clutter": twenty bodies fall into a bin (CENIC, Fig. 6 d and e).

Four piles of five. Every body is compliant and the bin is rigid: a body against the bin has the stiffness given, two
bodies against each other half of it. A cube touches by 26 small spheres in its surface, and its faces touch spheres;
two faces never meet, so that the number of contact points is smooth in its pose. With `plain=1` it is a box and
nothing else.
"""

from __future__ import annotations

import math

from stickslip.scenes import look
from stickslip.scenes.scene import Parameter, Scene

RADIUS = 0.05
"""Radius of a sphere and half of a cube's side [m]."""
BEAD = 1.0 / 60.0
"""Radius of the spheres in a cube's surface [m]."""
BIN = 0.4
"""Half of the bin's inner width [m]."""
WALL = 0.04
"""Thickness of its walls [m]."""
HEIGHT = 0.8
"""Height of its walls [m]."""
DISSIPATION = 10.0
"""Hunt and Crossley's dissipation [s/m]."""

# who touches whom: bodies touch all, the faces of cubes touch bodies only
_BODY = 'contype="1" conaffinity="5"'
_FACE = 'contype="2" conaffinity="1"'
_BIN = 'contype="4" conaffinity="8"'


def _spread(index: int, dimension: int) -> float:
    """A number in [0, 1): the same every time, and evenly spread."""
    return math.modf(0.5 + (index + 1) * (0.8191725134, 0.6710436067, 0.5497004779, 0.4503062340)[dimension])[0]


def _turn(index: int) -> str:
    """A quaternion, evenly spread over all of them."""
    u, v, w = (_spread(index, k) for k in range(3))
    a, b = math.sqrt(1.0 - u), math.sqrt(u)
    return look.numbers(
        (
            a * math.sin(2.0 * math.pi * v),
            a * math.cos(2.0 * math.pi * v),
            b * math.sin(2.0 * math.pi * w),
            b * math.cos(2.0 * math.pi * w),
        )
    )


def _cube(user: str, plain: bool, color: str) -> str:
    if plain:
        return f'<geom type="box" size="{RADIUS} {RADIUS} {RADIUS}" {_BODY} user="{user}" material="{color}"/>'
    text = f'<geom type="box" size="{RADIUS} {RADIUS} {RADIUS}" {_FACE} user="{user}" material="{color}"/>'
    steps = (-(RADIUS - BEAD), 0.0, RADIUS - BEAD)
    for x in steps:
        for y in steps:
            for z in steps:
                if (x, y, z) != (0.0, 0.0, 0.0):
                    pos = look.numbers((x, y, z))
                    text += (
                        f'<geom type="sphere" size="{BEAD:.9g}" pos="{pos}" mass="0" {_BODY} user="{user}" group="3"/>'
                    )
    return text


def _content(
    cubes: bool, stiction: float, stiffness: float, layers: int, plain: int = 0, timeconst: float = 0.02
) -> str:
    user = f"{stiffness:.9g} {DISSIPATION:g}"
    half = BIN + 0.5 * WALL
    world = look.lights((0.0, 0.0, 0.2), 1.6) + look.camera((1.15, -1.5, 1.75), (0.0, 0.0, 0.12))
    world += f'    <geom name="floor" type="plane" size="0 0 0.5" material="floor" {_BIN} friction="0.5"/>\n'
    for name, x, y in (("east", half, 0.0), ("west", -half, 0.0), ("north", 0.0, half), ("south", 0.0, -half)):
        across = (0.5 * WALL, BIN + WALL, 0.5 * HEIGHT) if x else (BIN + WALL, 0.5 * WALL, 0.5 * HEIGHT)
        world += (
            f'    <geom name="{name}" type="box" size="{look.numbers(across)}" pos="{x:g} {y:g} {0.5 * HEIGHT:g}"'
            f' rgba="0.66 0.68 0.70 0.25" {_BIN} friction="0.5"/>\n'
        )
    index = 0
    for layer in range(layers):
        for column, (x, y) in enumerate(((0.2, 0.2), (-0.2, 0.2), (-0.2, -0.2), (0.2, -0.2))):
            jitter = [0.002 * (_spread(index, k) - 0.5) for k in (2, 3)]
            pos = look.numbers((x + jitter[0], y + jitter[1], 0.075 + 0.15 * layer))
            cube = cubes and (layer + column) % 2 == 0
            color = ("blue", "teal", "sand", "coral", "plum")[layer % 5]
            geom = (
                _cube(user, bool(plain), color)
                if cube
                else (f'<geom type="sphere" size="{RADIUS}" {_BODY} user="{user}" material="{color}"/>')
            )
            world += (
                f'    <body name="{"cube" if cube else "sphere"}_{layer}_{column}" pos="{pos}" quat="{_turn(index)}">'
                f"<freejoint/>{geom}</body>\n"
            )
            index += 1
    return (
        look.statistic((0.0, 0.0, 0.3), 1.6)
        + '  <size nuser_geom="2"/>\n  <default>'
        + f'<geom density="1000" friction="0.5" solref="{timeconst:.9g} 1"/></default>\n'
        + f'  <custom><numeric name="stiction_velocity" data="{stiction:g}"/></custom>\n'
        + "  <worldbody>\n"
        + world
        + "  </worldbody>\n"
        + '  <keyframe><key name="home"/></keyframe>\n'
    )


def _soft(stiffness: float, layers: int) -> str:
    return _content(False, 0.01, stiffness, layers)


def _hard(stiffness: float, layers: int, plain: int, timeconst: float) -> str:
    return _content(True, 1e-4, stiffness, layers, plain, timeconst)


_LAYERS = Parameter("layers", 5, 1, 40, "bodies in each of the four piles")

SOFT = Scene(
    name="soft-clutter",
    summary="twenty soft spheres fall into a bin: many dofs, gentle contact",
    content=_soft,
    nconmax=lambda stiffness, layers: 40 * layers,
    njmax=lambda stiffness, layers: 120 * layers,
    parameters=(Parameter("stiffness", 1e3, 1.0, 1e9, "stiffness of a body [N/m]"), _LAYERS),
)

HARD = Scene(
    name="hard-clutter",
    summary="ten spheres and ten cubes, hard and rough, fall into a bin: many contacts that stick and slip",
    content=_hard,
    nconmax=lambda stiffness, layers, plain, timeconst: 120 * layers,
    njmax=lambda stiffness, layers, plain, timeconst: 360 * layers,
    parameters=(
        Parameter("stiffness", 1e5, 1.0, 1e9, "stiffness of a body [N/m]"),
        _LAYERS,
        Parameter("plain", 0, 0, 1, "1: cubes are boxes, without spheres in their surface"),
        Parameter("timeconst", 0.02, 1e-4, 1.0, "of MuJoCo's solref, for physics that know no stiffness [s]"),
    ),
)
