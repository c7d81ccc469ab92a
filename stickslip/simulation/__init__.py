"""The `Simulation` object, and what it hands its work to."""

from stickslip.simulation.randomize import Offset as Offset
from stickslip.simulation.randomize import Scale as Scale
from stickslip.simulation.randomize import Uniform as Uniform
from stickslip.simulation.simulation import Simulation as Simulation
from stickslip.simulation.simulation import resolve_device as resolve_device
from stickslip.simulation.trajectory import Trajectory as Trajectory
