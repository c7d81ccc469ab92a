"""Gradient planners as methods: `newton`, `ipopt`, `implicit`, or one with another stiffness, `newton:contact=0.1`.

A planner's contact model is quasi-dynamic. It has no velocities and simulates no scene, so a planner takes part in
experiments on planning only.
"""

import dataclasses
from typing import ClassVar, final

from stickslip.mpc.planners.catalogue import make_planner
from stickslip.mpc.task import Planner, Problem
from stickslip.parameters import checked, parameter


@dataclasses.dataclass(frozen=True)
class PlannerMethod:
    """A planner with a contact model of its own.

    Attributes:
        contact: contact stiffness K of the model; None: the task's
    """

    name: ClassVar[str]
    slow: ClassVar[bool] = True
    """Whether it takes too long to run every case."""
    contact: float | None = parameter(
        None, "contact stiffness K of the model; None: the task's", 0.0, above=True, kind=float
    )

    def make(self, problem: Problem) -> Planner:
        """The planner for a problem."""
        if self.contact is not None:
            _, model = problem.smooth(self.name)
            model = dataclasses.replace(model, contact=self.contact)
            problem = dataclasses.replace(problem, task=dataclasses.replace(problem.task, model=model))
        return make_planner(self.name, problem)


@final
@checked
@dataclasses.dataclass(frozen=True)
class NewtonPlanner(PlannerMethod):
    """Gauss-Newton on the closed form."""

    name: ClassVar[str] = "newton"
    slow: ClassVar[bool] = False


@final
@checked
@dataclasses.dataclass(frozen=True)
class IpoptPlanner(PlannerMethod):
    """The same problem by multiple shooting with CasADi and IPOPT."""

    name: ClassVar[str] = "ipopt"


@final
@checked
@dataclasses.dataclass(frozen=True)
class ImplicitPlanner(PlannerMethod):
    """The complementarity conditions of the convex model as relaxed constraints, with CasADi and IPOPT."""

    name: ClassVar[str] = "implicit"
