"""The prediction of the state: against the plant itself where the model is right, and against known motions."""

import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from stickslip.mpc.realtime import paced, predictor
from stickslip.mpc.realtime.channel import Envelope, memory_pair
from stickslip.mpc.realtime.loop import Limits, PlannerLoop
from stickslip.mpc.realtime.messages import Command, JointState, ObjectPose
from stickslip.mpc.realtime.plant import RealtimePlant
from stickslip.mpc.realtime.predictor import NOTE, Predictor
from stickslip.mpc.realtime.sensors import Estimator, Sensing, Sensors
from stickslip.mpc.success import Goal
from stickslip.mpc.task import Observation, Plan, Problem, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial.plant import Plant
from stickslip.mpc.trial.trial import draw
from tests.mpc.test_realtime import Holding, Puppet

STEP = 0.002
PERIOD = 0.02
LATE = Sensors(position_noise=0.0, rotation_noise=0.0, delay=0.1)
"""A camera without noise whose poses are 0.1 s old."""


@pytest.fixture(scope="module")
def problem() -> Problem:
    return compile_problem(dataclasses.replace(TASKS["fingertips-rotate"], longest=60), "cube")


def squeeze(problem: Problem, seen: Observation) -> np.ndarray:
    """Targets that move all fingertips towards the middle of the cube, one of them harder, so that it slides."""
    tips = seen.qpos[:9].reshape(3, 3)
    way = seen.qpos[-7:-4] - tips
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    return (tips + np.array([[0.004], [0.001], [0.001]]) * way).reshape(-1)


# ---------------------------------------------------------------------------------------------- the model is the plant


@pytest.mark.parametrize("rate", [100.0, 70.0])
def test_prediction_is_the_state_of_the_plant(problem: Problem, rate: float) -> None:
    """Poses 0.1 s late, commands at odd times: the state 30 ms ahead is that of the plant, object and velocities too.

    With 70 Hz, joint states and poses are of different times.
    """
    ours, far = memory_pair()
    plant = RealtimePlant(problem, 0, dataclasses.replace(LATE, joint_rate=rate), far)
    estimator, moved, apart, held = Estimator(problem), [], [], []
    plant.begin()
    predicted, last = None, np.zeros(3)
    for turn in range(45):
        now = 0.0213 * (turn + 1)  # within a time step
        if predicted is None:
            plant.advance(now)
        else:  # up to the time of the prediction, and further
            for until in (predicted.time, now):
                plant.advance(until)
                if until == predicted.time:
                    assert plant.time == pytest.approx(until)
                    truth = plant.plant.observe()
                    apart.append((np.abs(truth.qpos - predicted.qpos).max(), np.abs(truth.qvel - predicted.qvel).max()))
                    held.append(np.linalg.norm(truth.qpos[-7:-4] - last))
                    np.testing.assert_array_equal(predicted.ctrl, truth.ctrl)
        for envelope in ours.receive():
            estimator.take(envelope)
            if isinstance(envelope.message, ObjectPose):
                last = envelope.message.pos
        if not estimator.new():
            continue
        target = squeeze(problem, plant.plant.observe())
        ours.publish(Command(plant.time, target))
        estimator.sent(now, target)
        predicted = estimator.observe(now + 0.0171)
        assert predicted.time == pytest.approx(STEP * math.floor((now + 0.0171) / STEP))
        assert estimator.note == ""
        moved.append(plant.plant.mjd.qpos[-7:-4].copy())
    assert plant.result().refused == 0 and len(apart) > 30
    assert np.linalg.norm(moved[-1] - moved[0]) > 0.01 and max(held) > 0.003  # it is worth while
    position, velocity = np.max(apart, axis=0)
    assert position < 1e-9 and velocity < 1e-7


def measured(problem: Problem, sensors: Sensors, duration: float, qpos: np.ndarray, qvel: np.ndarray) -> tuple:
    """What sensors say of a plant from a state on with the servos at rest, and the state at the end."""
    plant = Plant(problem)
    plant.reset(qpos)
    plant.mjd.qvel[:] = qvel
    sensing, said = Sensing(sensors, problem.nr, STEP, 0), []
    for step in range(round(duration / STEP) + 1):
        if step:
            plant.advance(1)
        truth = plant.observe()
        said += sensing.measure(Observation(step * STEP, truth.qpos, truth.qvel, truth.ctrl))
    return said, plant.observe()


