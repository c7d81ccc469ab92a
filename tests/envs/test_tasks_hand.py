"""The cube in the hand: how far it has turned, falls, rewards."""

import dataclasses
from typing import Any

import mujoco
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="environments need PyTorch")

from stickslip.envs.env import Env  # noqa: E402
from stickslip.envs.factory import make  # noqa: E402
from stickslip.envs.tasks.hand_cube import FAR, HINGES, LOW, TASK, TURN, turned  # noqa: E402
from stickslip.scenes import hand  # noqa: E402
from tests import support  # noqa: E402


def env_of(nworld: int = 2, physics: str = "cone-sweep", **changes: Any) -> Env:
    env = make(dataclasses.replace(TASK, **changes), physics, nworld=nworld, device="cpu")
    env.reset()
    return env


def put(env: Env, quat: Any, place: Any = hand.CUBE) -> None:
    """Put the cube of all worlds somewhere, and do what a control step does to the memory."""
    qpos = env.state.qpos.numpy().copy()
    qpos[:, HINGES:] = np.concatenate([place, quat])
    env.sim.qpos = qpos
    env.sim.kinematics()
    assert TASK.update is not None
    for name, value in TASK.update(env.state).items():
        env.state[name].copy_(value)


def about(axis: list[float], angle: float) -> np.ndarray:
    quat = np.zeros(4)
    mujoco.mju_axisAngle2Quat(quat, np.array(axis) / np.linalg.norm(axis), angle)
    return quat


def test_vertical_part_of_a_rotation() -> None:
    """That of MuJoCo's rotation vector, in the world frame, whatever signs quaternions have."""
    rng = np.random.default_rng(0)
    last = rng.normal(size=(50, 4))
    last /= np.linalg.norm(last, axis=1, keepdims=True)
    axes, angles = rng.normal(size=(50, 3)), rng.uniform(-3.1, 3.1, 50)
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    angles[:3] = 0.0, 1e-6, 1e-3
    quat = np.zeros((50, 4))
    for i in range(50):
        mujoco.mju_mulQuat(quat[i], about(axes[i], angles[i]), last[i])
    want = axes[:, 2] * angles
    for sign in (1.0, -1.0):
        found = turned(torch.tensor(last), torch.tensor(sign * quat))
        np.testing.assert_allclose(found, want, atol=1e-12)


def test_turning_is_summed() -> None:
    """Past half a turn, in either direction, and not by tilting."""
    env = env_of(randomize={})
    s = env.state
    s["direction"][:] = torch.tensor([1.0, -1.0])
    for k in range(1, 51):
        put(env, about([0.0, 0.0, 1.0], 0.1 * k))
        np.testing.assert_allclose(s["rate"], [0.1 / env.dt, -0.1 / env.dt], rtol=1e-3)
        np.testing.assert_allclose(s["turned"], [0.1 * k, -0.1 * k], rtol=1e-4)
        assert TASK.success is not None
        assert TASK.success(s).tolist() == [0.1 * k >= TURN, False]
    reward = TASK.rewards["spin"].value(s)
    assert reward.tolist() == [1.0, -1.0]  # no more than at 1 rad/s
    before = s["turned"].clone()
    upright = about([0.0, 0.0, 1.0], 5.0)
    for angle in (0.2, 0.4, 0.2, 0.0):
        quat = np.zeros(4)
        mujoco.mju_mulQuat(quat, about([1.0, 0.0, 0.0], angle), upright)
        put(env, quat)
    np.testing.assert_allclose(s["turned"], before, atol=1e-5)


def test_falls() -> None:
    env = env_of(randomize={})
    x, y, z = hand.CUBE
    upright = [1.0, 0.0, 0.0, 0.0]
    env.state["turned"][:] = 2.0
    for place, fallen, lost in (
        ((x, y, z), False, False),
        ((x, y, hand.PALM + hand.HALF), False, False),  # it lies on the palm
        ((x, y, LOW - 0.001), True, False),
        ((x + FAR + 0.001, y, z), False, True),
        ((x, y - FAR - 0.001, z), False, True),
    ):
        put(env, upright, place)
        found = [bool(term(env.state)[0]) for term in TASK.terminations.values()]
        assert found == [fallen, lost], place
        assert TASK.success is not None
        assert bool(TASK.success(env.state)[0]) == (not fallen and not lost)
    step = env.step(torch.zeros(2, env.naction))
    assert step.terminated.all() and (step.reward < -9.0).all()


@pytest.mark.parametrize("physics", ["cone-sweep", "mujoco"])
def test_the_grasp_holds(physics: str) -> None:
    """With zero actions the cube stays in the grasp for 2 s, and has not turned."""
    env = env_of(3, physics)
    for _ in range(40):
        step = env.step(torch.zeros(3, env.naction))
        assert not step.done.any()
    cube = env.state.qpos[:, HINGES : HINGES + 3].numpy()
    np.testing.assert_allclose(cube, np.tile(hand.CUBE, (3, 1)), atol=0.005)
    assert (cube[:, 2] > hand.PALM + hand.HALF + 0.001).all()  # it hangs
    assert (env.state["turned"].abs() < 0.05).all()
    assert not step.success.any()


def test_start() -> None:
    """Both directions, targets of the grasp, and observations of the cube that MuJoCo in C has too."""
    env = env_of(32)
    s, mjm = env.state, env.sim.mjm
    assert set(s["direction"].tolist()) == {-1.0, 1.0}
    np.testing.assert_allclose(s.ctrl, np.tile(mjm.key_ctrl[0], (32, 1)), rtol=1e-6)
    put(env, about([1.0, 2.0, 3.0], 0.7))
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:] = s.qpos[0].numpy()
    mujoco.mj_forward(mjm, mjd)
    rot = mjd.body("cube").xmat.reshape(3, 3)
    seen = TASK.observations["axes of the cube"].value(s)[0]
    np.testing.assert_allclose(seen, np.concatenate([rot.T[:, 0], rot.T[:, 1]]), atol=1e-6)
    np.testing.assert_allclose(TASK.observations["place of the cube"].value(s)[0], np.zeros(3), atol=1e-6)


def test_worlds_do_not_depend_on_each_other() -> None:
    """A world has the same bits beside others, and when another cube falls."""
    env, twin = env_of(4), env_of(3)
    qpos = env.state.qpos.numpy().copy()
    qpos[0, HINGES + 2] = 0.05
    env.sim.qpos = qpos
    rng = np.random.default_rng(0)
    for _ in range(5):
        action = torch.tensor(rng.uniform(-1.0, 1.0, (4, env.naction)), dtype=torch.float32)
        step, other = env.step(action), twin.step(action[:3])
        for one, two in ((step.observation, other.observation), (step.reward, other.reward)):
            assert support.same_bits(one[1:3].numpy(), two[1:3].numpy())
    assert env.log()["episodes"] >= 1


@pytest.mark.parametrize("physics", ["comfree", "cone-sweep", "mujoco"])
def test_random_actions(physics: str) -> None:
    """Observations and rewards stay finite for 200 control steps, and no world diverges."""
    env = env_of(8, physics)
    rng, most = np.random.default_rng(2), 0.0
    for _ in range(200):
        action = torch.tensor(rng.uniform(-1.0, 1.0, (8, env.naction)), dtype=torch.float32)
        step = env.step(action)
        for part in (step.observation, step.critic, step.final, step.reward):
            assert torch.isfinite(part).all()
        most = max(most, float(step.reward.abs().max()))
    log = env.log()
    assert log["episodes"] > 0 and log["diverged"] == 0
    assert most < 15.0
