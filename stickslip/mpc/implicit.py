"""The planner `implicit`: a baseline with the convex contact model in the program, by its optimality conditions.

Of the quadratic program (7) of "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous
Manipulation" (see `qp_model.py`), a step's motion d and the forces lambda of the edges are unknowns, with

    Q d = b + R^T lambda,    lambda >= 0,    R d + s phi >= 0,    lambda (R d + s phi) <= relaxation, edge by edge.

All else is as with `ipopt`, so what differs is the price of complementarity.
"""

import dataclasses
import math
from typing import Any, final

import numpy as np

from stickslip.errors import InputError
from stickslip.mpc import quasidynamic
from stickslip.mpc.casadi_form import Arrays, load
from stickslip.mpc.contact_rows import Rows
from stickslip.mpc.nlp import Settings, ShootingPlanner, Step
from stickslip.mpc.task import Array, Problem


@dataclasses.dataclass(frozen=True)
class Relaxation:
    """How far complementarity may be missed.

    Attributes:
        product: most that force times distance of an edge may be [N m]; the paper found 5e-4 to be best
    """

    product: float = 5e-4

    def __post_init__(self) -> None:
        if not (math.isfinite(self.product) and self.product > 0.0):
            raise InputError(f"product is {self.product}: it must be above 0")


@final
class Implicit(ShootingPlanner):
    """Plans by IPOPT through relaxed complementarity."""

    def __init__(
        self, problem: Problem, settings: Settings | None = None, relaxation: Relaxation | None = None
    ) -> None:
        self.relaxation = relaxation or Relaxation()
        super().__init__(problem, settings)

    def _step(self, u: Any, rows: Any, phi: Any) -> Step:
        ca, xp, model = load(), Arrays(), self.problem.task.model
        n, nv = rows.shape
        motion, force = ca.SX.sym("motion", nv), ca.SX.sym("force", n)
        compliance = xp.asarray(quasidynamic.compliance(model, nv - 6))
        balance = motion - quasidynamic.free_motion(xp, model, u) - compliance * (rows.T @ force)
        gap = rows @ motion + model.distance * phi
        infinite = np.full(nv, math.inf)
        return Step(
            motion,
            ca.vertcat(motion, force),
            np.concatenate([-infinite, np.zeros(n)]),
            np.full(nv + n, math.inf),
            ca.vertcat(balance, gap, force * gap),
            np.concatenate([np.zeros(nv + n), np.full(n, -math.inf)]),
            np.concatenate([np.zeros(nv), np.full(n, math.inf), np.full(n, self.relaxation.product)]),
        )

    def _guess(self, u: Array, rows: Rows) -> Array:
        model = self.problem.task.model
        steps = []
        for control in u:
            force = quasidynamic.force(np, model, rows.rows, rows.phi, control)
            motion = quasidynamic.displacement(np, model, rows.rows, rows.phi, control)
            steps.append(np.concatenate([motion, force]))
        return np.array(steps)
