"""Inverse kinematics: damped least squares on MuJoCo's Jacobians, with joint limits and a posture to prefer.

Each iteration solves, for the change dq of the joints and of a free base,

    (J^T W J + (mu + k) I) dq = J^T W e - k (q - posture)

with errors e of the targets, their Jacobian J and weights W. Joints that would leave their range are put at its end,
and the others are solved for again. Targets that are only lower bounds of a height count if the solution without them
would be below.
"""

import dataclasses
from collections.abc import Callable

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.mpc.retarget.motion import Array

BODY, SITE, COM = "body", "site", "com"
KINDS = (SITE, BODY, COM)
_ROUNDS = 8
"""How often lower bounds are taken in or left out in an iteration."""


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """Where a site, a body, or the center of mass of a body with all that hangs on it is to be.

    Attributes:
        name: of the site or body
        pos: its position [m]                                                            (3,)
        quat: its orientation, w first; None: any                                        (4,)
        kind: "site", "body" or "com"
        weight: of the squared distance in m^2, one for all axes or one for each         (3,)
        turn: weight of the squared angle in rad^2
        point: point of a body, in its frame, that is to be there; None: its origin [m]  (3,)
        origin: body from whose origin `pos` is measured, in the axes of the world; empty: the world's
        above: its height may be larger than that of `pos`, and its other coordinates are any
    """

    name: str
    pos: Array
    quat: Array | None = None
    kind: str = SITE
    weight: float | Array = 1.0
    turn: float = 0.1
    point: Array | None = None
    origin: str = ""
    above: bool = False


Targets = list[Target] | Callable[[mujoco.MjData], list[Target]]
"""Targets, or a function that makes them in each iteration from the data of the model."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the iterations.

    Attributes:
        iterations: at most so many
        damping: mu, which keeps steps small near a singular pose
        pull: k, towards the posture; the base is not pulled
        step: largest change of a joint in an iteration [rad or m]
        enough: change of all joints below which it stops [rad or m]
    """

    iterations: int = 20
    damping: float = 1e-5
    pull: float = 1e-4
    step: float = 0.5
    enough: float = 1e-6


