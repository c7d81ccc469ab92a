"""What the kernel asks about a model's tree, laid out once on the host; and which models it covers."""

import dataclasses

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stickslip.physics.mjwarp.lanes import WARP

COPIED = (
    "body_parentid body_rootid body_mocapid body_jntadr body_jntnum body_dofadr body_dofnum dof_bodyid dof_jntid "
    "jnt_type jnt_bodyid jnt_qposadr jnt_dofadr jnt_actuatorid jnt_actgravcomp geom_bodyid site_bodyid tendon_adr "
    "tendon_num wrap_objid ten_J_rownnz ten_J_rowadr ten_J_colind actuator_trntype actuator_trnid actuator_dyntype "
    "actuator_gaintype actuator_biastype actuator_ctrladr actuator_ctrlnum actuator_actadr actuator_actnum cam_mode "
    "cam_bodyid cam_targetbodyid light_mode light_bodyid light_targetbodyid eq_type eq_obj1id eq_obj2id eq_objtype"
).split()
"""Tables of MuJoCo Warp's model; they lie with the others, for a kernel to fetch all of them at once."""

ALONG_AXIS, ABOUT_AXIS = 6, 7
"""Kinds of dofs: 0 to 2 move along axes of the world, 3 to 5 turn about axes of their body, these two along or about
the axis of their joint."""

_TENDON = int(mujoco.mjtTrn.mjTRN_TENDON)
_TARGETS = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT), _TENDON)
_DYNAMICS = tuple(
    int(getattr(mujoco.mjtDyn, f"mjDYN_{name}")) for name in ("NONE", "INTEGRATOR", "FILTER", "FILTEREXACT")
)
_GAINS = (int(mujoco.mjtGain.mjGAIN_FIXED), int(mujoco.mjtGain.mjGAIN_AFFINE))
_BIASES = (int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE))


@dataclasses.dataclass(frozen=True)
class Tables:
    """Tables of whole numbers on the device, by name, and sizes.

    Attributes:
        names: of the tables, in the order in which they lie in `packed`
        starts: where each begins
        packed: all of them                                                    (*,)
        sizes: numbers that a kernel asks for, by name
    """

    names: tuple[str, ...]
    starts: tuple[int, ...]
    packed: wp.array
    sizes: dict[str, int]

    def addresses(self) -> dict[str, int]:
        """Where each table is in memory."""
        return {name: self.packed.ptr + 4 * start for name, start in zip(self.names, self.starts, strict=True)}


def _on_device(tables: dict[str, NDArray[np.integer]], sizes: dict[str, int]) -> Tables:
    starts = np.cumsum([0, *(table.size for table in tables.values())])
    packed = np.concatenate([np.asarray(table, dtype=np.int32) for table in tables.values()])
    return Tables(tuple(tables), tuple(int(s) for s in starts[:-1]), wp.array(packed, dtype=int), sizes)


def not_covered(mjm: mujoco.MjModel) -> list[str]:
    """What a model has that only MuJoCo Warp's own stages work out."""
    found = []
    if mjm.nflex:
        found.append("flex")
    if mjm.opt.density > 0.0 or mjm.opt.viscosity > 0.0 or np.any(mjm.opt.wind):
        found.append("fluid")
    if np.any(mjm.geom_adhesion) or np.any(mjm.pair_adhesion):
        found.append("adhesion")
    if mjm.nplugin:
        found.append("plugins")
    if mjm.nhistory:
        found.append("delays")
    if np.any(mjm.jnt_plasticadr >= 0) or np.any(mjm.tendon_plasticadr >= 0):
        found.append("plastic springs")
    if not np.isin(mjm.actuator_trntype, _TARGETS).all():
        found.append("actuators that do not act on a joint or a tendon")
    if np.any(mjm.tendon_actuatorid != -1):
        found.append("damping or armature of actuators on tendons")
    if np.any(mjm.tendon_actfrclimited):
        found.append("limits of actuator forces on tendons")
    if not np.isin(mjm.actuator_dyntype, _DYNAMICS).all():
        found.append("activation dynamics other than integrator and filters")
    if not (np.isin(mjm.actuator_gaintype, _GAINS).all() and np.isin(mjm.actuator_biastype, _BIASES).all()):
        found.append("actuators whose gain or bias is not affine")
    if np.any(mjm.tendon_armature):
        found.append("tendon armature")
    paths = (int(mujoco.mjtWrap.mjWRAP_JOINT), int(mujoco.mjtWrap.mjWRAP_SITE))
    if not np.isin(mjm.wrap_type, paths).all():
        found.append("tendons with pulleys or around geoms")
    return found


