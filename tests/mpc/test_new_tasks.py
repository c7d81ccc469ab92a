"""The tasks push-t, cart-pole, quadruped, drawer and two-hands: their models, and where trials start."""

import dataclasses
import math
import types
from collections.abc import Sequence

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.mpc.realtime.paced import run_paced
from stickslip.mpc.success import Goal
from stickslip.mpc.task import Observation, Plan, Task, compile_problem
from stickslip.mpc.tasks import cart_pole, drawer, push_t, quadruped, two_hands
from stickslip.physics.base import Physics

TASKS = (push_t, cart_pole, quadruped, drawer, two_hands)
MODULES = [pytest.param(task, id=task.__name__.rpartition(".")[2]) for task in TASKS]
SHOWN = [param for param, task in zip(MODULES, TASKS, strict=True) if task is not quadruped]
SEEDS = range(100)
SIZES = {push_t: (9, 8, 2), cart_pole: (2, 2, 1), quadruped: (19, 18, 12), drawer: (6, 6, 5), two_hands: (29, 28, 22)}
"""nq, nv and nu."""
GOALS = {push_t: 3, cart_pole: 1, quadruped: 2, drawer: 1, two_hands: 7}
SITES = {
    push_t: ("finger", "object"),
    cart_pole: ("tip",),
    quadruped: ("trunk", *quadruped.FEET),
    drawer: ("grasp", "handle", *drawer.TIPS),
    two_hands: ("left_palm", "right_palm", "left_side", "right_side", *two_hands.TIPS),
}


def compiled(task: types.ModuleType) -> mujoco.MjModel:
    return task.build(task.OBJECTS[0]).compile()


def draw(task: types.ModuleType, mjm: mujoco.MjModel, seed: int) -> tuple[np.ndarray, np.ndarray]:
    start, goal = task.sample(np.random.default_rng(seed), mjm, task.OBJECTS[0])
    return start, goal.values


def at_home(mjm: mujoco.MjModel) -> mujoco.MjData:
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, mjm.key("home").id)
    mujoco.mj_forward(mjm, mjd)
    return mjd


def deepest(mjd: mujoco.MjData) -> float:
    """Distance of the deepest contact [m]; zero if there is none."""
    return min((contact.dist for contact in mjd.contact), default=0.0)


@pytest.mark.parametrize("task", MODULES)
def test_model(task: types.ModuleType) -> None:
    """Sizes, names, options, and one servo within the joint's range for every joint that has one."""
    mjm = compiled(task)
    assert (mjm.nq, mjm.nv, mjm.nu) == SIZES[task]
    assert mjm.opt.timestep == 0.002
    assert mjm.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert mjm.camera("overview").id == 0
    for site in SITES[task]:
        assert mjm.site(site).id >= 0
    for numeric in ("nconmax", "njmax"):
        assert mjm.numeric(numeric).data[0] >= 1
    assert mjm.actuator_ctrllimited.all()
    if task is not cart_pole:
        joints = mjm.actuator_trnid[:, 0]
        assert len(set(joints)) == mjm.nu
        assert (mjm.actuator_ctrlrange[:, 0] >= mjm.jnt_range[joints, 0]).all()
        assert (mjm.actuator_ctrlrange[:, 1] <= mjm.jnt_range[joints, 1]).all()
        assert mjm.actuator_forcelimited.all()


@pytest.mark.parametrize("task", SHOWN)
def test_goal_is_shown_without_contacts(task: types.ModuleType) -> None:
    mjm = compiled(task)
    assert mjm.body("goal").mocapid[0] == 0
    geoms = mjm.geom_bodyid == mjm.body("goal").id
    assert geoms.any()
    assert not mjm.geom_contype[geoms].any()
    assert not mjm.geom_conaffinity[geoms].any()
    _, goal = draw(task, mjm, 0)
    (planned,) = [value for value in vars(task).values() if isinstance(value, Task)]
    pose = planned.goal_pose(Goal(goal))
    assert pose is not None
    pos, quat = pose
    assert pos.shape == (3,)
    assert np.linalg.norm(quat) == pytest.approx(1.0)


@pytest.mark.parametrize("task", MODULES)
def test_home_is_quiet(task: types.ModuleType) -> None:
    """With the controls of the keyframe nothing moves by 2 mm or 2 mrad in two seconds, and all is still at the end."""
    mjm = compiled(task)
    mjd = at_home(mjm)
    assert deepest(mjd) > -0.001
    home, drift = mjd.qpos.copy(), np.zeros(mjm.nv)
    for _ in range(1000):
        mujoco.mj_step(mjm, mjd)
        mujoco.mj_differentiatePos(mjm, drift, 1.0, home, mjd.qpos)
        assert np.abs(drift).max() < 0.002
    assert np.abs(mjd.qvel).max() < 0.001


