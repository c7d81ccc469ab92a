"""Stock physics against its two originals: `mujoco_warp.step` bit for bit, C MuJoCo to single precision.

Bits are compared on the CPU. On CUDA MuJoCo Warp adds by atomics and differs from itself from run to run.
"""

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip import mjcf, scenes
from tests import support
from tests.reference import models

SCENES = ["scaling", "humanoid", "hand"]
COMPARED = ("time", "qpos", "qvel", "act", "qacc", "qacc_warmstart", "qfrc_constraint", "qfrc_actuator", "sensordata")
NWORLD, STEPS = 2, 50


def stock_data(mjm: mujoco.MjModel, state: ss.State, nconmax: int, njmax: int) -> mjw.Data:
    """MuJoCo Warp's own data at the given state and the controls of the first keyframe."""
    d = mjw.make_data(mjm, nworld=NWORLD, nconmax=nconmax, njmax=njmax)
    for name in support.FIELDS:
        getattr(d, name).assign(getattr(state, name))
    if mjm.nu:
        d.ctrl.assign(np.tile(mjm.key_ctrl[0], (NWORLD, 1)).astype(np.float32))
    return d


@pytest.mark.parametrize("staged", [False, True], ids=["advance", "stages"])
@pytest.mark.parametrize("scene", SCENES)
def test_equals_mujoco_warp_bit_for_bit(scene: str, staged: bool) -> None:
    """Fifty steps, with the contacts of falling, standing and grasping; every output of the last step."""
    mjm = mjcf.load(scene)
    nconmax, njmax = scenes.buffers(scene)
    state = support.perturbed(mjm, NWORLD)
    if scene == "scaling":
        state.qvel[:, 2::6] -= 1.0  # on the block within a few steps
    with wp.ScopedDevice("cpu"):
        stock_m, stock_d = mjw.put_model(mjm), stock_data(mjm, state, nconmax, njmax)
        physics = ss.MuJoCo()
        m = physics.put_model(mjm)
        d = physics.set_state(m, physics.make_data(mjm, NWORLD, nconmax=nconmax, njmax=njmax), state)
        stages = physics.stages(m, d)
        touched = 0
        for step in range(STEPS):
            mjw.step(stock_m, stock_d)
            if staged:
                for _, run in stages:
                    run()
            else:
                physics.advance(m, d)
            touched += int(stock_d.nacon.numpy()[0])
            for name in COMPARED:
                got, want = getattr(d, name).numpy(), getattr(stock_d, name).numpy()
                assert support.same_bits(got, want), f"{name} at step {step}"
    assert touched > 100
    assert stock_d.nefc.numpy().min() > 0


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_equals_mujoco_warp_for_every_integrator(integrator: str) -> None:
    """Damped joints, so that the implicit integrators have something to do."""
    mjm = mjcf.load("hand")
    mjm.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    state = support.perturbed(mjm, NWORLD)
    physics = ss.MuJoCo()
    with wp.ScopedDevice("cpu"):
        stock_m, stock_d = mjw.put_model(mjm), stock_data(mjm, state, 32, 192)
        m = physics.put_model(mjm)
        d = physics.set_state(m, physics.make_data(mjm, NWORLD, nconmax=32, njmax=192), state)
        stages = physics.stages(m, d)
        for _ in range(10):
            mjw.step(stock_m, stock_d)
            for _, run in stages:
                run()
        for name in COMPARED:
            assert support.same_bits(getattr(d, name).numpy(), getattr(stock_d, name).numpy()), name


def one_step(mjm: mujoco.MjModel, starts: list[mujoco.MjData], device: str) -> dict[str, np.ndarray]:
    """One stock step on the device, every start a world."""
    physics = ss.MuJoCo()
    m = physics.put_model(mjm)
    d = physics.make_data(mjm, len(starts), nconmax=64, njmax=384)

    def stack(name: str) -> np.ndarray:
        return np.stack([np.asarray(getattr(start, name), dtype=np.float32) for start in starts])

    d = physics.set_state(m, d, ss.State(np.zeros(len(starts)), stack("qpos"), stack("qvel"), stack("act")))
    for name in ("ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat"):
        if stack(name).size:
            getattr(d, name).assign(stack(name))
    d = physics.step(m, d)
    assert physics.health(m, d).ok
    return {name: getattr(d, name).numpy().astype(float) for name in ("qacc", "qvel", "qpos", "act")}


