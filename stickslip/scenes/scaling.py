"""Scene "scaling": twelve bodies, small enough to run in thousands of worlds at once."""

from __future__ import annotations

from stickslip.scenes import pile
from stickslip.scenes.scene import Scene


def _content() -> str:
    return pile.content(["cube", "capsule", "sphere"], 2)


SCENE = Scene(
    name="scaling",
    summary="2 x 2 cubes, capsules and spheres dropped onto a block; for many worlds at once",
    content=_content,
    nconmax=48,
    njmax=192,
)
