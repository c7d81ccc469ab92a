"""The planners, by name."""

import importlib
from typing import Any

from stickslip import spec
from stickslip.errors import InputError, unknown
from stickslip.mpc.task import Planner, Problem
from stickslip.mpc.trial.regrasp import Regrasping

PLANNERS = {
    "newton": "stickslip.mpc.planners.newton.planner:Newton",
    "mppi": "stickslip.mpc.planners.mppi.planner:Mppi",
    "ipopt": "stickslip.mpc.planners.shooting.ipopt:Ipopt",
    "implicit": "stickslip.mpc.planners.shooting.implicit:Implicit",
}
"""Module and class of each planner. The parameters of a planner are the dataclass `Settings` of its module."""


def make_planner(planner: str, problem: Problem, **options: Any) -> Planner:
    """A planner for a problem, with `Regrasping` around it if the task regrasps.

    Args:
        planner: name, or name with parameters, such as "mppi:samples=128"
        problem: the task, compiled
        options: further keyword arguments of the planner's class
    """
    name, given = spec.split(planner)
    module, kind = _load(name)
    if given:
        if "settings" in options:
            raise InputError(f"{planner!r} has parameters, and `settings` is given too; give one of them")
        options["settings"] = spec.make(module.Settings, given, name)
    made, rule = kind(problem, **options), problem.task.regrasp
    return made if rule is None else Regrasping(problem, made, rule)


def settings_of(planner: str) -> Any:
    """The parameters of a planner, given by name or by name with parameters."""
    name, given = spec.split(planner)
    return spec.make(_load(name)[0].Settings, given, name)


def _load(name: str) -> tuple[Any, Any]:
    """Module and class of a planner; raises InputError if there is none of that name."""
    if name not in PLANNERS:
        raise unknown("planner", name, PLANNERS)
    where, _, kind = PLANNERS[name].partition(":")
    module = importlib.import_module(where)
    return module, getattr(module, kind)
