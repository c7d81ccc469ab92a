"""Which terms of a cost the gradient planners know, and their weights."""

import dataclasses
from typing import Any

from stickslip.errors import Unsupported
from stickslip.mpc.cost import Control, Cost, Grasp, Position, Posture, Reach, Rotation


@dataclasses.dataclass(frozen=True)
class Smooth:
    """The terms that gradient planners know, as weights; see `cost.py`.

    Attributes:
        sites: fingertips of `contact` and `grasp`
        contact: weight of `Reach`
        grasp: weight of `Grasp`
        control: weight of `Control`
        posture: weight of `Posture`
        final_position: final weight of `Position`
        final_orientation: final weight of `Rotation`
    """

    sites: tuple[str, ...] = ()
    contact: float = 0.0
    grasp: float = 0.0
    control: float = 0.0
    posture: float = 0.0
    final_position: float = 0.0
    final_orientation: float = 0.0


_SMOOTH: dict[type, tuple[str, str]] = {
    Reach: ("contact", ""),
    Grasp: ("grasp", ""),
    Control: ("control", ""),
    Posture: ("posture", ""),
    Position: ("", "final_position"),
    Rotation: ("", "final_orientation"),
}
"""Of each known term, the fields of `Smooth` with its running and its final weight; empty: it has none."""


def weights(cost: Cost, task: str, planner: str) -> Smooth:
    """The weights of a cost whose derivatives a gradient planner knows; raises Unsupported that names the others."""
    found: dict[str, Any] = {}
    other = []
    for term in cost:
        running, final = _SMOOTH.get(type(term), ("", ""))
        for weight, field, which in ((term.weight, running, "weight"), (term.final, final, "final weight")):
            if weight and field:
                found[field] = weight
            elif weight:
                other.append(f"{term.name} ({which} {weight:g})")
        sites = getattr(term, "sites", ())
        if sites and found.setdefault("sites", sites) != sites:
            other.append(f"{term.name} (other sites than the terms before it)")
    if other:
        raise Unsupported(
            f"the planner {planner} has no derivatives of these terms of the cost of {task}: {', '.join(other)}; "
            "set their weights to 0, or use the planner mppi"
        )
    return Smooth(**found)
