"""The built-in scenes: each an MJCF file and a module that edits it by parameters. `CATALOGUE` has them by name.

To add one, write the module and its file, and name it in the catalogue. Nothing here imports MuJoCo before a scene is
built, so that names and parameters are checked at once.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from stickslip.errors import InputError, SceneError, unknown
from stickslip.scenes import (
    bar_pinch,
    bouncing_ball,
    box_on_slope,
    bullet,
    bunny,
    clutter,
    conveyor,
    cylinder,
    cylinder_roll,
    drop_test,
    eccentric_box,
    edge_grip,
    gripper,
    hand,
    humanoid,
    patch_spin,
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
from stickslip.scenes.scene import Scene
from stickslip.spec import split

__all__ = ["CATALOGUE", "Scene", "buffers", "get", "names", "resolve"]

_MODULES: tuple[ModuleType, ...] = (
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
    patch_spin,
    eccentric_box,
    bar_pinch,
    edge_grip,
)

CATALOGUE: dict[str, Scene] = {
    scene.name: scene for scene in (*(module.SCENE for module in _MODULES), clutter.SOFT, clutter.HARD)
}


def names() -> list[str]:
    """The names of all built-in scenes."""
    return list(CATALOGUE)


def get(name: str) -> Scene:
    """The built-in scene called `name`; raises SceneError with similar names if there is none."""
    if name not in CATALOGUE:
        raise SceneError(f"{unknown('scene', name, CATALOGUE)}; `stickslip scenes` describes them")
    return CATALOGUE[name]


def resolve(text: str) -> tuple[Scene, dict[str, Any]]:
    """The built-in scene and the parameters that "name" or "name:key=value,key=value" names; raises SceneError."""
    try:
        name, given = split(text)
    except InputError as error:
        raise SceneError(f"scene {error}") from error
    scene = get(name)
    scene.values(**given)
    return scene, given


def buffers(name: str, **parameters: object) -> tuple[int, int]:
    """Contacts and constraint rows to allocate per world of a built-in scene: (nconmax, njmax)."""
    return get(name).buffers(**parameters)
