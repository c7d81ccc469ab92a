"""Sensors, plant and state estimate on a clock of the test's own: all of it is exact."""

import dataclasses
import math
import pickle
from pathlib import Path

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.realtime.channel import Channel, Envelope
from stickslip.mpc.realtime.messages import Command, JointState, Message, ObjectPose, Signal
from stickslip.mpc.realtime.plant import CATCH_UP, STOPPED, RealtimePlant
from stickslip.mpc.realtime.sensors import Estimator, Sensing, Sensors, rotated
from stickslip.mpc.success import Below
from stickslip.mpc.task import Observation, Problem, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial.plant import Plant
from stickslip.mpc.trial.trial import SUCCESS, TOO_LONG, draw

STEP = 0.002
EXACT = Sensors(position_noise=0.0, rotation_noise=0.0, delay=0.0)


def problem_of(longest: int = 2000) -> Problem:
    return compile_problem(dataclasses.replace(TASKS["fingertips-rotate"], longest=longest), "cube")


@pytest.fixture(scope="module")
def problem() -> Problem:
    return problem_of(100)


class Record(Channel):
    """A channel of the test: it puts in what the plant receives, and reads what the plant sent."""

    def __init__(self) -> None:
        super().__init__()
        self.put: list[Message] = []
        self.sent: list[Message] = []

    def publish(self, message: Message) -> None:
        self.sent.append(message)

    def receive(self, timeout: float = 0.0) -> list[Envelope]:
        arrived, self.put = self.put, []
        return [Envelope(0.0, message) for message in arrived]


# ----------------------------------------------------------------------------------------------------------- sensors


def seen(sensors: Sensors, duration: float, seed: int = 0) -> list[tuple[float, JointState | ObjectPose]]:
    """What sensors send of an object that moves and turns evenly, and when."""
    sensing = Sensing(sensors, 2, STEP, seed)
    out = []
    for i in range(round(duration / STEP) + 1):
        t = i * STEP
        out += [(t, message) for message in sensing.measure(truth(t))]
    return out


def truth(t: float) -> Observation:
    quat = rotated(np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.3 * t]))
    qpos = np.concatenate([[t, -t], [0.1 * t, 0.2, 0.3 - 0.05 * t], quat])
    return Observation(t, qpos, np.ones(8), np.array([3.0, 4.0]))


def test_rates_and_delay_are_exact() -> None:
    got = seen(dataclasses.replace(EXACT, delay=0.04), 2.0)
    joints = [(t, m) for t, m in got if isinstance(m, JointState)]
    poses = [(t, m) for t, m in got if isinstance(m, ObjectPose)]
    np.testing.assert_allclose([t for t, _ in joints], np.arange(201) / 100.0, atol=1e-9)
    np.testing.assert_allclose([m.time for _, m in poses], np.arange(50) / 25.0, atol=1e-9)
    for t, m in joints:
        assert m.time == t
        np.testing.assert_array_equal(m.qpos, truth(t).qpos[:2])
        np.testing.assert_array_equal(m.ctrl, [3.0, 4.0])
    for t, m in poses:
        assert t - m.time == pytest.approx(0.04, abs=1e-9)
        np.testing.assert_allclose(m.pos, truth(m.time).qpos[2:5], atol=1e-12)
        np.testing.assert_allclose(m.quat, truth(m.time).qpos[5:], atol=1e-12)


def test_rate_that_no_time_step_meets() -> None:
    times = [m.time for _, m in seen(dataclasses.replace(EXACT, pose_rate=30.0), 3.0) if isinstance(m, ObjectPose)]
    due = np.arange(len(times)) / 30.0
    assert len(times) == 91
    assert np.all(np.array(times) >= due - 1e-9) and np.all(np.array(times) < due + STEP)


def test_noise_has_the_spread_it_says() -> None:
    sensors = Sensors(pose_rate=500.0, position_noise=0.002, rotation_noise=0.03, delay=0.0)
    poses = [m for _, m in seen(sensors, 8.0) if isinstance(m, ObjectPose)]
    shift = np.array([m.pos - truth(m.time).qpos[2:5] for m in poses])
    turn = np.zeros((len(poses), 3))
    for i, m in enumerate(poses):
        mujoco.mju_subQuat(turn[i], m.quat, truth(m.time).qpos[5:])
    n = len(poses)
    assert n == 4001
    for noise, spread in ((shift, 0.002), (turn, 0.03)):
        np.testing.assert_allclose(noise.std(axis=0), spread, rtol=5.0 / math.sqrt(2 * n))
        np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=5.0 * spread / math.sqrt(n))
    both = np.corrcoef(np.concatenate([shift, turn], axis=1).T)
    np.testing.assert_allclose(both, np.eye(6), atol=5.0 / math.sqrt(n))


