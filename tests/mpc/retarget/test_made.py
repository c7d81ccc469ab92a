"""Motions of our own: planted feet and hands stay, nothing is in the floor, joints stay in range and do not jump."""

import functools

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.retarget import g1, keyframes, made
from stickslip.mpc.retarget.motion import Motion, exponential, logarithm, multiplied, qpos_of
from stickslip.mpc.retarget.robots import ROBOTS, Options

HUMANOID = [name for name, entry in made.MOTIONS.items() if entry.robot != "leap"]


@functools.cache
def motion(name: str) -> Motion:
    return made.make(name)


@functools.cache
def model(robot: str) -> mujoco.MjModel:
    return ROBOTS[robot].build(Options()).compile()


def sites(motion: Motion, robot: str) -> dict[str, np.ndarray]:
    """Positions (T, 3) of the sites with contacts."""
    mjm = model(robot)
    mjd = mujoco.MjData(mjm)
    found = {name: np.empty((motion.frames, 3)) for name in motion.contacts}
    for i, qpos in enumerate(qpos_of(motion, mjm, ROBOTS[robot].base)):
        mjd.qpos[:] = qpos
        mujoco.mj_kinematics(mjm, mjd)
        for name, place in found.items():
            place[i] = mjd.site(name).xpos
    return found


def deepest(motion: Motion, robot: str, every: int = 3) -> float:
    """Height of the lowest geom of the robot above the floor, the least over frames [m]."""
    mjm = model(robot)
    mjd = mujoco.MjData(mjm)
    touching = [g for g in range(mjm.ngeom) if mjm.geom_conaffinity[g] and mjm.geom(g).name not in ("floor", "box")]
    least = np.inf
    for qpos in qpos_of(motion, mjm, ROBOTS[robot].base)[::every]:
        mjd.qpos[:] = qpos
        mujoco.mj_kinematics(mjm, mjd)
        least = min(least, *(mujoco.mj_geomDistance(mjm, mjd, 0, g, 1.0, None) for g in touching))
    return least


@pytest.mark.parametrize("name", made.MOTIONS)
def test_joints_stay_in_range_and_do_not_jump(name):
    mjm, joints = model(made.MOTIONS[name].robot), motion(name).joints
    limits = np.array([mjm.joint(joint).range for joint in motion(name).joint_names])
    assert (joints >= limits[:, 0] - 1e-9).all() and (joints <= limits[:, 1] + 1e-9).all()
    assert np.abs(np.diff(joints, axis=0)).max() * keyframes.FPS <= keyframes.FASTEST + 1e-6
    assert 2.0 <= motion(name).duration <= 6.5 and motion(name).fps == 50.0


@pytest.mark.parametrize("name", HUMANOID)
def test_planted_feet_and_hands_stay_and_nothing_is_in_the_floor(name):
    robot = made.MOTIONS[name].robot
    for site, place in sites(motion(name), robot).items():
        on = motion(name).contacts[site] > 0.0
        if site in g1.HANDS and name == "push-box":
            continue
        height = g1.HAND if site in g1.HANDS else 0.0
        assert np.abs(place[on, 2] - height).max(initial=0.0) < 2e-3, site
        both = on[1:] & on[:-1]
        assert np.abs(np.diff(place, axis=0)[both]).max(initial=0.0) < 1e-3, site
    assert deepest(motion(name), robot) > -4e-3


def test_every_foot_that_leaves_the_floor_is_seen_in_contacts():
    assert motion("squat").contacts["left_foot"].all() and not motion("squat").contacts["left_hand"].any()
    for name in ("side-step", "kick", "cartwheel", "push-box"):
        on = motion(name).contacts["right_foot"]
        assert on[0] == on[-1] == 1.0 and 0.0 < on.mean() < 1.0


def test_squat_goes_down_and_stays_above_the_feet():
    base = motion("squat").base
    assert base is not None and base[0, 2] - base[:, 2].min() > 0.2
    mjm, mjd = model("g1"), mujoco.MjData(model("g1"))
    for qpos in qpos_of(motion("squat"), mjm)[::10]:
        mjd.qpos[:] = qpos
        mujoco.mj_forward(mjm, mjd)
        assert -0.05 < mjd.subtree_com[1][0] - mjd.site("left_foot").xpos[0] + 0.035 < 0.12


def test_cartwheel_turns_by_2_pi_hand_after_hand():
    cartwheel = motion("cartwheel")
    assert cartwheel.base is not None
    quats = cartwheel.base[:, 3:]
    steps = logarithm(multiplied(quats[:-1] * [1.0, -1.0, -1.0, -1.0], quats[1:]))
    assert steps[:, 0].sum() == pytest.approx(-2.0 * np.pi, abs=0.05)
    assert np.abs(steps).max() < 0.15
    first = [int(np.argmax(cartwheel.contacts[hand])) for hand in g1.HANDS]
    assert first[0] < first[1]
    assert cartwheel.base[-1, 1] - cartwheel.base[0, 1] == pytest.approx(2.05, abs=0.05)


def test_getup_ends_standing():
    base = motion("getup").base
    assert base is not None and base[0, 2] < 0.1
    assert base[-1, 2] == pytest.approx(keyframes.HEIGHT, abs=5e-3)


