"""Convex pieces in the place of meshes that are not convex.

MuJoCo and most physics here take a mesh for its convex hull: a ring has no hole. `decompose` adds convex pieces to a
model, by the package coacd (X. Wei et al., "Approximate Convex Decomposition for 3D Meshes with Collision-Aware
Concavity and Tree Search", 2022).

The mesh stays, without contacts: for looks, and for mass and inertia, which remain what they were. The pieces have no
mass; pose and parameters of contact are those of the mesh.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stickslip import mjcf, model_files, scenes
from stickslip.errors import InputError, MissingExtra, unknown

if TYPE_CHECKING:
    import mujoco

THRESHOLD = (0.01, 1.0)
"""Range of coacd's threshold."""
LEAST_VERTICES = 4
GROUP = 3
"""Of pieces: most viewers hide it at first."""
_DEPTH = 4
"""Place of the hydroelastic depth in `user` of a geom."""
_CONTACT = (
    "pos quat alt classname contype conaffinity condim priority friction solmix solref solimp margin gap surfacevel "
    "adhesion rgba material"
).split()
"""What a piece has of its geom."""
_PAIR = "classname condim friction solref solreffriction solimp margin gap adhesion".split()

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Pieces:
    """What became of a geom.

    Attributes:
        geom: its name, or its number
        count: of pieces
        volume: of the mesh, m^3; NaN if it is not closed
        hull: volume of its convex hull, m^3
        pieces: volume of all pieces, m^3
    """

    geom: str
    count: int
    volume: float
    hull: float
    pieces: float


def decompose(
    scene: str | os.PathLike[str] | mujoco.MjSpec,
    geoms: Sequence[str | int] | None = None,
    *,
    threshold: float = 0.05,
    vertices: int = 32,
    seed: int = 0,
) -> mujoco.MjSpec:
    """Returns a scene as an MjSpec in which convex pieces touch in the place of meshes that are not convex.

    Bodies keep mass and inertia. A mesh that was replaced stays for looks. Pieces have the pose, `contype`,
    `friction`, `user` and so on of their geom, and group 3; pairs of its geom become pairs of the pieces. All pieces of
    a geom have one hydroelastic depth: its own or the model's, or else the largest inradius among them.

    Args:
        scene: what `stickslip.load` takes, except an MjModel and a file that ends in .mjb
        geoms: mesh geoms, by name or number; None: all that can touch another geom and whose hull has 3 % more
            volume, or whose mesh is not closed
        threshold: largest concavity of a piece, from 0.01 (many pieces, close to the mesh) to 1
        vertices: most vertices of a piece
        seed: of the search for cuts; the same seed gives the same pieces

    Raises:
        InputError: an argument is out of range, a geom is not a mesh, or a sensor watches a geom that would be pieces
        SceneError: the scene cannot be found or does not compile
        MissingExtra: the package coacd is not installed
    """
    return run(scene, geoms, threshold=threshold, vertices=vertices, seed=seed)[0]


