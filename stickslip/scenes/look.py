"""Edits that many scenes share: view and lights that fit the size of a scene, friction, buffer sizes.

The look itself (time step, lights, colours) is in the file `FILE`, which every scene includes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mujoco

FILE = "look.xml"
Vector = tuple[float, float, float]


def rounded(value: float, digits: int = 9) -> float:
    """A number with that many significant digits, so that 3 * 0.1 becomes 0.3, as a person writes it in MJCF."""
    return float(f"{value:.{digits}g}")


def numbers(values: Iterable[float], digits: int = 7) -> list[float]:
    """Numbers with that many significant digits each."""
    return [rounded(value, digits) for value in values]


def set_extent(spec: mujoco.MjSpec, center: Vector, extent: float) -> None:
    """Set the center and size of the scene [m], which determine a viewer's first view, clipping and shadows."""
    spec.stat.center, spec.stat.extent = numbers(center), rounded(extent, 6)


def set_lights(spec: mujoco.MjSpec, target: Vector, distance: float) -> None:
    """Move the lights "key" (from above) and "fill" (from the other side) to `distance` m from `target`."""
    x, y, z = target
    key = (x - 0.6 * distance, y - 0.8 * distance, z + 2.2 * distance)
    fill = (x + 0.6 * distance, y + 0.5 * distance, z + 0.6 * distance)
    for name, eye in (("key", key), ("fill", fill)):
        light = spec.light(name)
        light.pos, light.dir = numbers(eye), numbers(t - e for t, e in zip(target, eye, strict=True))


def set_camera(spec: mujoco.MjSpec, eye: Vector, target: Vector) -> None:
    """Move the camera "overview" to `eye` [m], looking at `target` with z up."""
    back = [e - t for e, t in zip(eye, target, strict=True)]
    flat = math.hypot(back[0], back[1])
    length = math.hypot(flat, back[2])
    right = (-back[1] / flat, back[0] / flat, 0.0)
    back = [b / length for b in back]
    up = (-back[2] * right[1], back[2] * right[0], back[0] * right[1] - back[1] * right[0])
    camera = spec.camera("overview")
    camera.pos, camera.alt.xyaxes = numbers(eye), numbers(right + up)


def set_friction(spec: mujoco.MjSpec, mu: float, *geoms: str) -> None:
    """Set the sliding friction of geoms."""
    for name in geoms:
        spec.geom(name).friction[0] = rounded(mu)


def set_buffers(spec: mujoco.MjSpec, nconmax: int, njmax: int) -> None:
    """Set how many contacts and constraint rows to allocate per world."""
    spec.numeric("nconmax").data, spec.numeric("njmax").data = [nconmax], [njmax]


def buffers(spec: mujoco.MjSpec) -> tuple[int, int]:
    """How many contacts and constraint rows to allocate per world: (nconmax, njmax)."""
    return int(spec.numeric("nconmax").data[0]), int(spec.numeric("njmax").data[0])
