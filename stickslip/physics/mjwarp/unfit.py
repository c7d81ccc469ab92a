"""Models whose motion would be noise or whose contacts would be missing, with every physics on MuJoCo Warp's data."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.physics.mjwarp import private

LEAST = 1e-6
"""Smallest share of the inertia of a dof that has to be left where the dofs after it are free to follow: 8 times the
rounding of single precision. Robots have 1e-3 or more."""

MOST_WRONG = 0.1
"""Largest share by which single precision may miss it.

Of 239 scenes and robots one has 8e-3, the others at most 4e-4.
"""

SHIFTS = (0.0, 0.01, 0.02, 0.03)
"""Points about which that is tried, since rounding is now and then small by chance: see `rigid_inertia`."""


def unfit_features(mjm: mujoco.MjModel) -> list[str]:
    """What to say of a model that no physics can step."""
    mjd = _start(mjm)
    pivots = _pivots(mjm, mjd.M)
    return (_singular_joints(mjm, mjd, pivots) or _coarse_joints(mjm, mjd, pivots)) + distance_plugins(mjm)


def distance_plugins(mjm: mujoco.MjModel) -> list[str]:
    """What to say of geoms whose signed distance a plugin computes, unless MuJoCo Warp has been given the function."""
    geoms = np.flatnonzero((mjm.geom_type == int(mujoco.mjtGeom.mjGEOM_SDF)) & (mjm.geom_plugin >= 0))
    if not geoms.size or private.has_user_sdf():
        return []
    names = ", ".join(repr(mjm.geom(geom).name or int(geom)) for geom in geoms[:5])
    more = f" and {geoms.size - 5} more" if geoms.size > 5 else ""
    return [
        f"signed distances of plugins (geoms {names}{more}: MuJoCo Warp would take every distance as 0; give it the "
        "functions user_sdf and user_sdf_grad in mujoco_warp._src.collision_sdf first, or make the geoms meshes)"
    ]


def singular_joints(mjm: mujoco.MjModel) -> list[str]:
    """What to say of joints whose inertia is no more than rounding where a simulation starts; none: nothing."""
    mjd = _start(mjm)
    return _singular_joints(mjm, mjd, _pivots(mjm, mjd.M))


def _singular_joints(mjm: mujoco.MjModel, mjd: mujoco.MjData, pivots: NDArray[np.floating]) -> list[str]:
    diagonal = mjd.M[mjm.M_rowadr + mjm.M_rownnz - 1]
    dofs = np.flatnonzero(~(pivots > LEAST * diagonal))
    if not dofs.size:
        return []
    share = max(0.0, float(np.min(pivots[dofs] / np.maximum(diagonal[dofs], mujoco.mjMINVAL))))
    return [
        f"a singular inertia matrix (joints {_names(mjm, dofs)} move nothing that joints after them cannot: "
        f"{share:.0e} of their inertia is left, the least is {LEAST:g}; remove them, or give them armature)"
    ]


def _coarse_joints(mjm: mujoco.MjModel, mjd: mujoco.MjData, pivots: NDArray[np.floating]) -> list[str]:
    """What to say of joints whose inertia single precision cannot tell where a simulation starts; none: nothing.

    Inertia is found about the centre of mass of a tree: that of a small body far from it, or beside a heavy one, is the
    difference of large numbers.
    """
    armature = (mjd.M - rigid_inertia(mjm, mjd, np.float64)).astype(np.float32)
    single = np.array([rigid_inertia(mjm, mjd, np.float32, shift) for shift in SHIFTS]) + armature
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = np.abs(_pivots(mjm, single) / pivots - 1.0).max(axis=0)  # NaN stays
    dofs = np.flatnonzero(~(wrong <= MOST_WRONG))
    if not dofs.size:
        return []
    return [
        f"inertia that single precision cannot tell (joints {_names(mjm, dofs)}: {100.0 * np.max(wrong[dofs]):.2g} % "
        f"wrong, at most {100.0 * MOST_WRONG:g} % is allowed; move the bodies of their tree nearer to each other, make "
        "their masses more alike, or give these joints armature)"
    ]


def _names(mjm: mujoco.MjModel, dofs: NDArray[np.integer]) -> str:
    """The joints of dofs, the first five of them."""
    joints = list(dict.fromkeys(int(joint) for joint in mjm.dof_jntid[dofs]))
    more = f" and {len(joints) - 5} more" if len(joints) > 5 else ""
    return ", ".join(repr(mjm.joint(joint).name or joint) for joint in joints[:5]) + more


def _start(mjm: mujoco.MjModel) -> mujoco.MjData:
    """Poses and M where a simulation starts: at key frame 0, or at qpos0."""
    mjd = mujoco.MjData(mjm)
    if mjm.nkey:
        mjd.qpos[:] = mjm.key_qpos[0]
    mujoco.mj_kinematics(mjm, mjd)
    mujoco.mj_comPos(mjm, mjd)
    mujoco.mj_tendon(mjm, mjd)
    mujoco.mj_makeM(mjm, mjd)
    return mjd


def rigid_inertia(mjm: mujoco.MjModel, mjd: mujoco.MjData, dtype: type, shift: float = 0.0) -> NDArray[np.floating]:
    """M without armature, in its sparse layout, worked out as on the device with numbers of a type.

    That is about the centre of mass of each tree, or about a point beside it, by a share of the size of the tree: M is
    the same, and its rounding is another.
    """
    centre = mjd.subtree_com[mjm.body_rootid]
    reach = np.zeros(mjm.nbody)
    np.maximum.at(reach, mjm.body_rootid, np.linalg.norm(mjd.xipos - centre, axis=1))
    beside = shift * np.outer(reach[mjm.body_rootid], [1.0, 0.7, 0.4])
    arm = mjd.xipos.astype(dtype) - (centre + beside).astype(dtype)
    axes = mjd.ximat.reshape(-1, 3, 3).astype(dtype)
    mass = mjm.body_mass.astype(dtype)
    crb = np.zeros((mjm.nbody, 6, 6), dtype=dtype)
    first = mass[:, None] * arm
    crb[:, :3, :3] = np.einsum("bij,bj,bkj->bik", axes, mjm.body_inertia.astype(dtype), axes)
    crb[:, :3, :3] += np.einsum("bj,bj->b", first, arm)[:, None, None] * np.eye(3, dtype=dtype)
    crb[:, :3, :3] -= first[:, :, None] * arm[:, None, :]
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        crb[:, i, 3 + j], crb[:, j, 3 + i] = -first[:, k], first[:, k]
        crb[:, 3 + j, i], crb[:, 3 + i, j] = -first[:, k], first[:, k]
        crb[:, 3 + i, 3 + i] = mass
    for body in range(mjm.nbody - 1, 0, -1):
        crb[mjm.body_parentid[body]] += crb[body]
    motion = mjd.cdof.copy()
    motion[:, 3:] += np.cross(motion[:, :3], beside[mjm.dof_bodyid])
    motion = motion.astype(dtype)
    force = np.einsum("vij,vj->vi", crb[mjm.dof_bodyid], motion)
    row = np.repeat(np.arange(mjm.nv), mjm.M_rownnz)
    return np.einsum("ei,ei->e", motion[mjm.M_colind], force[row])


def _pivots(mjm: mujoco.MjModel, M: NDArray[np.floating]) -> NDArray[np.floating]:
    """D of M = L' D L, in the precision of M; of several M at once, (..., nC)."""
    M, ends = M.copy(), mjm.M_rowadr + mjm.M_rownnz
    for dof in range(mjm.nv - 1, -1, -1):  # MuJoCo's own factorization would warn, once per process, into a file
        start, end = mjm.M_rowadr[dof], ends[dof]
        if end - start == 1:
            continue
        pivot = M[..., end - 1 : end]
        row = M[..., start : end - 1]
        share = np.divide(row, pivot, out=np.zeros_like(row), where=pivot > 0.0)
        for i, ancestor in enumerate(mjm.M_colind[start : end - 1]):
            above = mjm.M_rowadr[ancestor]
            M[..., above : above + i + 1] -= share[..., i : i + 1] * row[..., : i + 1]
    return M[..., ends - 1]
