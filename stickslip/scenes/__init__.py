"""The built-in scenes, each a module that writes MJCF text. `CATALOGUE` holds them by name."""

from __future__ import annotations

import difflib
from types import ModuleType

from stickslip.errors import SceneError
from stickslip.scenes import (
    bouncing_ball,
    box_on_slope,
    bullet,
    bunny,
    clutter,
    conveyor,
    cylinder,
    cylinder_roll,
    drop_test,
    gripper,
    hand,
    humanoid,
    pendulum,
    pinch,
    push_cubes,
    push_t,
    pushed_box,
    rod_push,
    scaling,
    sheath,
    sliding_cube,
    sphere_spin,
    stack,
    stiff_arm,
    thrown_cube,
)
from stickslip.scenes.scene import Parameter, Scene

__all__ = ["CATALOGUE", "Parameter", "Scene", "buffers", "get", "names"]

_ALONE: tuple[ModuleType, ...] = (
    drop_test,
    scaling,
    box_on_slope,
    sphere_spin,
    cylinder_roll,
    sliding_cube,
    humanoid,
    hand,
    stack,
    pinch,
    bouncing_ball,
    pendulum,
    pushed_box,
    bunny,
    rod_push,
    sheath,
    thrown_cube,
    push_cubes,
    push_t,
    bullet,
    cylinder,
    gripper,
    conveyor,
    stiff_arm,
)

CATALOGUE: dict[str, Scene] = {
    scene.name: scene for scene in (*(module.SCENE for module in _ALONE), clutter.SOFT, clutter.HARD)
}


def names() -> list[str]:
    """Returns the names of all built-in scenes."""
    return list(CATALOGUE)


def get(name: str) -> Scene:
    """Returns the built-in scene called `name`; raises SceneError with the close names if there is none."""
    if name not in CATALOGUE:
        close = difflib.get_close_matches(name, CATALOGUE, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(repr(c) for c in close)}? " if close else ""
        raise SceneError(f"no scene named {name!r}; {hint}`stickslip scenes` lists all")
    return CATALOGUE[name]


def buffers(name: str, **parameters: object) -> tuple[int, int]:
    """Returns (nconmax, njmax), the contacts and constraint rows one world of a built-in scene needs room for."""
    return get(name).buffers(**parameters)