def run(
    scene: str | os.PathLike[str] | mujoco.MjSpec,
    geoms: Sequence[str | int] | None,
    *,
    threshold: float,
    vertices: int,
    seed: int,
) -> tuple[mujoco.MjSpec, list[Pieces]]:
    """`decompose`, and what became of each geom."""
    low, high = THRESHOLD
    if not (math.isfinite(threshold) and low <= threshold <= high):
        raise InputError(f"threshold is {threshold}: it must be from {low:g} to {high:g}; 0.05 suits most meshes")
    if vertices < LEAST_VERTICES:
        raise InputError(f"vertices is {vertices}: a piece has {LEAST_VERTICES} or more; 32 suits most meshes")
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}: it must be from 0 to {2**32 - 1}")
    try:
        import coacd  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtra("decompose needs the package coacd; pip install 'stickslip[decompose]'") from error
    from stickslip.hull import hull_faces, hull_volume, inradius, mesh_triangles, mesh_vertices, volume

    coacd.set_log_level("error")
    spec = _spec_of(scene)
    mjm = mjcf.load(spec)
    chosen = _chosen(mjm, geoms)
    given = [(geom.id, geom) for geom in spec.geoms if geom.id in chosen]  # numbers are lost when the spec changes
    of_model = any(numeric.name == "hydroelastic_depth" for numeric in spec.numerics)
    made: dict[int, list[tuple[Array, NDArray[np.integer]]]] = {}
    told = []
    for number, geom in given:
        mesh = int(mjm.geom_dataid[number])
        if mesh not in made:
            source = coacd.Mesh(_asset_vertices(mjm, mesh), mesh_triangles(mjm, mesh).astype(np.int32))
            made[mesh] = coacd.run_coacd(source, threshold=threshold, decimate=True, max_ch_vertex=vertices, seed=seed)
        pieces = made[mesh]
        label = geom.name or str(number)
        if not pieces:
            raise InputError(f"coacd found no pieces of the mesh of geom {label!r}: close the mesh, or leave it out")
        inside = volume(mesh_vertices(mjm, mesh), mesh_triangles(mjm, mesh))
        total = sum(volume(*piece) for piece in pieces)
        told.append(Pieces(label, len(pieces), inside, hull_volume(mjm, mesh), total))
        if len(pieces) == 1:
            continue
        _refuse_sensors(spec, geom.name)
        user = [*geom.userdata, *[0.0] * (_DEPTH + 1 - len(geom.userdata))]
        if user[_DEPTH] == 0.0 and not of_model:
            user[_DEPTH] = max(inradius(hull_faces(vert - vert.mean(axis=0), faces)) for vert, faces in pieces)
        _replace(spec, geom, mjm.mesh(mesh).name, [vert for vert, _ in pieces], user)
    return spec, told


def _spec_of(scene: Any) -> mujoco.MjSpec:
    """A spec that can be changed."""
    import mujoco

    if isinstance(scene, mujoco.MjSpec):
        return scene.copy()
    if isinstance(scene, mujoco.MjModel):
        raise InputError("an MjModel cannot be decomposed, since it is compiled; give its file or its MjSpec")
    if not isinstance(scene, (str, os.PathLike)):
        raise InputError(f"scene is of type {type(scene).__name__}; give a scene's name, a path, XML text or an MjSpec")
    text, allow = scene if isinstance(scene, str) else None, ()
    if text is not None:
        mjcf.check(text)
        if text.lstrip().startswith("<"):
            model_files.check_text(text, "<XML string>")
            return _read(mujoco.MjSpec.from_string, text.lstrip(), "<XML string>")
        if text.startswith("menagerie:"):
            scene = mjcf.menagerie_file(text.removeprefix("menagerie:"))
            allow = (scene.parent.parent,)
        elif not Path(text).is_file():
            found, given = scenes.resolve(text)
            return found.spec(**given)
    path = Path(scene)
    mjcf.check(f"{path.parent}/{path.name}")
    if path.suffix.lower() == ".mjb":
        raise InputError(f"{str(path)!r} cannot be decomposed, since it is compiled; give the MJCF file it was made of")
    model_files.check(path, allow)
    return _read(mujoco.MjSpec.from_file, str(path), str(path))


def _read(reader: Any, source: str, origin: str) -> mujoco.MjSpec:
    try:
        return reader(source)
    except ValueError as error:
        raise mjcf.broken(origin, error, "") from error


