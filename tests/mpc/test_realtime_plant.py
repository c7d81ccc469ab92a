"""The sensors, the plant by a clock and the planner's view, on a clock of the test's own: all of it is exact."""

import dataclasses
import math
from pathlib import Path

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc.plant import Plant
from stickslip.mpc.realtime.bus import Bus
from stickslip.mpc.realtime.messages import Command, Envelope, JointState, Message, ObjectPose, encode
from stickslip.mpc.realtime.plant_loop import BEHIND, PlantLoop
from stickslip.mpc.realtime.sensors import Sensing, Sensors, turned
from stickslip.mpc.realtime.view import View
from stickslip.mpc.task import Observation, Problem, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import SUCCESS, TOO_LONG, draw

STEP = 0.002
EXACT = Sensors(position_noise=0.0, rotation_noise=0.0, delay=0.0)


def problem_of(longest: int = 2000) -> Problem:
    return compile_problem(dataclasses.replace(TASKS["fingertips-rotate"], longest=longest), "cube")


@pytest.fixture(scope="module")
def problem() -> Problem:
    return problem_of(100)


class Paper(Bus):
    """A bus that is written down: the test puts in what the plant gets, and reads what it sent."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0.0)
        self.put: list[bytes] = []
        self.sent: list[tuple[str, bytes]] = []

    def _send(self, data: bytes, kind: str) -> bool:
        self.sent.append((kind, data))
        return True

    def _receive(self, timeout: float) -> list[bytes]:
        came, self.put = self.put, []
        return came

    def close(self) -> None:
        pass


# ----------------------------------------------------------------------------------------------------------- sensors


def seen(sensors: Sensors, duration: float, seed: int = 0) -> list[tuple[float, JointState | ObjectPose]]:
    """What sensors send of an object that moves and turns evenly, and when."""
    sensing = Sensing(sensors, 2, STEP, seed)
    out = []
    for i in range(round(duration / STEP) + 1):
        t = i * STEP
        out += [(t, message) for message in sensing.see(truth(t))]
    return out


def truth(t: float) -> Observation:
    quat = turned(np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.3 * t]))
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


def envelope(message: Message, sequence: int, sent: float = 0.0) -> Envelope:
    return Envelope(sequence, sent, message)


def test_command_acts_when_it_comes_and_is_held(problem: Problem) -> None:
    """A plan from the state at 0.02 s that comes at 0.1 s acts from then on, to the bit, and not before."""
    bus = Paper()
    loop = PlantLoop(problem, 0, EXACT, bus)
    start, goal = draw(problem, 0)
    target = start[: problem.nr] + 0.004
    loop.begin()
    loop.advance(0.1)
    bus.put.append(encode(Command(0.02, target), 0, 0.0))
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
        problem, bus = problem_of(), Paper()
        loop = PlantLoop(problem, 0, EXACT, bus)
        loop.advance(late)
        bus.put.append(encode(Command(0.0, loop.plant.mjd.ctrl + 0.004), 0, 0.0))
        loop.advance(0.1)
        return float(loop.plant.mjd.qpos[0] - draw(problem, 0)[0][0])

    assert reached(0.0) > reached(0.05) > reached(0.09) > 0.0
    assert reached(0.1) == pytest.approx(0.0, abs=1e-9)


def test_plant_refuses_commands_that_do_not_fit(problem: Problem) -> None:
    bus = Paper()
    loop = PlantLoop(problem, 0, EXACT, bus)
    loop.advance(0.1)
    before = loop.plant.mjd.ctrl.copy()
    bus.put = [
        encode(Command(0.0, np.ones(problem.nr + 1)), 0, 0.0),  # of another hand
        encode(Command(5.0, np.ones(problem.nr)), 1, 0.0),  # from the future
        b"no message",
    ]
    loop.advance(0.11)
    np.testing.assert_array_equal(loop.plant.mjd.ctrl, before)
    bus.put = [encode(Command(0.1, before + 0.001), 8, 0.0), encode(Command(0.0, before), 7, 0.0)]  # out of order
    loop.advance(0.12)
    np.testing.assert_array_equal(loop.plant.mjd.ctrl, before + 0.001)
    result = loop.result()
    assert (result.refused, result.commands, result.counts.malformed) == (3, 1, 1)


def test_trial_ends_by_the_plants_clock() -> None:
    problem = problem_of(longest=7)
    loop = PlantLoop(problem, 0, EXACT, Paper())
    for i in range(100):
        loop.advance(0.01 * i)
    result = loop.result()
    assert result.reason == TOO_LONG and len(result.frames) == 8
    assert result.simulated == pytest.approx(7 * problem.task.substeps * STEP)


def test_success_is_judged_by_the_truth(problem: Problem) -> None:
    loop = PlantLoop(problem, 0, Sensors(position_noise=0.1, rotation_noise=0.5), Paper())
    goal = draw(problem, 0)[1]
    loop.plant.mjd.qpos[-7:] = [*goal.pos, *goal.quat]
    for i in range(400):
        loop.advance(0.01 * i)
    result = loop.result()
    assert result.reason == SUCCESS
    assert len(result.frames) == 1 + problem.task.success.steps
    assert result.position < problem.task.success.position


def test_clock_that_the_plant_cannot_follow_is_told(problem: Problem) -> None:
    loop = PlantLoop(problem, 0, EXACT, Paper())
    loop.advance(0.02)
    loop.advance(0.02 + BEHIND)  # is made up for
    assert loop.time == pytest.approx(0.02 + BEHIND) and loop.result().slipped == 0.0
    loop.advance(1.02 + BEHIND)  # too much
    result = loop.result()
    assert result.slipped == pytest.approx(1.0 - BEHIND)
    assert result.simulated == pytest.approx(0.02 + 2 * BEHIND)
    assert result.wall == pytest.approx(1.02 + BEHIND)
    assert loop.next() == pytest.approx(1.02 + BEHIND + STEP)


def test_lost_plant_ends(problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log here
    for index, value, reason in ((0, math.nan, "not finite"), (-5, -1.0, "fell")):
        sunk = dataclasses.replace(problem, task=dataclasses.replace(problem.task, floor=-0.5))
        loop = PlantLoop(sunk, 0, EXACT, Paper())
        loop.advance(0.05)
        loop.plant.mjd.qpos[index] = value
        loop.advance(0.1)
        assert loop.reason == reason


def test_number_that_is_not_finite_is_not_sent(problem: Problem) -> None:
    bus = Paper()
    loop = PlantLoop(problem, 0, EXACT, bus)
    loop.plant.mjd.qpos[0] = math.inf
    loop.begin()
    assert loop.reason == "not finite" and not bus.sent


def test_plant_is_the_same_again(problem: Problem) -> None:
    def sent() -> list[tuple[str, bytes]]:
        bus = Paper()
        loop = PlantLoop(problem, 5, Sensors(), bus)
        loop.begin()
        for i in range(30):
            loop.advance(0.01 * i)
        return bus.sent

    assert sent() == sent()


# ---------------------------------------------------------------------------------------------------------- the view


def test_view_puts_the_newest_together(problem: Problem) -> None:
    view, nr = View(problem), problem.nr

    def state(t: float, n: int = nr) -> JointState:
        return JointState(t, np.full(n, t), np.full(n, 2 * t), np.full(n, 3 * t))

    def pose(t: float) -> ObjectPose:
        return ObjectPose(t, np.full(3, t), np.array([1.0, 0.0, 0.0, 0.0]))

    view.take(envelope(state(0.5), 0, sent=8.0))
    assert not view.new()  # no pose yet
    for i, message in enumerate([pose(0.2), pose(0.1), state(0.4), state(0.9, nr + 1)]):
        view.take(envelope(message, i, sent=9.0))
    assert view.new() and view.unfit == 1 and view.sent == 8.0
    assert view.pose_age() == pytest.approx(0.3)
    observation = view.observe()
    np.testing.assert_array_equal(observation.qpos, [*np.full(nr, 0.5), 0.2, 0.2, 0.2, 1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(observation.qvel, [*np.ones(nr), *np.zeros(6)])
    np.testing.assert_array_equal(observation.ctrl, np.full(nr, 1.5))
    assert observation.time == 0.5 and not view.new()
    view.take(envelope(state(0.6), 9))
    assert view.new()
