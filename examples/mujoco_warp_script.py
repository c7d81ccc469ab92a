"""A usual MuJoCo Warp program with one line changed: the import.

`stickslip.conesweep` has every name of `mujoco_warp`; `put_model` also takes the parameters of the physics.
The step is captured once and replayed, as MuJoCo Warp's own examples do.

    python examples/mujoco_warp_script.py
"""

import mujoco
import numpy as np
import warp as wp

import stickslip.conesweep as mjw  # was: import mujoco_warp as mjw

XML = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <geom type="plane" size="0 0 0.1"/>
    <body pos="0 0 0.2">
      <freejoint/>
      <geom type="box" size="0.05 0.05 0.05"/>
    </body>
    <body pos="0.02 0 0.35">
      <freejoint/>
      <geom type="sphere" size="0.05"/>
    </body>
  </worldbody>
</mujoco>
"""
NWORLD, STEPS = 8, 500

mjm = mujoco.MjModel.from_xml_string(XML)
mjd = mujoco.MjData(mjm)
mujoco.mj_forward(mjm, mjd)

m = mjw.put_model(mjm)
d = mjw.put_data(mjm, mjd, nworld=NWORLD, nconmax=32, njmax=128)

mjw.step(m, d)  # compiles the kernels
with wp.ScopedCapture() as capture:
    mjw.step(m, d)
for _ in range(STEPS - 1):
    wp.capture_launch(capture.graph)

height = d.qpos.numpy()[:, 2]
print(f"{NWORLD} worlds after {d.time.numpy()[0]:.2f} s: box at {height.mean():.4f} m (0.05 m is touching)")
assert np.isfinite(d.qpos.numpy()).all()
