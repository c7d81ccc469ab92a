"""Action equals reaction: what floats freely keeps its linear and angular momentum, whatever collides."""

import mujoco
import numpy as np
import pytest

import stickslip as ss
from tests import support

PHYSICS = [
    ss.ComFree(),
    ss.ComFree(0.5, 0.005),
    ss.ComFree(impedance="exact"),
    ss.ComFree(smoothing=5.0),
    ss.MuJoCo(),
    ss.ConeSweep(substeps=1, sweeps=6, correction=0.0),
]
IDS = ["comfree", "comfree-stiff", "comfree-exact", "comfree-smooth", "mujoco", "cone-sweep"]

# Bodies of every kind fly to the middle. Their inertias are balls': semi-implicit Euler then keeps angular momentum
# exactly (x_n x F on both sides, and no gyroscopic term), and all that is left is contact.
PILE = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <default><geom friction="0.8 0.05 0.02"/></default>
  <worldbody>
    <body pos="-0.12 0 0"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="2e-3 2e-3 2e-3"/>
      <geom type="box" size="0.05 0.05 0.05"/></body>
    <body pos="0.12 0.02 0.01"><freejoint/><inertial pos="0 0 0" mass="0.3" diaginertia="5e-4 5e-4 5e-4"/>
      <geom type="sphere" size="0.06" condim="4"/></body>
    <body pos="0.01 0.13 0"><freejoint/><inertial pos="0 0 0" mass="2" diaginertia="4e-3 4e-3 4e-3"/>
      <geom type="capsule" size="0.04 0.05" condim="6"/></body>
    <body pos="0 -0.13 0.02"><freejoint/><inertial pos="0 0 0" mass="0.5" diaginertia="1e-3 1e-3 1e-3"/>
      <geom type="ellipsoid" size="0.05 0.06 0.07" condim="4"/></body>
    <body pos="0.02 0.01 0.14"><freejoint/><inertial pos="0 0 0" mass="0.7" diaginertia="1e-3 1e-3 1e-3"/>
      <geom type="cylinder" size="0.05 0.04" condim="6"/></body>
  </worldbody>
  <keyframe>
    <key qvel="1 0 0 2 -3 1  -1 0 0 0 5 2  0 -0.6 0 -4 1 3  0 1.5 0 3 3 -3  0 0 -1.2 1 2 6"/>
  </keyframe>