def left_to_mujoco_warp(m: mjw.Model) -> bool:
    """Whether options or callbacks, which can change at any time, ask for MuJoCo Warp's own stages."""
    return bool(
        any(vars(m.callback).values())
        or m.opt.enableflags & (mjw.EnableBit.ENERGY | mjw.EnableBit.SLEEP)
        or m.opt.integrator not in (mjw.IntegratorType.EULER, mjw.IntegratorType.IMPLICITFAST)
        or m.has_fluid
        or m.flg_adhesion
    )


def make_tables(mjm: mujoco.MjModel, base: mjw.Model) -> Tables | None:
    """The tables of a model on the current device, with MuJoCo Warp's own; None for a model that is not covered."""
    if not_covered(mjm):
        return None
    tables: dict[str, NDArray[np.integer]] = {}
    tables |= _levels_of_bodies(mjm)
    tables |= _kinds_of_dofs(mjm, base)
    tables |= _actuators(mjm)
    tables |= _tendons(mjm)
    tables |= {name: getattr(base, name).numpy().ravel() for name in COPIED}
    moves = (mjm.body_weldid != 0) | (mjm.body_mocapid[mjm.body_rootid] >= 0)
    tables["geom_moving"] = np.flatnonzero(moves[mjm.geom_bodyid])
    sizes = {
        "nbody": mjm.nbody,
        "njnt": mjm.njnt,
        "nq": mjm.nq,
        "nsite": mjm.nsite,
        "ngeom": mjm.ngeom,
        "ngeom_moving": int(tables["geom_moving"].size),
        "nmocap": mjm.nmocap,
        "ncam": mjm.ncam,
        "nlight": mjm.nlight,
        "nu": mjm.nu,
        "na": mjm.na,
        "nactuator": int(mjm.actuator_trntype.size),
        "ntendon": mjm.ntendon,
        "neq": mjm.neq,
        "nwrap": mjm.nwrap,
        "nJten": int(tables["ten_row"].size),
        "nmoment": int(tables["dof_act"].size) // 2,
        "nlevel": int(tables["level_adr"].size) - 1,
        "has_spatial": int(np.any(tables["ten_wrap"] >= 0)),
    }
    return _on_device(tables, sizes)


def room_of(order: Tables, tables: Tables) -> int:
    """Floats that a world needs while the kernel runs: the sum of what `smooth.h` lays out."""
    size = order.sizes | tables.sizes
    rest = size["nC"] + 3 * size["nv"] + 2 * size["nactuator"] + size["nmoment"] + 4 * size["ntendon"] + size["nJten"]
    rest = max(rest, 6 * size["nv"], 9 * int(WARP))  # `stage` lies in it
    return 1 + 39 * size["nbody"] + 7 * size["nv"] + rest


def reaction_room_of(tables: Tables) -> int:
    """The same for the forces between bodies: the sum of what `reactions.h` lays out."""
    return 14 * tables.sizes["nbody"] + 14 * int(WARP)


