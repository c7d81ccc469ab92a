"""Free bodies in a step without constraints, in float64: the midpoint rule of the rotation group.

Seen from the world: the angular momentum L stays, the pose turns by E = exp(dt u), and u is the mean of the angular
velocity before and of that after the step, turned back. What torques add to the velocity acts on u in full.
"""

import mujoco
import numpy as np
from scipy.optimize import root
from scipy.spatial.transform import Rotation


def free_velocity(mjm: mujoco.MjModel, mjd: mujoco.MjData, euler: np.ndarray) -> np.ndarray:
    """qvel after a step without constraints.

    Args:
        mjm: the model
        mjd: poses, velocities and inertia of the state
        euler: qvel by MuJoCo's Euler rule
    """
    out = euler.copy()
    if mjm.opt.integrator != mujoco.mjtIntegrator.mjINT_EULER:
        return out
    dt = float(mjm.opt.timestep)
    for joint in np.flatnonzero(mjm.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
        body, at = mjm.jnt_bodyid[joint], mjm.jnt_dofadr[joint]
        if np.sum(mjm.dof_treeid == mjm.dof_treeid[at]) > 6:
            continue
        xx, yy, zz, xy, xz, yz = mjd.cinert[mjm.body_rootid == body, :6].sum(axis=0)
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        axes = mjd.xmat[body].reshape(3, 3)
        arm = mjd.subtree_com[body] - mjd.xpos[body]
        w, after = axes @ mjd.qvel[at + 3 : at + 6], axes @ euler[at + 3 : at + 6]
        L = inertia @ w
        by_torque = after - w + dt * np.linalg.solve(inertia, np.cross(w, L))

        def moved(u: np.ndarray, inertia=inertia, L=L) -> tuple[np.ndarray, np.ndarray]:
            turn = Rotation.from_rotvec(dt * u).as_matrix()
            return turn, turn.T @ np.linalg.solve(turn @ inertia @ turn.T, L)

        found = root(lambda u: 0.5 * (w + moved(u)[1]) + by_torque - u, w, tol=1e-13)  # noqa: B023
        turn, alone = moved(found.x)
        centre = euler[at : at + 3] + np.cross(after, arm) + dt * np.cross(w, np.cross(w, arm))
        out[at : at + 3] = centre - np.cross(turn @ (alone + by_torque), turn @ arm)
        out[at + 3 : at + 6] = axes.T @ (alone + by_torque)
    return out
