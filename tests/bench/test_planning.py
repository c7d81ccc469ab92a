"""What the experiments on planning count, with trials whose end is known."""

import math

import numpy as np
import pytest

from stickslip.bench import methods, runner
from stickslip.bench.baselines.planners import IpoptPlanner, NewtonPlanner
from stickslip.bench.experiment import Trial
from stickslip.bench.experiments.friction.stick import Stick
from stickslip.bench.experiments.planning import trials as planning
from stickslip.bench.experiments.planning.plan_gradient import Case, PlanGradient, Settings
from stickslip.bench.result import load
from stickslip.errors import InputError, Unsupported
from stickslip.mpc.task import Goal
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
