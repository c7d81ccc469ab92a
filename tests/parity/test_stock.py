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
