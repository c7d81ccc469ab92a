"""MuJoCo Warp and XLA with less to build and to look up, for tests, where nothing is timed.

MuJoCo Warp builds collision kernels for the geom types that each model has. Without cached kernels, building those of
all tests takes minutes. What is replaced is private to MuJoCo Warp: a version without it raises here.
"""

import functools
import importlib.metadata
from typing import Any

from mujoco_warp import GeomType
from mujoco_warp._src import collision_convex, collision_primitive, util_pkg


def share_kernels() -> None:
    """One kernel for all primitive pairs, whatever the model has; kernels of convex pairs without optimization."""
    one_for_all, one_per_pair = collision_primitive._primitive_narrowphase, collision_convex.ccd_kernel_builder
    box_box = (GeomType.BOX, GeomType.BOX)  # convex or primitive, by a flag of the model

    def primitive(types: list[tuple[GeomType, GeomType]], _: list[Any]) -> Any:
        known = collision_primitive._PRIMITIVE_COLLISIONS
        pairs = [pair for pair in known if pair != box_box or box_box in types]
        return one_for_all(pairs, [known[pair] for pair in pairs])

    def convex(*args: Any) -> Any:
        kernel = one_per_pair(*args)
        kernel.module.options["optimization_level"] = 0  # all kernels like this make tests far slower
        return kernel

    collision_primitive._primitive_narrowphase = primitive
    collision_convex.ccd_kernel_builder = convex


def remember_answers() -> None:
    """Ask once which versions are installed, which reads their metadata, and where a pair of geom types is counted."""
    util_pkg.check_version = functools.cache(util_pkg.check_version)
    for module in (collision_convex, collision_primitive):
        module.upper_trid_index = functools.cache(module.upper_trid_index)


def xla_flags() -> str:
    """Less optimization by XLA. It aborts at a flag that it does not know, and newer versions lack one of these."""
    flags = "--xla_backend_optimization_level=0"
    try:
        version = tuple(map(int, importlib.metadata.version("jaxlib").split(".")[:2]))
    except importlib.metadata.PackageNotFoundError:
        return flags
    return f"{flags} --xla_cpu_use_fusion_emitters=false" if version == (0, 10) else flags