class Solver:
    """Finds positions of a model that meet targets. `fixed` names free bodies that stay, such as objects."""

    def __init__(self, mjm: mujoco.MjModel, settings: Settings | None = None, fixed: tuple[str, ...] = ()) -> None:
        self.mjm, self.settings = mjm, settings or Settings()
        self._mjd = mujoco.MjData(mjm)
        scalar = np.isin(mjm.jnt_type, (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)))
        self._qpos_of, self._dof_of = mjm.jnt_qposadr[scalar], mjm.jnt_dofadr[scalar]
        limited = mjm.jnt_limited[scalar].astype(bool)
        self._low = np.where(limited, mjm.jnt_range[scalar, 0], -np.inf)
        self._high = np.where(limited, mjm.jnt_range[scalar, 1], np.inf)
        still = np.isin(mjm.dof_bodyid, [mjm.body(name).id for name in fixed])
        self._moving: NDArray[np.bool_] = ~still

    def solve(self, qpos: Array, targets: Targets, posture: Array | None = None, within: float = np.inf) -> Array:
        """Positions (nq,) near the targets.

        Args:
            qpos: positions to start from                                     (nq,)
            targets: the targets, or a function that makes them in each iteration
            posture: preferred positions of joints; None: `qpos`              (nq,)
            within: largest change of a joint from `qpos` [rad or m]
        """
        posture = qpos if posture is None else posture
        qpos = qpos.copy()
        qpos[self._qpos_of] = start = np.clip(qpos[self._qpos_of], self._low, self._high)
        low, high = np.maximum(self._low, start - within), np.minimum(self._high, start + within)
        for _ in range(self.settings.iterations):
            change = self._change(qpos, targets, posture, low, high)
            change *= min(1.0, self.settings.step / max(np.abs(change).max(), 1e-12))
            mujoco.mj_integratePos(self.mjm, qpos, change, 1.0)
            if np.abs(change).max() < self.settings.enough:
                break
        mujoco.mj_normalizeQuat(self.mjm, qpos)
        qpos[self._qpos_of] = np.clip(qpos[self._qpos_of], low, high)  # rounding
        return qpos

    def residuals(self, qpos: Array, targets: Targets) -> list[tuple[float, float]]:
        """Distance [m] and angle [rad] to each target; the angle is 0 where any orientation will do."""
        self._place(qpos)
        errors = [self._error(target) for target in (targets(self._mjd) if callable(targets) else targets)]
        return [(float(np.linalg.norm(e[:3])), float(np.linalg.norm(e[3:]))) for e, _, _ in errors]

    def _place(self, qpos: Array) -> None:
        self._mjd.qpos[:] = qpos
        mujoco.mj_kinematics(self.mjm, self._mjd)
        mujoco.mj_comPos(self.mjm, self._mjd)

    def _change(self, qpos: Array, targets: Targets, posture: Array, low: Array, high: Array) -> Array:
        """The solution dq (nv,) of one iteration; joints stay from `low` to `high`."""
        self._place(qpos)
        found = targets(self._mjd) if callable(targets) else targets
        firm = [self._error(target) for target in found if not target.above]
        errors, rows, weights = (np.concatenate(parts) for parts in zip(*firm, strict=True))
        nv, pull = self.mjm.nv, self.settings.pull
        matrix = rows.T @ (weights[:, None] * rows) + self.settings.damping * np.eye(nv)
        vector = rows.T @ (weights * errors)
        matrix[self._dof_of, self._dof_of] += pull
        vector[self._dof_of] -= pull * (qpos - posture)[self._qpos_of]
        room = np.full((2, nv), np.inf) * [[-1.0], [1.0]]
        room[:, self._dof_of] = low - qpos[self._qpos_of], high - qpos[self._qpos_of]
        change = self._within(matrix, vector, room)
        bounds = [self._error(target) for target in found if target.above]
        if not bounds:
            return change
        lift, up, firmly = (np.array([part[k][2] for part in bounds]) for k in range(3))
        held = np.zeros(len(lift), dtype=bool)
        for _ in range(_ROUNDS):
            short = lift - up @ change  # of one that is held and has too much, its target pulls it down
            wanted = np.where(held, short > 0.0, short > 1e-6)
            if (wanted == held).all():
                break
            held = wanted
            weighed = firmly[held, None] * up[held]
            change = self._within(matrix + up[held].T @ weighed, vector + weighed.T @ lift[held], room)
        return change

    def _within(self, matrix: Array, vector: Array, room: Array) -> Array:
        """The solution of a system, within limits (2, nv) of its entries."""
        change, free = np.zeros(len(vector)), self._moving.copy()
        while free.any():
            rest = vector[free] - matrix[np.ix_(free, ~free)] @ change[~free]
            change[free] = np.linalg.solve(matrix[np.ix_(free, free)], rest)
            beyond = free & ((change < room[0] - 1e-12) | (change > room[1] + 1e-12))
            if not beyond.any():
                break
            change[beyond] = np.clip(change, room[0], room[1])[beyond]
            free &= ~beyond
        return change

    def _error(self, target: Target) -> tuple[Array, Array, Array]:
        """Error (k,), Jacobian (k, nv) and weights (k,) of a target; k is 3, or 6 with an orientation."""
        mjm, mjd = self.mjm, self._mjd
        if target.kind not in KINDS:
            raise InputError(f"target {target.name!r}: kind is {target.kind!r}; it must be one of {', '.join(KINDS)}")
        rows, quat = np.zeros((6, mjm.nv)), np.empty(4)
        number = (mjm.site if target.kind == SITE else mjm.body)(target.name).id
        if target.kind == SITE:
            at, frame = mjd.site_xpos[number], mjd.site_xmat[number]
            mujoco.mj_jacSite(mjm, mjd, rows[:3], rows[3:], number)
        elif target.kind == BODY:
            at, frame = mjd.xpos[number], mjd.xmat[number]
            if target.point is not None:
                at = at + frame.reshape(3, 3) @ target.point
            mujoco.mj_jac(mjm, mjd, rows[:3], rows[3:], at, number)
        else:
            at, frame = mjd.subtree_com[number], mjd.xmat[number]
            mujoco.mj_jacSubtreeCom(mjm, mjd, rows[:3], number)
        if target.origin:
            body, other = mjm.body(target.origin).id, np.zeros((3, mjm.nv))
            at = at - mjd.xpos[body]
            mujoco.mj_jacBody(mjm, mjd, other, None, body)
            rows[:3] -= other
        error, weights = target.pos - at, np.broadcast_to(np.asarray(target.weight, dtype=np.float64), 3)
        if target.quat is None or target.kind == COM:
            return error, rows[:3], weights
        turn = np.empty(3)
        mujoco.mju_mat2Quat(quat, frame)
        mujoco.mju_negQuat(quat, quat)
        mujoco.mju_mulQuat(quat, target.quat, quat)
        mujoco.mju_quat2Vel(turn, quat, 1.0)  # in the world, as the Jacobian
        return np.concatenate([error, turn]), rows, np.concatenate([weights, np.full(3, target.turn)])
