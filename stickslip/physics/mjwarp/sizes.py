"""How large the buffers of a model should be: constraint rows, contacts and pairs of geoms, found on the host.

Rows that are not of contacts have an upper bound: every equality, dry friction and limit is counted. Contacts have
none that is of use, since all pairs of geoms never touch at once. So they are estimated from the shapes of geoms that
can touch, and from the model's start. `Simulation` enlarges buffers that turn out too small.
"""

import mujoco
import mujoco_warp as mjw
import numpy as np
from numpy.typing import NDArray

CONTACT_BITS = int(mjw.OverflowType.BROADPHASE | mjw.OverflowType.NARROWPHASE | mjw.OverflowType.CCD)
"""Bits of `overflow` that a larger nconmax helps against."""
ROW_BITS = int(mjw.OverflowType.NEFC | mjw.OverflowType.NJMAX_NNZ)
"""Bits of `overflow` that a larger njmax helps against."""

_LEAST_CONTACTS = 16
_SLACK = 1.25
"""How much more room there is than the numbers seen."""
_OF_FLEX = (256, 512)
"""Least contacts and rows of a model with deformable bodies, as MuJoCo Warp guesses them."""

_GEOM = mujoco.mjtGeom
_POINTS = {
    _GEOM.mjGEOM_PLANE: 0,
    _GEOM.mjGEOM_HFIELD: 0,
    _GEOM.mjGEOM_SPHERE: 1,
    _GEOM.mjGEOM_CAPSULE: 2,
    _GEOM.mjGEOM_ELLIPSOID: 1,
    _GEOM.mjGEOM_CYLINDER: 4,
    _GEOM.mjGEOM_BOX: 4,
    _GEOM.mjGEOM_MESH: 4,
    _GEOM.mjGEOM_SDF: 8,
}
"""Contacts of a geom that lies on a plane."""


def default_sizes(mjm: mujoco.MjModel) -> tuple[int, int]:
    """Contacts and constraint rows to allow for in each world: (nconmax, njmax)."""
    contacts, pairs = expected_contacts(mjm)
    rows = rows_without_contacts(mjm) + contacts * rows_of_contact(mjm)
    if mjm.nflex:
        contacts, rows = max(contacts, _OF_FLEX[0]), max(rows, _OF_FLEX[1])
    return rounded(max(contacts, pairs, _LEAST_CONTACTS)), rounded(rows)


def enlarged(size: int, seen: float) -> int:
    """The size of a buffer that was too small for what was seen: at least twice as large."""
    return rounded(max(2 * size, _SLACK * seen))


def rounded(size: float) -> int:
    """The next of 16, 24, 32, 48, 64, ...: MuJoCo Warp compiles kernels for each number of rows."""
    power = 16
    while power < size:
        if 1.5 * power >= size:
            return power + power // 2
        power *= 2
    return power


def rows_without_contacts(mjm: mujoco.MjModel) -> int:
    """Upper bound of the rows that are not of contacts: all equalities, active or not, dry friction, limits."""
    friction = np.count_nonzero(mjm.dof_frictionloss) + np.count_nonzero(mjm.tendon_frictionloss)
    limits = np.count_nonzero(mjm.jnt_limited) + np.count_nonzero(mjm.tendon_limited)
    return int(sum(_rows_of_equality(mjm, i) for i in range(mjm.neq)) + friction + limits)


def _rows_of_equality(mjm: mujoco.MjModel, i: int) -> int:
    kind, flex = mujoco.mjtEq(mjm.eq_type[i]), int(mjm.eq_obj1id[i])
    if kind == mujoco.mjtEq.mjEQ_CONNECT:
        return 3
    if kind == mujoco.mjtEq.mjEQ_WELD:
        return 6
    if kind in (mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtEq.mjEQ_TENDON):
        return 1
    return int(max(mjm.flex_edgenum[flex], 2 * mjm.flex_vertnum[flex]))


def rows_of_contact(mjm: mujoco.MjModel) -> int:
    """Most rows of a contact, by the friction cone and `condim`."""
    touching = np.flatnonzero(mjm.geom_contype | mjm.geom_conaffinity)
    condim = int(max(mjm.geom_condim[touching].max(initial=1), mjm.pair_dim.max(initial=1)))
    return condim if mjm.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC or condim == 1 else 2 * (condim - 1)


