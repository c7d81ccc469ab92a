"""`forward`: what it finds belongs to the present state, and the next step does not notice that it ran."""

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

import stickslip as ss
from tests import support


def remembered(sim: ss.Simulation) -> dict[str, NDArray]:
    """Host copies of every array that a step reads, by name."""
    arrays = sim.physics.arrays(sim.m, sim.d)
    return {name: array.numpy().copy() for name, array in arrays.items() if array.size}


def assert_bits(got: dict[str, NDArray], want: dict[str, NDArray]) -> None:
    assert got.keys() == want.keys()
    for name in want:
        assert support.same_bits(got[name], want[name]), name


def mujoco_at(sim: ss.Simulation, world: int) -> mujoco.MjData:
    """What MuJoCo in C finds for the state and the inputs of a world."""
    mjd = mujoco.MjData(sim.mjm)
    for name in ("qpos", "qvel", "ctrl"):
        getattr(mjd, name)[:] = getattr(sim, name).numpy()[world]
    mujoco.mj_forward(sim.mjm, mjd)
    return mjd


@pytest.mark.parametrize("scene", support.SCENES)
def test_the_next_step_does_not_notice(physics: ss.Physics, scene: str, device: str) -> None:
    """No bit of state, inputs, warm start, memory and counters changes; in contact, eagerly and replayed."""
    sim, plain = (support.perturbed_simulation(scene, physics, device, 3) for _ in range(2))
    sim.forward()  # before the first step
    for one in (sim, plain):
        one.step(40)
    assert sim.contact_count() > 0
    before = remembered(sim)
    for _ in range(2):
        sim.forward()
        assert_bits(remembered(sim), before)
    for _ in range(3):
        sim.step()
        sim.forward()
        plain.step()
        support.assert_same(sim.state, plain.state, device)
    if device == "cpu":
        assert_bits(remembered(sim), remembered(plain))


@pytest.mark.parametrize("scene", support.SCENES)
def test_poses_are_those_of_the_state(physics: ss.Physics, scene: str, device: str) -> None:
    """Of bodies, geoms and sites, in every world; after steps, and after an assignment."""
    sim = support.perturbed_simulation(scene, physics, device, 3)
    sim.step(20)
    sim.forward()
    for moved in (False, True):
        if moved:
            sim.state = support.perturbed(sim.mjm, 3, seed=1)
            sim.forward()
        for w in range(3):
            want = mujoco_at(sim, w)
            for name in ("xpos", "xquat", "xipos", "geom_xpos", "site_xpos"):
                got = sim.find_field(name).numpy()[w]
                np.testing.assert_allclose(got, getattr(want, name).reshape(got.shape), atol=2e-6, err_msg=name)
            for name in ("xmat", "geom_xmat", "site_xmat"):
                got = sim.find_field(name).numpy()[w]
                np.testing.assert_allclose(got, getattr(want, name).reshape(got.shape), atol=2e-6, err_msg=name)


SENSORS = """
<mujoco>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body name="upper" pos="0 0 2"><joint name="shoulder" axis="0 1 0"/>
      <geom type="capsule" size=".02" fromto="0 0 0 .3 0 0"/>
      <body name="lower" pos=".3 0 0"><joint name="elbow" axis="0 0 1"/>
        <geom type="capsule" size=".02" fromto="0 0 0 .2 0 0" contype="0" conaffinity="0"/>
        <site name="tip" pos=".2 0 0"/></body></body>
    <body pos="0 0 1"><freejoint/><geom type="box" size=".05 .06 .07"/><site name="imu" pos=".01 0 0"/></body>
  </worldbody>
  <actuator><motor name="drive" joint="shoulder" gear="2"/></actuator>
  <sensor>
    <framepos objtype="site" objname="tip"/><framequat objtype="body" objname="lower"/>
    <jointpos joint="elbow"/><subtreecom body="upper"/><actuatorpos actuator="drive"/>
    <jointvel joint="shoulder"/><gyro site="imu"/><velocimeter site="imu"/><framelinvel objtype="site" objname="tip"/>
    <actuatorvel actuator="drive"/>
    <actuatorfrc actuator="drive"/><accelerometer site="imu"/><framelinacc objtype="site" objname="tip"/>
  </sensor>
</mujoco>
"""


def test_smooth_sensors_are_those_of_mujoco(physics: ss.Physics, device: str) -> None:
    """Without contact every physics has MuJoCo's kinematics and accelerations, in single precision."""
    if physics.promises.poses_only:
        sim = ss.Simulation("sliding-cube", physics, device=device)
        with pytest.raises(ss.Unsupported, match=f"{physics.name} has no sensordata"):
            _ = sim.sensordata
        return
    sim = ss.Simulation(SENSORS, physics, nworld=3, device=device)
    rng = np.random.default_rng(0)
    for _ in range(2):
        sim.state = ss.State(
            np.zeros(3),
            np.tile(sim.mjm.qpos0, (3, 1)) + rng.normal(0.0, 0.1, (3, sim.mjm.nq)),
            rng.normal(0.0, 1.0, (3, sim.mjm.nv)),
            np.zeros((3, 0)),
        )
        sim.ctrl = rng.normal(0.0, 1.0, (3, 1))
        sim.forward()
        for w in range(3):
            want = mujoco_at(sim, w).sensordata
            np.testing.assert_allclose(sim.sensordata.numpy()[w], want, rtol=2e-4, atol=2e-4)
        assert (sim.time.numpy() == 0.0).all()


