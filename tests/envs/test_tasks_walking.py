"""Walking at a commanded velocity: models, what is observed, commands, rewards, ends of episodes."""

import dataclasses
from typing import Any

import mujoco
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="environments need PyTorch")

from stickslip.envs.env import Env  # noqa: E402
from stickslip.envs.factory import make, model_of  # noqa: E402
from stickslip.envs.state import State  # noqa: E402
from stickslip.envs.task import Action, Task  # noqa: E402
from stickslip.envs.tasks import g1_velocity, go1_velocity, walking  # noqa: E402
from tests import support  # noqa: E402

ROBOTS = {module.TASK.name: module.ROBOT for module in (go1_velocity, g1_velocity)}
TASKS = {module.TASK.name: module.TASK for module in (go1_velocity, g1_velocity)}
GO1 = [f"{leg}_{joint}_joint" for leg in ("FR", "FL", "RR", "RL") for joint in ("hip", "thigh", "calf")]
_LEG = ["hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll"]
_ARM = ["shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw"]
G1 = [
    *(f"{side}_{joint}_joint" for side in ("left", "right") for joint in _LEG),
    *(f"waist_{axis}_joint" for axis in ("yaw", "roll", "pitch")),
    *(f"{side}_{joint}_joint" for side in ("left", "right") for joint in _ARM),
]
each = pytest.mark.parametrize("name", list(TASKS))


def at_home(task: Task) -> Task:
    """The task without anything drawn at random; episodes start at the key frame, with the command to stand."""

    def start(s: State) -> dict[str, torch.Tensor]:
        home = s.constant(*map(float, s.mjm.key_qpos[0])).expand(s.nworld, s.mjm.nq)
        still = torch.zeros_like(s.qvel)
        never = torch.full((s.nworld,), 100.0)
        return {**task.start(s), "qpos": home, "qvel": still, "command": torch.zeros((s.nworld, 3)), "left": never}

    action = Action(scale=task.action.scale, limit=task.action.limit)
    return dataclasses.replace(task, start=start, randomize={}, pushes=(), action=action)


def env_of(task: Task, nworld: int = 2, physics: str = "mujoco", **options: Any) -> Env:
    env = make(task, physics, nworld=nworld, device="cpu", **options)
    env.reset()
    return env


def place(env: Env, qpos: Any) -> None:
    """Put all worlds into positions, (nq,) or (nworld, nq)."""
    env.sim.qpos = np.broadcast_to(qpos, (env.nworld, env.sim.mjm.nq))
    env.sim.kinematics()


def remember(env: Env) -> None:
    """What a control step does to the memory."""
    assert env.task.update is not None
    for name, value in env.task.update(env.state).items():
        env.state[name].copy_(value)


@each
def test_model(name: str) -> None:
    """Joints by their published names, servos in their order, the robot's mass; it stands, and is symmetric."""
    mjm, robot = model_of(TASKS[name]), ROBOTS[name]
    joints = [mjm.joint(i).name for i in range(mjm.njnt)]
    assert joints == [walking.BASE, *(GO1 if name == "go1-velocity" else G1)]
    assert mjm.actuator_trnid[:, 0].tolist() == list(range(1, mjm.njnt))
    assert (mjm.actuator_biasprm[:, 1] == -mjm.actuator_gainprm[:, 0]).all()
    mass = mjm.body_subtreemass[mjm.joint(walking.BASE).bodyid[0]]
    low, high = (12.0, 13.0) if name == "go1-velocity" else (33.0, 35.0)
    assert low < mass < high
    assert len(robot.spread) == mjm.nu
    assert TASKS[name].camera in [mjm.camera(i).name for i in range(mjm.ncam)]
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    mujoco.mj_forward(mjm, mjd)
    spheres = [mjm.geom(part).id for foot in robot.feet for part in foot]
    np.testing.assert_allclose(mjd.geom_xpos[spheres, 2], mjm.geom_size[spheres, 0], atol=1e-3)
    assert mjd.subtree_com[0][1] == pytest.approx(0.0, abs=1e-6)
    front = mjd.geom_xpos[spheres, 0]
    assert front.min() < mjd.subtree_com[0][0] < front.max()
    feet = _feet(mjm, robot, mjm.key_qpos[0])
    np.testing.assert_allclose(feet[0::2], feet[1::2] * [1.0, -1.0], atol=1e-6)


def test_torque_limits_of_the_dog() -> None:
    mjm = model_of(go1_velocity.TASK)
    np.testing.assert_allclose(mjm.actuator_forcerange[:, 1], [23.7, 23.7, 35.55] * 4)
    np.testing.assert_allclose(mjm.jnt_range[1:4], [[-0.863, 0.863], [-0.686, 4.501], [-2.818, -0.888]])


