"""Models whose motion would be noise or whose contacts would be missing, with every physics on MuJoCo Warp's data."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.physics.mjwarp import private

LEAST = 1e-6
"""Smallest share of the inertia of a dof that has to be left where the dofs after it are free to follow: 8 times the
rounding of single precision. Robots have 1e-3 or more."""


def unfit_features(mjm: mujoco.MjModel) -> list[str]:
    """What to say of a model that no physics can step."""
    return singular_joints(mjm) + distance_plugins(mjm)


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
    diagonal, pivots = _pivots(mjm)
    dofs = np.flatnonzero(~(pivots > LEAST * diagonal))
    joints = list(dict.fromkeys(int(joint) for joint in mjm.dof_jntid[dofs]))
    if not joints:
        return []
    names = ", ".join(repr(mjm.joint(joint).name or joint) for joint in joints[:5])
    more = f" and {len(joints) - 5} more" if len(joints) > 5 else ""
    share = max(0.0, float(np.min(pivots[dofs] / np.maximum(diagonal[dofs], mujoco.mjMINVAL))))
    return [
        f"a singular inertia matrix (joints {names}{more} move nothing that joints after them cannot: {share:.0e} of "
        f"their inertia is left, the least is {LEAST:g}; remove them, or give them armature)"
    ]


def _pivots(mjm: mujoco.MjModel) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The diagonal of M, and D of M = L' D L, where a simulation starts: at key frame 0, or at qpos0."""
    mjd = mujoco.MjData(mjm)
    if mjm.nkey:
        mjd.qpos[:] = mjm.key_qpos[0]
    mujoco.mj_kinematics(mjm, mjd)
    mujoco.mj_comPos(mjm, mjd)
    mujoco.mj_tendon(mjm, mjd)
    mujoco.mj_makeM(mjm, mjd)
    ends = mjm.M_rowadr + mjm.M_rownnz
    M = mjd.M.copy()
    diagonal = M[ends - 1].copy()
    for dof in range(mjm.nv - 1, -1, -1):  # MuJoCo's own factorization would warn, once per process, into a file
        start, end = mjm.M_rowadr[dof], ends[dof]
        row, columns = M[start:end], mjm.M_colind[start:end]
        if len(row) == 1 or not row[-1] > 0.0:
            continue
        for i, ancestor in enumerate(columns[:-1]):
            if row[i] != 0.0:
                M[mjm.M_rowadr[ancestor] : mjm.M_rowadr[ancestor] + i + 1] -= row[i] / row[-1] * row[: i + 1]
    return diagonal, M[ends - 1]
