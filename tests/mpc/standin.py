"""A checkout of MuJoCo Menagerie with stand-ins for its right Allegro and LEAP hands.

Bodies, joints, servos and the boxes that touch are where the files of Menagerie have them, by the same names. What is
only seen there is a mesh, here the same box once more; the fingertips are small meshes of our own, as long and wide.
"""

import itertools
import math
import struct
from pathlib import Path

SIDES = 8
"""Sides of the meshes."""


def write(root: Path) -> Path:
    """Write both hands below `root` and return it, for MENAGERIE_ROOT."""
    for robot, text, meshes in (("wonik_allegro", allegro(), _ALLEGRO_MESHES), ("leap_hand", leap(), _LEAP_MESHES)):
        (root / robot / "assets").mkdir(parents=True)
        (root / robot / "right_hand.xml").write_text(text)
        for name, mesh in meshes.items():
            (root / robot / "assets" / name).write_bytes(_stl(mesh) if name.endswith(".stl") else _obj(mesh))
    return root


Mesh = tuple[list[tuple[float, ...]], list[tuple[int, int, int]]]
"""Vertices, and the three of each face."""


def _solid(axis: int, rings: tuple[tuple[float, float], ...], middle: tuple[float, float]) -> Mesh:
    """A convex solid around an axis: (place along it, radius) of rings of corners, and its middle across."""
    corners, faces = [], []
    for (place, radius), side in itertools.product(rings, range(SIDES)):
        a = 2.0 * math.pi * (side + 0.5) / SIDES
        across = [middle[0] + radius * math.cos(a), middle[1] + radius * math.sin(a)]
        corners.append((*across[:axis], place, *across[axis:]))
    last = (len(rings) - 1) * SIDES
    for i in range(1, SIDES - 1):
        faces += [(0, i + 1, i), (last, last + i, last + i + 1)]
    for ring, side in itertools.product(range(len(rings) - 1), range(SIDES)):
        a, b = ring * SIDES + side, ring * SIDES + (side + 1) % SIDES
        faces += [(a, b, b + SIDES), (a, b + SIDES, a + SIDES)]
    if (axis == 1) != (rings[0][0] > rings[-1][0]):  # seen from inside
        faces = [(a, c, b) for a, b, c in faces]
    return corners, faces


def _obj(mesh: Mesh) -> bytes:
    lines = ["v {:.6f} {:.6f} {:.6f}".format(*corner) for corner in mesh[0]]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in mesh[1]]
    return "\n".join([*lines, ""]).encode()


def _stl(mesh: Mesh) -> bytes:
    faces = [struct.pack("<12fH", *(0.0,) * 3, *(x for i in face for x in mesh[0][i]), 0) for face in mesh[1]]
    return struct.pack("<80xI", len(faces)) + b"".join(faces)


# The Allegro hand: every finger the same, the thumb's joints about other axes.

_ALLEGRO_MESHES = {
    "link_3.0_tip.stl": _solid(2, ((-0.012, 0.011), (0.004, 0.011), (0.012, 0.006)), (0.0, 0.0)),
    "link_15.0_tip.stl": _solid(2, ((-0.02, 0.011), (0.004, 0.011), (0.012, 0.006)), (0.0, 0.0)),
}
_ALLEGRO_BASES = {
    "ff": ("0 0.0435 -0.001542", "0.999048 -0.0436194 0 0"),
    "mf": ("0 0 0.0007", "1 0 0 0"),
    "rf": ("0 -0.0435 -0.001542", "0.999048 0.0436194 0 0"),
    "th": ("-0.0182 0.019333 -0.045987", "0.477714 -0.521334 -0.521334 -0.477714"),
}
# body, where it is, axis and range of its joint, size and middle of its box
_ALLEGRO_FINGER = (
    ("base", "", "0 0 1", "-0.47 0.47", "0.0098 0.01375 0.0082", "0 0 0.0082"),
    ("proximal", "0 0 0.0164", "0 1 0", "-0.196 1.61", "0.0098 0.01375 0.027", "0 0 0.027"),
    ("medial", "0 0 0.054", "0 1 0", "-0.174 1.709", "0.0098 0.01375 0.0192", "0 0 0.0192"),
    ("distal", "0 0 0.0384", "0 1 0", "-0.227 1.618", "0.0098 0.01375 0.008", "0 0 0.008"),
)
_ALLEGRO_THUMB = (
    ("base", "", "-1 0 0", "0.263 1.396", "0.0179 0.017 0.02275", "-0.0179 0.009 0.0145"),
    ("proximal", "-0.027 0.005 0.0399", "0 0 1", "-0.105 1.163", "0.0098 0.01375 0.00885", "0 0 0.00885"),
    ("medial", "0 0 0.0177", "0 1 0", "-0.189 1.644", "0.0098 0.01375 0.0257", "0 0 0.0257"),
    ("distal", "0 0 0.0514", "0 1 0", "-0.162 1.719", "0.0098 0.01375 0.0157", "0 0 0.0157"),
)


