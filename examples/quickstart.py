"""Drop a pile of primitives: the five lines to start from.

python examples/quickstart.py
"""

import stickslip as ss

sim = ss.Simulation("drop-test", physics=ss.ConeSweep())
for _ in range(200):
    sim.step()

print(f"after {sim.state.time[0]:.1f} s: {len(sim.contacts())} contacts, qpos {sim.qpos.shape} on {sim.device}")
print(f"deepest penetration {-1e3 * sim.contacts().dist.min(initial=0.0):.2f} mm")
