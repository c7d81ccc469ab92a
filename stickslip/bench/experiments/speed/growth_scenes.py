"""Scenes of `growth`, by their size: chains of hinges, robots, and free bodies that lie on a floor."""

import math
import pathlib

import mujoco
import numpy as np

from stickslip import mjcf, scenes
from stickslip.scenes import look

FOLDER = pathlib.Path(__file__).parent
LINK = 0.05
"""Length of a link of a chain [m]."""
HALF = 0.03
"""Radius of a sphere, and half of a box's side [m]."""
SPACING = 0.1
"""Distance between the centers of neighbours, which do not touch [m]."""
ROOM = 0.5
"""Half of the side of the square that is left free for the robot [m]."""
OVERLAP = 1e-4
"""Depth of what lies on the floor at the start [m]."""
HIGH = 1000.0
"""Height of a body that touches nothing [m]."""
PER_BOX = 4
"""Contacts of a box on the floor."""
APART = 1.5
"""Distance between humanoids [m]."""


def chain(dofs: int) -> mujoco.MjModel:
    """A chain of so many hinges that hangs down and touches nothing."""
    spec = _floor()
    height = (dofs + 2) * LINK
    body = spec.worldbody
    for index in range(dofs):
        body = body.add_body(pos=[0.0, 0.0, look.rounded(-LINK if index else height)])
        body.add_joint(axis=[1.0 - index % 2, index % 2, 0.0], damping=0.02, armature=0.001)
        end = [0.0, 0.0, 0.0, 0.0, 0.0, -LINK]
        kind = mujoco.mjtGeom.mjGEOM_CAPSULE
        body.add_geom(type=kind, size=[0.01, 0, 0], fromto=end, mass=0.05, contype=0, conaffinity=0, material="blue")
    return mjcf.load(spec)


def quadruped() -> mujoco.MjModel:
    """A robot with four legs that stands on the floor; 18 dofs."""
    return bodies("box", 0, robot=True)


def humanoids(count: int) -> mujoco.MjModel:
    """So many humanoids of the scene "humanoid" in a row; 33 dofs each."""
    if count == 1:
        return mjcf.load("humanoid")
    one = mjcf.load("humanoid")
    spec = scenes.get("humanoid").spec()
    for index in range(1, count):
        other = scenes.get("humanoid").spec()
        for unique in (other.geom("floor"), *other.lights, *other.cameras, *other.keys, *other.numerics):
            other.delete(unique)
        spec.attach(other, frame=spec.worldbody.add_frame(pos=[APART * index, 0.0, 0.0]), prefix=f"other{index}_")
    look.set_buffers(spec, *(count * size for size in look.buffers(spec)))
    mjm = mjcf.load(spec)
    qpos = np.tile(one.key_qpos[0], (count, 1))
    qpos[:, 0] += APART * np.arange(count)
    mjm.key_qpos[0], mjm.key_ctrl[0] = qpos.ravel(), np.tile(one.key_ctrl[0], count)
    return mjm


def bodies(kind: str, count: int, *, robot: bool = False, high: bool = False) -> mujoco.MjModel:
    """So many free bodies, each on its own place on the floor, around a quadruped if asked for.

    Args:
        kind: "sphere" or "box"
        count: number of bodies
        robot: whether a quadruped stands among them
        high: leave the bodies high above the floor, where they touch nothing
    """
    spec = _floor()
    key = spec.key("home")
    if robot:
        own = mujoco.MjSpec.from_file(str(FOLDER / "quadruped.xml"))
        qpos, ctrl = list(own.key("home").qpos), list(own.key("home").ctrl)
        own.delete(own.key("home"))
        spec.attach(own, frame=spec.worldbody.add_frame(), prefix="quadruped_")
    geom = mujoco.mjtGeom.mjGEOM_SPHERE if kind == "sphere" else mujoco.mjtGeom.mjGEOM_BOX
    size = [HALF, 0.0, 0.0] if kind == "sphere" else [HALF] * 3
    places = _places(count, ROOM if robot else 0.0)
    height = HIGH if high else HALF - OVERLAP
    for x, y in places:
        body = spec.worldbody.add_body(pos=look.numbers((x, y, height)))
        body.add_freejoint()
        body.add_geom(type=geom, size=size, density=500.0, material="sand")
    if robot:
        rest = [value for x, y in places for value in (*look.numbers((x, y, height)), 1.0, 0.0, 0.0, 0.0)]
        key.qpos, key.ctrl = [*qpos, *rest], ctrl
    return mjcf.load(spec)


def _floor() -> mujoco.MjSpec:
    return mujoco.MjSpec.from_file(str(FOLDER / "growth.xml"))


def _places(count: int, room: float) -> list[tuple[float, float]]:
    """Points of a square grid, the nearest first, outside a square of half the side `room`."""
    reach = math.ceil(0.5 * math.sqrt(count) + room / SPACING) + 1
    axis = SPACING * np.arange(-reach, reach + 1)
    grid = [(float(x), float(y)) for x in axis for y in axis if max(abs(x), abs(y)) >= room - 1e-9]
    return sorted(grid, key=lambda at: (max(abs(at[0]), abs(at[1])), at))[:count]
