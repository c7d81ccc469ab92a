"""The clouds made of a model's geoms, and a check of each; needs no JAX."""

import dataclasses
import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.scm import remesh
from stickslip.physics.scm.cloud import Cloud, Report, cloud_of, examine, flipped, loose_edges, mesh_of
from stickslip.physics.scm.structure import name_of, points_for, same_shape, touching_geoms
from stickslip.physics.scm.walls import thin_wall

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Shape:
    """One shape of a model.

    Attributes:
        geoms: those that have it
        name: of the first of them, or its number
        kind: "box", "mesh", ...
        cloud: its points; None where none could be made
        report: result of the check
        problems: why they cannot be used, one sentence each; empty if they can
        warnings: what contact with them will miss, one sentence each
        flipped: points whose normal does not look out of the surface   (n,)
        loose: ends of edges that lack a face on one side               (k, 2, 3)
        turn: rotation to the world, of the first of the geoms at the model's start   (3, 3)
    """

    geoms: tuple[int, ...]
    name: str
    kind: str
    cloud: Cloud | None
    report: Report | None
    problems: tuple[str, ...]
    flipped: NDArray[np.bool_]
    loose: Array
    turn: Array
    warnings: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name, and how many more have this shape."""
        return self.name + (f" and {len(self.geoms) - 1} more" if len(self.geoms) > 1 else "")


@dataclasses.dataclass(frozen=True)
class Survey:
    """The shapes of a model, each once."""

    shapes: tuple[Shape, ...]

    @property
    def problems(self) -> list[str]:
        """A sentence for each shape whose points cannot be used."""
        return [
            f"the points of geom {s.label} cannot be used: {'; '.join(s.problems)}" for s in self.shapes if s.problems
        ]

    @property
    def warnings(self) -> list[str]:
        """A sentence for each shape whose points are too few for it."""
        return [f"geom {s.label}: {'; '.join(s.warnings)}" for s in self.shapes if s.warnings]

    def draw(self, title: str = "") -> "Figure":
        """A panel for each shape that is no plane: its points, normals and faces. Save it with `savefig`."""
        from stickslip.physics.scm.picture import draw

        return draw(self.shapes, title)


def survey(mjm: mujoco.MjModel, points: int, mesh_points: int, geoms: Sequence[str | int] | None = None) -> Survey:
    """Make and examine the clouds of geoms, by name or number; by default all geoms that may collide."""
    chosen = touching_geoms(mjm) if geoms is None else [find_geom(mjm, g) for g in geoms]
    if not chosen:
        raise InputError("no geom of this model may touch another, so none has points; name those to look at")
    d = mujoco.MjData(mjm)
    if mjm.nkey:
        mujoco.mj_resetDataKeyframe(mjm, d, 0)
    mujoco.mj_kinematics(mjm, d)
    shapes = []
    for group in same_shape(mjm, dict.fromkeys(chosen)):
        turn = d.geom_xmat[group[0]].reshape(3, 3).copy()
        shapes.append(_shape(mjm, group, points_for(mjm, group[0], points, mesh_points), turn))
    return Survey(tuple(shapes))


def find_geom(mjm: mujoco.MjModel, geom: str | int) -> int:
    """A geom by its name or its number."""
    names = [mujoco.mj_id2name(mjm, mujoco.mjtObj.mjOBJ_GEOM, g) for g in range(mjm.ngeom)]
    if isinstance(geom, str) and geom in names:
        return names.index(geom)
    whole = geom.isdecimal() if isinstance(geom, str) else isinstance(geom, (int, np.integer))
    if whole and 0 <= int(geom) < mjm.ngeom:
        return int(geom)
    named = [name for name in names if name]
    close = difflib.get_close_matches(str(geom), named, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    there = f"; names: {', '.join(named[:20])}{', ...' if len(named) > 20 else ''}" if named else ""
    raise InputError(f"no geom {geom!r}; {hint}this model has 0 to {mjm.ngeom - 1}{there}; choose among them")


def _shape(mjm: mujoco.MjModel, geoms: list[int], points: int, turn: Array) -> Shape:
    geom = geoms[0]
    name = name_of(mjm, mujoco.mjtObj.mjOBJ_GEOM, geom)
    kind = mujoco.mjtGeom(int(mjm.geom_type[geom])).name.removeprefix("mjGEOM_").lower()
    nothing, none = np.zeros(0, dtype=bool), np.zeros((0, 2, 3))
    try:
        cloud = cloud_of(mjm, geom, points)
    except InputError as error:
        return Shape(tuple(geoms), name, kind, None, None, (str(error),), nothing, none, turn)
    report = examine(cloud)
    wrong = flipped(cloud.quads) if report.flipped else np.zeros(report.points, dtype=bool)
    loose = none if cloud.open else _loose(mjm, geom, cloud)
    wall = None if report.problems else thin_wall(cloud)
    warnings = (wall.warning(kind),) if wall else ()
    return Shape(tuple(geoms), name, kind, cloud, report, tuple(report.problems), wrong, loose, turn, warnings)


def _loose(mjm: mujoco.MjModel, geom: int, cloud: Cloud) -> Array:
    """Open edges of a surface: of its own faces, or of the mesh if the cloud has no faces."""
    vertices, faces = cloud.quads.vertices, cloud.quads.faces
    if not len(faces) and mjm.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH:
        vertices, triangles = remesh.welded(*mesh_of(mjm, geom))
        faces = np.column_stack([triangles, triangles[:, 2]])
    return vertices[loose_edges(faces)]