def allegro() -> str:
    """The right hand of `wonik_allegro`."""
    fingers = servos = ""
    for finger, (base, quat) in _ALLEGRO_BASES.items():
        links = _ALLEGRO_THUMB if finger == "th" else _ALLEGRO_FINGER
        tip = "thumbtip" if finger == "th" else "fingertip"
        text = f'<body name="{finger}_tip"><geom class="{tip}_visual"/><geom class="{tip}_collision"/></body>\n'
        for i, (body, pos, axis, limits, size, middle) in reversed(list(enumerate(links))):
            where = f'pos="{pos}"' if pos else f'pos="{base}" quat="{quat}"'
            text = (
                f'<body name="{finger}_{body}" {where}>\n'
                f'<joint name="{finger}j{i}" axis="{axis}" range="{limits}"/>\n'
                f'<geom class="visual" type="box" size="{size}" pos="{middle}"/>'
                f'<geom class="collision" size="{size}" pos="{middle}"/>\n{text}</body>\n'
            )
        fingers += text
        for i, link in enumerate(links):
            servos += (
                f'<position name="{finger}a{i}" joint="{finger}j{i}" class="allegro_right" ctrlrange="{link[3]}"/>\n'
            )
    apart = "".join(f'<exclude body1="palm" body2="{f}_base"/>' for f in _ALLEGRO_BASES)
    palm = 'type="box" size="0.0204 0.0565 0.0475" pos="-0.0093 0 -0.0475"'
    return f"""\
<mujoco model="allegro_right">
  <compiler angle="radian" meshdir="assets" autolimits="true"/>
  <default>
    <default class="allegro_right">
      <joint damping="1"/><position kp="10"/><geom density="800"/>
      <default class="visual">
        <geom type="mesh" contype="0" conaffinity="0" group="2" material="black"/>
        <default class="fingertip_visual"><geom pos="0 0 0.0267" material="white" mesh="link_3.0_tip"/></default>
        <default class="thumbtip_visual"><geom pos="0 0 0.0423" material="white" mesh="link_15.0_tip"/></default>
      </default>
      <default class="collision">
        <geom group="3" type="box" mass="0"/>
        <default class="fingertip_collision"><geom type="capsule" size="0.012 0.01" pos="0 0 0.019"/></default>
        <default class="thumbtip_collision"><geom type="capsule" size="0.012 0.008" pos="0 0 0.035"/></default>
      </default>
    </default>
  </default>
  <asset>
    <material name="black" rgba="0.2 0.2 0.2 1"/>
    <material name="white" rgba="0.9 0.9 0.9 1"/>
    <mesh file="link_3.0_tip.stl"/>
    <mesh file="link_15.0_tip.stl"/>
  </asset>
  <worldbody>
    <body name="palm" quat="0 1 0 1" childclass="allegro_right">
      <geom class="visual" {palm}/><geom class="collision" {palm}/>
{fingers}
    </body>
  </worldbody>
  <contact>{apart}<exclude body1="palm" body2="th_proximal"/></contact>
  <actuator>
{servos}  </actuator>
</mujoco>
"""


# The LEAP hand. Boxes are (size, middle[, quat]).

