"""Tasks that make no sense are refused by name, and gradient planners say what does not fit."""

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.mpc.cost import (
    Control,
    Grasp,
    Position,
    Reach,
    Rotation,
    State,
    Term,
)
from stickslip.mpc.model import smooth
from stickslip.mpc.planners.catalogue import make_planner
from stickslip.mpc.planners.sampling.planner import Mppi, Sampler
from stickslip.mpc.success import Goal
from stickslip.mpc.task import Observation, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import trial
from tests.mpc.small import CART, SMALL, cart, finger, off


@wp.func
def _root(s: State) -> float:
    return wp.sqrt(s.qpos[0] - 1.0)


def test_a_term_that_is_not_a_number_is_named():
    problem = cart(cost=(Control(weight=1.0), Term("root", _root, weight=1.0)))
    planner = Sampler(problem, settings=Mppi(samples=4, horizon=4), device="cpu")
    planner.reset(Goal(np.array([1.0])), 0)
    with pytest.raises(ss.InputError, match="the term 'root' of the cost of cart is nan at the state planned from"):
        planner.plan(Observation(0.0, np.zeros(1), np.zeros(1), np.zeros(1)))


def test_tasks_that_make_no_sense_are_refused():
    with pytest.raises(ss.InputError, match="no term with a weight"):
        cart(cost=(Control(),))
    with pytest.raises(ss.InputError, match="the term 'control' twice"):
        cart(cost=(Control(weight=1.0), Control(weight=2.0)))
    with pytest.raises(ss.InputError, match="weight of the cost term 'off' is nan: it must be finite"):
        Term("off", off, weight=float("nan"))
    with pytest.raises(ss.InputError, match="no site of the model named 'tap'"):
        finger((Reach(weight=1.0, sites=("tap",)),))
    with pytest.raises(ss.InputError, match="'push' has no ctrlrange"):
        cart(CART.replace(' ctrlrange="-2 4"', ""))
    with pytest.raises(ss.InputError, match="'push' is no position servo of a hinge or slide"):
        cart(bound=0.1)
    with pytest.raises(ss.InputError, match="the model has none; add one"):
        cart(CART.replace('<motor name="push" joint="x" ctrlrange="-2 4"/>', ""))
    with pytest.raises(ss.SceneError, match="the model of cart does not compile"):
        cart(CART.replace('mass="1"', 'mass="-1"'))
    with pytest.raises(ss.Unsupported, match="spline 'cubic': finger has changes of joint targets"):
        Sampler(finger(), settings=Mppi(spline="cubic"), device="cpu")
    with pytest.raises(ss.InputError, match="'push' has a state .dyntype., which plans do not see"):
        cart(
            CART.replace("<motor", "<general dyntype='filter' dynprm='0.1'").replace(
                " ctrlrange", ' ctrllimited="true" ctrlrange'
            )
        )
    with pytest.raises(ss.InputError, match="the cost term 'reach' has no sites"):
        finger((Reach(weight=1.0),))
    with pytest.raises(ss.InputError, match="'goal' is a mocap body, which stays where it is in rollouts"):
        finger((Reach(weight=1.0, sites=("tip",), body="goal"),))
    with pytest.raises(ss.InputError, match="dt 0.03: a control step of cart takes 0.02 s.* use 0.02"):
        Sampler(cart(), settings=Mppi(dt=0.03), device="cpu")
    short = finger((Rotation(weight=1.0),), sample=lambda rng, mjm, name: (mjm.qpos0.copy(), Goal(np.zeros(3))))
    with pytest.raises(ss.InputError, match="'rotation' reads 7 values of the goal, and goals of finger have 3"):
        Sampler(short, settings=SMALL, device="cpu")
    wrong = cart(errors=lambda mjm, qpos, qvel, goal: np.zeros(3))
    with pytest.raises(ss.InputError, match=r"errors of cart have shape .3,., and its success has 2 measures"):
        trial.Monitor(wrong, Goal(np.zeros(1))).update(np.zeros(1), np.zeros(1))
    problem = cart(sample=lambda rng, mjm, name: np.zeros(1))
    with pytest.raises(ss.InputError, match="the sampler of cart gives ndarray"):
        Sampler(problem, settings=SMALL, device="cpu")
    with pytest.raises(ss.InputError, match="the sampler of cart gives ndarray: it must give a start .* and a Goal"):
        trial.draw(problem, 0)
    planner = Sampler(cart(), settings=Mppi(samples=4, horizon=4), device="cpu")
    with pytest.raises(ss.InputError, match="cart has goals of 1 finite numbers"):
        planner.reset(Goal(np.zeros(2)), 0)


@pytest.mark.parametrize("name", ["newton", "ipopt", "implicit"])
def test_gradient_planners_say_what_does_not_fit(name: str):
    with pytest.raises(ss.Unsupported, match=f"cart does not fit the planner {name}: it has no quasi-dynamic model"):
        make_planner(name, cart())
    with pytest.raises(ss.Unsupported, match=rf"{name} has no derivatives .*: rotation \(weight 0.2\), distance"):
        make_planner(name, compile_problem(TASKS["leap-yaw"]))


def test_terms_that_gradient_planners_know_are_collected():
    tips = ("a", "b")
    found = smooth.weights((Reach(1.0, sites=tips), Grasp(2.0, sites=tips), Position(final=3.0)), "t", "newton")
    assert found == smooth.Smooth(sites=tips, contact=1.0, grasp=2.0, final_position=3.0)
    with pytest.raises(ss.Unsupported, match="grasp .other sites"):
        smooth.weights((Reach(1.0, sites=tips), Grasp(2.0, sites=("a",))), "t", "newton")