def expected_contacts(mjm: mujoco.MjModel) -> tuple[int, int]:
    """Contacts that a world is likely to have, and pairs of geoms that come close; with slack.

    Of each tree of bodies one geom rests on one and a half others, as in a pile; of its other geoms, every second one
    touches something. At least, there is room for what touches at the model's start.
    """
    off = int(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    if mjm.opt.disableflags & off:
        return 0, 0
    first, second = geom_pairs(mjm)
    touching = np.union1d(first, second)
    tree = mjm.body_treeid[mjm.geom_bodyid[touching]]
    points = np.array([_POINTS.get(_GEOM(kind), 4) for kind in mjm.geom_type[touching]], dtype=float)
    points, tree = points[tree >= 0], tree[tree >= 0]
    most = np.zeros(mjm.ntree)
    np.maximum.at(most, tree, points)
    contacts = 0.5 * points.sum() + most.sum()
    if (mjm.geom_type[touching] == int(_GEOM.mjGEOM_HFIELD)).any():
        contacts *= 2.0

    mjd = mujoco.MjData(mjm)
    if mjm.nkey:
        mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    for stage in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_flex, mujoco.mj_collision):
        stage(mjm, mjd)
    close = _SLACK * _count_close(mjm, mjd, first, second)
    return int(np.ceil(max(contacts, _SLACK * mjd.ncon))), int(np.ceil(close))


def geom_pairs(mjm: mujoco.MjModel) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """The pairs of geoms that MuJoCo's filters let touch, the smaller index first."""
    body = mjm.geom_bodyid
    weld = mjm.body_weldid[body]
    parent = mjm.body_weldid[mjm.body_parentid[weld]]
    moves = mjm.body_dofnum[weld] > 0
    filters_parent = not mjm.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_FILTERPARENT)
    found = [np.stack([mjm.pair_geom1, mjm.pair_geom2], axis=1).astype(int)]
    for g in range(mjm.ngeom):
        others = slice(g + 1, None)
        meets = (mjm.geom_contype[g] & mjm.geom_conaffinity[others]) | (
            mjm.geom_conaffinity[g] & mjm.geom_contype[others]
        )
        chosen = (meets != 0) & (weld[others] != weld[g]) & (moves[others] | moves[g])
        if filters_parent and weld[g]:
            chosen &= (weld[others] == 0) | ((parent[others] != weld[g]) & (weld[others] != parent[g]))
        if mjm.nexclude:  # bodies in the order of their geoms
            chosen &= ~np.isin((int(body[g]) << 16) + body[others], mjm.exclude_signature)
        partners = np.flatnonzero(chosen) + g + 1
        found.append(np.stack([np.full(len(partners), g), partners], axis=1))
    pairs = np.unique(np.sort(np.concatenate(found), axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _count_close(
    mjm: mujoco.MjModel, mjd: mujoco.MjData, first: NDArray[np.integer], second: NDArray[np.integer]
) -> int:
    """How many of the pairs have bounding boxes that overlap; planes and height fields are close to all in reach."""
    rotation = mjd.geom_xmat.reshape(-1, 3, 3)
    centre = mjd.geom_xpos + np.einsum("nij,nj->ni", rotation, mjm.geom_aabb[:, :3])
    half = np.einsum("nij,nj->ni", np.abs(rotation), mjm.geom_aabb[:, 3:]) + mjm.geom_margin[:, None]
    apart = np.abs(centre[first] - centre[second]) > half[first] + half[second]
    ball = mjm.geom_rbound + mjm.geom_margin
    distant = np.linalg.norm(mjd.geom_xpos[first] - mjd.geom_xpos[second], axis=1) > ball[first] + ball[second]
    close = ~(apart.any(axis=1) | distant)
    for plane, other in ((first, second), (second, first)):
        flat = mjm.geom_type[plane] == int(_GEOM.mjGEOM_PLANE)
        above = np.einsum("ni,ni->n", mjd.geom_xpos[other] - mjd.geom_xpos[plane], rotation[plane][:, :, 2])
        close = np.where(flat, above <= ball[other] + mjm.geom_margin[plane], close)
    return int(close.sum())