def c_starts(mjm: mujoco.MjModel) -> list[mujoco.MjData]:
    """The keyframes and what C MuJoCo makes of them after 20, 100 and 400 steps, rounded to single precision."""
    starts = []
    for key in range(mjm.nkey):
        mjd = mujoco.MjData(mjm)
        mujoco.mj_resetDataKeyframe(mjm, mjd, key)
        for steps in (0, 20, 80, 300):
            for _ in range(steps):
                mujoco.mj_step(mjm, mjd)
            start = mujoco.MjData(mjm)
            for name in ("qpos", "qvel", "act", "ctrl", "mocap_pos", "mocap_quat"):
                getattr(start, name)[:] = np.asarray(getattr(mjd, name), dtype=np.float32)
            starts.append(start)
    return starts


# Newton's method in single precision leaves an error of about 1e-7 times the condition of its matrix. That is below
# 1e-5 for these, and 1e-3 for a pile of twelve bodies on one another.
SINGLE_STEP = {
    "humanoid": 1e-4,
    "hand": 1e-4,
    "sliding-cube": 1e-4,
    "cylinder-roll": 1e-4,
    "scaling": 1e-3,
    "ball_chain": 1e-4,
    "pile": 1e-4,
    "rolling": 1e-4,
    "tendons": 1e-4,
    "finger_servo": 1e-4,
}


@pytest.mark.parametrize("name", SINGLE_STEP)
def test_one_step_is_c_mujocos(name: str, device: str) -> None:
    """From moving and settled states; accelerations relative to |qacc| + |qacc_smooth|, as rounding errors are."""
    mjm = models.load(name) if name in models.CASES else mjcf.load(name)
    starts = c_starts(mjm)
    got = one_step(mjm, starts, device)
    contacts = 0
    for w, mjd in enumerate(starts):
        mujoco.mj_step(mjm, mjd)
        contacts += mjd.ncon
        scale = np.abs(mjd.qacc).max() + np.abs(mjd.qacc_smooth).max()
        tolerance = SINGLE_STEP[name] * scale
        np.testing.assert_allclose(got["qacc"][w], mjd.qacc, rtol=0.0, atol=tolerance, err_msg=f"world {w}")
        np.testing.assert_allclose(got["qvel"][w], mjd.qvel, rtol=1e-6, atol=1e-6 + tolerance * mjm.opt.timestep)
        np.testing.assert_allclose(got["qpos"][w], mjd.qpos, rtol=1e-6, atol=1e-6 + tolerance * mjm.opt.timestep**2)
        np.testing.assert_allclose(got["act"][w], mjd.act, rtol=1e-6, atol=1e-6)
    assert contacts > 0


FREE = """
<mujoco>
  <option timestep="0.002" integrator="{integrator}"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body>
      <joint name="shoulder" axis="0 1 0" damping="0.02"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4" mass="1"/>
      <body pos="0 0 -0.4">
        <joint name="elbow" type="ball"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0.1 0 -0.3" mass="0.5"/>
      </body>
    </body>
    <body pos="1 0 1"><freejoint/><geom type="box" size="0.1 0.05 0.02" mass="0.3"/></body>
  </worldbody>
  <actuator><motor joint="shoulder" gear="2"/></actuator>
  <keyframe><key qpos="0.4 1 0 0 0 1 0 1 1 0 0 0" qvel="1 0.3 -0.2 1 0.2 0.1 2 1 3 -2" ctrl="0.3"/></keyframe>
</mujoco>
"""


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
def test_contact_free_motion_is_c_mujocos(integrator: str, device: str) -> None:
    """Half a second of a double pendulum and a tumbling box: rounding grows, but stays below 1e-4."""
    sim = ss.Simulation(FREE.format(integrator=integrator), ss.MuJoCo(), device=device)
    mjd = mujoco.MjData(sim.mjm)
    mujoco.mj_resetDataKeyframe(sim.mjm, mjd, 0)
    start = mjd.qpos.copy()
    sim.step(250)
    mujoco.mj_step(sim.mjm, mjd, nstep=250)
    np.testing.assert_allclose(sim.state.qpos[0], mjd.qpos, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(sim.state.qvel[0], mjd.qvel, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(sim.state.time[0], mjd.time, rtol=1e-5)
    assert np.abs(mjd.qpos - start).max() > 0.5