def test_contacts_and_sensors_are_those_of_the_next_step(physics: ss.Physics, device: str) -> None:
    """A step begins with what `forward` finds: contacts, their forces and the sensors that see them."""
    if physics.promises.poses_only or not physics.capturable:
        pytest.skip(f"{physics.name} finds poses only, or takes more than one step in a timestep")
    sim = support.perturbed_simulation("humanoid", physics, device, 2)
    sim.step(60)
    sim.forward()
    contacts, arrays = sim.contacts(), support.arrays_of(sim)
    assert len(contacts) > 0
    sim.step()
    after = sim.contacts()
    exact = device == "cpu"
    for name in ("world", "geom", "dist", "pos", "frame", "force") if exact else ():
        assert support.same_bits(getattr(contacts, name), getattr(after, name)), name
    assert len(contacts) == len(after)
    for name in ("xpos", "qacc", "sensordata", "actuator_force"):
        if name in arrays:
            got, want = arrays[name], support.arrays_of(sim)[name]
            assert support.same_bits(got, want) if exact else np.allclose(got, want, atol=1e-3), name


def test_cenic_reports_the_contacts_of_the_state(device: str) -> None:
    """A cube at rest is carried by its contacts."""
    sim = ss.Simulation("sliding-cube", ss.Cenic(), device=device)
    sim.qvel = np.zeros(6)
    sim.step(200)
    sim.reset()
    sim.qvel = np.zeros(6)
    sim.step(200)
    sim.forward()
    weight = float(sim.mjm.body_mass[1]) * 9.81
    np.testing.assert_allclose(sim.contacts().force[:, 0].sum(), weight, rtol=0.02)


SLEEPERS = """
<mujoco>
  <option><flag sleep="enable"/></option>
  <worldbody><geom type="plane" size="2 2 .1"/>
    <body pos="0 0 .05"><freejoint/><geom type="box" size=".05 .05 .05"/></body>
    <body pos=".5 0 .3"><freejoint/><geom type="box" size=".05 .05 .05"/></body>
  </worldbody>
</mujoco>
"""


def test_nothing_is_woken(device: str) -> None:
    """MuJoCo Warp's bodies that sleep go on as they would have."""
    sim, plain = (ss.Simulation(SLEEPERS, ss.MuJoCo(), nworld=2, device=device) for _ in range(2))
    for _ in range(30):
        sim.step(10)
        plain.step(10)
        sim.forward()
        support.assert_same(sim.state, plain.state, device)
    np.testing.assert_array_equal(sim.d.tree_asleep.numpy(), plain.d.tree_asleep.numpy())
    assert (sim.d.tree_asleep.numpy() >= 0).any()


def test_kinematics_are_those_of_the_state(physics: ss.Physics, device: str) -> None:
    """Poses and sensors of position and velocity are MuJoCo's; the next step does not notice the call."""
    if physics.promises.free_bodies_only or physics.promises.poses_only:
        sim = ss.Simulation("sliding-cube", physics, device=device)
        sim.qpos = sim.qpos.numpy() + 0.01
        sim.kinematics()
        np.testing.assert_allclose(sim.body(1).xpos.numpy()[0], sim.qpos.numpy()[0, :3], atol=1e-6)
        return
    sim, twin = (ss.Simulation(SENSORS, physics, nworld=2, device=device) for _ in range(2))
    mjm = sim.mjm
    forces = mjm.sensor_needstage == int(mujoco.mjtStage.mjSTAGE_ACC)
    adr = np.repeat(np.arange(mjm.nsensor), mjm.sensor_dim)
    for each in (sim, twin):
        each.ctrl = [0.3]
        each.step(7)
    last, pushed = sim.sensordata.numpy().copy(), sim.find_field("actuator_force").numpy().copy()
    sim.kinematics()
    assert support.same_bits(pushed, sim.find_field("actuator_force").numpy())  # a result of the step
    for w in range(2):
        want = mujoco_at(sim, w)
        np.testing.assert_allclose(sim.find_field("xpos").numpy()[w], want.xpos, atol=2e-5)
        np.testing.assert_allclose(
            sim.sensordata.numpy()[w][~forces[adr]], want.sensordata[~forces[adr]], rtol=2e-4, atol=2e-4
        )
    assert np.abs(last - sim.sensordata.numpy())[:, ~forces[adr]].max() > 1e-6  # the step's are older
    assert support.same_bits(last[:, forces[adr]], sim.sensordata.numpy()[:, forces[adr]])
    for each in (sim, twin):
        each.step(5)
    if device == "cpu":
        assert support.same_bits(sim.qpos.numpy(), twin.qpos.numpy())
        assert support.same_bits(sim.qvel.numpy(), twin.qvel.numpy())


def test_kinematics_of_some_worlds(physics: ss.Physics, device: str) -> None:
    """Worlds of the mask get the poses and lengths of their state."""
    if physics.promises.free_bodies_only or physics.promises.poses_only:
        pytest.skip(f"{physics.name} finds the poses of all worlds")
    sim, whole = (ss.Simulation("humanoid", physics, nworld=4, device=device) for _ in range(2))
    mask = np.array([False, True, False, True])
    for each in (sim, whole):
        each.kinematics()
        each.qpos = each.qpos.numpy() + np.array([[0.1], [0.2], [0.3], [0.4]], dtype=np.float32)
        each.kinematics(mask if each is sim else None)
    for name in ("xpos", "geom_xmat", "actuator_length", "subtree_com"):
        given, wanted = (each.find_field(name).numpy()[mask] for each in (sim, whole))
        assert support.same_bits(given, wanted)
