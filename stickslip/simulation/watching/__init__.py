"""Watching: what goes wrong in any world is found on the device after each step, told by `health`, and kept in a file.

| file | what it holds |
| --- | --- |
| `limits.py` | what is allowed; sizes of geoms and the energy that belongs to a model |
| `kinetics.py` | kinetic and potential energy from positions and velocities alone |
| `checks.py` | the checks of a step, in kernels |
| `device.py` | memory and launches of the checks |
| `watch.py` | `Watch`: what `Simulation.watch` gives |
| `event.py` | an event, and the file that replays it |
| `replaying.py` | steps an event again |
"""

from stickslip.simulation.watching.event import Event, load
from stickslip.simulation.watching.limits import KINDS, Limits
from stickslip.simulation.watching.replaying import Replayed, replay
from stickslip.simulation.watching.watch import Watch

__all__ = ["KINDS", "Event", "Limits", "Replayed", "Watch", "load", "replay"]
