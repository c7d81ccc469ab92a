"""Cases, methods and settings of `ablation`."""

import dataclasses

from stickslip.bench import methods
from stickslip.parameters import parameter

SLIPPERY, PUSHED, TURNED, COLLIDING = (
    "pushed without friction",
    "pushed box",
    "box with torque",
    "two boxes collide",
)
SWITCHES = ("velocity", "linear", "angular")
PUBLISHED = ("pbd", methods.PAPER, *(f"{methods.PAPER}:{switch}=false" for switch in SWITCHES))
"""The paper's ablation."""
OWN = (
    "pbd-r",
    "pbd-r-ablated:inertia=packed",
    "pbd-r-ablated:contact=centre",
    "pbd-r-ablated:slip=absolute",
    "pbd-r:tolerance=0.0",
    "pbd-r:relaxation=0.9",
    "pbd-r:iterations=10",
    "pbd-r:iterations=10,relaxation=0.9",
    "pbd-r-ablated:clamp=iteration",
    "pbd-r-ablated:clamp=iteration,iterations=10,relaxation=0.9",
    f"{methods.PAPER}:coordinates=body",
)
"""One field at a time, and the paper's method with body coordinates."""


@dataclasses.dataclass(frozen=True)
class Settings:
    force: float = parameter(2.0, "force on the box without friction [N]", low=0.0, high=1e4)
    duration: float = parameter(10.0, "simulated time of a box that is pushed or turned [s]", low=0.01, high=100.0)
    flight: float = parameter(1.0, "simulated time of two boxes that collide [s]", low=0.01, high=100.0)
    timestep: float = parameter(0.001, "length of a step [s]", low=1e-5, high=0.1)
