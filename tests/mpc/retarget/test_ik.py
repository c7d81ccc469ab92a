"""Inverse kinematics: targets are met, limits kept, and what cannot be reached is approached."""

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.retarget import g1
from stickslip.mpc.retarget.ik import BODY, COM, Solver, Target
from stickslip.mpc.retarget.motion import exponential

FEET = 100.0


@pytest.fixture(scope="module")
def mjm() -> mujoco.MjModel:
    return g1.build("real", False).compile()


def placed(mjm: mujoco.MjModel, qpos) -> mujoco.MjData:
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:] = qpos
    mujoco.mj_forward(mjm, mjd)
    return mjd


def feet(mjm: mujoco.MjModel) -> list[Target]:
    """The feet where the keyframe has them."""
    mjd = placed(mjm, mjm.key_qpos[0])
    flat = np.array([1.0, 0.0, 0.0, 0.0])
    return [Target(name, mjd.site(name).xpos.copy(), flat, weight=FEET, turn=FEET) for name in g1.FEET]


def within_limits(mjm: mujoco.MjModel, qpos) -> bool:
    return bool(((qpos[7:] >= mjm.jnt_range[1:, 0]) & (qpos[7:] <= mjm.jnt_range[1:, 1])).all())


@pytest.mark.parametrize("depth", [0.1, 0.2, 0.3])
def test_squat_keeps_the_feet_within_1_mm(mjm, depth):
    home = mjm.key_qpos[0]
    targets = [*feet(mjm), Target("pelvis", home[:3] - [0.05, 0.0, depth], kind=BODY)]
    solver = Solver(mjm)
    qpos = solver.solve(home, targets)
    left, right, pelvis = solver.residuals(qpos, targets)
    assert max(left[0], right[0]) < 1e-3 and max(left[1], right[1]) < 5e-3
    assert pelvis[0] < 5e-3
    assert within_limits(mjm, qpos)
    mjd = placed(mjm, qpos)
    for target in targets[:2]:
        assert np.linalg.norm(mjd.site(target.name).xpos - target.pos) < 1e-3  # not only by its own account


def test_a_pose_of_the_robot_is_found_again(mjm):
    rng = np.random.default_rng(0)
    for _ in range(5):
        goal = mjm.key_qpos[0].copy()
        goal[:3] += rng.uniform(-0.2, 0.2, 3)
        goal[3:7] = exponential(rng.uniform(-1.0, 1.0, 3))
        goal[7:] += rng.uniform(-0.2, 0.2, 29)
        goal[7:] = np.clip(goal[7:], *mjm.jnt_range[1:].T)
        mjd = placed(mjm, goal)
        quats = np.empty((4, 4))
        names = (*g1.FEET, *g1.HANDS)
        for quat, name in zip(quats, names, strict=True):
            mujoco.mju_mat2Quat(quat, mjd.site(name).xmat)
        targets = [
            Target(n, mjd.site(n).xpos.copy(), q, weight=FEET, turn=10.0) for n, q in zip(names, quats, strict=True)
        ]
        torso = mjd.body("torso_link")
        targets += [Target("torso_link", torso.xpos.copy(), torso.xquat.copy(), BODY)]
        solver = Solver(mjm)
        found = solver.solve(mjm.key_qpos[0], targets)
        assert max(distance for distance, _ in solver.residuals(found, targets)) < 2e-3


def test_limits_are_kept_where_a_target_is_out_of_reach(mjm):
    home = mjm.key_qpos[0]
    hand = Target("left_hand", np.array([0.0, 3.0, 1.5]))
    targets = [*feet(mjm), hand]
    solver = Solver(mjm)
    qpos = solver.solve(home, targets)
    assert within_limits(mjm, qpos) and np.isfinite(qpos).all()
    before, after = (solver.residuals(q, targets)[2][0] for q in (home, qpos))
    assert after < before - 0.3
    knees = home.copy()
    knees[[mjm.joint("left_knee_joint").qposadr[0], mjm.joint("right_knee_joint").qposadr[0]]] = -2.0
    assert within_limits(mjm, solver.solve(knees, targets))  # also from outside


def test_posture_is_taken_where_targets_leave_it_open(mjm):
    posture = mjm.key_qpos[0].copy()
    elbow = mjm.joint("left_elbow_joint").qposadr[0]
    posture[elbow] = 0.3
    qpos = Solver(mjm).solve(mjm.key_qpos[0], feet(mjm), posture)
    assert qpos[elbow] == pytest.approx(0.3, abs=1e-4)