@each
@pytest.mark.parametrize("physics", ["cone-sweep", "mujoco"])
def test_standing(name: str, physics: str) -> None:
    """Without actions it stands for 2 s; the reward is that of the formulas, in float64."""
    env, robot = env_of(at_home(TASKS[name]), 1, physics), ROBOTS[name]
    mjm, total = env.sim.mjm, 0.0
    places = [_feet(mjm, robot, mjm.key_qpos[0])]
    bends = [np.zeros(mjm.nu)]
    for k in range(100):
        step = env.step(torch.zeros(1, env.naction))
        assert not step.done.any(), k
        qpos, qvel = env.state.qpos[0].numpy().astype(float), env.state.qvel[0].numpy().astype(float)
        places.append(_feet(mjm, robot, qpos))
        bends.append(qvel[6:])
        total += float(step.reward[0])
    assert qpos[2] == pytest.approx(mjm.key_qpos[0][2], abs=0.01)
    rot = np.zeros(9)
    mujoco.mju_quat2Mat(rot, qpos[3:7])
    velocity, down = rot.reshape(3, 3).T @ qvel[:3], rot.reshape(3, 3).T @ [0.0, 0.0, -1.0]
    speed = np.linalg.norm(places[-1] - places[-2], axis=1) / env.dt
    away = (qpos[7:] - mjm.key_qpos[0][7:]) / (0.4 * np.array(robot.spread))
    torque = env.state.field("actuator_force")[0].numpy().astype(float)
    rewards = env.task.rewards
    want = (
        2.0 * np.exp(-(velocity[0] ** 2 + velocity[1] ** 2) / 0.25)
        + np.exp(-(qvel[5] ** 2) / 0.25)
        + 0.5 * np.exp(-np.mean(away**2))
        - velocity[2] ** 2
        - 0.05 * (qvel[3] ** 2 + qvel[4] ** 2)
        - 2.0 * (down[0] ** 2 + down[1] ** 2)
        - 2.5e-7 * np.sum(((bends[-1] - bends[-2]) / env.dt) ** 2)
        - 0.05 * np.sum(speed**2)
        + rewards["torques"].weight * np.sum(torque**2)
    )
    assert float(step.reward[0]) == pytest.approx(env.dt * want, rel=1e-4)
    assert 3.2 < want < 3.5
    assert 6.4 < total < 7.0  # of the 7.0 that standing can give in 2 s


def _feet(mjm: mujoco.MjModel, robot: walking.Robot, qpos: Any) -> np.ndarray:
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:] = qpos
    mujoco.mj_kinematics(mjm, mjd)
    return np.array([np.mean([mjd.geom(part).xpos[:2] for part in foot], axis=0) for foot in robot.feet])


@each
def test_what_is_seen(name: str) -> None:
    """Velocities, gravity and feet are those that MuJoCo in C has for the same state."""
    env, robot = env_of(TASKS[name], 4), ROBOTS[name]
    mjm, rng = env.sim.mjm, np.random.default_rng(1)
    qpos = mjm.key_qpos[0] + rng.normal(0.0, 0.3, (4, mjm.nq))
    qpos[:, 3:7] /= np.linalg.norm(qpos[:, 3:7], axis=1, keepdims=True)
    place(env, qpos)
    env.sim.qvel = rng.normal(0.0, 1.0, (4, mjm.nv))
    s, mjd = env.state, mujoco.MjData(mjm)
    base = int(mjm.joint(walking.BASE).bodyid[0])
    for w in range(4):
        mjd.qpos[:], mjd.qvel[:] = s.qpos[w].numpy(), s.qvel[w].numpy()
        mujoco.mj_forward(mjm, mjd)
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(mjm, mjd, mujoco.mjtObj.mjOBJ_XBODY, base, velocity, 1)
        np.testing.assert_allclose(robot.angular(s)[w], velocity[:3], atol=1e-5)
        np.testing.assert_allclose(robot.linear(s)[w], velocity[3:], atol=1e-5)
        np.testing.assert_allclose(robot.gravity(s)[w], -mjd.xmat[base].reshape(3, 3)[2], atol=1e-6)
        lowest = [min(mjd.geom(part).xpos[2] - mjm.geom(part).size[0] for part in foot) for foot in robot.feet]
        np.testing.assert_allclose(robot.heights(s)[w], lowest, atol=1e-5)
        np.testing.assert_allclose(robot.away(s)[w], mjd.qpos[7:] - mjm.key_qpos[0][7:], atol=1e-6)
        assert robot.touching(s)[w].tolist() == [height < 0.01 for height in lowest]


