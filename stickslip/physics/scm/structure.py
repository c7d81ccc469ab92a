"""What of a model does not change: its joints, which geoms may touch, and which points each has."""

import copy
import dataclasses
from collections.abc import Iterable, Mapping

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.physics.mjwarp.unfit import singular_joints
from stickslip.physics.scm.cloud import Cloud, check, cloud_of

FREE, BALL, SLIDE, HINGE = (int(t) for t in (
    mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL, mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Group:
    """Pairs of geoms whose clouds have the same sizes, so that they are computed together.

    Attributes:
        first, second: geoms                                         (n,)
        shelf: index of the array of clouds of the first and second  (2,)
        row: index of each one's cloud in it                         (n, 2)
        mutual: whether forces also act on points of the second geom; a plane has no points
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    shelf: tuple[int, int]
    row: NDArray[np.int64]
    mutual: bool


def name_of(mjm: mujoco.MjModel, kind: mujoco.mjtObj, index: int) -> str:
    """Name of something in a model, or its number."""
    name = mujoco.mj_id2name(mjm, kind, index)
    return f"{name!r}" if name else f"number {index}"


def touching_pairs(mjm: mujoco.MjModel) -> list[tuple[int, int]]:
    """Geoms that may touch, by MuJoCo's filters; the second is a plane if one of them is."""
    pairs = set()
    for i in range(mjm.npair):
        pairs.add(tuple(sorted((int(mjm.pair_geom1[i]), int(mjm.pair_geom2[i])))))
    excluded = {(int(s) >> 16, int(s) & 0xFFFF) for s in mjm.exclude_signature}
    weld, parent = mjm.body_weldid, mjm.body_parentid
    filtered = not mjm.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    for a in range(mjm.ngeom):
        for b in range(a + 1, mjm.ngeom):
            if not (mjm.geom_contype[a] & mjm.geom_conaffinity[b] or mjm.geom_contype[b] & mjm.geom_conaffinity[a]):
                continue
            one, two = int(mjm.geom_bodyid[a]), int(mjm.geom_bodyid[b])
            if (one, two) in excluded or (two, one) in excluded or weld[one] == weld[two]:
                continue
            up, down = weld[parent[weld[one]]], weld[parent[weld[two]]]
            if filtered and weld[one] and weld[two] and (weld[one] == down or weld[two] == up):
                continue
            pairs.add((a, b))
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    out = []
    for a, b in sorted(pairs):
        if mjm.geom_type[a] == plane and mjm.geom_type[b] == plane:
            continue
        one, two = mjm.geom_bodyid[a], mjm.geom_bodyid[b]
        if not (_moves(mjm, one) or _moves(mjm, two)):
            continue
        out.append((b, a) if mjm.geom_type[a] == plane else (a, b))
    return out


def same_shape(mjm: mujoco.MjModel, geoms: Iterable[int]) -> list[list[int]]:
    """Geoms that have the same cloud, together."""
    found: dict[tuple[int, int, bytes], list[int]] = {}
    for g in geoms:
        key = (int(mjm.geom_type[g]), int(mjm.geom_dataid[g]), mjm.geom_size[g].tobytes())
        found.setdefault(key, []).append(g)
    return list(found.values())


def points_for(mjm: mujoco.MjModel, geom: int, points: int, mesh_points: int) -> int:
    """How many points a geom is to have, about."""
    return mesh_points if mjm.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH else points


def touching_geoms(mjm: mujoco.MjModel) -> list[int]:
    """Geoms that may touch another."""
    return sorted({g for pair in touching_pairs(mjm) for g in pair})


def make_clouds(mjm: mujoco.MjModel, points: int, mesh_points: int) -> dict[int, Cloud]:
    """The checked cloud of each geom that may touch another."""
    out: dict[int, Cloud] = {}
    for geoms in same_shape(mjm, touching_geoms(mjm)):
        cloud = cloud_of(mjm, geoms[0], points_for(mjm, geoms[0], points, mesh_points))
        check(cloud, name_of(mjm, mujoco.mjtObj.mjOBJ_GEOM, geoms[0]))
        out |= dict.fromkeys(geoms, cloud)
    return dict(sorted(out.items()))


def _moves(mjm: mujoco.MjModel, body: int) -> bool:
    return bool(mjm.body_weldid[body] != 0 and mjm.body_treeid[body] >= 0)


def group_pairs(
    pairs: list[tuple[int, int]], shelf: NDArray[np.int64], row: NDArray[np.int64], open_shelf: int | None
) -> list[Group]:
    """Pairs by the sizes of their clouds; `shelf` and `row` are of each geom, `open_shelf` that of planes."""
    sorted_pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for a, b in pairs:
        sorted_pairs.setdefault((int(shelf[a]), int(shelf[b])), []).append((a, b))
    groups = []
    for shelves, members in sorted_pairs.items():
        first, second = (np.array([pair[k] for pair in members]) for k in range(2))
        rows = np.stack([row[first], row[second]], axis=1)
        groups.append(Group(first, second, shelves, rows, shelves[1] != open_shelf))
    return groups


def dofs_of_bodies(mjm: mujoco.MjModel) -> NDArray[np.float64]:
    """1 where a dof moves a body, (nv, nbody)."""
    out = np.zeros((mjm.nv, mjm.nbody))
    for body in range(1, mjm.nbody):
        up = body
        while up:
            start = mjm.body_dofadr[up]
            out[start : start + mjm.body_dofnum[up], body] = 1.0 if mjm.body_dofnum[up] else 0.0
            up = mjm.body_parentid[up]
    return out


MOST_DOFS, MOST_PAIRS = 300, 2000
"""What a model may have: beyond that, compiling and stepping take minutes."""


def unsupported_features(mjm: mujoco.MjModel) -> list[str]:
    """What the model has that this physics cannot honour."""
    found = []
    counts = {
        "equality constraints": mjm.neq,
        "flexes": mjm.nflex,
        "skins' plugins": mjm.nplugin,
        "tendon limits": int(np.sum(mjm.tendon_limited)) if mjm.ntendon else 0,
        "dry friction of tendons": int(np.sum(mjm.tendon_frictionloss > 0)) if mjm.ntendon else 0,
        "springs of tendons": int(np.sum(mjm.tendon_stiffness > 0)) if mjm.ntendon else 0,
        "gravity compensation": int(np.sum(mjm.body_gravcomp != 0)),
    }
    found += [f"{what} ({count})" for what, count in counts.items() if count]
    if mjm.opt.density or mjm.opt.viscosity or mjm.opt.wind.any():
        found.append(f"a medium (density {mjm.opt.density:g}, viscosity {mjm.opt.viscosity:g})")
    ball = mujoco.mjtJoint.mjJNT_BALL
    for j in range(mjm.njnt):
        name = name_of(mjm, mujoco.mjtObj.mjOBJ_JOINT, j)
        if mjm.jnt_type[j] in (FREE, BALL) and mjm.jnt_stiffness[j]:
            found.append(f"a spring of the free or ball joint {name}")
        if mjm.jnt_type[j] == ball and mjm.jnt_limited[j]:
            found.append(f"the limit of the ball joint {name}")
    for i in range(mjm.nu):
        if (
            mjm.actuator_dyntype[i] == mujoco.mjtDyn.mjDYN_USER
            or mjm.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_USER
        ):
            found.append(f"the user actuator {name_of(mjm, mujoco.mjtObj.mjOBJ_ACTUATOR, i)}")
    shapes = {mujoco.mjtGeom.mjGEOM_HFIELD: "height field", mujoco.mjtGeom.mjGEOM_SDF: "signed distance plugin"}
    for g in touching_geoms(mjm):
        kind = mujoco.mjtGeom(int(mjm.geom_type[g]))
        if kind in shapes:
            found.append(f"the {shapes[kind]} of geom {name_of(mjm, mujoco.mjtObj.mjOBJ_GEOM, g)}")
    pairs = len(touching_pairs(mjm))
    if mjm.nv > MOST_DOFS:
        found.append(f"more than {MOST_DOFS} degrees of freedom ({mjm.nv}, in a dense mass matrix): take fewer bodies")
    if pairs > MOST_PAIRS:
        found.append(
            f"more than {MOST_PAIRS} pairs of geoms that may touch ({pairs}, each looked at in every step): "
            "take fewer bodies, or filter with contype and conaffinity"
        )
    return found + singular_joints(mjm)


def shelves_of(clouds: Mapping[int, Cloud], ngeom: int) -> tuple[list[list[int]], NDArray[np.int64], NDArray[np.int64]]:
    """Geoms whose clouds have the same number of points, and on which shelf and in which row each is, or -1."""
    shelf, row = np.full(ngeom, -1), np.full(ngeom, -1)
    shelves: dict[tuple[int, int, bool], list[int]] = {}
    for geom, cloud in clouds.items():
        size = (len(cloud.quads.point), len(cloud.quads.vertices), cloud.open)
        shelves.setdefault(size, []).append(geom)
    for k, members in enumerate(shelves.values()):
        shelf[members], row[members] = k, np.arange(len(members))
    return list(shelves.values()), shelf, row


def without_contact(mjm: mujoco.MjModel, jacobian: int = mujoco.mjtJacobian.mjJAC_DENSE) -> mujoco.MjModel:
    """A copy that MJX, or MuJoCo Warp with another Jacobian, takes whatever its geoms are: they do not touch there."""
    bare = copy.copy(mjm)
    bare.geom_contype[:] = 0
    bare.geom_conaffinity[:] = 0
    bare.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_CONTACT)
    bare.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    bare.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    bare.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    bare.opt.jacobian = jacobian
    bare.opt.enableflags = 0
    return bare
