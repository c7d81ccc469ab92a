"""The planner `implicit`: a baseline with the optimality conditions of the convex contact model as constraints.

The model is the quadratic program (7) of "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous
Manipulation". The displacement d of a step and the forces lambda of the edges are unknowns, with

    Q d = b + R^T lambda,    lambda >= 0,    R d + s phi >= 0,    lambda (R d + s phi) <= relaxation, edge by edge.

All else is as in `ipopt`, so that the difference shows the cost of complementarity.
"""

import dataclasses
import math
from typing import Any, final

import numpy as np

from stickslip.mpc.model import quasidynamic
from stickslip.mpc.model.contact_rows import Rows
from stickslip.mpc.planners.shooting import nlp
from stickslip.mpc.planners.shooting.casadi_form import Arrays, load
from stickslip.mpc.planners.shooting.nlp import Step
from stickslip.mpc.success import Array
from stickslip.mpc.task import Problem
from stickslip.parameters import checked, parameter


@checked
@dataclasses.dataclass(frozen=True)
class Settings(nlp.Settings):
    """Parameters of the planner `implicit`."""

    product: float = parameter(
        5e-4, "limit of force times distance at an edge; the paper found 5e-4 to be best [N m]", 0.0, above=True
    )


@final
class Implicit(nlp.ShootingPlanner):
    """Plans by IPOPT through relaxed complementarity."""

    def __init__(self, problem: Problem, settings: Settings | None = None) -> None:
        self.product = (settings or Settings()).product
        super().__init__(problem, settings or Settings())

    def _step(self, u: Any, rows: Any, phi: Any) -> Step:
        ca, xp, model = load(), Arrays(), self.model
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
            np.concatenate([np.zeros(nv), np.full(n, math.inf), np.full(n, self.product)]),
        )

    def _guess(self, u: Array, rows: Rows) -> Array:
        model = self.model
        steps = []
        for control in u:
            force = quasidynamic.force(np, model, rows.rows, rows.phi, control)
            motion = quasidynamic.displacement(np, model, rows.rows, rows.phi, control)
            steps.append(np.concatenate([motion, force]))
        return np.array(steps)
