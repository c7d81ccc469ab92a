"""From MuJoCo's model to particle bodies, and data for them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.mjwarp import data as warp_data
from stickslip.physics.mjwarp.model import without_autoreset
from stickslip.physics.pbd import colliders as solid
from stickslip.physics.pbd import layout
from stickslip.physics.pbd.clusters import boxes_around, clustered
from stickslip.physics.pbd.lanes import lanes_of
from stickslip.physics.pbd.layout import Bodies, Exact, Mocap, Shape, Surface, Touching, real
from stickslip.physics.pbd.packing import pack

Array = NDArray[np.float64]

MARGIN = 0.25
"""Distance at which contacts are detected, in radii."""
_OWN_CELLS = 64.0
"""Most cells of a body's grid for each of its particles."""


@dataclasses.dataclass(frozen=True)
class Body:
    """What moves as one.

    Attributes:
        root: MuJoCo's body with the free joint
        members: MuJoCo's bodies that it consists of, with their poses in its frame
        centre: of particles, in its frame [m]                     (n, 3)
        radius: [m]                                                (n,)
        geom: MuJoCo's geom that each stands for                   (n,)
        clusters: how many of them follow each other that are close together   (k,)
    """

    root: int
    members: tuple[tuple[int, Array, Array], ...]
    centre: Array
    radius: Array
    geom: NDArray[np.int32]
    clusters: NDArray[np.int64]


@dataclasses.dataclass
class Model(mjw.Model):
    """MuJoCo Warp's model with its bodies made of particles.

    Attributes:
        bodies: on the host
        shape, colliders, surface: the same on the device
        weightless: gravity where it is switched off                (1,)
        kept: what the device refers to
    """

    bodies: tuple[Body, ...]
    shape: Shape
    colliders: solid.Colliders
    surface: Surface
    weightless: wp.array
    kept: list[Any]


@dataclasses.dataclass
class Workspace:
    """What a step stores in the data.

    Attributes:
        exact: the state in double precision
        bodies, touching: working arrays; contacts stay until the next step
        mocap: poses of mocap bodies before the step
        near: bits of bodies that may touch each other            (nworld, nbody, nword)
        awake: clusters that may touch something                  (nworld, ncluster)
        nlane, nteam: lanes of a world, and teams of them
        made: the bodies it is for, on the host
    """

    exact: Exact
    bodies: Bodies
    touching: Touching
    mocap: Mocap
    near: wp.array
    awake: wp.array
    nlane: int
    nteam: int
    made: tuple[Body, ...]


@dataclasses.dataclass
class Data(warp_data.Data):
    """MuJoCo Warp's data with the workspace for particle bodies."""

    workspace: Workspace


def unsupported_features(mjm: mujoco.MjModel) -> list[str]:
    """What particle bodies cannot honour, one name each."""
    name = mujoco.mj_id2name
    joints = [
        f"joint {name(mjm, mujoco.mjtObj.mjOBJ_JOINT, j) or j!r} ({mujoco.mjtJoint(int(kind)).name[6:].lower()})"
        for j, kind in enumerate(mjm.jnt_type)
        if kind != mujoco.mjtJoint.mjJNT_FREE
    ]
    found = [f"joints other than free ones: {_listed(joints)}"] if joints else []
    counted = {
        "actuators": mjm.nu,
        "tendons": mjm.ntendon,
        "equality constraints": mjm.neq,
        "sensors": mjm.nsensor,
        "flexes": mjm.nflex,
        "contact pairs": mjm.npair,
        "plugins": mjm.nplugin,
    }
    found += [f"{what} ({number})" for what, number in counted.items() if number]
    for field, what in (
        ("dof_damping", "damping of joints"),
        ("dof_armature", "armature"),
        ("dof_dampingpoly", "damping of joints that grows with speed"),
        ("dof_frictionloss", "dry friction of joints"),
        ("jnt_stiffness", "stiffness of joints"),
        ("jnt_stiffnesspoly", "polynomial stiffness of joints"),
        ("body_gravcomp", "gravity compensation"),
        ("geom_adhesion", "adhesion of geoms"),
        ("geom_surfacevel", "surfaces that move by themselves"),
    ):
        if np.any(getattr(mjm, field)):
            found.append(what)
    if mjm.opt.density or mjm.opt.viscosity or np.any(mjm.opt.wind):
        found.append("a medium (density, viscosity, wind)")
    if (mjm.geom_margin > mjm.geom_gap).any():
        found.append("geoms that push before they touch (margin above gap)")
    found += solid.unsupported(mjm, _colliders(mjm))
    return found


