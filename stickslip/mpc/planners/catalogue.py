"""The planners, by name."""

import importlib
from typing import Any

from stickslip import spec
from stickslip.errors import InputError, unknown
from stickslip.mpc.task import Planner, Problem
from stickslip.mpc.trial.regrasp import Regrasping

SAMPLING = ("mppi", "predictive", "cem", "dial")
"""The planners that sample: they take a physics and a device."""
_SAMPLER = "stickslip.mpc.planners.sampling.planner"
PLANNERS = {
    "mppi": f"{_SAMPLER}:Sampler:Mppi",
    "predictive": f"{_SAMPLER}:Sampler:Predictive",
    "cem": f"{_SAMPLER}:Sampler:Cem",
    "dial": f"{_SAMPLER}:Sampler:Dial",
    "newton": "stickslip.mpc.planners.newton.planner:Newton:Settings",
    "ipopt": "stickslip.mpc.planners.shooting.ipopt:Ipopt:Settings",
    "implicit": "stickslip.mpc.planners.shooting.implicit:Implicit:Settings",
}
"""Module of each planner, its class and the class of its parameters."""


def make_planner(planner: str, problem: Problem, **options: Any) -> Planner:
    """A planner for a problem, with `Regrasping` around it if the task regrasps.

    Args:
        planner: name, or name with parameters, such as "mppi:samples=128"
        problem: the task, compiled
        options: further keyword arguments of the planner's class
    """
    name, given = spec.split(planner)
    kind, settings = _load(name)
    if given and "settings" in options:
        raise InputError(f"{planner!r} has parameters, and `settings` is given too; give one of them")
    options.setdefault("settings", spec.make(settings, given, name))
    made, rule = kind(problem, **options), problem.task.regrasp
    return made if rule is None else Regrasping(problem, made, rule)


def settings_of(planner: str) -> Any:
    """The parameters of a planner, given by name or by name with parameters."""
    name, given = spec.split(planner)
    return spec.make(_load(name)[1], given, name)


def _load(name: str) -> tuple[Any, Any]:
    """Class of a planner and of its parameters; raises InputError if there is none of that name."""
    if name not in PLANNERS:
        raise unknown("planner", name, PLANNERS)
    where, kind, settings = PLANNERS[name].split(":")
    module = importlib.import_module(where)
    return getattr(module, kind), getattr(module, settings)
