"""Objects to manipulate, made of primitives. Each stands on z = 0 with its center `height` above it.

The MJCF files of tasks have bodies for the object and its goal, with default classes of the same names; `place` gives
them the shape of an object.
"""

import dataclasses
import functools
import math

import mujoco
import numpy as np

from stickslip.mpc.success import OBJECT, Array
from stickslip.mpc.task import GOAL
from stickslip.scenes import look, mesh
from stickslip.scenes.mesh import Mesh

MASS = 0.01
"""Mass of every object [kg]: as light as foam, so that fingertips that push with 0.5 N can hold it."""


BUNNY = "bunny"
"""The object that is a mesh; it comes with Warp's examples and needs usd-core to be read (extra `bench`)."""
BUNNY_SIZE = 0.09
"""Its longest side [m]."""
_TYPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "ellipsoid": mujoco.mjtGeom.mjGEOM_ELLIPSOID,
    "mesh": mujoco.mjtGeom.mjGEOM_MESH,
}


@dataclasses.dataclass(frozen=True)
class Part:
    """A primitive: MuJoCo's type and size, position [m], intrinsic rotations about x, y, z [rad]."""

    type: str
    size: tuple[float, ...]
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    euler: tuple[float, float, float] = (0.0, 0.0, 0.0)
    material: str = "sand"
    corners: Array | None = dataclasses.field(default=None, compare=False, repr=False)
    """Vertices of a mesh in the object's frame [m]  (n, 3)."""

    def depth(self, down: Array) -> float:
        """Extent from the object's center along a unit vector `down` in the object's frame [m]."""
        if self.corners is not None:
            return float((self.corners @ down).max())
        turned = np.zeros(9)
        quat = np.zeros(4)
        mujoco.mju_euler2Quat(quat, np.array(self.euler), "xyz")
        mujoco.mju_quat2Mat(turned, quat)
        own = turned.reshape(3, 3).T @ down
        s, along = self.size, abs(own[2])
        if self.type == "sphere":
            reach = s[0]
        elif self.type == "capsule":
            reach = s[0] + s[1] * along
        elif self.type == "cylinder":
            reach = s[0] * math.sqrt(max(0.0, 1.0 - along**2)) + s[1] * along
        elif self.type == "ellipsoid":
            reach = float(np.linalg.norm(own * s))
        else:
            reach = float(np.abs(own) @ s)
        return float(down @ self.pos) + reach

    def volume(self) -> float:
        """Volume [m^3]; overlap with other parts is not subtracted."""
        s = self.size
        if self.corners is not None:
            return 0.0
        if self.type == "box":
            return 8.0 * s[0] * s[1] * s[2]
        if self.type == "sphere":
            return 4.0 / 3.0 * math.pi * s[0] ** 3
        if self.type == "ellipsoid":
            return 4.0 / 3.0 * math.pi * s[0] * s[1] * s[2]
        round_ends = 4.0 / 3.0 * math.pi * s[0] ** 3 if self.type == "capsule" else 0.0
        return math.pi * s[0] ** 2 * 2.0 * s[1] + round_ends


@dataclasses.dataclass(frozen=True)
class Thing:
    """An object: its parts, and the height of its center when it stands [m]."""

    height: float
    parts: tuple[Part, ...]
    mass: float = MASS
    mesh: Mesh | None = None
    """The mesh of a part that is one."""

    def depth(self, quat: Array) -> float:
        """Distance from its center down to its lowest point in the orientation `quat` (4,) [m]."""
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, quat)
        return max(part.depth(-matrix[6:]) for part in self.parts)

    def scaled(self, by: float) -> "Thing":
        """The same object, larger or smaller."""
        parts = tuple(
            dataclasses.replace(p, size=tuple(by * s for s in p.size), pos=tuple(by * x for x in p.pos))  # type: ignore[arg-type]
            for p in self.parts
        )
        return Thing(by * self.height, parts, self.mass)


def ring(radius: float, thickness: float, n: int, material: str) -> tuple[Part, ...]:
    """A flat ring of capsules."""
    half = radius * math.sin(math.pi / n)
    middle = radius * math.cos(math.pi / n)
    parts = []
    for i in range(n):
        a = 2.0 * math.pi * (i + 0.5) / n
        where = (middle * math.cos(a), middle * math.sin(a), 0.0)
        parts.append(Part("capsule", (thickness, half), where, (-0.5 * math.pi, -a, 0.0), material))
    return tuple(parts)


