"""Batches of trials: each trial is what it would be alone; on a simulated clock, plans take the given time."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

import stickslip as ss
from stickslip.mpc.planners.sampling import planner as sampling
from stickslip.mpc.realtime.paced import run_paced
from stickslip.mpc.realtime.sensors import Sensors
from stickslip.mpc.success import Below, Goal
from stickslip.mpc.task import Observation, Plan, Problem, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import batch as trial_batch
from stickslip.mpc.trial import trial

SMALL = sampling.Mppi(samples=4, horizon=6)
PERIOD = 0.024
DELAY = Sensors().delay


def problem(longest: int) -> Problem:
    return compile_problem(dataclasses.replace(TASKS["leap-yaw"], longest=longest))


class Curl:
    """Asks every finger to curl by a fixed angle, and keeps what it observed."""

    def __init__(self, by: float = 0.1) -> None:
        self.by = by
        self.seen: list[list[Observation]] = []

    def reset(self, goals: Sequence[Goal], seeds: Sequence[int]) -> None:
        self.goals, self.seeds = goals, seeds

    def plan(self, observations: Sequence[Observation]) -> list[Plan]:
        self.seen.append(list(observations))
        return [Plan(seen.qpos[:16] + self.by, 0.0) for seen in observations]


@pytest.fixture(scope="module")
def batch() -> sampling.Batch:
    return sampling.Batch(problem(6), settings=SMALL, device="cpu", trials=3)


TOP = sampling.Mppi(samples=6, horizon=6, iterations=2, top_fraction=0.5)


@pytest.mark.parametrize("settings", [SMALL, TOP], ids=["all", "top"])
def test_plans_at_once_are_the_plans_one_by_one(settings: sampling.Mppi):
    batch = sampling.Batch(problem(6), settings=settings, device="cpu", trials=3)
    one = sampling.Sampler(problem(6), settings=settings, device="cpu")
    drawn = [trial.draw(one.problem, seed) for seed in (4, 5, 6)]
    goals, seeds = [goal for _, goal in drawn], [7, 8, 9]
    zero = np.zeros(one.problem.mjm.nv)
    times = np.array([[0.0, 0.0, 0.0], [0.024, 0.048, 0.0]])  # of a trial each: the last plan is shifted differently
    seen = [
        [Observation(t, start, zero, start[:16]) for t, (start, _) in zip(row, drawn, strict=True)] for row in times
    ]
    batch.reset(goals, seeds)
    together = [batch.plan(row) for row in seen]
    for i, (goal, seed) in enumerate(zip(goals, seeds, strict=True)):
        one.reset(goal, seed)
        for row, plans in zip(seen, together, strict=True):
            alone = one.plan(row[i])
            assert (alone.target == plans[i].target).all() and alone.cost == plans[i].cost


def test_trials_of_a_batch_are_the_trials_alone(batch: sampling.Batch):
    one = sampling.Sampler(batch.problem, settings=SMALL, device="cpu")
    told = []
    ran = trial_batch.run(batch.problem, batch, [0, 1, 2], progress=lambda steps, ended: told.append((steps, ended)))
    for seed, together in enumerate(ran):
        alone = trial.run(batch.problem, one, seed)
        assert together.seed == seed and together.reason == alone.reason == "too long"
        assert (together.frames == alone.frames).all()
        assert (together.history == alone.history).all() and (together.errors == alone.errors).all()
        assert all((together.terms[name] == values).all() for name, values in alone.terms.items()) and alone.terms
    assert told == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 3)]


def test_a_trial_that_ends_does_not_hold_the_others():
    class Some(Curl):
        def plan(self, observations):
            plans = super().plan(observations)
            bad = np.full(16, np.nan)
            return [dataclasses.replace(plans[0], target=bad), *plans[1:]] if len(self.seen) == 2 else plans

    planners = Some()
    ran = trial_batch.run(problem(4), planners, [0, 1])
    assert [r.reason for r in ran] == ["planner: a control is not finite", "too long"]
    assert [r.steps for r in ran] == [1, 4]
    start = planners.seen[0][0].qpos
    assert (planners.seen[-1][0].qpos == start).all()  # there is still something to plan from
    paced = run_paced(problem(4), Some(), [0, 1], 0.0)
    assert [r.reason for r in paced] == ["planner: a control is not finite", "too long"]


def paced(task: Problem, planners: trial_batch.Planners, seeds: list[int]) -> list[trial.Trial]:
    return run_paced(task, planners, seeds, 0.01)


@pytest.mark.parametrize("run", [trial_batch.run, paced], ids=["waiting", "paced"])
def test_what_planners_do_wrong_is_said(run):
    class Odd(Curl):
        def plan(self, observations):
            return [
                dataclasses.replace(plan, target=plan.target[:15], note="odd") for plan in super().plan(observations)
            ]

    class Few(Curl):
        def plan(self, observations):
            return super().plan(observations)[:1]

    class Broken(Curl):
        def plan(self, observations):
            raise ss.InputError("no")

    for ran in run(problem(4), Odd(), [0, 1]):
        assert ran.reason == "planner: controls of shape (15,), which must be (16,)"
        assert ran.notes == ("odd",)
    with pytest.raises(ss.InputError, match="1 plans for 2 trials"):
        run(problem(4), Few(), [0, 1])
    with pytest.raises(ss.InputError, match="no"):
        run(problem(4), Broken(), [0, 1])
    with pytest.raises(ss.InputError, match="seed -1"):
        run(problem(4), Curl(), [0, -1])
    with pytest.raises(ss.Unsupported, match="regrasps"):
        run(compile_problem(TASKS["allegro"]), Curl(), [0])


@pytest.mark.parametrize("plan_time", [0.0, 0.010, 0.060])
def test_a_plan_acts_when_it_is_ready(plan_time: float):
    """The hand rests until the first pose has come and a plan is made of it, and moves right after."""
    still, moved = (run_paced(problem(12), Curl(by), [3], plan_time)[0] for by in (0.0, 0.1))
    first = DELAY + plan_time
    for step, (a, b) in enumerate(zip(still.frames, moved.frames, strict=True)):
        apart = np.abs(a[:16] - b[:16]).max()
        assert apart == 0.0 if step * PERIOD <= first else apart > 1e-5, step


@pytest.mark.parametrize("plan_time", [0.0, 0.010, 0.060])
def test_plans_begin_when_the_last_is_ready_and_a_control_step_has_passed(plan_time: float):
    planners = Curl()
    ran = run_paced(problem(20), planners, [0, 1], plan_time, look_ahead=False)
    assert [r.reason for r in ran] == ["too long", "too long"]
    times = np.array([[seen.time for seen in row] for row in planners.seen if not any(s.time == 0.0 for s in row)])
    assert (times[:, 0] == times[:, 1]).all()
    gaps = np.diff(times[:, 0])
    expected = max(PERIOD, plan_time)
    assert gaps.mean() == pytest.approx(expected, abs=0.01 / len(gaps) + 0.002)
    assert np.abs(gaps - expected).max() <= 0.0101  # joint states come every 10 ms
    poses = [row[0].qpos[-7:] for row in planners.seen]
    assert (len({tuple(pose) for pose in poses}) < len(poses)) == (expected < 0.04)  # poses come at 25 Hz
    assert all((row[0].qvel[-6:] == 0.0).all() for row in planners.seen)


def test_the_simulated_clock_gives_the_same_trials_again(batch: sampling.Batch):
    first, again = (run_paced(batch.problem, batch, [0, 1, 2], 0.02) for _ in range(2))
    waiting = trial_batch.run(batch.problem, batch, [0, 1, 2])
    for a, b, c in zip(first, again, waiting, strict=True):
        assert (a.frames == b.frames).all() and a.reason == b.reason == "too long"
        assert (a.frames[0] == c.frames[0]).all() and (a.frames[-1] != c.frames[-1]).any()


def test_an_object_that_falls_ends_its_trial():
    task = dataclasses.replace(TASKS["leap-yaw"], failure=Below("object", 1.0))
    ran = run_paced(compile_problem(task), Curl(), [0, 1], 0.01)
    assert [r.reason for r in ran] == ["fell", "fell"]


@pytest.mark.parametrize("plan_time", [-0.1, float("nan"), 11.0])
def test_a_time_of_a_plan_that_makes_no_sense_is_refused(plan_time: float):
    with pytest.raises(ss.InputError, match="plan_time .* from 0 to 10 s"):
        run_paced(problem(4), Curl(), [0], plan_time)


def test_wrong_numbers_of_trials_are_refused(batch: sampling.Batch):
    with pytest.raises(ss.InputError, match="2 goals: there must be one for each of the 3 trials"):
        trial_batch.run(batch.problem, batch, [0, 1])
    with pytest.raises(ss.InputError, match="0 observations"):
        batch.plan([])
    for trials in (0, 1.5, True):
        with pytest.raises(ss.InputError, match="trials is"):
            sampling.Batch(batch.problem, settings=SMALL, device="cpu", trials=trials)  # type: ignore[arg-type]
