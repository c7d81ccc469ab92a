"""Fewer and quicker builds of MuJoCo Warp's collision kernels on the CPU; nothing in these tests is timed.

MuJoCo Warp builds a kernel for each set of pairs of geom types that a model has. From cold, building these takes longer
than all tests. They are private functions of MuJoCo Warp: a version without them is an error here, not a slow run.
"""

from typing import Any

from mujoco_warp import GeomType
from mujoco_warp._src import collision_convex, collision_primitive


def share() -> None:
    """One kernel for all primitive pairs, whatever the model has; kernels of convex pairs without optimization."""
    one_for_all, one_per_pair = collision_primitive._primitive_narrowphase, collision_convex.ccd_kernel_builder
    box_box = (GeomType.BOX, GeomType.BOX)  # convex or primitive, by a flag of the model

    def primitive(types: list[tuple[GeomType, GeomType]], _: list[Any]) -> Any:
        known = collision_primitive._PRIMITIVE_COLLISIONS
        pairs = [pair for pair in known if pair != box_box or box_box in types]
        return one_for_all(pairs, [known[pair] for pair in pairs])

    def convex(*args: Any) -> Any:
        kernel = one_per_pair(*args)
        kernel.module.options["optimization_level"] = 0
        return kernel

    collision_primitive._primitive_narrowphase = primitive
    collision_convex.ccd_kernel_builder = convex
