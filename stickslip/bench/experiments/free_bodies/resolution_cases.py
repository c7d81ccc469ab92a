"""Cases, labels and settings of `resolution`."""

import dataclasses

import stickslip
from stickslip.bench.experiments.free_bodies import body_tests
from stickslip.parameters import parameter

BOX, ROD = "box", "box pushed by a rod"
GEOMS = {
    "box": '<geom type="box" size="0.1 0.1 0.1"/>',
    "capsule": '<geom type="capsule" size="0.05 0.1"/>',
    "cylinder": '<geom type="cylinder" size="0.1 0.06"/>',
}
"""Shapes that are drawn, besides the mesh."""
USUAL, USUAL_MESH = stickslip.PbdR.resolution, stickslip.PbdR.mesh_resolution
"""Resolutions that the physics has by default."""
KINDS = ("push", "torque", "rod")


@dataclasses.dataclass(frozen=True)
class Settings:
    resolutions: tuple[int, ...] = parameter((2, 3, 4, 6, 8, 12), "spheres along an edge of a box", low=1, high=200)
    mesh_resolutions: tuple[int, ...] = parameter(
        (8, 12, 16, 24), "spheres along the shortest side of the mesh's bounding box", low=2, high=200
    )
    drawn: tuple[int, ...] = parameter((8, 16), "the same, of the meshes that are drawn", low=2, high=200)
    mesh: str = parameter(
        "auto",
        "bunny; stand-in: a shape of our own in its place; auto: the bunny, or its stand-in where it cannot be read",
    )
    offset: float = parameter(0.01, "of the rod from the box's middle [m]", low=-0.1, high=0.1)
    duration: float = parameter(10.0, "simulated time of a box [s]", low=0.01, high=100.0)
    mesh_duration: float = parameter(5.0, "simulated time of a mesh [s]", low=0.01, high=100.0)
    timestep: float = parameter(0.001, "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    """A shape of so many spheres, and what is done to it.

    Attributes:
        shape: a key of GEOMS, or the mesh
        resolution: spheres along an edge
        test: of the seven; None: its spheres are reported, nothing is simulated
    """

    shape: str
    resolution: int
    test: body_tests.Case | None = None


def done_label(kind: str, shape: str, resolution: int) -> str:
    """Of a case in which something is done."""
    what = {"push": f"pushed {shape}", "torque": f"{shape} with torque", "rod": ROD}[kind]
    return f"{what}, {resolution} along an edge" if shape == BOX else f"{what}, {resolution} across"


def shape_label(shape: str, resolution: int) -> str:
    """Of a case in which nothing is done."""
    return f"spheres of the {shape}, {resolution}"
