"""The planners, by name."""

import difflib
from collections.abc import Callable
from typing import Any

from stickslip.errors import InputError
from stickslip.mpc.regrasp import Regrasping
from stickslip.mpc.task import Planner, Problem


def _newton(problem: Problem, **options: Any) -> Planner:
    from stickslip.mpc.newton import Newton

    return Newton(problem, **options)


def _ipopt(problem: Problem, **options: Any) -> Planner:
    from stickslip.mpc.ipopt import Ipopt

    return Ipopt(problem, **options)


def _implicit(problem: Problem, **options: Any) -> Planner:
    from stickslip.mpc.implicit import Implicit

    return Implicit(problem, **options)


def _mppi(problem: Problem, **options: Any) -> Planner:
    from stickslip.mpc.mppi import Mppi

    return Mppi(problem, **options)


PLANNERS: dict[str, Callable[..., Planner]] = {
    "newton": _newton,
    "mppi": _mppi,
    "ipopt": _ipopt,
    "implicit": _implicit,
}
"""What makes each planner from a problem and its own options."""


def make_planner(name: str, problem: Problem, **options: Any) -> Planner:
    """The planner of that name for a problem, and `Regrasping` around it where the task has a rule for that.

    `options` are the keyword arguments of the planner's class.
    """
    if name not in PLANNERS:
        near = difflib.get_close_matches(name, PLANNERS, n=2)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise InputError(f"there is no planner {name!r}: {hint}There are: {', '.join(PLANNERS)}")
    planner, rule = PLANNERS[name](problem, **options), problem.task.regrasp
    return planner if rule is None else Regrasping(problem, planner, rule)