def test_commands() -> None:
    """Within their bounds, a share of them to stand, none that is slow; drawn again when their time is over."""
    env, robot = env_of(go1_velocity.TASK, 64, "comfree"), go1_velocity.ROBOT
    found = []
    for _ in range(40):
        env.state.random.begin()
        found.append(robot.draw_command(env.state))
    commands = torch.cat(found).numpy()
    bounds = np.array([robot.forwards, robot.sideways, robot.turn])
    assert (commands >= bounds[:, 0]).all() and (commands <= bounds[:, 1]).all()
    assert (commands.max(axis=0) > 0.9 * bounds[:, 1]).all() and (commands.min(axis=0) < 0.9 * bounds[:, 0]).all()
    assert (commands == 0.0).all(axis=1).mean() == pytest.approx(robot.standing, abs=0.03)
    speed = np.linalg.norm(commands[:, :2], axis=1)
    assert (speed[speed > 0.0] >= walking.SLOW).all() and (speed == 0.0).any()
    before, left = env.state["command"].clone(), env.state["left"]
    assert (left >= 3.0).all() and (left <= 8.0).all()
    left[::2] = 0.5 * env.dt
    waiting = left.clone()
    remember(env)
    changed = (env.state["command"] != before).any(dim=1)
    assert changed[::2].float().mean() > 0.6 and not changed[1::2].any()
    assert (left[::2] >= 3.0).all() and (left[::2] <= 8.0).all()
    torch.testing.assert_close(left[1::2], waiting[1::2] - env.dt)


@each
def test_falls(name: str) -> None:
    """Lowered or tilted it has fallen; the last world stands."""
    env, robot = env_of(at_home(TASKS[name]), 4), ROBOTS[name]
    qpos = np.repeat(env.sim.mjm.key_qpos[0][None], 4, axis=0)
    qpos[0, 2] = robot.low - 0.05
    for w, axis in ((1, [1.0, 0.0, 0.0]), (2, [0.0, 1.0, 0.0])):
        mujoco.mju_axisAngle2Quat(qpos[w, 3:7], np.array(axis), np.radians(65.0))
        qpos[w, 2] += 0.5
    place(env, qpos)
    assert robot.fallen(env.state).tolist() == [True, False, False, False]
    assert robot.tilted(env.state).tolist() == [False, True, True, False]
    step = env.step(torch.zeros(4, env.naction))
    assert step.terminated[1:].tolist() == [True, True, False]  # the floor pushes the first one up again
    assert step.reward[1:3].max() < -3.5 < 0.0 < step.reward[3]