def _listed(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _collides(mjm: mujoco.MjModel) -> NDArray[np.bool_]:
    return (mjm.geom_contype != 0) | (mjm.geom_conaffinity != 0)


def _colliders(mjm: mujoco.MjModel) -> list[int]:
    """Geoms of the world, and of bodies welded to it and of mocap bodies, that may be touched."""
    still = mjm.body_weldid[mjm.geom_bodyid] == 0
    mocap = mjm.body_mocapid[mjm.body_rootid[mjm.geom_bodyid]] >= 0
    return [int(g) for g in np.flatnonzero((still | mocap) & _collides(mjm))]


def _meets(mjm: mujoco.MjModel) -> NDArray[np.bool_]:
    """Whether two geoms may touch: MuJoCo's filters, (ngeom, ngeom)."""
    disable = mujoco.mjtDisableBit
    if mjm.opt.disableflags & (disable.mjDSBL_CONTACT | disable.mjDSBL_CONSTRAINT):
        return np.zeros((mjm.ngeom, mjm.ngeom), dtype=bool)
    contype, affinity = mjm.geom_contype, mjm.geom_conaffinity
    meets = ((contype[:, None] & affinity) | (contype & affinity[:, None])) != 0
    if mjm.nexclude:
        signatures = set(mjm.exclude_signature.tolist())
        for a in range(mjm.ngeom):
            for b in range(a):
                low, high = sorted((int(mjm.geom_bodyid[a]), int(mjm.geom_bodyid[b])))
                if (low << 16) + high in signatures:
                    meets[a, b] = meets[b, a] = False
    return meets


def _pose(pos: Array, quat: Array) -> tuple[Array, Array]:
    mat = np.zeros(9)
    mujoco.mju_quat2Mat(mat, np.asarray(quat, dtype=float))
    return np.array(pos, dtype=float), mat.reshape(3, 3)


def make_bodies(mjm: mujoco.MjModel, resolution: int, mesh_resolution: int, *, seated: bool) -> tuple[Body, ...]:
    """The bodies of a model, packed; `seated` where particles are there to touch with, and not for their mass."""
    found = []
    for joint in range(mjm.njnt):
        root = int(mjm.jnt_bodyid[joint])
        poses = {root: (np.zeros(3), np.eye(3))}
        for body in range(root + 1, mjm.nbody):
            parent = int(mjm.body_parentid[body])
            if parent in poses and mjm.body_weldid[body] == root:
                pos, mat = _pose(mjm.body_pos[body], mjm.body_quat[body])
                above = poses[parent]
                poses[body] = (above[0] + above[1] @ pos, above[1] @ mat)
        centre, radius, geom = [np.zeros((0, 3))], [np.zeros(0)], [np.zeros(0, dtype=np.int32)]
        for g in np.flatnonzero(np.isin(mjm.geom_bodyid, list(poses)) & _collides(mjm)):
            # a lattice has a flat foot; moved out to a mesh one by one, spheres stand unevenly
            lattice = mjm.geom_type[g] == mujoco.mjtGeom.mjGEOM_MESH
            spheres = pack(mjm, int(g), resolution, mesh_resolution, seated=seated and not lattice)
            pos, mat = _pose(mjm.geom_pos[g], mjm.geom_quat[g])
            above = poses[int(mjm.geom_bodyid[g])]
            centre.append(above[0] + (pos + spheres.centre @ mat.T) @ above[1].T)
            radius.append(spheres.radius)
            geom.append(np.full(len(spheres.radius), g, dtype=np.int32))
        members = tuple((body, *pose) for body, pose in poses.items())
        place = np.concatenate(centre)
        order, clusters = clustered(place)
        found.append(
            Body(root, members, place[order], np.concatenate(radius)[order], np.concatenate(geom)[order], clusters)
        )
    return tuple(found)


def _thickness(body: Body) -> float:
    """Inertia over mass of the balls in a chain, which as points have none about it; 0 of anything else [m^2]."""
    spread = np.cov(body.centre.T, bias=True) if len(body.centre) > 1 else np.zeros((3, 3))
    values = np.linalg.eigvalsh(spread)
    in_line = values[0] + values[1] <= 1e-9 * max(values[2], 1e-30)
    return 0.4 * float(np.mean(body.radius**2)) if in_line and len(body.radius) else 0.0


def put_model(mjm: mujoco.MjModel, bodies: tuple[Body, ...]) -> Model:
    """MuJoCo Warp's model with these bodies, on the current device."""
    geoms = _colliders(mjm)
    colliders, kept = solid.make_colliders(mjm, geoms)
    surface = Surface()
    surface.condim = wp.array(mjm.geom_condim, dtype=int)
    surface.priority = wp.array(mjm.geom_priority, dtype=int)
    return warp_data.extended(
        Model,
        mjw.put_model(without_autoreset(mjm)),
        bodies=bodies,
        shape=_make_shape(mjm, bodies, geoms),
        colliders=colliders,
        surface=surface,
        weightless=wp.zeros(1, dtype=wp.vec3),
        kept=kept,
    )


def _make_shape(mjm: mujoco.MjModel, bodies: Sequence[Body], geoms: Sequence[int]) -> Shape:
    counts = np.array([len(body.radius) for body in bodies], dtype=int)
    largest = max((float(body.radius.max(initial=0.0)) for body in bodies), default=0.0)
    shape = Shape()
    shape.nbody, shape.nparticle, shape.ncollider = len(bodies), int(counts.sum()), len(geoms)
    shape.nword = -(-len(bodies) // 32)

    def ints(values: Any) -> wp.array:
        return wp.array(np.asarray(values, dtype=np.int32).reshape(-1), dtype=int)

    def reals(values: Any) -> wp.array:
        return wp.array(np.asarray(values, dtype=float).reshape(-1), dtype=real)

    def vectors(values: Any) -> wp.array:
        return wp.array(np.asarray(values, dtype=float).reshape(-1, 3), dtype=wp.vec3d)

    def matrices(values: Any) -> wp.array:
        return wp.array(np.asarray(values, dtype=float).reshape(-1, 3, 3), dtype=wp.mat33d)

    members = [member for body in bodies for member in body.members]
    joint = [int(mjm.body_jntadr[body.root]) for body in bodies]
    shape.body_qposadr, shape.body_dofadr = ints(mjm.jnt_qposadr[joint]), ints(mjm.jnt_dofadr[joint])
    number = [len(body.members) for body in bodies]
    shape.body_memberadr, shape.body_membernum = ints(np.cumsum([0, *number])[: len(bodies)]), ints(number)
    shape.body_adr, shape.body_num = ints(np.cumsum([0, *counts])[: len(bodies)]), ints(counts)
    shape.member_id = ints([member[0] for member in members])
    shape.member_pos, shape.member_mat = vectors([m[1] for m in members]), matrices([m[2] for m in members])
    places = [body.centre if len(body.centre) else np.zeros((1, 3)) for body in bodies]
    shape.body_mean = vectors([place.mean(axis=0) for place in places])
    shape.body_square = matrices([place.T @ place / len(place) for place in places])
    middle = [0.5 * (place.min(axis=0) + place.max(axis=0)) for place in places]
    shape.body_middle = vectors(middle)
    reach = [
        (1.0 + MARGIN) * float(body.radius.max(initial=0.0)) + float(np.linalg.norm(place - mid, axis=1).max())
        for body, place, mid in zip(bodies, places, middle, strict=True)
    ]
    shape.body_reach = reals(reach)
    shape.body_thick = reals([_thickness(body) for body in bodies])

    grids = [_grid(body, largest) for body in bodies]
    shape.body_cell, shape.body_corner = reals([g[0] for g in grids]), vectors([g[1] for g in grids])
    shape.body_cells = wp.array(np.array([g[2] for g in grids], dtype=np.int32).reshape(-1, 3), dtype=wp.vec3i)
    offset = np.cumsum([0, *counts])
    starts, particles, address = [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)], []
    at = 0
    for (_, _, _, start, order), first in zip(grids, offset[:-1], strict=True):
        address.append(at)
        starts.append(start + first)
        particles.append(order + first)
        at += len(start)
    shape.body_celladr = ints(address)
    shape.cell_adr, shape.cell_particle = ints(np.concatenate(starts)), ints(np.concatenate(particles))

    shape.place = vectors(np.concatenate([np.zeros((0, 3)), *(body.centre for body in bodies)]))
    shape.radius = reals(np.concatenate([np.zeros(0), *(body.radius for body in bodies)]))
    shape.owner = ints(np.repeat(np.arange(len(bodies)), counts))
    shape.geom = ints(np.concatenate([np.zeros(0, dtype=int), *(body.geom for body in bodies)]))

    sizes = np.concatenate([np.zeros(0, dtype=int), *(body.clusters for body in bodies)])
    shape.ncluster, shape.cluster_num = len(sizes), ints(sizes)
    shape.cluster_adr = ints(np.cumsum(sizes) - sizes)
    shape.cluster_body = ints(np.repeat(np.arange(len(bodies)), [len(body.clusters) for body in bodies]))
    around = [boxes_around(body.centre, (1.0 + MARGIN) * body.radius, body.clusters) for body in bodies]
    shape.cluster_middle = vectors(np.concatenate([np.zeros((0, 3)), *(box[0] for box in around)]))
    shape.cluster_half = vectors(np.concatenate([np.zeros((0, 3)), *(box[1] for box in around)]))
    shape.cluster_pad = reals(np.concatenate([np.zeros(0), *(box[2] for box in around)]))

    mjd = mujoco.MjData(mjm)
    mujoco.mj_kinematics(mjm, mjd)
    mocap = [int(mjm.body_mocapid[mjm.body_rootid[mjm.geom_bodyid[g]]]) for g in geoms]
    pos, mat = [], []
    for g, moved in zip(geoms, mocap, strict=True):
        p, r = mjd.geom_xpos[g].copy(), mjd.geom_xmat[g].reshape(3, 3).copy()
        if moved >= 0:
            root = mjm.body_rootid[mjm.geom_bodyid[g]]
            frame = mjd.xmat[root].reshape(3, 3)
            p, r = frame.T @ (p - mjd.xpos[root]), frame.T @ r
        pos.append(p)
        mat.append(r)
    shape.collider_geom, shape.collider_mocap = ints(geoms), ints(mocap)
    shape.collider_pos, shape.collider_mat = vectors(pos), matrices(mat)
    shape.meets = wp.array(_meets(mjm), dtype=bool)
    return shape


def _grid(body: Body, largest: float) -> tuple[float, Array, Array, NDArray[np.integer], NDArray[np.integer]]:
    """Side of a cell, corner and number of cells, where the particles of each cell begin, and these in order.

    Whatever touches a particle of the body is in its cell or in one beside it.
    """
    if not len(body.radius):
        return 1.0, np.zeros(3), np.zeros(3, dtype=int), np.zeros(1, dtype=int), np.zeros(0, dtype=int)
    side = (1.0 + MARGIN) * (float(body.radius.max()) + largest)
    low, high = body.centre.min(axis=0), body.centre.max(axis=0)
    while np.prod(np.floor((high - low) / side) + 1) > max(_OWN_CELLS * len(body.radius), 64):
        side *= 1.5
    cells = np.floor((high - low) / side).astype(int) + 1
    index = np.floor((body.centre - low) / side).astype(int)
    flat = (index[:, 0] * cells[1] + index[:, 1]) * cells[2] + index[:, 2]
    order = np.argsort(flat, kind="stable")
    start = np.searchsorted(flat[order], np.arange(int(np.prod(cells)) + 1))
    return side, low, cells, start, order


def make_workspace(mjm: mujoco.MjModel, bodies: tuple[Body, ...], nworld: int, nconmax: int | None) -> Workspace:
    """Workspace for particle bodies in so many worlds; contacts for each particle, or `nconmax` if that is more.

    Two particles that touch have a contact each.
    """
    nparticle = sum(len(body.radius) for body in bodies)
    nbody = len(bodies)
    exact, state, touching = Exact(), Bodies(), Touching()
    exact.qpos = wp.full((nworld, mjm.nq), np.nan, dtype=real)
    exact.qvel = wp.full((nworld, mjm.nv), np.nan, dtype=real)
    state.body, state.slot = (
        wp.zeros((nworld, nbody), dtype=layout.Body),
        wp.zeros((nworld, 2 * nbody), dtype=layout.Slot),
    )
    state.adr, state.num = (wp.zeros((nworld, nbody), dtype=int) for _ in range(2))
    capacity = 2 * max(nconmax or 0, nparticle, 32)
    touching.capacity = capacity
    touching.count, touching.most, touching.shown = (wp.zeros(nworld, dtype=int) for _ in range(3))
    for name, var in Touching.vars.items():
        if name not in ("capacity", "count", "most", "shown"):
            setattr(touching, name, wp.zeros((nworld, capacity), dtype=var.type.dtype))
    mocap = Mocap()
    mocap.pos_before = wp.full((nworld, mjm.nmocap), wp.vec3(np.nan), dtype=wp.vec3)
    mocap.quat_before = wp.full((nworld, mjm.nmocap), wp.quat(np.nan, np.nan, np.nan, np.nan), dtype=wp.quat)
    nlane, nteam = lanes_of(nbody, nparticle, nworld, wp.get_device().is_cuda)
    near = wp.zeros((nworld, max(nbody, 1), max(-(-nbody // 32), 1)), dtype=int)
    awake = wp.zeros((nworld, sum(len(body.clusters) for body in bodies)), dtype=int)
    return Workspace(exact, state, touching, mocap, near, awake, nlane, nteam, bodies)


def workspace_of(d: mjw.Data) -> Workspace:
    """The workspace of data made for particle bodies."""
    if not isinstance(d, Data):
        raise InputError("this data is not for particle bodies: make it with make_data of the physics that steps it")
    return d.workspace
