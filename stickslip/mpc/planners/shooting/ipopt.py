"""The planner `ipopt`: the closed-form contact model in a nonlinear program, solved as in the paper.

The program is (26) of "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous Manipulation".
"""

from typing import Any, final

import numpy as np

from stickslip.mpc.model import quasidynamic
from stickslip.mpc.model.contact_rows import Rows
from stickslip.mpc.planners.shooting.casadi_form import Arrays, load
from stickslip.mpc.planners.shooting.nlp import Settings, ShootingPlanner, Step
from stickslip.mpc.success import Array

__all__ = ["Ipopt", "Settings"]


@final
class Ipopt(ShootingPlanner):
    """Plans by IPOPT with exact second derivatives, warm-started with the last plan and its multipliers."""

    def _step(self, u: Any, rows: Any, phi: Any) -> Step:
        none = np.zeros(0)
        motion = quasidynamic.displacement(Arrays(), self.model, rows, phi, u)
        nothing = load().SX.zeros(0, 1)
        return Step(motion, nothing, none, none, nothing, none, none)

    def _guess(self, u: Array, rows: Rows) -> Array:
        return np.zeros((len(u), 0))