def _grouped(keys: ArrayLike, number: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Where the members of each group begin, (number + 1,), and the members, group by group."""
    keys = np.asarray(keys, dtype=int)
    return np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=number))]), np.argsort(keys, kind="stable")


def _levels_of_bodies(mjm: mujoco.MjModel) -> dict[str, NDArray[np.integer]]:
    """Bodies by their distance from the world."""
    depth = np.zeros(mjm.nbody, dtype=int)
    for body in range(1, mjm.nbody):
        depth[body] = depth[mjm.body_parentid[body]] + 1
    level_adr, level_body = _grouped(depth, int(depth.max()) + 1)
    return {"level_adr": level_adr, "level_body": level_body}


def _kinds_of_dofs(mjm: mujoco.MjModel, base: mjw.Model) -> dict[str, NDArray[np.integer]]:
    """How each dof moves, and whether it is of a free body that implicitfast solves by itself."""
    kind = np.zeros(mjm.nv, dtype=int)
    free = base.body_is_free.numpy().astype(int)[mjm.dof_bodyid]
    for joint in range(mjm.njnt):
        dof, type_ = mjm.jnt_dofadr[joint], mjm.jnt_type[joint]
        if type_ == mujoco.mjtJoint.mjJNT_FREE:
            kind[dof : dof + 6] = range(6)
        elif type_ == mujoco.mjtJoint.mjJNT_BALL:
            kind[dof : dof + 3] = (3, 4, 5)
        else:
            kind[dof] = ALONG_AXIS if type_ == mujoco.mjtJoint.mjJNT_SLIDE else ABOUT_AXIS
    return {"dof_kind": kind, "dof_free": free}


def make_order(mjm: mujoco.MjModel) -> Tables:
    """The order in which M is factored: groups of lanes take trees, and the dofs of each from the last to the first."""
    nv, rownnz, rowadr, colind = mjm.nv, mjm.M_rownnz, mjm.M_rowadr, mjm.M_colind
    end = np.arange(1, nv + 1)  # one past the last row that has this dof
    for dof in range(nv):
        for column in colind[rowadr[dof] : rowadr[dof] + rownnz[dof] - 1]:
            end[column] = dof + 1
    roots = np.flatnonzero(rownnz == 1)
    ngroup = min(int(WARP), 1 << (max(roots.size, 1).bit_length() - 1))
    groups: list[list[int]] = [[] for _ in range(ngroup)]
    for root in sorted(roots, key=lambda root: root - end[root]):  # the largest first, each to the shortest group
        min(groups, key=len).extend(range(end[root] - 1, root - 1, -1))
    order = np.array([dof for group in groups for dof in group], dtype=int)
    links = np.stack([order, rowadr[order], rownnz[order] - 1, end[order]], axis=1)
    tables = {
        "link": links.ravel() if nv else np.zeros(4, dtype=int),  # first: it is read by vectors of four
        "link_adr": np.concatenate([[0], np.cumsum([len(group) for group in groups])]),
        "M_row": np.repeat(np.arange(nv), rownnz),
        "M_above": rowadr[colind],
        "M_rownnz": rownnz,
        "M_rowadr": rowadr,
        "M_colind": colind,
    }
    return _on_device(tables, {"nv": nv, "nC": colind.size, "ngroup": ngroup, "nlink": max(map(len, groups))})


def _moment_dofs(mjm: mujoco.MjModel) -> list[NDArray[np.integer]]:
    """The dofs that each actuator acts on: those of its joint, or of its tendon."""
    sizes = {int(mujoco.mjtJoint.mjJNT_FREE): 6, int(mujoco.mjtJoint.mjJNT_BALL): 3}
    dofs = []
    for kind, (target, _) in zip(mjm.actuator_trntype, mjm.actuator_trnid, strict=True):
        if kind == _TENDON:
            first = mjm.ten_J_rowadr[target]
            dofs.append(mjm.ten_J_colind[first : first + mjm.ten_J_rownnz[target]])
        else:
            dofs.append(mjm.jnt_dofadr[target] + np.arange(sizes.get(int(mjm.jnt_type[target]), 1)))
    return dofs


def _actuators(mjm: mujoco.MjModel) -> dict[str, NDArray[np.integer]]:
    """Where the moments of an actuator are, and the actuators of each dof with theirs."""
    dofs = _moment_dofs(mjm)
    sizes = [len(row) for row in dofs]
    adr = np.concatenate([[0], np.cumsum(sizes, dtype=int)])
    dof_act_adr, order = _grouped(np.concatenate([np.zeros(0, dtype=int), *dofs]), mjm.nv)
    pairs = np.stack([np.repeat(np.arange(len(dofs)), sizes), np.arange(adr[-1])], axis=1)
    return {"act_moment": adr[:-1], "dof_act_adr": dof_act_adr, "dof_act": pairs[order].ravel()}


def _tendons(mjm: mujoco.MjModel) -> dict[str, NDArray[np.integer]]:
    """Tendons of each dof with their elements of the Jacobian, and where the points of their paths go."""
    row = np.repeat(np.arange(mjm.ntendon), mjm.ten_J_rownnz)
    dof_ten_adr, order = _grouped(mjm.ten_J_colind[: row.size], mjm.nv)
    path, wrap = np.full(mjm.ntendon, -1), np.zeros(mjm.ntendon, dtype=int)
    points = 0
    for tendon in range(mjm.ntendon):
        wrap[tendon] = points
        if mjm.wrap_type[mjm.tendon_adr[tendon]] == mujoco.mjtWrap.mjWRAP_SITE:
            path[tendon] = points
            points += mjm.tendon_num[tendon]
    return {
        "ten_row": row,
        "dof_ten_adr": dof_ten_adr,
        "dof_ten": np.stack([row[order], order], axis=1).ravel(),
        "ten_wrap": path,
        "ten_wrapadr0": wrap,
    }
