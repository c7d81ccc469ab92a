"""ComFree where single forces of (8) are right and their sum is not: light links, many contacts, stiff rows.

Each model is like a part of a robot on which the forces of a step, added up, reversed velocities and drove them up
until the state was no longer finite. Nothing in them is driven, and nothing overlaps at the start, so that energy,
kinetic and potential, must not grow.
"""

import itertools
import math

import mujoco
import numpy as np
import pytest

import stickslip as ss

# A foot or finger tip: its corners give way by turning, far more easily than by moving. (12) knows the mass alone.
SMALL_INERTIA = """
<mujoco>
  <worldbody>
    <geom type="plane" size="1 1 .1"/>
    <body pos="0 0 .12" euler="3 2 0">
      <freejoint/>
      <inertial pos="0 0 0" mass="1" diaginertia="2e-4 2e-4 2e-4"/>
      <geom type="box" size=".1 .1 .1"/>
    </body>
  </worldbody>
</mujoco>
"""

# A sole of sixteen spheres at 10 ms: each contact takes a fifth of the velocity away, all of them three times of it.
_SOLE = "".join(
    f'<geom type="sphere" size=".005" mass=".01" pos="{x} {y} -.03"/>'
    for x in (-0.03, -0.01, 0.01, 0.03)
    for y in (-0.03, -0.01, 0.01, 0.03)
)
MANY_CONTACTS = f"""
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <geom type="plane" size="1 1 .1"/>
    <body pos="0 0 .036"><freejoint/>{_SOLE}</body>
  </worldbody>
</mujoco>
"""

_BAR = '<geom type="capsule" size=".02" fromto="0 0 0 .2 0 0" mass="1" contype="0" conaffinity="0"/>'

# A hinge with a limit as stiff as MuJoCo allows: r / (1 - r) is 9999.
STIFF_LIMIT = f"""
<mujoco>
  <worldbody>
    <body><joint axis="0 1 0" range="-10 10" solimplimit=".9999 .9999 .001"/>{_BAR}</body>
  </worldbody>
</mujoco>
"""

# Two joints of a musculoskeletal leg, coupled as stiffly.
STIFF_COUPLING = f"""
<mujoco>
  <worldbody>
    <body><joint name="a" axis="0 1 0"/>{_BAR}</body>
    <body pos="0 1 0"><joint name="b" axis="0 1 0"/>{_BAR}</body>
  </worldbody>
  <equality><joint joint1="a" joint2="b" solimp=".9999 .9999 .001"/></equality>
</mujoco>
"""

# A loop of a gripper, closed at a light coupler, far from its centre.
LIGHT_LOOP = f"""
<mujoco>
  <worldbody>
    <body>
      <joint axis="0 1 0"/>{_BAR}
      <body name="coupler" pos=".2 0 0">
        <joint axis="0 1 0"/>
        <inertial pos="0 0 0" mass=".05" diaginertia="1e-6 1e-6 1e-6"/>
      </body>
    </body>
  </worldbody>
  <equality><connect body1="coupler" anchor=".05 0 .05" solimp=".95 .99 .001"/></equality>
</mujoco>
"""

# A knob geared to a joint, as in a kitchen: turning one by a degree turns the other by 174.
GEARED_COUPLING = f"""
<mujoco>
  <worldbody>
    <body><joint name="a" axis="0 0 1"/>{_BAR}</body>
    <body pos="0 1 0"><joint name="b" axis="0 0 1" damping="1"/>{_BAR}</body>
    <geom type="plane" size="3 3 .1" pos="0 0 -1"/>
    <body pos="0 2 -.9"><freejoint/><geom name="box" type="box" size=".1 .1 .1" mass="1"/></body>
  </worldbody>
  <equality><joint joint1="a" joint2="b" polycoef="0 174 0 0 0"/></equality>
</mujoco>
"""

CASES: dict[str, tuple[str, list[float]]] = {
    "small-inertia": (SMALL_INERTIA, [0.0] * 6),
    "many-contacts": (MANY_CONTACTS, [0.0] * 6),
    "stiff-limit": (STIFF_LIMIT, [1.0]),
    "stiff-coupling": (STIFF_COUPLING, [1.0, 2.0]),
    "light-loop": (LIGHT_LOOP, [1.0, 2.0]),
    "geared-coupling": (GEARED_COUPLING, [1.0, 0.0] + [0.0] * 6),
}
"""Model and velocities at the start."""


