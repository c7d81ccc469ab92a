"""What the experiments on planning count, with trials whose end is known."""

import math

import numpy as np
import pytest

import stickslip as ss
from stickslip.bench import methods, runner
from stickslip.bench.baselines.planners import IpoptPlanner, NewtonPlanner
from stickslip.bench.experiment import Trial
from stickslip.bench.experiments.friction.stick import Stick
from stickslip.bench.experiments.planning import plan_delay
from stickslip.bench.experiments.planning import trials as planning
from stickslip.bench.experiments.planning.plan_gradient import Case, PlanGradient, Settings
from stickslip.bench.result import load
from stickslip.errors import InputError, Unsupported
from stickslip.mpc.realtime.sensors import Sensors
from stickslip.mpc.success import Goal
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial.trial import Trial as Ran
from stickslip.simulation import Simulation


def _ran(seed: int, reason: str, position: float, rotation: float, steps: int) -> Ran:
    errors = np.array([position, rotation])
    frames, goal = np.zeros((steps + 1, 16)), Goal(np.zeros(7))
    return Ran(seed, reason, steps, errors, np.tile(errors, (steps, 1)), np.ones(steps), frames, goal)


TASK = TASKS["leap-yaw"]


def test_metrics_count_success_and_the_errors_of_those_that_succeeded():
    ran = [
        _ran(0, "success", 0.010, math.sin(math.radians(5.0)) ** 2, 40),
        _ran(1, "success", 0.020, math.sin(math.radians(10.0)) ** 2, 60),
        _ran(2, "too long", 0.5, 0.9, 100),
        _ran(3, "not finite", math.nan, math.nan, 3),
    ]
    metrics = planning.metrics(TASK, ran)
    assert metrics["success"] == 0.5 and metrics["trials"] == 4
    assert metrics["position_mm"] == pytest.approx(15.0)
    assert metrics["angle_deg"] == pytest.approx(15.0)  # 10 and 20 degrees
    assert metrics["steps"] == 50
    assert planning.failures(ran) == ["seed 3: not finite"]
    assert math.isnan(planning.metrics(TASK, ran[2:])["angle_deg"])


def test_a_planner_is_a_method_and_no_physics():
    newton = methods.resolve(["newton:contact=0.1"])["newton:contact=0.1"]
    assert newton.subject == NewtonPlanner(0.1) and newton.kind == "planner"
    with pytest.raises(InputError, match="physics is NewtonPlanner"):
        Simulation("drop-test", newton.subject)
    with pytest.raises(InputError, match="above 0"):
        NewtonPlanner(-1.0)


def test_a_method_of_another_kind_is_refused(tmp_path):
    result = load(runner.run(PlanGradient(), tmp_path, methods=["mujoco"], device="cpu", quick=True, picture=False))
    assert set(result.unsupported("mujoco").values()) == {"mujoco is a physics, and plan-gradient takes a planner"}
    result = load(runner.run(Stick(), tmp_path, methods=["newton"], device="cpu", quick=True, picture=False))
    assert set(result.unsupported("newton").values()) == {"newton is a planner, and stick takes a physics"}


def test_a_slow_planner_runs_few_cases():
    experiment = PlanGradient()
    with pytest.raises(Unsupported, match="too long"):
        experiment.measure(Case("allegro", "duck"), IpoptPlanner(), Settings(), Trial("cpu"))
    with pytest.raises(InputError, match="no such task"):
        experiment.cases(Settings(tasks=("juggle",)))


def test_delay_and_look_ahead_are_those_of_the_case(monkeypatch):
    """The trials of `plan-delay` differ in these two alone."""
    asked = []

    def run(problem, batch, seeds, plan_time, *, sensors, look_ahead, progress):
        asked.append((problem.task.name, batch.trials, list(seeds), plan_time, sensors, look_ahead))
        return [_ran(seed, "success" if look_ahead else "fell", 0.01, 0.01, 10) for seed in seeds]

    monkeypatch.setattr(plan_delay, "run_paced", run)
    experiment = plan_delay.PlanDelay()
    settings = plan_delay.Settings(("leap-yaw",), (0.0, 0.2), trials=2, plan_time=0.03, samples=2, horizon=1)
    cases = experiment.cases(settings)
    found = {
        label: experiment.measure(case, ss.ComFree(), settings, Trial("cpu", seed=5)) for label, case in cases.items()
    }
    told = [(delay, look_ahead) for look_ahead in (True, False) for delay in (0.0, 0.2)]
    assert asked == [("leap-yaw", 2, [5, 6], 0.03, Sensors(delay=delay), ahead) for delay, ahead in told]
    assert {label: outcome.metrics["success"] for label, outcome in found.items()} == {
        "leap-yaw, 0 ms, with look-ahead": 1.0,
        "leap-yaw, 200 ms, with look-ahead": 1.0,
        "leap-yaw, 0 ms, without": 0.0,
        "leap-yaw, 200 ms, without": 0.0,
    }
    assert {score.case for score in experiment.scores(settings)} == {*list(cases)[1::2]}
    with pytest.raises(InputError, match="no such task"):
        experiment.cases(plan_delay.Settings(tasks=("juggle",)))