@pytest.mark.parametrize("task", MODULES)
def test_buffers_are_large_enough(task: types.ModuleType) -> None:
    """Random controls never need more contacts or rows than the model's hints."""
    mjm = compiled(task)
    mjd, rng = at_home(mjm), np.random.default_rng(0)
    low, high = mjm.actuator_ctrlrange.T
    most, rows = mjm.numeric("nconmax").data[0], mjm.numeric("njmax").data[0]
    for step in range(2000):
        if step % 50 == 0:
            mjd.ctrl[:] = rng.uniform(low, high)
        mujoco.mj_step(mjm, mjd)
        assert mjd.ncon <= most
        assert mjd.nefc <= rows
    assert np.isfinite(mjd.qpos).all()


@pytest.mark.parametrize("task", MODULES)
def test_starts(task: types.ModuleType) -> None:
    """Starts are the same for the same seed, within limits, and nothing is inside something else."""
    mjm = compiled(task)
    mjd = mujoco.MjData(mjm)
    limited = np.flatnonzero(mjm.jnt_limited)
    address = mjm.jnt_qposadr[limited]
    starts = []
    for seed in SEEDS:
        start, goal = draw(task, mjm, seed)
        again, same = draw(task, mjm, seed)
        np.testing.assert_array_equal(start, again)
        np.testing.assert_array_equal(goal, same)
        assert start.shape == (mjm.nq,)
        assert goal.shape == (GOALS[task],)
        assert (start[address] >= mjm.jnt_range[limited, 0]).all()
        assert (start[address] <= mjm.jnt_range[limited, 1]).all()
        mjd.qpos[:] = start
        mujoco.mj_forward(mjm, mjd)
        assert deepest(mjd) > -0.001
        starts.append(np.concatenate([start, goal]))
    assert len(np.unique(starts, axis=0)) == len(SEEDS)


def test_push_t_starts_beside_the_finger() -> None:
    """The gap between finger and T is what MuJoCo's collision finds; goals are within reach."""
    mjm = compiled(push_t)
    mjd = mujoco.MjData(mjm)
    finger, parts = mjm.geom("finger").id, (mjm.geom("bar").id, mjm.geom("stem").id)
    for seed in SEEDS:
        start, goal = draw(push_t, mjm, seed)
        yaw = 2.0 * math.atan2(start[8], start[5])
        assert np.abs([*start[2:4], *goal[:2]]).max() <= push_t.REACH
        assert abs(goal[2]) <= math.pi
        mjd.qpos[:] = start
        mujoco.mj_kinematics(mjm, mjd)
        distance = min(mujoco.mj_geomDistance(mjm, mjd, finger, part, 1.0, None) for part in parts)
        assert push_t.gap(start[:2], start[2], start[3], yaw) == pytest.approx(distance, abs=1e-6)
        assert distance >= push_t.CLEARANCE - 1e-6


def test_cart_pole_swings_freely() -> None:
    """The pole keeps its energy but for damping, and its small oscillations have the period of a physical pendulum."""
    mjm = compiled(cart_pole)
    mjm.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    mjm.dof_damping[:] = 0.0
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:] = 0.0, math.pi - 0.05
    mujoco.mj_forward(mjm, mjd)
    pole = mjm.body("pole").id
    mass, length = mjm.body_mass[pole], mjm.body_ipos[pole][2]
    about = mjm.body_inertia[pole].max() + mass * length**2
    # The cart moves: the pole's inertia about its hinge is reduced by (m l)^2 / (M + m).
    total = mass + mjm.body_mass[mjm.body("cart").id]
    period = math.tau * math.sqrt((about - (mass * length) ** 2 / total) / (mass * 9.81 * length))
    crossings, before = [], mjd.qpos[1] - math.pi
    while len(crossings) < 5:
        mujoco.mj_step(mjm, mjd)
        after = mjd.qpos[1] - math.pi
        if before < 0.0 <= after:
            crossings.append(mjd.time - mjm.opt.timestep * after / (after - before))
        before = after
    assert np.diff(crossings) == pytest.approx(period, rel=0.002)


def test_cart_pole_cannot_lift_the_pole_at_once() -> None:
    """Full force from rest leaves the pole below the rail: it must swing."""
    mjm = compiled(cart_pole)
    mjd = at_home(mjm)
    mjd.ctrl[:] = mjm.actuator_ctrlrange[0, 1]
    highest = -1.0
    while mjd.qpos[0] < 1.3:
        mujoco.mj_step(mjm, mjd)
        highest = max(highest, math.cos(mjd.qpos[1]))
    assert highest < 0.5


