"""What the experiments on planning count, with trials whose end is known."""

import math

import numpy as np
import pytest

from stickslip.bench import contenders, planning
from stickslip.bench.experiment import Trial
from stickslip.bench.plan_gradient import Case, PlanGradient, Settings
from stickslip.bench.planners import NewtonPlanner
from stickslip.errors import InputError, Unsupported
from stickslip.mpc.task import Goal
from stickslip.mpc.trial import Trial as Ran
from stickslip.simulation import Simulation


def _ran(seed: int, reason: str, position: float, rotation: float, steps: int) -> Ran:
    return Ran(seed, reason, steps, position, rotation, np.ones(steps), np.zeros((steps + 1, 16)), Goal(*np.eye(4)[:2]))


def test_figures_count_success_and_the_errors_of_those_that_succeeded():
    ran = [
        _ran(0, "success", 0.010, math.sin(math.radians(5.0)) ** 2, 40),
        _ran(1, "success", 0.020, math.sin(math.radians(10.0)) ** 2, 60),
        _ran(2, "too long", 0.5, 0.9, 100),
        _ran(3, "not finite", math.nan, math.nan, 3),
    ]
    figures = planning.figures(ran)
    assert figures["success"] == 0.5 and figures["trials"] == 4
    assert figures["position_mm"] == pytest.approx(15.0)
    assert figures["angle_deg"] == pytest.approx(15.0)  # 10 and 20 degrees
    assert figures["steps"] == 50
    assert planning.failures(ran) == ["seed 3: not finite"]
    assert math.isnan(planning.figures(ran[2:])["angle_deg"])


def test_a_planner_is_a_contender_that_simulates_nothing():
    newton = contenders.resolve(["newton:contact=0.1"])["newton:contact=0.1"]
    assert newton == NewtonPlanner(0.1)
    with pytest.raises(Unsupported, match="plans and does not simulate"):
        Simulation("drop-test", newton)
    with pytest.raises(InputError, match="above 0"):
        NewtonPlanner(-1.0)


def test_other_planners_and_physics_are_refused_where_they_do_not_belong():
    experiment = PlanGradient()
    physics = contenders.resolve(["mujoco", "ipopt"])
    with pytest.raises(Unsupported, match="no planner"):
        experiment.measure(Case("allegro", "cube"), physics["mujoco"], Settings(), Trial("cpu"))
    with pytest.raises(Unsupported, match="too long"):
        experiment.measure(Case("allegro", "duck"), physics["ipopt"], Settings(), Trial("cpu"))
    with pytest.raises(InputError, match="no such task"):
        experiment.cases(Settings(tasks=("juggle",)))