def test_push_box_moves_the_box_with_the_hands_on_it():
    push = motion("push-box")
    box = push.objects["box"]
    assert box[-1, 0] - box[0, 0] == pytest.approx(0.45)
    for hand, place in sites(push, "g1-box").items():
        if hand in g1.HANDS:
            on = push.contacts[hand] > 0.0
            face = box[on, 0] - 0.5 * g1.BOX_SIZE[0]
            assert np.abs(face - g1.HAND - place[on, 0]).max() < 2e-3
    moving = np.abs(np.diff(box[:, 0])) > 1e-9
    assert not (moving & (push.contacts["left_hand"][1:] == 0.0)).any()  # it moves only while it is pushed


def test_cube_turn_turns_the_cube_with_the_tips_on_it():
    turn = motion("cube-turn")
    assert turn.base is None
    cube = turn.objects["object"]
    angle = np.linalg.norm(logarithm(multiplied(cube[:1, 3:] * [1.0, -1.0, -1.0, -1.0], cube[-1:, 3:])))
    assert angle == pytest.approx(0.4, abs=1e-6)
    for tip, place in sites(turn, "leap").items():
        on = turn.contacts[tip] > 0.0
        distance = np.linalg.norm(place[on] - cube[on, :3], axis=1)
        assert np.ptp(distance) < 2e-3 if on.any() else tip == "middle_tip"


def test_curves_pass_their_keyframes_and_do_not_overshoot():
    times, values = [0.0, 1.0, 2.0, 3.5], np.array([[0.0], [1.0], [1.0], [-2.0]])
    assert np.allclose(keyframes.through(times, values, np.array(times)), values)
    fine = keyframes.through(times, values, np.linspace(-1.0, 5.0, 400))
    assert fine.max() <= 1.0 + 1e-12 and fine.min() >= -2.0 - 1e-12
    held = keyframes.through(times, values, np.linspace(1.0, 2.0, 20))
    assert np.allclose(held, 1.0)
    quats = np.array([exponential(np.array([angle, 0.0, 0.0])) for angle in (0.0, 2.0, 4.0, 6.0)])
    turned = keyframes.turned_through(times, quats, np.array([*times, 1.5]))
    assert np.allclose(np.abs((turned[:4] * quats).sum(1)), 1.0)
    assert turned[4] == pytest.approx(exponential(np.array([3.0, 0.0, 0.0])), abs=0.1)


def test_spoiled_motions():
    squat = motion("squat")
    sunk, slides, faster = (made.spoiled(squat, how) for how in made.SPOILED)
    assert deepest(sunk, "g1", every=20) == pytest.approx(-0.03, abs=1e-3)
    foot = sites(slides, "g1")["left_foot"]
    assert np.ptp(foot[:, 1]) == pytest.approx(0.05, abs=1e-3) and np.ptp(foot[:, 2]) < 1e-3
    assert faster.duration == pytest.approx(squat.duration / 1.2)
    with pytest.raises(InputError, match="no way to spoil a motion named 'slower'"):
        made.spoiled(squat, "slower")
    with pytest.raises(InputError, match="'cube-turn' has a fixed base"):
        made.spoiled(motion("cube-turn"), "sunk")


@pytest.mark.parametrize(("robot", "dt"), [("g1", 1.0 / 60.0), ("g1-box", 1.0 / 60.0), ("leap", 0.01)])
def test_feasible_motion_is_what_its_controls_do(robot, dt):
    found, ctrl = made.feasible(ROBOTS[robot], seed=1, duration=1.0, dt=dt)
    mjm = model(robot)
    qpos = qpos_of(found, mjm, ROBOTS[robot].base)
    assert ctrl.shape == (found.frames - 1, mjm.nu) and found.fps == pytest.approx(1.0 / dt)
    again = ROBOTS[robot].build(Options()).compile()
    again.opt.timestep = dt
    mjd = mujoco.MjData(again)
    mujoco.mj_resetDataKeyframe(again, mjd, 0)
    for i, now in enumerate(ctrl):
        assert np.allclose(mjd.qpos, qpos[i], atol=1e-9)
        mjd.ctrl[:] = now
        mujoco.mj_step(again, mjd)
    assert np.allclose(mjd.qpos, qpos[-1], atol=1e-9)
    assert np.abs(found.joints - found.joints[0]).max() > 0.05
    if found.base is not None:
        assert found.base[:, 2].min() > 0.7  # it does not fall


def test_feasible_motions_differ_by_seed_and_refuse_nonsense():
    one, other = (made.feasible(seed=seed, duration=0.5)[1] for seed in (0, 1))
    assert np.abs(one - other).max() > 0.01
    assert np.array_equal(one, made.feasible(seed=0, duration=0.5)[1])
    with pytest.raises(InputError, match="duration=0.0"):
        made.feasible(duration=0.0)


def test_unknown_motion_is_named():
    with pytest.raises(InputError, match="no motion named 'sqat'; did you mean 'squat'"):
        made.make("sqat")


def test_spoiled_motions_have_names():
    assert made.make("kick-sunk").name == "kick-sunk" and made.find("push-box-faster").robot == "g1-box"
    assert made.known("squat") and not made.known("squat-slower") and not made.known("sunk")
    with pytest.raises(InputError, match="'kick-slower'"):
        made.find("kick-slower")