</mujoco>
"""


@pytest.mark.parametrize("physics", PHYSICS, ids=IDS)
def test_pile_conserves_momentum(physics: ss.Physics, device: str) -> None:
    """Over 0.6 s of collisions, to 1e-5 of the momenta that the bodies exchange: single precision."""
    sim = ss.Simulation(PILE, physics, device=device, nconmax=40, njmax=320)
    start = sim.state
    linear, angular = support.momentum(sim.mjm, start.qpos[0], start.qvel[0])
    exchanged = np.zeros(2)
    smoothed = getattr(physics, "smoothing", None) is not None
    for _ in range(60):
        sim.step(5)
        exchanged += np.abs(sim.contacts().force[:, [0, 3]]).sum(axis=0) * 5 * 0.002
        state = sim.state
        now_linear, now_angular = support.momentum(sim.mjm, state.qpos[0], state.qvel[0])
        np.testing.assert_allclose(now_linear, linear, atol=1e-5 * (2.0 + exchanged[0]))
        np.testing.assert_allclose(now_angular, angular, atol=1e-5 * (2.0 + exchanged[0]))
    assert exchanged[0] > 1.0 and (exchanged[1] > 1e-3 or smoothed)
    assert np.abs(state.qvel - start.qvel).max() > 1.0
    assert sim.health().ok


def test_substeps_conserve_momentum(device: str) -> None:
    """The cone sweep at its defaults: linear momentum to single precision, angular to 1e-3 of what flies about.

    Within a step bodies go where the velocities of its substeps lead, which in a collision is not quite where the last
    one points, and depth is taken out by a displacement.
    """
    sim = ss.Simulation(PILE, ss.ConeSweep(), device=device, nconmax=40, njmax=320)
    start = sim.state
    linear, angular = support.momentum(sim.mjm, start.qpos[0], start.qvel[0])
    sim.step(300)
    state = sim.state
    now_linear, now_angular = support.momentum(sim.mjm, state.qpos[0], state.qvel[0])
    np.testing.assert_allclose(now_linear, linear, atol=1e-5)
    np.testing.assert_allclose(now_angular, angular, atol=3e-4)
    assert np.abs(state.qvel - start.qvel).max() > 1.0


# Free-floating trees with joints, limits, dry friction, a coupling and tendons, that hit one another and themselves.
# (A connect or weld that is violated does exert a torque: MuJoCo lets its two forces act at two points.)
TREES = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <default>
    <geom friction="0.8 0.05 0.02" condim="6" density="800"/>
    <joint damping="0.01" armature="0.001" frictionloss="0.01"/>
  </default>
  <worldbody>
    <body name="a">
      <freejoint name="a"/><geom type="box" size="0.08 0.06 0.04"/><site name="a" pos="-0.08 0 0.05"/>
      <body pos="0.09 0 0"><joint name="a1" axis="0 1 0" range="-40 20"/>
        <geom type="capsule" size="0.025" fromto="0.01 0 0 0.12 0 0" condim="4"/>
        <body pos="0.15 0 0"><joint name="a2" type="ball" range="0 50"/>
          <geom type="capsule" size="0.025" fromto="0.01 0 0 0.1 0 0" condim="3"/></body>
      </body>
      <body pos="-0.1 0 0"><joint name="a3" axis="0 0 1"/><geom type="ellipsoid" size="0.05 0.03 0.03" pos="-0.04 0 0"/>
      </body>
    </body>
    <body name="b" pos="0.2 0 0.12">
      <freejoint name="b"/><geom type="cylinder" size="0.05 0.05"/>
      <body pos="0 0 0.08"><joint name="b1" type="slide" axis="0 0 1" range="-0.01 0.02"/>
        <geom type="sphere" size="0.04" condim="4"/></body>
    </body>
    <body name="c" pos="-0.15 0 0.1">
      <freejoint name="c"/><geom type="sphere" size="0.04"/><site name="c" pos="0 0 0.04"/>
    </body>
  </worldbody>
  <tendon>
    <fixed limited="true" range="-0.1 0.1"><joint joint="a1" coef="1"/><joint joint="a3" coef="-1"/></fixed>
    <spatial limited="true" range="0.05 0.1"><site site="a"/><site site="c"/></spatial>
  </tendon>
  <equality><joint joint1="a3" joint2="a1" polycoef="0 0.5 0 0 0"/></equality>
  <keyframe>
    <key qpos="0 0 0 1 0 0 0  0.3 1 0 0 0 -0.5   0.2 0 0.08 1 0 0 0 0   -0.15 0 0.07 1 0 0 0"
      qvel="0 0 0.5 1 -2 3  2 1 2 3 -3   0 0.3 -1 3 2 1 -1   0.4 0 -0.5 1 2 3"/>
  </keyframe>
</mujoco>
"""


