"""The planner `newton`: Gauss-Newton on the controls of the whole horizon, within their bounds.

With frozen contacts a step depends on its own control alone (see `model/quasidynamic.py`). So the cost of a plan is a
sum of squares of smooth functions of the controls, with derivatives in closed form. The problem is small and dense:
horizon times joints unknowns with bounds. Each iteration fixes the controls at a bound whose gradient points beyond it,
solves for the others, and searches along the step, projected onto the bounds. `kernels.py` does this in one kernel.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import warp as wp

from stickslip.mpc.model import kinematics, quasidynamic
from stickslip.mpc.model.contact_rows import EDGES, ContactRows
from stickslip.mpc.model.rotations import vec4d
from stickslip.mpc.planners.newton import structs
from stickslip.mpc.planners.newton.kernels import _solve_plans
from stickslip.mpc.success import Array, Goal, pose_goal
from stickslip.mpc.task import Observation, Plan, Planner, Problem
from stickslip.parameters import checked, parameter
from stickslip.simulation import resolve_device

CONTACTS = 16
"""Initial capacity for contacts; it grows when there are more."""


@checked
@dataclasses.dataclass(frozen=True)
class Settings:
    """Parameters of the planner `newton`."""

    iterations: int = parameter(30, "maximum number of iterations", 1)
    tolerance: float = parameter(1e-4, "relative decrease of the cost below which the iteration stops", 0.0)


class Newton(Planner):
    """Plans by Gauss-Newton with bounds on the controls."""

    def __init__(self, problem: Problem, settings: Settings | None = None) -> None:
        self.problem = problem
        self.settings = settings or Settings()
        self._solver = Solver(problem, 1, self.settings)
        self._contacts = ContactRows(problem, self._solver.model)
        self._goal = pose_goal(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))
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
    """Solves any number of plans of one task at once, each with its own start and goal.

    Args:
        problem: the task, compiled
        nproblem: number of plans
        settings: parameters
        device: device; default: the CPU
    """

    def __init__(
        self, problem: Problem, nproblem: int, settings: Settings | None = None, device: str | None = "cpu"
    ) -> None:
        task = problem.task
        cost, model = problem.smooth("newton")
        self.model = model
        self.settings = settings or Settings()
        self.device = resolve_device(device)
        self.shape = (nproblem, task.horizon, problem.nr)
        with wp.ScopedDevice(self.device):
            self._weights = structs.Weights()
            for name in ("contact", "grasp", "control", "posture", "final_position", "final_orientation"):
                setattr(self._weights, name, getattr(cost, name))
            self._contact = structs.Contact()
            self._contact.gain = model.contact * (1.0 + model.damping / model.step)
            self._contact.distance = model.contact * model.distance
            self._contact.sharpness = model.sharpness
            self._contact.drop = model.mass * model.gravity / model.translation
            self._chains = _put_chains(problem, cost.sites)
            self._given = structs.Given()
            self._given.compliance = wp.array(quasidynamic.compliance(model, problem.nr), dtype=wp.float64)
            self._given.posture = wp.array(problem.posture, dtype=wp.float64)
            self._work = structs.Work()
            self._allocate(CONTACTS * EDGES)

    def _allocate(self, nrow: int) -> None:
        """Allocate arrays for `nrow` rows."""
        n, horizon, nr = self.shape
        nv, size, tips, links = nr + 6, horizon * nr, len(self._chains.site), len(self._chains.joint)
        quat = vec4d
        self._nrow = nrow
        self._host: dict[str, Array] = {}
        shapes = {
            "rows": (n, nrow, nv),
            "phi": (n, nrow),
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
        w.share = wp.zeros((n, horizon, nrow), dtype=wp.float64)
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
        """Set start, contacts, goal, bounds of the controls (nr,) and initial guess (T, nr) of one plan."""
        nr = self.shape[2]
        if len(phi) > self._nrow:
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
        """Controls (n, T, nr), costs (n,) and iterations (n,) of all plans."""
        for name, array in self._host.items():
            getattr(self._work if name == "u" else self._given, name).assign(array)
        self._given.count.assign(self._count)
        wp.launch(
            _solve_plans,
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


def _put_chains(problem: Problem, sites: Sequence[str]) -> structs.Chains:
    """The joints from the world to the fingertips, on the current device."""
    found = kinematics.chains(problem.mjm, sites)
    joints = [joint for chain in found for joint in chain.joints]
    chains = structs.Chains()
    chains.start = wp.array(np.cumsum([0, *(len(chain.joints) for chain in found)]), dtype=int)
    chains.joint = wp.array([joint.index for joint in joints], dtype=int)
    chains.hinge = wp.array([int(joint.hinge) for joint in joints], dtype=int)
    chains.offset = wp.array(np.array([joint.offset for joint in joints]), dtype=wp.vec3d)
    chains.rotation = wp.array(np.array([joint.rotation for joint in joints]), dtype=wp.mat33d)
    chains.axis = wp.array(np.array([joint.axis for joint in joints]), dtype=wp.vec3d)
    chains.reference = wp.array([joint.reference for joint in joints], dtype=wp.float64)
    chains.site = wp.array(np.array([chain.site for chain in found]), dtype=wp.vec3d)
    return chains
