"""Friction, mass, time step and contact parameters that differ from world to world.

A box stands on a slope. With low friction it slides off; with high friction it only creeps, as sticking is viscous in
ComFree. In the last world the time step is halved, so the same number of steps simulates half the time.

    python examples/per_world.py
"""

import numpy as np
from rich.console import Console
from rich.table import Table

import stickslip as ss

NWORLD, STEPS = 4, 500
friction = np.array([0.1, 0.2, 0.6, 0.6])  # sliding friction of every geom
mass_scale = np.array([1.0, 1.0, 1.0, 3.0])
timestep = np.array([0.002, 0.002, 0.002, 0.001])  # s
stiffness = np.array([0.2, 0.2, 0.1, 0.2])
damping = np.array([0.001, 0.001, 0.002, 0.001])

sim = ss.Simulation("box-on-slope", ss.ComFree(stiffness=stiffness, damping=damping), nworld=NWORLD)

# A model field per world: the value of the model with a leading world axis.
geom_friction = np.repeat(sim.mjm.geom_friction[None], NWORLD, axis=0)  # (nworld, ngeom, 3)
geom_friction[:, :, 0] = friction[:, None]
body_mass = mass_scale[:, None] * sim.mjm.body_mass  # (nworld, nbody)
body_inertia = mass_scale[:, None, None] * sim.mjm.body_inertia  # (nworld, nbody, 3)
sim.set_model(geom_friction=geom_friction, body_mass=body_mass, body_inertia=body_inertia, timestep=timestep)

start = sim.state.qpos[:, :3]
sim.step(STEPS)
moved = np.linalg.norm(sim.state.qpos[:, :3] - start, axis=1)

table = Table("world", "friction", "mass, kg", "time step, ms", "stiffness", "time, s", "moved, mm")
for w in range(NWORLD):
    table.add_row(
        str(w),
        f"{friction[w]:.1f}",
        f"{body_mass[w, -1]:.1f}",
        f"{1e3 * timestep[w]:.0f}",
        f"{stiffness[w]:.1f}",
        f"{sim.state.time[w]:.2f}",
        f"{1e3 * moved[w]:.1f}",
    )
Console().print(table)