def total_wrench(mjm: mujoco.MjModel, qpos: np.ndarray, qfrc: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Force and torque about the origin that a generalized force exerts on all free-floating trees together.

    A free joint's first three entries are the force on its whole tree, the last three the torque about the
    root body's origin, in the body's frame. What acts between two bodies of a tree does not reach them.
    """
    force, torque = np.zeros(3), np.zeros(3)
    for joint in np.flatnonzero(mjm.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
        adr, q = mjm.jnt_dofadr[joint], mjm.jnt_qposadr[joint]
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, qpos[q + 3 : q + 7] / np.linalg.norm(qpos[q + 3 : q + 7]))
        force += qfrc[adr : adr + 3]
        torque += rotation.reshape(3, 3) @ qfrc[adr + 3 : adr + 6]
        torque += np.cross(qpos[q : q + 3], qfrc[adr : adr + 3])
    return force, torque


@pytest.mark.parametrize("physics", [*PHYSICS, ss.ConeSweep()], ids=[*IDS, "cone-sweep-substeps"])
def test_constraints_exert_no_wrench_on_the_whole(physics: ss.Physics, device: str) -> None:
    """At every step the constraint forces on all trees sum to zero, force and torque, to single precision.

    This is the statement about forces; the momentum of a body with joints is not kept by any Euler step.
    """
    sim = ss.Simulation(TREES, physics, nworld=3, device=device, nconmax=40, njmax=320)
    sim.state = support.perturbed(sim.mjm, 3, scale=0.5)
    touching = {1: 0, 2: 0}  # contacts inside a tree, and between trees
    before = np.zeros(3)
    for _ in range(60):
        qpos = sim.state.qpos.astype(float)
        sim.step()
        contacts = sim.contacts()
        trees = sim.mjm.body_treeid[sim.mjm.geom_bodyid[contacts.geom]]
        touching[1] += int((trees[:, 0] == trees[:, 1]).sum())
        touching[2] += int((trees[:, 0] != trees[:, 1]).sum())
        for w in range(3):
            qfrc = sim.d.qfrc_constraint.numpy()[w].astype(float)
            force, torque = total_wrench(sim.mjm, qpos[w], qfrc)
            # a force is the sum of about thirty facets, which cancel within a contact: so much of each is rounding
            largest = np.abs(qfrc).max() + contacts.force[contacts.world == w, 0].sum()
            # and of each that the step started from
            atol = 1e-5 * max(largest, before[w]) + 1e-6
            before[w] = largest
            np.testing.assert_allclose(force, 0.0, atol=atol)
            np.testing.assert_allclose(torque, 0.0, atol=atol)
    assert touching[2] > 20
    assert sim.health().ok


@pytest.mark.parametrize(
    "physics, share",
    [(ss.ComFree(), 0.01), (ss.ConeSweep(correction=0.0), 0.005), (ss.ConeSweep(), 0.02)],
    ids=["comfree", "cone-sweep-without-correction", "cone-sweep"],
)
def test_articulated_bodies_keep_their_momentum(physics: ss.Physics, share: float, device: str) -> None:
    """The same scene over 0.2 s of small steps, to a share of what flies about.

    That is the integrator's error, and that of taking out depth: positions change, and velocities of joints then mean
    another momentum.
    """
    sim = ss.Simulation(TREES, physics, device=device, timestep=2e-4, nconmax=40, njmax=320)
    start = sim.state
    linear, angular = support.momentum(sim.mjm, start.qpos[0], start.qvel[0])
    sim.step(1000)
    state = sim.state
    after_linear, after_angular = support.momentum(sim.mjm, state.qpos[0], state.qvel[0])
    assert np.abs(state.qvel - start.qvel).max() > 0.5 and sim.health().ncon_peak > 0
    np.testing.assert_allclose(after_linear, linear, atol=share * np.abs(linear).max())
    np.testing.assert_allclose(after_angular, angular, atol=share * np.abs(angular).max())


LINKED = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="a"><freejoint/><geom type="box" size="0.05 0.05 0.05" mass="1"/></body>
    <body name="b" pos="0.2 0 0"><freejoint/><geom type="box" size="0.05 0.03 0.05" mass="0.5"/></body>
    <body name="c" pos="0.4 0 0.02"><freejoint/><geom type="box" size="0.05 0.05 0.02" mass="2"/></body>
  </worldbody>
  <equality>
    <connect body1="a" body2="b" anchor="0.1 0 0"/>
    <weld body1="b" body2="c"/>
  </equality>
  <keyframe>
    <key qpos="0 0 0 1 0 0 0  0.21 0 0 1 0 0 0  0.4 0.01 0.02 0.99 0.1 0 0"
      qvel="1 0 0 0 3 0  0 1 0 2 0 0  0 0 -1 0 0 1"/>
  </keyframe>
</mujoco>
"""


def test_cone_sweep_links_exert_no_wrench_on_the_whole(device: str) -> None:
    """Connects and welds act at one point, so that they turn nothing, however far their two anchors are apart."""
    sim = ss.Simulation(LINKED, ss.ConeSweep(), device=device)
    start = sim.state
    linear, _ = support.momentum(sim.mjm, start.qpos[0], start.qvel[0])
    for _ in range(200):
        qpos = sim.state.qpos[0].astype(float)
        sim.step()
        qfrc = sim.d.qfrc_constraint.numpy()[0].astype(float)
        force, torque = total_wrench(sim.mjm, qpos, qfrc)
        np.testing.assert_allclose(force, 0.0, atol=1e-5 * np.abs(qfrc).max() + 1e-5)
        np.testing.assert_allclose(torque, 0.0, atol=1e-6 * np.abs(qfrc).max() + 1e-5)
    state = sim.state
    np.testing.assert_allclose(support.momentum(sim.mjm, state.qpos[0], state.qvel[0])[0], linear, atol=1e-5)
    mjd = mujoco.MjData(sim.mjm)
    mjd.qpos[:] = state.qpos[0]
    mujoco.mj_forward(sim.mjm, mjd)
    assert np.abs(mjd.efc_pos).max() < 1e-3  # they began 1 cm and 0.2 rad apart