_LEAP_MESHES = {
    "tip.obj": _solid(1, ((-0.0198, 0.0108), (-0.043, 0.0108), (-0.050, 0.006)), (-0.0008, 0.0145)),
    "thumb_tip.obj": _solid(1, ((-0.0318, 0.0108), (-0.055, 0.0108), (-0.062, 0.006)), (-0.0008, -0.0145)),
}
_LEAP_PALM = (
    ("0.011 0.013 0.017", "-0.009 0.008 -0.011"),
    ("0.011 0.013 0.017", "-0.009 -0.037 -0.011"),
    ("0.011 0.013 0.017", "-0.009 -0.082 -0.011"),
    ("0.029 0.01 0.023", "-0.066 -0.078 -0.0115", "0.989016 0 0 -0.147806"),
    ("0.01 0.06 0.015", "-0.03 -0.035 -0.003"),
    ("0.005 0.06 0.01", "-0.032 -0.035 -0.024", "0.923956 0 0.382499 0"),
    ("0.012 0.058 0.023", "-0.048 -0.033 -0.0115"),
    ("0.022 0.026 0.023", "-0.078 -0.053 -0.0115"),
    ("0.002 0.018 0.017", "-0.098 -0.009 -0.006"),
    ("0.022 0.028 0.002", "-0.078 -0.003 0.01"),
)
_LEAP_BASES = {"if": "-0.007 0.023 -0.0187", "mf": "-0.0071 -0.0224 -0.0187", "rf": "-0.00709 -0.0678 -0.0187"}
# body, joint, where it is, its quat, range, mass and its middle, boxes
_LEAP_FINGER = (
    (
        ("bs", "mcp", "", "0.500003 0.5 0.5 -0.499997", "-0.314 2.23", 0.044, "-0.022516 0.033882 0.016359"),
        (
            ("0.01 0.003 0.017", "0 0.018 0.0147"),
            ("0.014 0.02 0.01", "-0.027 0.042 0.015"),
            ("0.017 0.003 0.01", "-0.0262 0.02 0.0146"),
            ("0.01 0.012 0.004", "-0.0295 0.035 0.029"),
            ("0.007 0.01 0.002", "0 0.005 0.03"),
            ("0.007 0.01 0.002", "0 0.005 -0.001"),
        ),
    ),
    (
        (
            *("px", "rot", "-0.0122 0.0381 0.0145", "0.500003 -0.5 -0.499997 0.5", "-1.047 1.047"),
            *(0.032, "0.0075 -0.0002 -0.011"),
        ),
        (("0.017 0.013 0.011", "0.0075 -0.0002 -0.011"),),
    ),
    (
        (
            *("md", "pip", "0.015 0.0143 -0.013", "0.500003 0.5 -0.5 0.499997", "-0.506 1.885"),
            *(0.037, "0.0054215 -0.029148 0.015"),
        ),
        (
            ("0.008 0.003 0.013", "0 -0.02 0.015"),
            ("0.01 0.002 0.017", "0 -0.016 0.015"),
            ("0.007 0.01 0.002", "0 -0.0045 0.03"),
            ("0.007 0.01 0.002", "0 -0.0045 0"),
            ("0.017 0.011 0.013", "0.0075 -0.035 0.015"),
        ),
    ),
    (
        ("ds", "dip", "0 -0.0361 0.0002", "1 0 0 0", "-0.366 2.042", 0.016, "-0.0008794 -0.027019 0.014594"),
        (
            ("0.01 0.003 0.015", "0 -0.017 0.015"),
            ("0.007 0.011 0.002", "0 -0.006 0.03"),
            ("0.007 0.011 0.002", "0 -0.006 -0.001"),
        ),
    ),
)
_LEAP_THUMB = (
    (
        (
            *("mp", "cmc", "-0.0693 -0.0012 -0.0216", "0.707109 0 0.707105 0", "-0.349 2.094"),
            *(0.032, "0.0075 -0.0002 -0.011"),
        ),
        (("0.017 0.013 0.011", "-0.0075 -0.0002 -0.011"),),
    ),
    (
        ("bs", "axl", "0 0.0143 -0.013", "0.500003 0.5 -0.5 0.499997", "-0.349 2.094", 0.003, "0 0 -0.0070806"),
        (
            ("0.009 0.0165 0.002", "0 0 -0.0015"),
            ("0.007 0.002 0.01", "0 -0.015 -0.013"),
            ("0.007 0.002 0.01", "0 0.015 -0.013"),
        ),
    ),
    (
        (
            *("px", "mcp", "0 0.0145 -0.017", "0.707109 -0.707105 0 0", "-0.47 2.443"),
            *(0.038, "-0.0020593 0.015912 -0.013733"),
        ),
        (
            ("0.01 0.02 0.012", "0 0.0105 -0.014"),
            ("0.01 0.002 0.016", "0 0.031 -0.015"),
            ("0.007 0.01 0.002", "0 0.042 0.001"),
            ("0.007 0.01 0.002", "0 0.042 -0.029"),
            ("0.005 0.012 0.009", "-0.0135 0.0175 -0.011656"),
        ),
    ),
    (
        ("ds", "ipl", "0 0.0466 0.0002", "1.32679e-06 0 0 1", "-1.34 1.88", 0.049, "0.00096191 -0.024203 -0.014419"),
        (
            ("0.01 0.018 0.012", "0 -0.0085 -0.015"),
            ("0.01 0.002 0.015", "0 -0.029 -0.014"),
            ("0.004 0.012 0.009", "0.015 -0.0175 -0.0115"),
        ),
    ),
)