def test_noise_is_of_the_seed() -> None:
    def poses(seed: int) -> np.ndarray:
        return np.array([m.pos for _, m in seen(Sensors(), 1.0, seed) if isinstance(m, ObjectPose)])

    np.testing.assert_array_equal(poses(3), poses(3))
    assert np.all(poses(3) != poses(4))


@pytest.mark.parametrize(
    ("name", "value"),
    [("joint_rate", 0.0), ("pose_rate", math.nan), ("position_noise", -1.0), ("rotation_noise", 9.0), ("delay", 2.0)],
)
def test_sensors_out_of_range(name: str, value: float) -> None:
    with pytest.raises(InputError, match=name):
        dataclasses.replace(Sensors(), **{name: value})


def test_rate_beyond_the_time_step() -> None:
    with pytest.raises(InputError, match="1000.*500 time steps"):
        Sensing(Sensors(joint_rate=1000.0), 2, STEP, 0)


# -------------------------------------------------------------------------------------------- the plant, fake clock


def test_command_acts_when_it_comes_and_is_held(problem: Problem) -> None:
    """A plan from the state at 0.02 s that comes at 0.1 s acts from then on, to the bit, and not before."""
    channel = Record()
    loop = RealtimePlant(problem, 0, EXACT, channel)
    start, goal = draw(problem, 0)
    target = start[: problem.nr] + 0.004
    loop.begin()
    loop.advance(0.1)
    channel.put.append(Command(0.02, target))
    loop.advance(0.2)
    alone = Plant(problem)
    alone.reset(start, goal)
    alone.advance(50)
    alone.command(target)
    alone.advance(50)
    np.testing.assert_array_equal(loop.plant.mjd.qpos, alone.mjd.qpos)
    result = loop.result()
    assert result.latency == result.worst == pytest.approx(0.08)
    assert result.longest == pytest.approx(0.1)
    assert result.commands == 1


def test_late_plan_is_answered_late() -> None:
    """The same plan later leaves the hand behind for longer."""

    def reached(late: float) -> float:
        problem, channel = problem_of(), Record()
        loop = RealtimePlant(problem, 0, EXACT, channel)
        loop.advance(late)
        channel.put.append(Command(0.0, loop.plant.mjd.ctrl + 0.004))
        loop.advance(0.1)
        return float(loop.plant.mjd.qpos[0] - draw(problem, 0)[0][0])

    assert reached(0.0) > reached(0.05) > reached(0.09) > 0.0
    assert reached(0.1) == pytest.approx(0.0, abs=1e-9)


def test_plant_refuses_commands_that_do_not_fit(problem: Problem) -> None:
    channel = Record()
    loop = RealtimePlant(problem, 0, EXACT, channel)
    loop.advance(0.1)
    before = loop.plant.mjd.ctrl.copy()
    channel.put = [
        Command(0.0, np.ones(problem.nr + 1)),  # of another hand
        Command(5.0, np.ones(problem.nr)),  # from the future
    ]
    loop.advance(0.11)
    np.testing.assert_array_equal(loop.plant.mjd.ctrl, before)
    channel.put = [Command(0.1, before + 0.001), Command(0.0, before)]  # out of order
    loop.advance(0.12)
    np.testing.assert_array_equal(loop.plant.mjd.ctrl, before + 0.001)
    result = loop.result()
    assert (result.refused, result.commands) == (3, 1)


def test_trial_ends_by_the_plants_clock() -> None:
    problem = problem_of(longest=7)
    loop = RealtimePlant(problem, 0, EXACT, Record())
    for i in range(100):
        loop.advance(0.01 * i)
    result = loop.result()
    assert result.reason == TOO_LONG and len(result.frames) == 8
    assert result.simulated == pytest.approx(7 * problem.task.substeps * STEP)