def _chosen(mjm: mujoco.MjModel, geoms: Sequence[str | int] | None) -> set[int]:
    """Numbers of the geoms to decompose."""
    import mujoco

    from stickslip.hull import CONVEX, hull_excess

    meshes = np.flatnonzero(mjm.geom_type == int(mujoco.mjtGeom.mjGEOM_MESH))
    if geoms is None:
        touches = (mjm.geom_contype | mjm.geom_conaffinity) != 0
        touches[mjm.pair_geom1] = touches[mjm.pair_geom2] = True
        used = {int(mjm.geom_dataid[g]) for g in meshes if touches[g]}
        concave = {mesh for mesh in used if not hull_excess(mjm, mesh) <= CONVEX}  # or it is not closed
        return {int(g) for g in meshes if touches[g] and int(mjm.geom_dataid[g]) in concave}
    names = {mjm.geom(g).name: g for g in range(mjm.ngeom) if mjm.geom(g).name}
    found = set()
    for geom in geoms:
        number = names.get(str(geom), int(geom) if str(geom).isdecimal() else -1)
        if not 0 <= number < mjm.ngeom:
            raise unknown("geom", geom, names)
        if number not in meshes:
            kind = mujoco.mjtGeom(mjm.geom_type[number]).name.removeprefix("mjGEOM_").lower()
            raise InputError(f"geom {geom!r} is a {kind}, not a mesh: leave it out")
        found.add(number)
    return found


def _asset_vertices(mjm: mujoco.MjModel, mesh: int) -> Array:
    """Vertices in the frame of the asset, in which the pose of a geom is given, (nvert, 3)."""
    import mujoco

    from stickslip.hull import mesh_vertices

    rot = np.zeros(9)
    mujoco.mju_quat2Mat(rot, mjm.mesh_quat[mesh])
    return mesh_vertices(mjm, mesh) @ rot.reshape(3, 3).T + mjm.mesh_pos[mesh]


def _replace(spec: mujoco.MjSpec, geom: Any, mesh: str, pieces: list[Array], user: list[float]) -> None:
    """Add pieces that touch in the place of a geom."""
    import mujoco

    names = []
    for number, vert in enumerate(pieces):
        asset = f"{mesh}_piece{number}"
        if spec.mesh(asset) is None:
            added = spec.add_mesh(name=asset, uservert=vert.reshape(-1))
            added.scale, added.refpos, added.refquat = [1.0] * 3, [0.0] * 3, [1.0, 0.0, 0.0, 0.0]
        piece = geom.parent.add_geom()
        if geom.frame is not None:
            piece.set_frame(geom.frame)
        for name in _CONTACT:
            setattr(piece, name, getattr(geom, name))
        piece.type, piece.meshname = mujoco.mjtGeom.mjGEOM_MESH, asset
        piece.mass, piece.group, piece.userdata = 0.0, GROUP, user
        if geom.name:
            piece.name = f"{geom.name}_piece{number}"
        names.append(piece.name)
    for pair in [p for p in spec.pairs if geom.name and geom.name in (p.geomname1, p.geomname2)]:
        for name in names:
            ends = (name if end == geom.name else end for end in (pair.geomname1, pair.geomname2))
            new = spec.add_pair(**dict(zip(("geomname1", "geomname2"), ends, strict=True)))
            for attribute in _PAIR:
                setattr(new, attribute, getattr(pair, attribute))
        spec.delete(pair)
    geom.contype = geom.conaffinity = 0
    spec.nuser_geom = max(spec.nuser_geom, len(user))


def _refuse_sensors(spec: mujoco.MjSpec, geom: str) -> None:
    """Raise InputError if a sensor is about contacts or distances of a geom."""
    import mujoco

    kinds = mujoco.mjtSensor
    about = (kinds.mjSENS_CONTACT, kinds.mjSENS_GEOMDIST, kinds.mjSENS_GEOMNORMAL, kinds.mjSENS_GEOMFROMTO)
    for sensor in spec.sensors:
        ends = ((sensor.objtype, sensor.objname), (sensor.reftype, sensor.refname))
        if sensor.type in about and geom and (mujoco.mjtObj.mjOBJ_GEOM, geom) in ends:
            raise InputError(
                f"sensor {sensor.name!r} is about contacts or distances of geom {geom!r}, which would be pieces: "
                "let it watch the body"
            )