def test_quadruped_stands_on_four_feet() -> None:
    """The floor carries its weight, and the sensors say that it stands still and upright."""
    mjm = compiled(quadruped)
    mjd = at_home(mjm)
    mujoco.mj_step(mjm, mjd, 1000)
    assert mjd.ncon == 4
    force, total = np.zeros(6), 0.0
    for i in range(mjd.ncon):
        mujoco.mj_contactForce(mjm, mjd, i, force)
        total += force[0]
    assert total == pytest.approx(9.81 * mjm.body_mass.sum(), rel=1e-3)
    np.testing.assert_allclose(mjd.sensor("velocity").data, 0.0, atol=1e-3)
    np.testing.assert_allclose(mjd.sensor("gyro").data, 0.0, atol=1e-3)
    np.testing.assert_allclose(mjd.sensor("up").data, [0.0, 0.0, 1.0], atol=2e-3)


def test_drawer_resists() -> None:
    """Dry friction holds it against 4 N; pulled with 11 N it reaches (11 - 5) / 30 m/s."""
    mjm = compiled(drawer)
    dof = mjm.joint("drawer").dofadr[0]
    for pull, speed in ((4.0, 0.0), (11.0, 0.2)):
        mjd = at_home(mjm)
        mjd.qfrc_applied[dof] = pull
        mujoco.mj_step(mjm, mjd, 400)
        assert mjd.qvel[dof] == pytest.approx(speed, abs=0.005)


def test_gripper_opens_the_drawer() -> None:
    """A script grasps the handle and pulls: friction is enough."""
    mjm = compiled(drawer)
    mjd = at_home(mjm)
    script = ((0.15, 0.03, 250), (0.15, 0.0, 150), (-0.05, 0.0, 1500))
    x = 0.0
    for target, grip, steps in script:
        start = x
        for i in range(steps):
            x = start + (target - start) * min(1.0, (i + 1) / (0.8 * steps))
            mjd.ctrl[:] = x, 0.0, 0.0, grip, grip
            mujoco.mj_step(mjm, mjd)
    assert mjd.qpos[5] == pytest.approx(0.2, abs=0.015)
    assert np.linalg.norm(mjd.site("grasp").xpos - mjd.site("handle").xpos) < 0.01


def test_hands_lift_the_box() -> None:
    """A script presses with both hands and lifts; one hand alone cannot."""
    mjm = compiled(two_hands)
    forward = [mjm.actuator(f"{hand}_forward").id for hand in two_hands.HANDS]
    up = [mjm.actuator(f"{hand}_up").id for hand in two_hands.HANDS]
    for hands, lifted in ((slice(0, 2), True), (slice(0, 1), False)):
        mjd = at_home(mjm)
        start, floor = mjd.ctrl.copy(), mjd.qpos[-5]
        for i in range(1500):
            mjd.ctrl[:] = start
            mjd.ctrl[forward[hands]] += 0.09 * min(1.0, i / 400)
            mjd.ctrl[up[hands]] += 0.12 * min(1.0, max(0.0, (i - 500) / 600))
            mujoco.mj_step(mjm, mjd)
        assert (mjd.qpos[-5] - floor > 0.08) == lifted


@pytest.mark.parametrize("physics", [ss.ConeSweep(), ss.ComFree()], ids=["cone-sweep", "comfree"])
@pytest.mark.parametrize("task", MODULES)
def test_steps_in_our_physics(task: types.ModuleType, physics: Physics) -> None:
    """A hundred steps from home, where a simulation starts, stay finite; in the cone sweep nothing moves by 5 mm."""
    mjm = compiled(task)
    simulation = ss.Simulation(mjm, physics, device="cpu")
    np.testing.assert_allclose(simulation.d.ctrl.numpy()[0], mjm.key("home").ctrl, atol=1e-6)
    simulation.step(100)
    qpos = simulation.d.qpos.numpy()[0]
    assert np.isfinite(qpos).all()
    if isinstance(physics, ss.ConeSweep):
        assert np.abs(qpos - mjm.key("home").qpos).max() < 0.005


class Hold:
    """Asks for the controls that there are."""

    def reset(self, goals: Sequence[Goal], seeds: Sequence[int]) -> None:
        pass

    def plan(self, observations: Sequence[Observation]) -> list[Plan]:
        return [Plan(seen.ctrl, 0.0) for seen in observations]


@pytest.mark.parametrize("task", [push_t.PUSH_T, two_hands.TWO_HANDS], ids=lambda task: task.name)
def test_new_tasks_run_on_a_clock(task: Task) -> None:
    """With an object that comes last they run in real time, and servos start where their joints are."""
    problem = compile_problem(dataclasses.replace(task, longest=6))
    (ran,) = run_paced(problem, Hold(), [0], 0.01)
    assert ran.reason == "too long"
    moved = np.abs(ran.frames[-1][: problem.nr] - ran.frames[0][: problem.nr]).max()
    assert moved < 0.005


@pytest.mark.parametrize("task", [cart_pole.CART_POLE, quadruped.QUADRUPED, drawer.DRAWER], ids=lambda task: task.name)
def test_tasks_without_such_an_object_refuse_real_time(task: Task) -> None:
    with pytest.raises(ss.Unsupported, match=f"{task.name} cannot run in real time"):
        run_paced(compile_problem(task), Hold(), [0], 0.01)