def test_success_is_judged_by_the_truth(problem: Problem) -> None:
    loop = RealtimePlant(problem, 0, Sensors(position_noise=0.1, rotation_noise=0.5), Record())
    goal = draw(problem, 0)[1]
    loop.plant.mjd.qpos[-7:] = [*goal.pos, *goal.quat]
    for i in range(400):
        loop.advance(0.01 * i)
    result = loop.result()
    assert result.reason == SUCCESS
    assert len(result.frames) == 1 + problem.task.success.steps
    assert (result.history[-1] < [measure.limit for measure in problem.task.success.measures]).all()


def test_clock_that_the_plant_cannot_follow_is_reported(problem: Problem) -> None:
    loop = RealtimePlant(problem, 0, EXACT, Record())
    loop.advance(0.02)
    loop.advance(0.02 + CATCH_UP)  # is made up for
    assert loop.time == pytest.approx(0.02 + CATCH_UP) and loop.result().slipped == 0.0
    loop.advance(1.02 + CATCH_UP)  # too much
    result = loop.result()
    assert result.slipped == pytest.approx(1.0 - CATCH_UP)
    assert result.simulated == pytest.approx(0.02 + 2 * CATCH_UP)
    assert result.wall == pytest.approx(1.02 + CATCH_UP)
    assert loop.next() == pytest.approx(1.02 + CATCH_UP + STEP)


def test_plant_stops_when_asked_or_when_the_planner_is_gone(problem: Problem) -> None:
    for closed in (False, True):
        channel = Record()
        loop = RealtimePlant(problem, 0, EXACT, channel)
        loop.advance(0.1)
        if closed:
            channel.closed = True
        else:
            channel.put = [Signal.STOP]
        loop.advance(0.2)
        assert loop.reason == STOPPED and loop.time == pytest.approx(0.1)


def test_lost_plant_ends(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log here
    for index, value, reason in ((0, math.nan, "not finite"), (-5, -1.0, "fell")):
        sunk = dataclasses.replace(problem, task=dataclasses.replace(problem.task, failure=Below("object", -0.5)))
        loop = RealtimePlant(sunk, 0, EXACT, Record())
        loop.advance(0.05)
        loop.plant.mjd.qpos[index] = value
        loop.advance(0.1)
        assert loop.reason == reason


def test_number_that_is_not_finite_is_not_sent(problem: Problem) -> None:
    channel = Record()
    loop = RealtimePlant(problem, 0, EXACT, channel)
    loop.plant.mjd.qpos[0] = math.inf
    loop.begin()
    assert loop.reason == "not finite" and not channel.sent


def test_plant_is_the_same_again(problem: Problem) -> None:
    def sent() -> list[bytes]:
        channel = Record()
        loop = RealtimePlant(problem, 5, Sensors(), channel)
        loop.begin()
        for i in range(30):
            loop.advance(0.01 * i)
        return [pickle.dumps(message) for message in channel.sent]

    assert sent() == sent()


# ----------------------------------------------------------------------------------------------------- the estimator


def test_estimator_combines_the_newest(problem: Problem) -> None:
    estimator, nr = Estimator(problem, look_ahead=False), problem.nr

    def state(t: float) -> JointState:
        return JointState(t, np.full(nr, t), np.full(nr, 2 * t), np.full(nr, 3 * t))

    def pose(t: float) -> ObjectPose:
        return ObjectPose(t, np.full(3, t), np.array([1.0, 0.0, 0.0, 0.0]))

    estimator.take(Envelope(8.0, state(0.5)))
    assert not estimator.new()  # no pose yet
    for message in (pose(0.2), pose(0.1), state(0.4)):
        estimator.take(Envelope(9.0, message))
    assert estimator.new() and estimator.published == 8.0
    assert estimator.pose_age() == pytest.approx(0.3)
    observation = estimator.observe(0.7)
    np.testing.assert_array_equal(observation.qpos, [*np.full(nr, 0.5), 0.2, 0.2, 0.2, 1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(observation.qvel, [*np.ones(nr), *np.zeros(6)])
    np.testing.assert_array_equal(observation.ctrl, np.full(nr, 1.5))
    assert observation.time == estimator.used == 0.5 and not estimator.new() and estimator.note == ""
    estimator.take(Envelope(9.0, state(0.6)))
    assert estimator.new()