def lifted(problem: Problem) -> np.ndarray:
    """The start, with the object high above everything."""
    qpos = draw(problem, 0)[0]
    qpos[-5] = 50.0
    return qpos


def test_free_fall_from_one_pose(problem: Problem) -> None:
    """A single pose, 0.2 s ago: z = z0 - g t (t + dt) / 2 by semi-implicit Euler, and v = -g t."""
    qpos, estimator, nr = lifted(problem), Estimator(problem), problem.nr
    for t in (0.0, 0.1):
        estimator.take(Envelope(0.0, JointState(t, qpos[:nr], np.zeros(nr), qpos[:nr])))
    estimator.take(Envelope(0.0, ObjectPose(0.0, qpos[-7:-4], qpos[-4:])))
    seen, g = estimator.observe(0.2), -float(problem.mjm.opt.gravity[2])
    assert seen.time == pytest.approx(0.2)
    np.testing.assert_allclose(seen.qpos[-7:-4], qpos[-7:-4] - [0.0, 0.0, 0.5 * g * 0.2 * 0.202], atol=1e-9)
    np.testing.assert_allclose(seen.qvel[-6:], [0.0, 0.0, -0.2 * g, 0.0, 0.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(seen.qpos[-4:], qpos[-4:], atol=1e-12)


def test_velocity_is_found_from_poses(problem: Problem) -> None:
    """The object is thrown, which the predictor does not know: poses tell it velocity and turn.

    Each pose leaves sqrt(1 - alpha) of the error, the modulus of the filter's poles.
    """
    thrown = np.zeros(problem.mjm.nv)
    thrown[-6:] = [0.3, -0.2, 0.1, 0.0, 0.0, 2.0]
    said, truth = measured(problem, LATE, 1.5, lifted(problem), thrown)
    found = Predictor(problem)
    for message in said:
        found.take(message)
    seen = found.predict(1.5)
    assert seen is not None
    np.testing.assert_allclose(seen.qvel[-6:], truth.qvel[-6:], atol=1e-3)
    np.testing.assert_allclose(seen.qpos[-7:], truth.qpos[-7:], atol=1e-4)


def test_noise_is_filtered(problem: Problem) -> None:
    """The object rests: what is predicted has less noise than the poses, and less speed than their differences."""
    start = draw(problem, 0)[0]
    sensors = Sensors(delay=0.0)
    said, _ = measured(problem, sensors, 4.0, start, np.zeros(problem.mjm.nv))
    found, off, poses = Predictor(problem), [], []
    for message in said:
        found.take(message)
        if isinstance(message, ObjectPose):
            seen = found.predict(message.time)
            assert seen is not None
            off.append([*(seen.qpos[-7:-5] - start[-7:-5]), *seen.qvel[-6:-4]])
            poses.append(message.pos[:2] - start[-7:-5])
    spread, noise = np.std(off, axis=0), np.std(poses, axis=0)
    assert (spread[:2] < 0.8 * noise).all()
    assert (spread[2:] < 0.5 * math.sqrt(2.0) * 25.0 * noise).all()


# ------------------------------------------------------------------------------------------------- commands and times


def test_commands_act_from_the_time_step_they_were_sent_in(problem: Problem) -> None:
    qpos, nr, known = lifted(problem), problem.nr, Predictor(problem)
    known.take(JointState(0.0, qpos[:nr], np.zeros(nr), qpos[:nr]))
    known.take(ObjectPose(0.0, qpos[-7:-4], qpos[-4:]))
    targets = [qpos[:nr] + by for by in (0.001, 0.002, 0.003)]
    for at, target in zip((0.0205, 0.0399, 0.06), targets, strict=True):
        known.sent(at, target)
    alone = Plant(problem)
    alone.reset(qpos)
    for steps, target in ((10, None), (9, targets[0]), (10, targets[1])):
        if target is not None:
            alone.command(target)
        alone.advance(steps)
    seen = known.predict(0.0599)
    assert seen is not None and seen.time == pytest.approx(0.058)
    np.testing.assert_array_equal(seen.qpos, alone.mjd.qpos)
    np.testing.assert_array_equal(seen.ctrl, targets[1])
    later = known.predict(0.0601)  # the last command acts from now on
    assert later is not None and later.time == pytest.approx(0.06)
    np.testing.assert_array_equal(later.ctrl, targets[2])
    again = known.predict(0.0599)
    assert again is not None
    np.testing.assert_array_equal(again.qpos, seen.qpos)  # a prediction leaves nothing behind


def test_targets_are_clipped_as_the_plant_clips_them(problem: Problem) -> None:
    qpos, nr, known = lifted(problem), problem.nr, Predictor(problem)
    known.take(JointState(0.0, qpos[:nr], np.zeros(nr), qpos[:nr]))
    known.take(ObjectPose(0.0, qpos[-7:-4], qpos[-4:]))
    known.sent(0.0, np.full(nr, 1e3))
    seen, plant = known.predict(0.01), Plant(problem)
    plant.command(np.full(nr, 1e3))
    assert seen is not None
    np.testing.assert_array_equal(seen.ctrl, plant.mjd.ctrl)


def test_joints_are_those_that_were_measured(problem: Problem) -> None:
    """Joint states that the model would not have predicted; also when the pose is older than all of them."""
    qpos, nr, estimator = lifted(problem), problem.nr, Estimator(problem)
    for k in range(1, 11):
        state = JointState(0.01 * k, qpos[:nr] + 0.003 * k, np.full(nr, 0.3), qpos[:nr])
        estimator.take(Envelope(0.0, state))
    estimator.take(Envelope(0.0, ObjectPose(0.0, qpos[-7:-4], qpos[-4:])))
    seen = estimator.observe(0.1)
    np.testing.assert_array_equal(seen.qpos[:nr], qpos[:nr] + 0.03)
    np.testing.assert_array_equal(seen.qvel[:nr], np.full(nr, 0.3))


class Still:
    """Keeps the hands where they are, and keeps what it observed."""

    def __init__(self) -> None:
        self.seen: list[list[Observation]] = []

    def reset(self, goals: Sequence[Goal], seeds: Sequence[int]) -> None:
        pass

    def plan(self, observations: Sequence[Observation]) -> list[Plan]:
        self.seen.append(list(observations))
        return [Plan(seen.ctrl, 0.0) for seen in observations]


@pytest.mark.parametrize("plan_time", [0.0, 0.013, 0.05])
def test_an_observation_is_of_the_time_at_which_its_plan_acts(problem: Problem, plan_time: float) -> None:
    """Also where the newest joint state is older than the start of the plan. A warm start shifts by these times."""
    planners = Still()
    paced.run_paced(problem, planners, [0], plan_time, look_ahead=True)
    times = np.array([row[0].time for row in planners.seen])
    begin = Sensors().delay + max(PERIOD, plan_time) * np.arange(len(times))
    np.testing.assert_allclose(times, STEP * np.floor((begin + plan_time) / STEP + 1e-6), atol=1e-9)


def test_commands_carry_the_time_of_their_joint_state(problem: Problem) -> None:
    """The plant refuses commands from the future, and its latencies are from the joint state on."""
    trial = paced._Paced(problem, problem, 0, Sensors(joint_rate=50.0), look_ahead=True)
    trial.advance(0.052)  # joint state at 40 ms
    seen = trial.observe(0.03)
    assert seen.time == pytest.approx(0.082)
    trial.advance(0.082)
    trial.command(Plan(seen.ctrl, 0.0))
    trial.advance(0.1)
    result = trial._plant.result()
    assert (result.commands, result.refused) == (1, 0)
    assert result.latency == pytest.approx(0.042)


def test_time_of_a_planner_never_goes_back(problem: Problem) -> None:
    """Plans become faster: the next would act before the last. Regrasping would take that for a new trial."""
    qpos, nr, estimator = lifted(problem), problem.nr, Estimator(problem)
    estimator.take(Envelope(0.0, JointState(0.0, qpos[:nr], np.zeros(nr), qpos[:nr])))
    estimator.take(Envelope(0.0, ObjectPose(0.0, qpos[-7:-4], qpos[-4:])))
    assert [estimator.observe(t).time for t in (0.3, 0.1, 0.4)] == pytest.approx([0.3, 0.3, 0.4])


def test_clock_of_the_plant(problem: Problem) -> None:
    estimator = Estimator(problem)
    estimator.take(Envelope(7.0, JointState(0.5, np.zeros(9), np.zeros(9), np.zeros(9))))
    assert [estimator.now(clock) for clock in (7.02, 6.9, 99.0)] == pytest.approx([0.52, 0.5, 0.6])


@pytest.mark.parametrize("look_ahead", [False, True])
def test_the_simulated_clock_gives_the_same_trials_again(problem: Problem, look_ahead: bool) -> None:
    class Squeeze(Still):
        def plan(self, observations: Sequence[Observation]) -> list[Plan]:
            return [Plan(squeeze(problem, seen), 0.0) for seen in observations]

    first, again = (paced.run_paced(problem, Squeeze(), [0, 1], 0.01, look_ahead=look_ahead) for _ in range(2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.frames, b.frames)
        assert np.abs(a.frames[-1] - a.frames[0])[-7:-4].max() > 0.001 and not a.notes


# ----------------------------------------------------------------------------------------------------------- fallback


@pytest.mark.parametrize("where", [math.nan, 1e200])
def test_prediction_that_is_not_finite_is_said(
    problem: Problem, where: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last measurements take its place. The next pose starts over."""
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log here
    qpos, nr, estimator = lifted(problem), problem.nr, Estimator(problem)
    estimator.take(Envelope(0.0, JointState(0.0, qpos[:nr], np.ones(nr), qpos[:nr] + 0.001)))
    estimator.take(Envelope(0.0, ObjectPose(0.0, qpos[-7:-4], qpos[-4:])))
    estimator.observe(0.01)
    assert estimator.note == ""
    lost = np.full(3, where)
    estimator.take(Envelope(0.0, ObjectPose(0.04, lost, qpos[-4:])))
    seen = estimator.observe(0.1)
    assert estimator.note == NOTE and seen.time == pytest.approx(0.1)
    np.testing.assert_array_equal(seen.qpos, [*qpos[:nr], *lost, *qpos[-4:]])
    np.testing.assert_array_equal(seen.qvel, [*np.ones(nr), *np.zeros(6)])
    np.testing.assert_array_equal(seen.ctrl, qpos[:nr] + 0.001)
    estimator.take(Envelope(0.0, ObjectPose(0.08, qpos[-7:-4], qpos[-4:])))
    seen = estimator.observe(0.12)
    assert estimator.note == "" and np.isfinite(seen.qpos).all()
    assert seen.qpos[-5] == pytest.approx(qpos[-5], abs=0.02)


def test_a_trial_says_that_it_was_not_predicted(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Predictor, "predict", lambda self, time: None)
    assert paced.run_paced(problem, Still(), [0], 0.01)[0].notes == (NOTE,)
    assert paced.run_paced(problem, Still(), [0], 0.01, look_ahead=False)[0].notes == ()

    def stop(plans: int) -> None:
        if plans == 2:
            raise RuntimeError("enough")

    loop = PlannerLoop(problem, Holding(stop), Limits(), lambda steps: None)
    loop.serve(Puppet())  # pyright: ignore[reportArgumentType]
    assert loop.notes.all() == (NOTE,)


def test_the_loop_expects_the_time_that_plans_take(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Observations are of the plant's time when the plan begins, and the median time of a plan later."""
    asked: list[tuple[float, float]] = []
    whole = Estimator.observe

    def observe(self: Estimator, acts: float) -> Observation:
        seen = whole(self, acts)
        asked.append((acts - self.used, seen.time))
        return seen

    monkeypatch.setattr(Estimator, "observe", observe)
    monkeypatch.setattr(predictor.Plant, "advance", lambda self, steps: None)

    def slow(plans: int) -> None:
        time.sleep(0.05)
        if plans == 4:
            raise RuntimeError("enough")

    plant = Puppet()
    PlannerLoop(problem, Holding(slow), Limits(), lambda steps: None).serve(plant)  # pyright: ignore[reportArgumentType]
    assert asked[0][0] < 0.05 <= asked[1][0] and min(ahead for ahead, _ in asked[1:]) >= 0.05
    commands = [message for message in plant.published if isinstance(message, Command)]
    assert len(commands) == 4
    assert all(command.time < acts for command, (_, acts) in zip(commands[1:], asked[1:], strict=False))
    assert [round(1e3 * command.time) % 10 for command in commands] == [0] * 4  # those of joint states
