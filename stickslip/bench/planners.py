"""Gradient planners as contenders: `newton`, `ipopt`, `implicit`, or one with another stiffness, `newton:contact=0.1`.

A planner's contact model is quasi-dynamic: it has no velocities, and simulates no scene. So a planner takes part in
experiments on planning alone.
"""

import dataclasses
from typing import ClassVar, final

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.bench.host import HostPhysics
from stickslip.errors import InputError, Unsupported
from stickslip.mpc.planners import make_planner
from stickslip.mpc.task import Planner, Problem


@dataclasses.dataclass(frozen=True)
class PlannerContender(HostPhysics):
    """A planner with a contact model of its own.

    Attributes:
        contact: stiffness of contact K in the model; None: the task's
    """

    contact: float | None = None

    def __post_init__(self) -> None:
        if self.contact is not None and not (np.isfinite(self.contact) and self.contact > 0.0):
            raise InputError(f"contact is {self.contact}: it must be a stiffness above 0")

    def make(self, problem: Problem) -> Planner:
        """The planner for a problem."""
        if self.contact is not None:
            model = dataclasses.replace(problem.task.model, contact=self.contact)
            problem = dataclasses.replace(problem, task=dataclasses.replace(problem.task, model=model))
        return make_planner(self.name, problem)

    def check(self, mjm: mujoco.MjModel) -> None:
        raise Unsupported(f"{self.name} plans and does not simulate: it takes part in plan-gradient alone")

    def advance(self, mjm: mujoco.MjModel, mjd: mujoco.MjData) -> NDArray[np.float64]:
        raise Unsupported(f"{self.name} plans and does not simulate")


@final
@dataclasses.dataclass(frozen=True)
class NewtonPlanner(PlannerContender):
    """Gauss-Newton on the closed form."""

    name: ClassVar[str] = "newton"


@final
@dataclasses.dataclass(frozen=True)
class IpoptPlanner(PlannerContender):
    """The same problem by multiple shooting with CasADi and IPOPT."""

    name: ClassVar[str] = "ipopt"


@final
@dataclasses.dataclass(frozen=True)
class ImplicitPlanner(PlannerContender):
    """The complementarity conditions of the convex model as constraints, relaxed, with CasADi and IPOPT."""

    name: ClassVar[str] = "implicit"


KINDS = (NewtonPlanner, IpoptPlanner, ImplicitPlanner)
