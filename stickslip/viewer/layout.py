"""Where worlds stand on the page, and where the camera begins."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

import mujoco
import numpy as np
from numpy.typing import NDArray

Mode = Literal["one", "grid", "ghosts"]
MODES: tuple[Mode, ...] = ("one", "grid", "ghosts")

GAP = 1.15
"""Distance between neighbours over the width of a world."""
NARROW = 1.0
"""Width over height of a window below which it counts as narrow."""
LANES = 1.3
"""Distance between lanes over the width of one."""
PANEL = 410
"""Width of the panel and its margin [pixels]."""
FILLED = 0.85
"""Share of the window, where no panel covers it, that the worlds fill."""
LABEL = 0.08
"""Height of a label above its lane over the size of a world."""
FAR = 5.0
"""Distance from the median geom beyond which a geom does not count for the size of a world [extents of the model]."""


@dataclasses.dataclass(frozen=True)
class Box:
    """What a world occupies: lower and upper corner, m."""

    low: NDArray[np.floating]
    high: NDArray[np.floating]

    @property
    def centre(self) -> NDArray[np.floating]:
        return 0.5 * (self.low + self.high)

    @property
    def size(self) -> NDArray[np.floating]:
        return self.high - self.low


@dataclasses.dataclass(frozen=True)
class Layout:
    """The places of the worlds that are drawn, in the order of lanes, then worlds.

    Attributes:
        mode: one world, all in a grid, or all in one place
        worlds: their numbers
        offsets: where the origin of each stands, m                   (lanes, len(worlds), 3)
        opacities: of each world                                      (len(worlds),)
        box: of one world
    """

    mode: Mode
    worlds: tuple[int, ...]
    offsets: NDArray[np.floating]
    opacities: NDArray[np.floating]
    box: Box

    @property
    def lanes(self) -> int:
        return len(self.offsets)


def box(mjm: mujoco.MjModel, mjd: mujoco.MjData) -> Box:
    """What the geoms of a world occupy, but for planes and what has fallen far away; `mjd` has poses."""
    solid = np.flatnonzero(mjm.geom_type != mujoco.mjtGeom.mjGEOM_PLANE)
    middle_one = np.median(mjd.geom_xpos[solid], axis=0) if len(solid) else mjm.stat.center
    away = np.linalg.norm(mjd.geom_xpos[solid] - middle_one, axis=1)
    corners = []
    for geom in solid[away <= FAR * mjm.stat.extent]:
        centre, half = mjm.geom_aabb[geom, :3], mjm.geom_aabb[geom, 3:]
        frame = mjd.geom_xmat[geom].reshape(3, 3)
        middle, reach = mjd.geom_xpos[geom] + frame @ centre, np.abs(frame) @ half
        corners += [middle - reach, middle + reach]
    if not corners:
        corners = [mjm.stat.center - mjm.stat.extent, mjm.stat.center + mjm.stat.extent]
    return Box(np.min(corners, axis=0), np.max(corners, axis=0))


def union(boxes: Sequence[Box]) -> Box:
    """A box around boxes."""
    return Box(np.min([each.low for each in boxes], axis=0), np.max([each.high for each in boxes], axis=0))


def place(
    occupied: Box, lanes: int, nworld: int, mode: Mode, world: int, along: NDArray[np.floating] | None = None
) -> Layout:
    """Lanes side by side along a level direction; of each, one world, a grid of all, or all in one place.

    Without a direction, along x. Of worlds in one place, one is solid.
    """
    worlds = (world,) if mode == "one" else tuple(range(nworld))
    width, depth = (max(GAP * float(size), 1e-3) for size in occupied.size[:2])
    width, depth = max(width, 0.35 * depth), max(depth, 0.35 * width)
    columns = math.ceil(math.sqrt(len(worlds) * depth / width)) if mode == "grid" else 1
    columns = min(columns, len(worlds))
    rows = math.ceil(len(worlds) / columns) if mode == "grid" else 1
    along = np.array([1.0, 0.0, 0.0]) if along is None else along
    # the next lane begins where this one ends, in x or in y
    ends = [
        size / abs(part) for size, part in zip((columns * width, rows * depth), along, strict=False) if abs(part) > 1e-6
    ]
    shift = min(ends) * LANES * along
    offsets = np.zeros((lanes, len(worlds), 3))
    for lane in range(lanes):
        for i in range(len(worlds)):
            cell = i if mode == "grid" else 0
            offsets[lane, i] = lane * shift + [cell % columns * width, cell // columns * depth, 0.0]
    flat = offsets.reshape(-1, 3)
    offsets -= 0.5 * (flat.min(axis=0) + flat.max(axis=0))
    opacities = np.ones(len(worlds))
    if mode == "ghosts":
        opacities[:] = max(0.08, 0.5 / max(1, len(worlds) - 1))
        opacities[world] = 1.0
    return Layout(mode, worlds, offsets, opacities, occupied)


@dataclasses.dataclass(frozen=True)
class Look:
    """A camera: position and target, m; opening angle, rad."""

    position: NDArray[np.floating]
    target: NDArray[np.floating]
    fov: float


def view_direction(mjm: mujoco.MjModel, mjd: mujoco.MjData) -> NDArray[np.floating]:
    """From a world to its camera: the model's camera "overview" if it has one, else from the front; of length 1."""
    camera = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_CAMERA, "overview")
    if camera >= 0:
        return mjd.cam_xmat[camera].reshape(3, 3)[:, 2].copy()
    direction = np.array([0.35, -1.0, 0.45])
    return direction / np.linalg.norm(direction)


def to_the_right(direction: NDArray[np.floating]) -> NDArray[np.floating]:
    """The level direction that is to the right on the page, of length 1."""
    right = np.cross([0.0, 0.0, 1.0], direction)
    length = float(np.linalg.norm(right))
    return right / length if length > 1e-6 else np.array([1.0, 0.0, 0.0])


def look(
    mjm: mujoco.MjModel,
    mjd: mujoco.MjData,
    layout: Layout,
    window: tuple[int, int] = (1600, 1000),
    fov: float = math.radians(45.0),
) -> Look:
    """A camera that has all worlds in view, from where the model's camera "overview" looks if it has one.

    `window` is its width and height in pixels.
    """
    direction = view_direction(mjm, mjd)
    right = to_the_right(direction)
    up = np.cross(direction, right)
    ends = np.stack([layout.box.low, layout.box.high])
    if layout.lanes > 1:
        ends[1, 2] += 1.5 * LABEL * layout.box.size.max()
    corners = np.array([[ends[i, 0], ends[j, 1], ends[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    corners = (layout.offsets.reshape(-1, 1, 3) + corners).reshape(-1, 3)
    target = 0.5 * (corners.min(axis=0) + corners.max(axis=0))
    # the panel covers the right of a wide window, and the lower half of a narrow one
    aspect = window[0] / window[1]
    across, tall = (0.0, 0.5) if aspect < NARROW else (min(0.6, PANEL / window[0]), 0.0)
    half = math.tan(0.5 * fov)
    room = FILLED * half * np.array([aspect * (1.0 - across), 1.0 - tall])
    seen = np.abs((corners - target) @ np.stack([right, up], axis=1))
    distance = float(((seen / room).max(axis=1) + (corners - target) @ direction).max())
    target = target + distance * half * (aspect * across * right - tall * up)
    return Look(target + distance * direction, target, fov)