@each
def test_feet(name: str) -> None:
    """Times in the air and on the ground, and speeds of feet, of a robot that is lifted, moved and put down."""
    env, robot = env_of(at_home(TASKS[name]), 2), ROBOTS[name]
    s, home = env.state, env.sim.mjm.key_qpos[0]
    s["command"][:] = torch.tensor([[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])  # the second is to stand
    remember(env)
    assert (s["landed"] == 0.0).all() and (s["foot speed"] == 0.0).all()
    for k in range(1, 8):
        place(env, home + np.array([0.02 * k, 0.0, 0.1, *np.zeros(len(home) - 3)]))
        remember(env)
        torch.testing.assert_close(s["air"], torch.full_like(s["air"], k * env.dt))
        torch.testing.assert_close(s["foot speed"], torch.full_like(s["air"], 0.02 / env.dt), rtol=1e-3, atol=0.0)
        assert (s["ground"] == 0.0).all() and (robot.air_time(s) == 0.0).all() and (robot.slip(s) == 0.0).all()
    clearance = robot.clearance(s)
    height = _lowest(env, robot)
    want = sum(abs(h - robot.lift) for h in height) * 0.02 / env.dt
    np.testing.assert_allclose(clearance, [want, 0.0], rtol=1e-3)
    place(env, home)
    remember(env)
    torch.testing.assert_close(s["landed"], torch.full_like(s["air"], 7 * env.dt))
    nfoot = len(robot.feet)
    np.testing.assert_allclose(robot.air_time(s), [nfoot * (7 * env.dt - 0.1), 0.0], rtol=1e-4)
    assert (s["air"] == 0.0).all()
    np.testing.assert_allclose(robot.slip(s), nfoot * (7 * 0.02 / env.dt) ** 2, rtol=1e-3)
    remember(env)
    assert (s["landed"] == 0.0).all() and (robot.air_time(s) == 0.0).all()
    torch.testing.assert_close(s["ground"], torch.full_like(s["air"], 2 * env.dt))


def _lowest(env: Env, robot: walking.Robot) -> list[float]:
    mjm, mjd = env.sim.mjm, mujoco.MjData(env.sim.mjm)
    mjd.qpos[:] = env.state.qpos[0].numpy()
    mujoco.mj_kinematics(mjm, mjd)
    return [min(mjd.geom(part).xpos[2] - mjm.geom(part).size[0] for part in foot) for foot in robot.feet]


def test_standing_on_one_foot() -> None:
    """Pays up to half a second, with the other foot lifted, and only where the command is to move."""
    env, robot = env_of(at_home(g1_velocity.TASK), 2), g1_velocity.ROBOT
    s, qpos = env.state, env.sim.mjm.key_qpos[0].copy()
    s["command"][0, 0] = 0.5
    remember(env)
    assert robot.single_stance(s).tolist() == [0.0, 0.0]
    qpos[env.sim.mjm.joint("left_knee_joint").qposadr[0]] += 0.8
    place(env, qpos)
    for k in range(1, 40):
        remember(env)
        np.testing.assert_allclose(robot.single_stance(s), [min(k * env.dt, 0.5), 0.0], rtol=1e-4)
    assert robot.touching(s).tolist() == [[False, True]] * 2


def test_feet_keep_apart() -> None:
    env = env_of(at_home(g1_velocity.TASK), 1)
    close, mjm = g1_velocity.TASK.rewards["close feet"].value, env.sim.mjm
    assert float(close(env.state)[0]) == 0.0
    qpos = mjm.key_qpos[0].copy()
    for side, turn in (("left", -0.1), ("right", 0.1)):
        qpos[mjm.joint(f"{side}_hip_roll_joint").qposadr[0]] += turn
    place(env, qpos)
    left, right = _feet(mjm, g1_velocity.ROBOT, qpos)
    want = g1_velocity.APART - np.linalg.norm(left - right)
    assert want > 0.02
    assert float(close(env.state)[0]) == pytest.approx(want, rel=1e-3)


@each
def test_success(name: str) -> None:
    """Mean errors decide; a robot that lies there has not succeeded."""
    env, robot = env_of(at_home(TASKS[name]), 4), ROBOTS[name]
    s = env.state
    assert not robot.success(s).any()  # nothing has been measured yet
    s["steps"][:] = 10.0
    linear, turn = robot.within
    s["error"][:] = 10.0 * torch.tensor([[0.9 * linear, 0.9 * turn]] * 4)
    s["error"][1, 0] = 11.0 * linear
    s["error"][2, 1] = 11.0 * turn
    qpos = np.repeat(env.sim.mjm.key_qpos[0][None], 4, axis=0)
    qpos[3, 2] = 0.1
    place(env, qpos)
    assert robot.success(s).tolist() == [True, False, False, False]
    s["command"][:] = torch.tensor([0.3, -0.4, 0.2])
    errors = torch.stack(robot.errors(s), dim=1)
    np.testing.assert_allclose(errors, [[0.5, 0.2]] * 4, rtol=1e-5)
    before = s["error"].clone()
    remember(env)
    torch.testing.assert_close(s["error"], before + errors)


@each
def test_worlds_do_not_depend_on_each_other(name: str) -> None:
    """A world has the same bits beside others, and when another one falls."""
    env, twin = env_of(TASKS[name], 4, "cone-sweep"), env_of(TASKS[name], 3, "cone-sweep")
    qpos = env.state.qpos.numpy().copy()
    qpos[0, 2] = 0.05
    env.sim.qpos = qpos
    rng = np.random.default_rng(0)
    for _ in range(6):
        action = torch.tensor(rng.uniform(-1.0, 1.0, (4, env.naction)), dtype=torch.float32)
        step, other = env.step(action), twin.step(action[:3])
        for one, two in ((step.observation, other.observation), (step.reward, other.reward)):
            assert support.same_bits(one[1:3].numpy(), two[1:3].numpy())
    assert env.log()["episodes"] >= 1


@each
@pytest.mark.parametrize("physics", ["comfree", "cone-sweep", "mujoco"])
def test_random_actions(name: str, physics: str) -> None:
    """Observations and rewards stay finite for 200 control steps, and no world diverges."""
    env = env_of(TASKS[name], 8, physics)
    rng, most = np.random.default_rng(2), 0.0
    for _ in range(200):
        action = torch.tensor(rng.normal(0.0, 1.0, (8, env.naction)), dtype=torch.float32)
        step = env.step(action)
        for part in (step.observation, step.critic, step.final, step.reward):
            assert torch.isfinite(part).all()
        most = max(most, float(step.reward.abs().max()))
    log = env.log()
    assert log["episodes"] > 0 and log["diverged"] == 0
    assert most < 10.0
