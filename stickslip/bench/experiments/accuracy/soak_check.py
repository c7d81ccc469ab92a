"""What a watch should have found in worlds, looked for on the host, in NumPy and MuJoCo in C: nothing may be silent."""

from collections.abc import Mapping

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.simulation.watching import KINDS, Limits
from stickslip.simulation.watching.limits import LARGEST, energy_scale, energy_unwatched, thickness

MARGIN = 1.01
"""By how much a limit has to be exceeded here: a watch finds in single precision what this finds in double."""
DEEP = 1.5
"""The same for depth, which MuJoCo in C may find otherwise than MuJoCo Warp."""


class HostCheck:
    """Looks at states of worlds.

    Args:
        mjm: the model
        limits: those of the watch
    """

    def __init__(self, mjm: mujoco.MjModel, limits: Limits) -> None:
        self.mjm, self.limits = mjm, limits
        self._mjd = mujoco.MjData(self.mjm)
        self._gap = thickness(mjm)
        free = not mjm.nu and not mjm.jnt_stiffness.any() and not mjm.tendon_stiffness.any() and not mjm.neq
        still = not mjm.opt.density and not mjm.opt.viscosity and not mjm.body_gravcomp.any()
        self.knows_energy = limits.energy is not None and free and still and not energy_unwatched(mjm)

    def broken(self, qpos: NDArray[np.floating], qvel: NDArray[np.floating]) -> dict[str, NDArray[np.bool_]]:
        """Which worlds fail a check, by kind, (nworld,); what needs a look at one world alone is in `deep`."""
        found: dict[str, NDArray[np.bool_]] = {}
        both = np.concatenate([qpos, qvel], axis=1)
        found["not finite"] = ~np.all(np.abs(both) <= LARGEST, axis=1)
        fine = ~found["not finite"]
        if self.limits.joint is not None:
            found["joint"] = fine & self._beyond(qpos, self.limits.joint)
        if self.limits.twins is not None:
            most = np.zeros(len(qpos))
            both = both.astype(float)
            with np.errstate(invalid="ignore"):
                most[1::2] = np.abs(both[1::2] - both[::2]).max(axis=1, initial=0.0)
            found["twins"] = fine & (most > self.limits.twins * MARGIN)
        return found

    def _beyond(self, qpos: NDArray[np.floating], share: float) -> NDArray[np.bool_]:
        mjm, out = self.mjm, np.zeros(len(qpos), dtype=bool)
        for joint in np.flatnonzero(mjm.jnt_limited):
            low, high = mjm.jnt_range[joint]
            at, kind = mjm.jnt_qposadr[joint], mujoco.mjtJoint(mjm.jnt_type[joint])
            if kind in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
                beyond = np.maximum(low - qpos[:, at], qpos[:, at] - high)
            elif kind == mujoco.mjtJoint.mjJNT_BALL:
                sine = np.linalg.norm(qpos[:, at + 1 : at + 4], axis=1)
                beyond = 2.0 * np.arctan2(sine, np.abs(qpos[:, at])) - high
            else:
                continue
            out |= beyond > share * (high - low) * MARGIN + 1e-6
        return out

    def deep(self, qpos: NDArray[np.floating]) -> bool:
        """Whether a world is deeper in something than it is thick, by the contacts of MuJoCo in C."""
        if self.limits.depth is None:
            return False
        mjd = self._mjd
        mjd.qpos[:] = qpos
        mujoco.mj_kinematics(self.mjm, mjd)
        mujoco.mj_comPos(self.mjm, mjd)
        mujoco.mj_collision(self.mjm, mjd)
        geom = mjd.contact.geom
        if not len(geom):
            return False
        known = (geom >= 0).all(axis=1)
        allowed = np.where(known, self._gap[geom].min(axis=1), np.inf)
        return bool((-mjd.contact.dist > DEEP * self.limits.depth * allowed).any())

    def energy(
        self, qpos: NDArray[np.floating], qvel: NDArray[np.floating], masses: Mapping[str, NDArray[np.floating]]
    ) -> tuple[float, float]:
        """Kinetic energy of a world with its masses, and the sum with that in the field of gravity, J, by C's poses."""
        mjm, mjd = self.mjm, self._mjd
        mjd.qpos[:], mjd.qvel[:] = qpos, qvel
        mujoco.mj_kinematics(mjm, mjd)
        mujoco.mj_comPos(mjm, mjd)
        mujoco.mj_comVel(mjm, mjd)
        mass, inertia = (masses.get(name, getattr(mjm, name)) for name in ("body_mass", "body_inertia"))
        kinetic, local = 0.5 * float(mjm.dof_armature @ mjd.qvel**2), np.zeros(6)
        for body in range(1, mjm.nbody):
            mujoco.mj_objectVelocity(mjm, mjd, mujoco.mjtObj.mjOBJ_BODY, body, local, 1)
            kinetic += 0.5 * float(inertia[body] @ local[:3] ** 2 + mass[body] * local[3:] @ local[3:])
        return kinetic, kinetic - float(mass @ (mjd.xipos @ mjm.opt.gravity))

    def gained(self, before: tuple[float, float], after: tuple[float, float]) -> bool:
        """Whether energy came from nothing between two states, in a model where only contacts act."""
        limit = (self.limits.energy or 0.0) * energy_scale(self.mjm)
        return self.knows_energy and after[1] - before[1] > DEEP * (limit + 0.5 * max(before[0], after[0]))


assert {"not finite", "joint", "twins", "penetration", "energy", "dropped"} == set(KINDS)