@pytest.mark.parametrize("physics", [ss.ComFree(), ss.ComFree(0.5, 0.005)], ids=["default", "stiff"])
@pytest.mark.parametrize("name", CASES)
def test_forces_together_gain_no_energy(name: str, physics: ss.ComFree, device: str) -> None:
    """Energy stays below that of the start, but for the integrator's own error: 2 % of what moves."""
    xml, speeds = CASES[name]
    mjm = mujoco.MjModel.from_xml_string(xml)
    mjd = mujoco.MjData(mjm)
    sim = ss.Simulation(mjm, physics, device=device)
    sim.qvel = np.array([speeds], dtype=np.float32)
    total, kinetic = [], []
    for _ in range(300):
        mjd.qpos[:], mjd.qvel[:] = sim.state.qpos[0], sim.state.qvel[0]
        mujoco.mj_fwdPosition(mjm, mjd)
        mujoco.mj_energyPos(mjm, mjd)
        mujoco.mj_energyVel(mjm, mjd)
        total.append(mjd.energy.sum())
        kinetic.append(mjd.energy[1])
        sim.step()
    assert np.isfinite(total).all()
    assert max(total) - total[0] <= 0.02 * max(kinetic)


def test_geared_coupling_leaves_contacts_alone(device: str) -> None:
    """The coupling holds to 0.1 rad, and a box beside it rests as deep as in a world without the coupling."""
    uncoupled = GEARED_COUPLING[: GEARED_COUPLING.index("<equality>")] + "</mujoco>"
    qpos = []
    for xml in (GEARED_COUPLING, uncoupled):
        sim = ss.Simulation(xml, ss.ComFree(), device=device)
        sim.qvel = np.array([[1.0] + [0.0] * 7], dtype=np.float32)
        sim.step(1000)
        qpos.append(sim.state.qpos[0])
    assert abs(qpos[0][0] - 174.0 * qpos[0][1]) < 0.1
    assert qpos[0][4] == pytest.approx(qpos[1][4], abs=1e-5)


GAINS = ((0.2, 0.01), (0.2, 0.05), (2.0, 0.001), (0.2, 1.0))
"""Stiffness and damping with which contacts that know nothing of each other throw a box: a world each."""
FALL = 9.81 * 0.002
"""Speed that its weight gives the box in a step [m/s]."""
FEET = {4: (-0.05, 0.05), 16: (-0.06, -0.02, 0.02, 0.06)}


def on_feet(count: int, condim: int, angle: float) -> str:
    """A box that touches a slope with 4, 8 or 16 spheres."""
    places = (
        list(itertools.product(FEET[count], repeat=2))
        if count in FEET
        else [(0.07 * math.cos(a), 0.07 * math.sin(a)) for a in np.linspace(0.0, 2.0 * math.pi, count, endpoint=False)]
    )
    feet = "".join(f'<geom type="sphere" size=".01" mass="0" pos="{x} {y} -.05"/>' for x, y in places)
    return f"""
<mujoco>
  <option gravity="{9.81 * math.sin(angle)} 0 {-9.81 * math.cos(angle)}"/>
  <default><geom condim="{condim}" friction=".4 .02 .01"/></default>
  <worldbody>
    <geom type="plane" size="9 9 .1"/>
    <body pos="0 0 .06">
      <freejoint/>
      <geom type="box" size=".05 .05 .05" mass="4" contype="0" conaffinity="0"/>{feet}
    </body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("angle, tangential", [(0.0, None), (0.0, 2.0), (0.25, 2.0)])
@pytest.mark.parametrize("count, condim", [(4, 3), (8, 3), (16, 3), (4, 4), (16, 6)])
def test_box_on_stiff_contacts_stays(
    count: int, condim: int, angle: float, tangential: float | None, device: str
) -> None:
    """However many contacts and however stiff: it neither jumps nor rises, and on a slope it creeps slowly.

    On a slope that takes a gain of its own for friction: by facets, slip pushes the box off the slope.
    """
    stiffness, damping = zip(*GAINS, strict=True)
    physics = ss.ComFree(stiffness, damping, tangential=tangential)
    sim = ss.Simulation(on_feet(count, condim, angle), physics, nworld=len(GAINS), device=device, njmax=256)
    upward, rise = 0.0, 0.0
    for _ in range(100):
        sim.step(3)
        upward = max(upward, sim.qvel.numpy()[:, 2].max())
        rise = max(rise, sim.qpos.numpy()[:, 2].max() - 0.06)
    assert upward < (2.0 if angle else 0.5) * FALL
    assert rise < (1e-4 if angle else 1e-6)
    assert np.abs(sim.qpos.numpy()[:, :2]).max() / 0.6 < (0.05 if angle else 1e-4)  # m/s