THINGS: dict[str, Thing] = {
    "cube": Thing(0.03, (Part("box", (0.03, 0.03, 0.03), material="patches"),)),
    "brick": Thing(0.025, (Part("box", (0.0375, 0.025, 0.025), material="coral"),)),
    "stick": Thing(0.02, (Part("box", (0.06, 0.02, 0.02), material="teal"),)),
    "can": Thing(0.035, (Part("cylinder", (0.03, 0.035), material="blue"),)),
    "tin": Thing(0.022, (Part("box", (0.04, 0.026, 0.022), material="stone"),)),
    "cylinder": Thing(0.03, (Part("cylinder", (0.032, 0.03), material="teal"),)),
    "duck": Thing(
        0.026,
        (
            Part("box", (0.026, 0.018, 0.004), (0.0, 0.0, -0.022)),
            Part("ellipsoid", (0.034, 0.025, 0.024), (0.0, 0.0, -0.002)),
            Part("sphere", (0.018,), (0.018, 0.0, 0.030)),
            Part("capsule", (0.005, 0.004), (0.038, 0.0, 0.029), (0.0, 0.5 * math.pi, 0.0), "coral"),
            Part("ellipsoid", (0.012, 0.010, 0.008), (-0.034, 0.0, 0.010)),
        ),
    ),
    "bottle": Thing(
        0.042,
        (
            Part("cylinder", (0.025, 0.03), (0.0, 0.0, -0.012), material="plum"),
            Part("cylinder", (0.011, 0.015), (0.0, 0.0, 0.032), material="plum"),
            Part("box", (0.002, 0.016, 0.02), (0.0245, 0.0, -0.012), material="cream"),
        ),
    ),
    "camera": Thing(
        0.025,
        (
            Part("box", (0.036, 0.016, 0.025), material="slate"),
            Part("cylinder", (0.017, 0.013), (0.006, 0.028, -0.004), (0.5 * math.pi, 0.0, 0.0), "stone"),
            Part("box", (0.010, 0.008, 0.004), (-0.018, 0.0, 0.029), material="slate"),
        ),
    ),
    "mug": Thing(
        0.032,
        (
            Part("cylinder", (0.028, 0.032), material="cream"),
            Part("capsule", (0.005, 0.015), (0.045, 0.0, 0.0), material="cream"),
            Part("capsule", (0.005, 0.011), (0.034, 0.0, 0.016), (0.0, 0.5 * math.pi, 0.0), "cream"),
            Part("capsule", (0.005, 0.011), (0.034, 0.0, -0.016), (0.0, 0.5 * math.pi, 0.0), "cream"),
        ),
    ),
    "airplane": Thing(
        0.020,
        (
            Part("capsule", (0.014, 0.038), (0.0, 0.0, -0.006), (0.0, 0.5 * math.pi, 0.0), "blue"),
            Part("box", (0.014, 0.052, 0.004), (0.004, 0.0, 0.0), material="stone"),
            Part("box", (0.009, 0.022, 0.003), (-0.042, 0.0, 0.002), material="stone"),
            Part("box", (0.009, 0.003, 0.013), (-0.042, 0.0, 0.015), material="stone"),
        ),
    ),
    "ring": Thing(0.011, ring(0.036, 0.011, 10, "coral")),
    "cross": Thing(
        0.02,
        (
            Part("box", (0.042, 0.014, 0.02), material="teal"),
            Part("box", (0.014, 0.042, 0.02), material="teal"),
        ),
    ),
}
"""Every object by its name."""


@functools.cache
def thing(name: str) -> Thing:
    """The object of that name; raises MissingExtra if it is the bunny and usd-core is not installed."""
    if name != BUNNY:
        return THINGS[name]
    found = mesh.bunny()
    size = np.ptp(found.vertices, axis=0).max()
    small = dataclasses.replace(found, vertices=found.vertices * (BUNNY_SIZE / size))
    part = Part("mesh", (), material="cream", corners=small.vertices)
    return Thing(-float(small.vertices[:, 2].min()), (part,), mesh=small)


def place(spec: mujoco.MjSpec, thing: Thing, pos: tuple[float, float, float]) -> None:
    """Give the bodies of the object and its goal in a spec the shape of `thing`, and put both at `pos`."""
    for name in (OBJECT, GOAL):
        body = spec.body(name)
        body.pos = look.numbers(pos)
        for geom in body.geoms:
            spec.delete(geom)
    if thing.mesh is not None:
        thing.mesh.add_to(spec, BUNNY)
    total = sum(part.volume() for part in thing.parts) or 1.0
    for i, part in enumerate(thing.parts):
        for name in (OBJECT, GOAL):
            geom = spec.body(name).add_geom(spec.find_default(name))
            geom.type = _TYPES[part.type]
            geom.size[: len(part.size)] = look.numbers(part.size)
            if part.corners is not None:
                geom.meshname = BUNNY
            geom.pos, geom.alt.euler = look.numbers(part.pos), look.numbers(part.euler)
            geom.alt.type = mujoco.mjtOrientation.mjORIENTATION_EULER
            if name == OBJECT:
                share = part.volume() / total if part.corners is None else 1.0
                geom.name, geom.mass, geom.material = (
                    f"{OBJECT}_{i}",
                    look.rounded(thing.mass * share, 6),
                    part.material,
                )