def _boxes(boxes: tuple[tuple[str, ...], ...]) -> str:
    text = ""
    for size, pos, *quat in boxes:
        turned = f' quat="{quat[0]}"' if quat else ""
        shape = f'type="box" size="{size}" pos="{pos}"{turned}'
        text += f'<geom class="visual" {shape}/>\n<geom class="collision" {shape}/>\n'
    return text


def leap() -> str:
    """The right hand of `leap_hand`."""
    fingers = servos = sensors = ""
    for finger in (*_LEAP_BASES, "th"):
        links = _LEAP_THUMB if finger == "th" else _LEAP_FINGER
        kind = "thumb_tip" if finger == "th" else "tip"
        text = f'<geom name="{finger}_tip" type="mesh" mesh="{kind}" friction="0.5" material="white"/>\n'
        for (body, joint, pos, quat, limits, mass, middle), boxes in reversed(links):
            text = (
                f'<body name="{finger}_{body}" pos="{pos or _LEAP_BASES[finger]}" quat="{quat}">\n'
                f'<inertial pos="{middle}" mass="{mass}" diaginertia="{" ".join([f"{2e-4 * mass:.3g}"] * 3)}"/>\n'
                f'<joint name="{finger}_{joint}" axis="0 0 -1" range="{limits}"/>\n{_boxes(boxes)}{text}</body>\n'
            )
        fingers += text
        for (_, joint, _, _, limits, _, _), _ in links:
            servos += f'<position name="{finger}_{joint}_act" joint="{finger}_{joint}" ctrlrange="{limits}"/>\n'
            sensors += f'<jointpos name="{finger}_{joint}_sensor" joint="{finger}_{joint}"/>\n'
    apart = [("palm", f"{f}_{body}") for f in _LEAP_BASES for body in ("bs", "px", "md")]
    apart += [("palm", f"th_{body}") for body in ("mp", "bs", "px")]
    apart += list(itertools.combinations([*(f"{f}_bs" for f in _LEAP_BASES), "th_mp"], 2))
    excludes = "".join(f'<exclude body1="{a}" body2="{b}"/>\n' for a, b in apart)
    return f"""\
<mujoco model="leap_rh">
  <compiler angle="radian" meshdir="./assets/"/>
  <option integrator="implicitfast" cone="elliptic" impratio="100"/>
  <asset>
    <material name="black" rgba="0.2 0.2 0.2 1"/>
    <material name="white" rgba="1 1 1 1"/>
    <mesh name="tip" file="tip.obj"/>
    <mesh name="thumb_tip" file="thumb_tip.obj"/>
  </asset>
  <default>
    <geom solimp="0.999 0.999 0.001 0.0001 1" solref="0.0001 1" friction=".2"/>
    <position kp="3" kv="0.01"/>
    <joint damping="0.03" frictionloss="0.001"/>
    <default class="visual"><geom group="1" contype="0" conaffinity="0" density="0" material="black"/></default>
    <default class="collision"><geom material="black"/></default>
  </default>
  <contact>
{excludes}  </contact>
  <actuator>
{servos}  </actuator>
  <sensor>
{sensors}  </sensor>
  <worldbody>
    <body name="palm" pos="0 0 0.1" quat="0 1 0 0">
      <inertial pos="-0.049542 -0.042914 -0.010227" mass="0.237" diaginertia="4e-4 3e-4 2e-4"/>
{_boxes(_LEAP_PALM)}{fingers}
    </body>
  </worldbody>
</mujoco>
"""
