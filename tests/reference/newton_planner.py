"""The planner `newton` in NumPy, step by step as `newton_kernels.py` does it: what the kernel is held against.

See `newton.py` for the method.
"""

import copy
import dataclasses
import math

import mujoco
import numpy as np

from stickslip.mpc.model import quasidynamic
from stickslip.mpc.model.contact_rows import ContactRows, Rows
from stickslip.mpc.success import Array, Goal, pose_goal
from stickslip.mpc.task import Observation, Plan, Planner, Problem

MAX_HALVINGS = 12
"""Of a step, before it is given up."""
ARMIJO = 1e-4
"""Share of the decrease that the gradient promises, that a step must give."""
SMALLEST = 1e-9
"""Damping of the Gauss-Newton matrix, as a share of its largest diagonal entry."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """When to stop.

    Attributes:
        iterations: most
        tolerance: decrease of the cost, as a share of it, that is not worth another iteration
    """

    iterations: int = 30
    tolerance: float = 1e-4


class Newton(Planner):
    """Plans by Gauss-Newton with bounds."""

    def __init__(self, problem: Problem, settings: Settings | None = None) -> None:
        self.problem = problem
        self.settings = settings or Settings()
        self._contacts = ContactRows(problem, problem.task.model)
        self._shooting = Shooting(problem)
        self._last = np.zeros((problem.task.horizon, problem.nr))

    def reset(self, goal: Goal, seed: int) -> None:
        self._shooting.goal = goal
        self._last[:] = 0.0

    def plan(self, observation: Observation) -> Plan:
        joints = observation.qpos[: self.problem.nr]
        low, high = self.problem.bounds(joints)
        self._shooting.start(observation.qpos, self._contacts.at(observation.qpos))
        first = np.clip(self._last, low, high)
        u, cost, iterations = minimize(self._shooting, first, low, high, self.settings)
        self._last[:-1], self._last[-1] = u[1:], u[-1]
        return Plan(joints + u[0], cost, iterations)


def minimize(shooting: "Shooting", u: Array, low: Array, high: Array, settings: Settings) -> tuple[Array, float, int]:
    """Controls (horizon, nr) of least cost between `low` and `high` (nr,), that cost, and the iterations it took."""
    shape = u.shape
    low, high = np.broadcast_to(low, shape).reshape(-1), np.broadcast_to(high, shape).reshape(-1)
    flat = u.reshape(-1).copy()
    cost = shooting.cost(u)
    for iteration in range(settings.iterations):
        gradient, hessian = shooting.derivatives()
        held = ((flat <= low) & (gradient > 0.0)) | ((flat >= high) & (gradient < 0.0))
        free = np.flatnonzero(~held)
        if not len(free):
            return flat.reshape(shape), cost, iteration
        matrix = hessian[np.ix_(free, free)]
        matrix[np.diag_indices(len(free))] += SMALLEST * np.diag(matrix).max()
        step = np.zeros_like(flat)
        step[free] = -np.linalg.solve(matrix, gradient[free])
        size = 1.0
        for _ in range(MAX_HALVINGS):
            tried = np.clip(flat + size * step, low, high)
            new = shooting.cost(tried.reshape(shape))
            if new <= cost + ARMIJO * float(gradient @ (tried - flat)):
                break
            size *= 0.5
        else:
            shooting.cost(flat.reshape(shape))
            return flat.reshape(shape), cost, iteration + 1
        before, cost, flat = cost, new, tried
        if before - cost <= settings.tolerance * abs(before):
            return flat.reshape(shape), cost, iteration + 1
    return flat.reshape(shape), cost, settings.iterations


class Shooting:
    """The cost of controls over the horizon, and its derivatives."""

    def __init__(self, problem: Problem) -> None:
        task = problem.task
        self.weights, self.model = problem.smooth("newton")
        self.horizon = task.horizon
        self.nr = problem.nr
        self.nv = problem.nr + 6
        self.goal = pose_goal(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))
        self.compliance = quasidynamic.compliance(self.model, problem.nr)
        self._tips = [problem.mjm.site(site).id for site in self.weights.sites]
        self._mjm = copy.copy(problem.mjm)
        self._mjds = [mujoco.MjData(self._mjm) for _ in range(task.horizon)]
        self._gain = self.model.contact * (1.0 + self.model.damping / self.model.step)

    def start(self, qpos: Array, rows: Rows) -> None:
        """Take where a plan starts, and its contacts."""
        self._rows, self._phi = rows.rows, rows.phi
        self._robot = rows.rows[:, : self.nr]
        self._joints, self._pos = qpos[: self.nr].copy(), qpos[-7:-4].copy()
        self._quat = qpos[-4:] / np.linalg.norm(qpos[-4:])
        self._pushed = rows.rows * self.compliance  # R Q^-1

    def cost(self, u: Array) -> float:
        """Cost of controls (horizon, nr); what `derivatives` needs is kept."""
        w, T, nr = self.weights, self.horizon, self.nr
        self._u = u
        inside, force, delta = self._motion(u)
        self._inside = inside
        joints = self._joints + np.cumsum(delta[:, :nr], axis=0)
        pos = self._pos + np.cumsum(delta[:, nr : nr + 3], axis=0)
        self._turn = delta[:, nr + 3 :]
        quats, quat = [], self._quat
        for turn in self._turn:
            quat = _multiply(quat, _exponential(turn))
            quats.append(quat)
        self._quats, self._places = quats, pos
        total = w.control * float((u * u).sum())
        self._between = []
        for t in range(T - 1):
            rotation = _matrix(quats[t])
            tips = self._tip_positions(t, joints[t])
            away = tips - pos[t]
            self._between.append((rotation, away))
            total += w.contact * float((away * away).sum())
            if w.grasp:
                seen = away @ rotation
                total += w.grasp * float(np.square((seen / np.linalg.norm(seen, axis=1)[:, None]).sum(axis=0)).sum())
        total += w.final_position * float(np.square(pos[-1] - self.goal.pos).sum())
        self._final = _multiply(_conjugate(self.goal.quat), quats[-1])
        total += w.final_orientation * float(np.square(self._final[1:]).sum())
        return total

    def _motion(self, u: Array) -> tuple[Array, Array, Array]:
        """Argument of softplus and force of every row (T, n), displacement (T, nv), of all controls at once."""
        model = self.model
        free = np.zeros((len(u), self.nv))
        free[:, : self.nr] = u
        free[:, self.nr + 2] = -model.mass * model.gravity / model.translation
        inside = -self._gain * (free @ self._rows.T) - model.contact * model.distance * self._phi
        force = np.logaddexp(model.sharpness * inside, 0.0) / model.sharpness
        return inside, force, free + force @ self._pushed

    def _tip_positions(self, t: int, joints: Array) -> Array:
        d = self._mjds[t]
        d.qpos[: self.nr] = joints
        mujoco.mj_kinematics(self._mjm, d)
        return d.site_xpos[self._tips]

    def derivatives(self) -> tuple[Array, Array]:
        """Gradient (T nr,) and Gauss-Newton matrix (T nr, T nr) of the cost at the controls last given to `cost`."""
        w, T, nr, nv = self.weights, self.horizon, self.nr, self.nv
        n = T * nr
        slope = self._slope()  # (T, nv, nr)
        for t in range(T):
            slope[t, nr + 3 :] = _right_jacobian(self._turn[t]) @ slope[t, nr + 3 :]
        gradient = 2.0 * w.control * self._u.reshape(-1)
        hessian = np.zeros((n, n))
        hessian[np.diag_indices(n)] = 2.0 * w.control
        moved = np.zeros((nv, n))  # of the state by all controls so far
        for t in range(T):
            moved[nr + 3 :, : t * nr] = _matrix(_exponential(self._turn[t])).T @ moved[nr + 3 :, : t * nr]
            moved[:, t * nr : (t + 1) * nr] = slope[t]
            so_far = moved[:, : (t + 1) * nr]
            residual, jacobian = self._residuals(t) if t < T - 1 else self._final_residuals()
            by_u = jacobian @ so_far
            k = (t + 1) * nr
            gradient[:k] += 2.0 * (by_u.T @ residual)
            hessian[:k, :k] += 2.0 * (by_u.T @ by_u)
        return gradient, hessian

    def _slope(self) -> Array:
        """Derivative of the displacement of each step by its control, (T, nv, nr)."""
        x = np.clip(self.model.sharpness * self._inside, -500.0, 500.0)
        share = 1.0 / (1.0 + np.exp(-x))  # derivative of softplus
        slope = -self._gain * np.einsum("tn,nv,nr->tvr", share, self._pushed, self._robot, optimize=True)
        slope[:, np.arange(self.nr), np.arange(self.nr)] += 1.0
        return slope

    def _residuals(self, t: int) -> tuple[Array, Array]:
        """Residuals of the way after step t, and their derivatives by a small motion, (n, nv)."""
        w, nr = self.weights, self.nr
        rotation, away = self._between[t]
        tips = self._tip_jacobians(t)  # (k, 3, nr)
        k = len(away)
        root = math.sqrt(w.contact)
        by = np.zeros((3 * k, self.nv))
        by[:, :nr] = root * tips.reshape(3 * k, nr)
        by[:, nr : nr + 3] = -root * np.tile(np.eye(3), (k, 1))
        residual = root * away.reshape(-1)
        if not w.grasp:
            return residual, by
        root = math.sqrt(w.grasp)
        seen = away @ rotation
        far = np.linalg.norm(seen, axis=1)
        units = seen / far[:, None]
        across = (np.eye(3) - units[:, :, None] * units[:, None, :]) / far[:, None, None]  # (k, 3, 3)
        turned = across @ rotation.T
        grasp = np.zeros((3, self.nv))
        grasp[:, :nr] = np.einsum("kij,kjr->ir", turned, tips)
        grasp[:, nr : nr + 3] = -turned.sum(axis=0)
        grasp[:, nr + 3 :] = np.einsum("kij,kjl->il", across, _cross(seen))
        return np.concatenate([residual, root * units.sum(axis=0)]), np.concatenate([by, root * grasp])

    def _tip_jacobians(self, t: int) -> Array:
        d, m = self._mjds[t], self._mjm
        mujoco.mj_comPos(m, d)
        jacobian = np.empty((len(self._tips), 3, self.nv))
        for place, tip in zip(jacobian, self._tips, strict=True):
            mujoco.mj_jacSite(m, d, place, None, tip)
        return jacobian[:, :, : self.nr]

    def _final_residuals(self) -> tuple[Array, Array]:
        w, nr = self.weights, self.nr
        by = np.zeros((6, self.nv))
        root = math.sqrt(w.final_position)
        by[:3, nr : nr + 3] = root * np.eye(3)
        residual = np.empty(6)
        residual[:3] = root * (self._places[-1] - self.goal.pos)
        root = math.sqrt(w.final_orientation)
        left = self._final
        residual[3:] = root * left[1:]
        by[3:, nr + 3 :] = 0.5 * root * (left[0] * np.eye(3) + _cross(left[1:]))
        return residual, by


def _cross(v: Array) -> Array:
    """Matrices of v x, (..., 3, 3)."""
    m = np.zeros((*v.shape, 3))
    m[..., 0, 1], m[..., 0, 2], m[..., 1, 2] = -v[..., 2], v[..., 1], -v[..., 0]
    m[..., 1, 0], m[..., 2, 0], m[..., 2, 1] = v[..., 2], -v[..., 1], v[..., 0]
    return m


def _multiply(a: Array, b: Array) -> Array:
    out = np.empty(4)
    mujoco.mju_mulQuat(out, a, b)
    return out


def _conjugate(a: Array) -> Array:
    return a * np.array([1.0, -1.0, -1.0, -1.0])


def _exponential(turn: Array) -> Array:
    """Quaternion of a rotation vector [rad]."""
    half = 0.5 * math.sqrt(turn @ turn)
    share = 0.5 * (math.sin(half) / half if half > 1e-8 else 1.0)
    return np.array([math.cos(half), share * turn[0], share * turn[1], share * turn[2]])


def _matrix(quat: Array) -> Array:
    out = np.empty(9)
    mujoco.mju_quat2Mat(out, quat)
    return out.reshape(3, 3)


def _right_jacobian(turn: Array) -> Array:
    """How a rotation vector's change turns the body, seen from it: exp(r + dr) = exp(r) exp(Jr dr)."""
    angle = math.sqrt(turn @ turn)
    cross = _cross(turn)
    if angle < 1e-6:
        return np.eye(3) - 0.5 * cross
    return np.eye(3) - (1 - math.cos(angle)) / angle**2 * cross + (angle - math.sin(angle)) / angle**3 * cross @ cross
