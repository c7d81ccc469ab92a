"""The `Simulation` object, and what it hands its work to."""

from stickslip.simulation.simulation import Simulation as Simulation
from stickslip.simulation.simulation import resolve_device as resolve_device