def test_center_of_mass_goes_above_a_foot(mjm):
    left, right = feet(mjm)
    com = Target("pelvis", left.pos, kind=COM, weight=np.array([10.0, 10.0, 0.0]))
    solver = Solver(mjm)
    qpos = solver.solve(mjm.key_qpos[0], [left, right, com])
    assert np.linalg.norm(placed(mjm, qpos).subtree_com[1][:2] - left.pos[:2]) < 3e-3
    assert solver.residuals(qpos, [left])[0][0] < 1e-3


def test_an_object_stays():
    mjm = g1.build_with_box("real", False).compile()
    home = mjm.key_qpos[0]
    qpos = Solver(mjm, fixed=("box",)).solve(home, [Target("left_hand", np.array([0.4, 0.2, 0.8]))])
    assert np.array_equal(qpos[-7:], home[-7:])


def test_unknown_kind_is_named(mjm):
    with pytest.raises(InputError, match="'geom'.*site, body, com"):
        Solver(mjm).solve(mjm.key_qpos[0], [Target("floor", np.zeros(3), kind="geom")])


def test_a_point_of_a_body_and_a_place_from_another_body(mjm):
    """The tip of the head goes down; a hand is put in front of its shoulder, wherever that is."""
    tip, ahead = np.array([0.006, 0.0, 0.47]), np.array([0.3, 0.0, 0.1])
    start = placed(mjm, mjm.key_qpos[0])
    at = start.body("torso_link").xpos + start.body("torso_link").xmat.reshape(3, 3) @ tip
    down = np.array([0.0, 0.0, 100.0])
    targets = [
        *feet(mjm),
        Target("torso_link", at - [0.0, 0.0, 0.1], kind=BODY, weight=down, point=tip),
        Target("left_hand", ahead, weight=100.0, origin="left_shoulder_pitch_link"),
    ]
    solver = Solver(mjm)
    mjd = placed(mjm, solver.solve(mjm.key_qpos[0], targets))
    torso = mjd.body("torso_link")
    assert (torso.xpos + torso.xmat.reshape(3, 3) @ tip)[2] == pytest.approx(at[2] - 0.1, abs=2e-3)
    apart = mjd.site("left_hand").xpos - mjd.body("left_shoulder_pitch_link").xpos
    assert np.linalg.norm(apart - ahead) < 2e-3
    assert max(far for far, _ in solver.residuals(mjd.qpos, targets[:2])) < 1e-3


def test_targets_may_follow_the_robot(mjm):
    """A hand that is to be where the other one is, mirrored: made in each iteration."""

    def mirrored(mjd: mujoco.MjData) -> list[Target]:
        place = mjd.site("left_hand").xpos * [1.0, -1.0, 1.0]
        return [*feet(mjm), Target("left_hand", np.array([0.3, 0.2, 0.9])), Target("right_hand", place)]

    mjd = placed(mjm, Solver(mjm).solve(mjm.key_qpos[0], mirrored))
    assert np.linalg.norm(mjd.site("left_hand").xpos * [1.0, -1.0, 1.0] - mjd.site("right_hand").xpos) < 5e-3


def test_a_lower_bound_counts_only_below_it(mjm):
    """A hand that is to go down stops at a bound; one that is higher than its bound is left alone."""
    up = np.array([0.0, 0.0, 1e3])
    low, high = np.array([0.3, 0.2, 0.5]), np.array([0.3, -0.2, 0.9])
    targets = [*feet(mjm), Target("left_hand", low), Target("right_hand", high)]
    bounds = [
        Target("left_hand", np.array([0.0, 0.0, 0.7]), weight=up, above=True),
        Target("right_hand", np.array([0.0, 0.0, 0.7]), weight=up, above=True),
    ]
    free, held = (placed(mjm, Solver(mjm).solve(mjm.key_qpos[0], ts)) for ts in (targets, [*targets, *bounds]))
    assert free.site("left_hand").xpos[2] < 0.52
    assert held.site("left_hand").xpos[2] == pytest.approx(0.7, abs=2e-3)
    assert np.linalg.norm(held.site("left_hand").xpos[:2] - low[:2]) < 5e-3  # only its height is bounded
    assert np.linalg.norm(held.site("right_hand").xpos - free.site("right_hand").xpos) < 5e-3
