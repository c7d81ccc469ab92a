"""Whether contacts could produce a motion: what of the force and torque on a free base they cannot give.

Joints have servos, the base has none: the six equations of motion of the base hold only if contacts give the rest. For
each frame that rest is computed from positions, velocities and accelerations, and the contact forces in friction cones
(pyramids of four edges) that come closest to it are found. What remains is missing.
"""

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.mpc.retarget.motion import Array, Motion, qpos_of, velocities

NEAR = 0.012
"""Distance up to which a geom counts as touching [m]."""
FRICTION = 0.8
"""Friction coefficient of the cones: less than that of the robots, so that some is left for control."""
ARM = 0.2
"""Lever arm by which torques are made comparable with forces [m]."""
WINDOW = 0.1
"""Time over which velocities are averaged before they are differentiated [s]."""


def missing(motion: Motion, mjm: mujoco.MjModel, base: str) -> Array:
    """Norm of the missing force and torque in every frame, in units of the robot's weight (T,).

    Args:
        motion: a motion with a free base
        mjm: model of the robot, with the floor
        base: name of the free joint of the base
    """
    if motion.base is None:
        raise InputError(f"motion {motion.name!r} has a fixed base, which needs no contacts")
    mjm = _with_margin(mjm)
    root, dof = int(mjm.jnt_bodyid[mjm.joint(base).id]), int(mjm.joint(base).dofadr[0])
    qpos = qpos_of(motion, mjm, base)
    qvel = _smoothed(velocities(mjm, qpos, 1.0 / motion.fps), max(1, round(0.5 * WINDOW * motion.fps)))
    qacc = np.gradient(qvel, 1.0 / motion.fps, axis=0)
    weight = mjm.body_subtreemass[root] * np.linalg.norm(mjm.opt.gravity)
    scale = np.array([1.0, 1.0, 1.0, 1.0 / ARM, 1.0 / ARM, 1.0 / ARM]) / weight
    mjd, found = mujoco.MjData(mjm), np.empty(motion.frames)
    for frame in range(motion.frames):
        mjd.qpos[:], mjd.qvel[:], mjd.qacc[:] = qpos[frame], qvel[frame], qacc[frame]
        mujoco.mj_fwdPosition(mjm, mjd)
        edges = _edges(mjm, mjd, root)
        needed = _needed(mjm, mjd, root, dof) * scale
        found[frame] = np.linalg.norm(needed - _closest(edges * scale, needed))
    return found


def _with_margin(mjm: mujoco.MjModel) -> mujoco.MjModel:
    mjm = mjm.__copy__()
    mjm.geom_margin[:] = NEAR
    return mjm


def _smoothed(values: Array, half: int) -> Array:
    """The mean over `half` frames before and after."""
    padded = np.pad(values, ((half, half), (0, 0)), mode="edge")
    total = np.cumsum(np.pad(padded, ((1, 0), (0, 0))), axis=0)
    return (total[2 * half + 1 :] - total[: -2 * half - 1]) / (2 * half + 1)


def _needed(mjm: mujoco.MjModel, mjd: mujoco.MjData, root: int, dof: int) -> Array:
    """Force and torque about the center of mass (6,) that contacts must give, in the frame of the world."""
    flags = mjm.opt.disableflags
    mjm.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    mujoco.mj_inverse(mjm, mjd)
    mjm.opt.disableflags = flags
    force, torque = mjd.qfrc_inverse[dof : dof + 3], mjd.qfrc_inverse[dof + 3 : dof + 6]
    arm = mjd.xpos[root] - mjd.subtree_com[root]
    return np.concatenate([force, mjd.xmat[root].reshape(3, 3) @ torque + np.cross(arm, force)])


def _edges(mjm: mujoco.MjModel, mjd: mujoco.MjData, root: int) -> Array:
    """Force and torque about the center of mass of all edges of friction pyramids, for a normal force of 1 (n, 6)."""
    own = mjm.body_rootid[mjm.geom_bodyid[mjd.contact.geom.reshape(-1, 2)]] == mjm.body_rootid[root]
    outer = own[:, 0] != own[:, 1]
    frames = mjd.contact.frame.reshape(-1, 3, 3)[outer]
    frames = frames * np.where(own[outer, 1], 1.0, -1.0)[:, None, None]  # the normal points to the second geom
    normal, first, second = frames[:, 0], frames[:, 1], frames[:, 2]
    force = np.concatenate([normal + side * FRICTION * t for t in (first, second) for side in (1.0, -1.0)])
    arm = np.tile(mjd.contact.pos.reshape(-1, 3)[outer] - mjd.subtree_com[root], (4, 1))
    return np.hstack([force, np.cross(arm, force)]).reshape(-1, 6)


def _closest(edges: Array, wanted: Array) -> Array:
    """The point of the cone of the edges (n, 6) that is closest to a vector (6,)."""
    n = len(edges)
    if not n:
        return np.zeros(6)
    share, most = np.zeros(n), np.full(n, 1e3)
    hessian = edges @ edges.T + 1e-9 * np.eye(n)
    index: NDArray[np.int32] = np.zeros(n, dtype=np.int32)
    rank = mujoco.mju_boxQP(share, np.zeros((n, n + 7)), index, hessian, -edges @ wanted, np.zeros(n), most)
    if rank < 0:
        raise InputError(
            "the contact forces of a frame were not found: are there contacts at one and the same place?"
            " If so, move one of them"
        )
    return share @ edges
