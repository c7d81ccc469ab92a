"""A plan as a nonlinear program by multiple shooting, solved by IPOPT: the base of the planners `ipopt` and `implicit`.

The unknowns of each step are the control, the unknowns of the contact model, and the positions after the step. The
constraints are (26) of "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous Manipulation".
Start, goal and contacts are parameters: the program and its first and second derivatives are built once per problem.
"""

import abc
import dataclasses
import math
from typing import Any

import numpy as np

from stickslip.errors import Diverged
from stickslip.mpc.model import cost, kinematics
from stickslip.mpc.model.contact_rows import EDGES, ContactRows, Rows
from stickslip.mpc.planners.shooting.casadi_form import Arrays, load
from stickslip.mpc.success import Array, Goal, pose_goal
from stickslip.mpc.task import Observation, Plan, Planner, Problem
from stickslip.parameters import checked, parameter

GOOD = ("Solve_Succeeded", "Solved_To_Acceptable_Level")
"""Return statuses of IPOPT with a solution."""
BROKEN = 1e-3
"""Constraint violation above which an iterate is not used [m, rad, or quaternion]."""


@checked
@dataclasses.dataclass(frozen=True)
class Settings:
    """Parameters of IPOPT."""

    iterations: int = parameter(0, "maximum number of iterations; 0: the task's", 0)
    tolerance: float = parameter(1e-3, "tolerance of the optimality conditions", 0.0, above=True)
    barrier: float = parameter(1e-3, "initial barrier parameter of a plan", 0.0, above=True)


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """CasADi expressions of one step of a contact model.

    Attributes:
        motion: displacement of joints and object                    (nr + 6,)
        extra: symbols of the model's own unknowns                   (k,)
        extra_low, extra_high: bounds of these                       (k,)
        conditions: constraint expressions                           (m,)
        low, high: bounds of the conditions                          (m,)
    """

    motion: Any
    extra: Any
    extra_low: Array
    extra_high: Array
    conditions: Any
    low: Array
    high: Array


