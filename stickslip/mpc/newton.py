"""The planner `newton`: Gauss-Newton on the controls of the whole horizon, within their bounds.

With frozen contacts a step depends on its own control alone (see `quasidynamic.py`), so everything that a plan costs is
a sum of squares of smooth functions of the controls, and its derivatives are closed forms. What is left of the problem
is small and dense: horizon times joints unknowns with bounds. Each iteration fixes the controls that are at a bound and
want to go beyond it, solves for the others, and searches along the step, projected into the bounds.

`newton_kernels.py` does it in one kernel; `newton_reference.py` is the same in NumPy.
"""

import dataclasses
import math

import numpy as np
import warp as wp

from stickslip.errors import InputError, Unsupported
from stickslip.mpc import kinematics, newton_kernels, quasidynamic
from stickslip.mpc.contact_rows import EDGES, ContactRows
from stickslip.mpc.task import Array, Goal, Observation, Plan, Planner, Problem
from stickslip.simulation import resolve_device

ROOM = 16
"""Contacts there is room for at first; more make it grow."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """When to stop.

    Attributes:
        iterations: most
        tolerance: decrease of the cost, as a share of it, that is not worth another iteration
    """

    iterations: int = 30
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InputError(f"iterations is {self.iterations}: it must be at least 1")
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0.0):
            raise InputError(f"tolerance is {self.tolerance}: it must be a share of the cost, at least 0")


class Newton(Planner):
    """Plans by Gauss-Newton with bounds."""

    def __init__(self, problem: Problem, settings: Settings | None = None) -> None:
        self.problem = problem
        self.settings = settings or Settings()
        self._contacts = ContactRows(problem, problem.task.model)
        self._solver = Solver(problem, 1, self.settings)
        self._goal = Goal(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))
        self._last = np.zeros((problem.task.horizon, problem.nr))

    def reset(self, goal: Goal, seed: int) -> None:
        self._goal = goal
        self._last[:] = 0.0

    def plan(self, observation: Observation) -> Plan:
        joints = observation.qpos[: self.problem.nr]
        low, high = self.problem.bounds(joints)
        found = self._contacts.at(observation.qpos)
        solver = self._solver
        solver.put(0, observation.qpos, found.rows, found.phi, self._goal, low, high, self._last)
        u, cost, iterations = solver.solve()
        self._last[:-1], self._last[-1] = u[0, 1:], u[0, -1]
        return Plan(joints + u[0, 0], float(cost[0]), int(iterations[0]))


class Solver:
    """Solves any number of plans of one problem at once, each from where it starts to where it is to go.

    Args:
        problem: the task and its object
        nproblem: plans to solve at once
        settings: when to stop
        device: where to solve; the CPU unless given
    """

    def __init__(
        self, problem: Problem, nproblem: int, settings: Settings | None = None, device: str | None = "cpu"
    ) -> None:
        task = problem.task
        given = {"orientation": task.cost.orientation, "fallen": task.cost.fallen, "position": any(task.cost.position)}
        other = [name for name, weight in given.items() if weight]
        if other:
            raise Unsupported(
                f"the planner newton knows no cost of {', '.join(other)} along the way, as {task.name} has; "
                "set it to 0, or take the planner mppi"
            )
        self.settings = settings or Settings()
        self.device = resolve_device(device)
        self.shape = (nproblem, task.horizon, problem.nr)
        cost, model = task.cost, task.model
        k = newton_kernels
        with wp.ScopedDevice(self.device):
            self._weights = k.Weights()
            for name in ("contact", "grasp", "control", "posture", "final_position", "final_orientation"):
                setattr(self._weights, name, getattr(cost, name))
            self._contact = k.Contact()
            self._contact.gain = model.contact * (1.0 + model.damping / model.step)
            self._contact.distance = model.contact * model.distance
            self._contact.sharpness = model.sharpness
            self._contact.drop = model.mass * model.gravity / model.translation
            self._chains = _put_chains(problem)
            self._given = k.Given()
            self._given.compliance = wp.array(quasidynamic.compliance(model, problem.nr), dtype=wp.float64)
            self._given.posture = wp.array(problem.posture, dtype=wp.float64)
            self._work = k.Work()
            self._allocate(ROOM * EDGES)

    def _allocate(self, room: int) -> None:
        """Make arrays with room for that many rows."""
        n, horizon, nr = self.shape
        nv, size, tips, links = nr + 6, horizon * nr, len(self._chains.site), len(self._chains.joint)
        quat = newton_kernels.vec4d
        self._room = room
        self._host: dict[str, Array] = {}
        shapes = {
            "rows": (n, room, nv),
            "phi": (n, room),
            "joints": (n, nr),
            "pos": (n, 3),
            "quat": (n, 4),
            "goal_pos": (n, 3),
            "goal_quat": (n, 4),
            "low": (n, nr),
            "high": (n, nr),
            "u": (n, size),
        }
        self._count = np.zeros(n, dtype=np.int32)
        self._given.count = wp.zeros(n, dtype=int)
        vectors = {"pos": wp.vec3d, "quat": quat, "goal_pos": wp.vec3d, "goal_quat": quat}
        for name, shape in shapes.items():
            self._host[name] = np.zeros(shape)
            made = wp.array(self._host[name], dtype=vectors.get(name, wp.float64))
            setattr(self._work if name == "u" else self._given, name, made)
        w = self._work
        w.tried = wp.zeros((n, size), dtype=wp.float64)
        w.share = wp.zeros((n, horizon, room), dtype=wp.float64)
        w.delta = wp.zeros((n, horizon, nv), dtype=wp.float64)
        w.joints = wp.zeros((n, horizon, nr), dtype=wp.float64)
        w.pos = wp.zeros((n, horizon), dtype=wp.vec3d)
        w.quat = wp.zeros((n, horizon), dtype=quat)
        w.tip = wp.zeros((n, horizon, tips), dtype=wp.vec3d)
        w.slope = wp.zeros((n, nv, nr), dtype=wp.float64)
        w.moved = wp.zeros((n, nv, size), dtype=wp.float64)
        w.column = wp.zeros((n, links), dtype=wp.vec3d)
        w.residual = wp.zeros((n, 3, size), dtype=wp.float64)
        w.gradient = wp.zeros((n, size), dtype=wp.float64)
        w.hessian = wp.zeros((n, size, size), dtype=wp.float64)
        w.step = wp.zeros((n, size), dtype=wp.float64)
        w.cost = wp.zeros(n, dtype=wp.float64)
        w.iterations = wp.zeros(n, dtype=int)

    def put(
        self, index: int, qpos: Array, rows: Array, phi: Array, goal: Goal, low: Array, high: Array, u: Array
    ) -> None:
        """Give one of the plans its start, contacts, goal, bounds of its controls (nr,), and first guess (T, nr)."""
        nr = self.shape[2]
        if len(phi) > self._room:
            kept, count = self._host, self._count
            with wp.ScopedDevice(self.device):
                self._allocate(2 * len(phi))
            for name, array in kept.items():
                self._host[name][tuple(slice(s) for s in array.shape)] = array
            self._count[:] = count
        h = self._host
        self._count[index] = len(phi)
        h["rows"][index, : len(phi)], h["phi"][index, : len(phi)] = rows, phi
        h["joints"][index], h["pos"][index] = qpos[:nr], qpos[nr : nr + 3]
        h["quat"][index] = qpos[nr + 3 :] / np.linalg.norm(qpos[nr + 3 :])
        h["goal_pos"][index], h["goal_quat"][index] = goal.pos, goal.quat
        h["low"][index], h["high"][index], h["u"][index] = low, high, u.reshape(-1)

    def solve(self) -> tuple[Array, Array, np.ndarray]:
        """Controls of all plans (n, T, nr), what they cost (n,), and the iterations that took (n,)."""
        for name, array in self._host.items():
            getattr(self._work if name == "u" else self._given, name).assign(array)
        self._given.count.assign(self._count)
        wp.launch(
            newton_kernels._solve_plans,
            dim=self.shape[0],
            inputs=[
                self._contact,
                self._weights,
                self._chains,
                self._given,
                self.settings.iterations,
                self.settings.tolerance,
                self._work,
            ],
            device=self.device,
        )
        w = self._work
        return w.u.numpy().reshape(self.shape).copy(), w.cost.numpy().copy(), w.iterations.numpy().copy()


def _put_chains(problem: Problem) -> newton_kernels.Chains:
    """The joints that lead to the fingertips, on the current device."""
    found = kinematics.chains(problem)
    joints = [joint for chain in found for joint in chain.joints]
    chains = newton_kernels.Chains()
    chains.start = wp.array(np.cumsum([0, *(len(chain.joints) for chain in found)]), dtype=int)
    chains.joint = wp.array([joint.index for joint in joints], dtype=int)
    chains.hinge = wp.array([int(joint.hinge) for joint in joints], dtype=int)
    chains.offset = wp.array(np.array([joint.offset for joint in joints]), dtype=wp.vec3d)
    chains.rotation = wp.array(np.array([joint.rotation for joint in joints]), dtype=wp.mat33d)
    chains.axis = wp.array(np.array([joint.axis for joint in joints]), dtype=wp.vec3d)
    chains.reference = wp.array([joint.reference for joint in joints], dtype=wp.float64)
    chains.site = wp.array(np.array([chain.site for chain in found]), dtype=wp.vec3d)
    return chains