class ShootingPlanner(Planner):
    """Plans by a nonlinear program. A subclass defines the contact model."""

    def __init__(self, problem: Problem, settings: Settings | None = None) -> None:
        self.problem = problem
        self.settings = settings or Settings()
        self.weights, self.model = problem.smooth(type(self).__name__.lower())
        self._contacts = ContactRows(problem, self.model)
        self._goal = pose_goal(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))
        self._build()
        self._clear()

    @abc.abstractmethod
    def _step(self, u: Any, rows: Any, phi: Any) -> Step:
        """Expressions of one step, given the symbols of its control (nr,) and of the contacts."""

    @abc.abstractmethod
    def _guess(self, u: Array, rows: Rows) -> Array:
        """Initial guess of the model's own unknowns (T, k), given the controls (T, nr)."""

    def _build(self) -> None:
        ca, xp, task, nr = load(), Arrays(), self.problem.task, self.problem.nr
        T, n, nq = task.horizon, EDGES * self.model.slots, nr + 7
        symbol = ca.SX.sym
        rows, phi = symbol("rows", n, nr + 6), symbol("phi", n)
        start, goal_pos, goal_quat = symbol("start", nq), symbol("goal_pos", 3), symbol("goal_quat", 4)
        chains = kinematics.chains(self.problem.mjm, self.weights.sites)
        posture = self.problem.posture

        u, q = symbol("u", nr), symbol("q", nq)
        step = self._step(u, rows, phi)
        self._k, self._m = step.extra.shape[0], len(step.low)
        stage = ca.Function("stage", [u, step.extra, rows, phi], [step.motion, step.conditions])
        moved = ca.Function("moved", [q, m := symbol("m", nr + 6)], [kinematics.move(xp, q, m)])

        unknowns, conditions, total, before = [], [], 0.0, start
        for t in range(T):
            ut, et, qt = symbol(f"u{t}", nr), symbol(f"e{t}", self._k), symbol(f"q{t}", nq)
            motion, held = stage(ut, et, rows, phi)
            conditions += [qt - moved(before, motion), held]
            total += cost.control(xp, self.weights, ut)
            if t < T - 1:
                total += cost.between(xp, self.weights, chains, posture, qt)
            unknowns += [ut, et, qt]
            before = qt
        total += cost.final(xp, self.weights, goal_pos, goal_quat, before)
        p = ca.vertcat(start, goal_pos, goal_quat, phi, ca.vec(rows))
        nlp = {"x": ca.vertcat(*unknowns), "p": p, "f": total, "g": ca.vertcat(*conditions)}
        self._solver = ca.nlpsol("plan", "ipopt", nlp, self._options())
        self._stage = stage
        zero = np.zeros(nq)
        self._g_low = np.tile(np.concatenate([zero, step.low]), T)
        self._g_high = np.tile(np.concatenate([zero, step.high]), T)
        self._extra_low, self._extra_high = step.extra_low, step.extra_high

    def _options(self) -> dict[str, Any]:
        s = self.settings
        return {
            "print_time": False,
            "show_eval_warnings": False,
            "ipopt": {
                "print_level": 0,
                "sb": "yes",
                "max_iter": s.iterations or self.problem.task.iterations,
                "tol": s.tolerance,
                "mu_init": s.barrier,
                "warm_start_init_point": "yes",
                # Away from bounds and zero multipliers; otherwise IPOPT is slow to leave a bound that is inactive now.
                "warm_start_bound_push": 1e-4,
                "warm_start_bound_frac": 1e-2,
                "warm_start_mult_bound_push": 0.2,
            },
        }

    def _clear(self) -> None:
        T, nr, nq = self.problem.task.horizon, self.problem.nr, self.problem.nr + 7
        width = nr + self._k + nq
        self._x = np.zeros((T, width))  # unknowns and multipliers of the last plan, per step
        self._x_price = np.zeros((T, width))
        self._g_price = np.zeros((T, nq + self._m))
        self._cost = math.nan
        self._fresh = True

    @property
    def controls(self) -> Array:
        """Controls of the last plan, (T, nr)."""
        return self._x[:, : self.problem.nr].copy()

    def reset(self, goal: Goal, seed: int) -> None:
        self._goal = goal
        self._clear()

    def plan(self, observation: Observation) -> Plan:
        qpos, nr = observation.qpos, self.problem.nr
        if not np.isfinite(qpos).all():
            raise Diverged("qpos is not finite: the planner cannot plan from it; reset the state first")
        qpos = np.concatenate([qpos[:-4], qpos[-4:] / np.linalg.norm(qpos[-4:])])
        found = self._contacts.at(qpos)
        rows = found.padded(self.model.slots)
        notes = []
        if len(found.phi) > len(rows.phi):
            many, slots = len(found.phi) // EDGES, len(rows.phi) // EDGES
            notes.append(f"{many} contacts, of which the deepest {slots} are used: raise `slots` of the task's model")
        x, low, high = self._start(qpos, rows)
        answer = self._solver(
            x0=x.reshape(-1),
            p=np.concatenate([qpos, self._goal.pos, self._goal.quat, rows.phi, rows.rows.reshape(-1, order="F")]),
            lbx=low.reshape(-1),
            ubx=high.reshape(-1),
            lbg=self._g_low,
            ubg=self._g_high,
            lam_x0=_shifted(self._x_price).reshape(-1),
            lam_g0=_shifted(self._g_price).reshape(-1),
        )
        stats = self._solver.stats()
        iterations, status = int(stats["iter_count"]), stats["return_status"]
        if self._take(answer):
            if status not in GOOD:
                notes.append(f"IPOPT: {status} after {iterations} iterations; the last iterate is used")
        else:
            notes.append(f"IPOPT: {status} after {iterations} iterations; the last plan is continued")
            self._x, self._x_price[:], self._g_price[:] = x, 0.0, 0.0
        target = qpos[:nr] + np.clip(self._x[0, :nr], low[0, :nr], high[0, :nr])
        return Plan(target, self._cost, iterations, "; ".join(notes))

    def _start(self, qpos: Array, rows: Rows) -> tuple[Array, Array, Array]:
        """The last plan shifted by one step, from `qpos`, and the bounds of the unknowns, (T, width) each."""
        nr, k = self.problem.nr, self._k
        u_low, u_high = self.problem.bounds(qpos[:nr])
        free = np.full(nr + 7, math.inf)
        low, high = np.concatenate([u_low, self._extra_low, -free]), np.concatenate([u_high, self._extra_high, free])
        x = _shifted(self._x)
        x[:, :nr] = np.clip(x[:, :nr], u_low, u_high)
        if self._fresh:
            x[:, nr : nr + k] = self._guess(x[:, :nr], rows)
        for step in x:
            motion, _ = self._stage(step[:nr], step[nr : nr + k], rows.rows, rows.phi)
            qpos = kinematics.move(np, qpos, np.asarray(motion).reshape(-1))
            step[nr + k :] = qpos
        return x, np.broadcast_to(low, x.shape), np.broadcast_to(high, x.shape)

    def _take(self, answer: dict[str, Any]) -> bool:
        """Keep a solution as the plan, if it can be used."""
        x, f, g, x_price, g_price = (np.asarray(answer[name]).reshape(-1) for name in ("x", "f", "g", "lam_x", "lam_g"))
        if not all(np.isfinite(a).all() for a in (x, f, g, x_price, g_price)):
            return False
        if max((self._g_low - g).max(), (g - self._g_high).max()) > BROKEN:
            return False
        self._x, self._x_price = x.reshape(self._x.shape), x_price.reshape(self._x.shape)
        self._g_price, self._cost, self._fresh = g_price.reshape(self._g_price.shape), float(f[0]), False
        return True


def _shifted(steps: Array) -> Array:
    """Values per step (T, n), shifted by one step; the last step is repeated."""
    return np.concatenate([steps[1:], steps[-1:]])
