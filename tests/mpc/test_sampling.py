"""The sampling planners: their cost, weights and average against NumPy and MuJoCo, and what they promise."""

import dataclasses
from typing import Any

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.mpc.cost import (
    Posture,
)
from stickslip.mpc.planners.catalogue import make_planner
from stickslip.mpc.planners.sampling import kernels
from stickslip.mpc.planners.sampling.planner import Cem, Dial, Mppi, Predictive, Sampler, time_plans
from stickslip.mpc.success import Goal, pose_errors
from stickslip.mpc.task import SPLINES, Observation, Problem, compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import trial
from stickslip.mpc.trial.plant import Plant
from tests.mpc.small import COST, FINGER, GOAL, SMALL, cart, finger, observation, read


@pytest.fixture(scope="module")
def planner() -> Sampler:
    return Sampler(finger(), ss.ComFree(stiffness=0.1, damping=0.002), SMALL, "cpu")


def values(problem: Problem, qpos: np.ndarray, qvel: np.ndarray, ctrl: np.ndarray, u: np.ndarray) -> dict[str, float]:
    """Every term of COST without its weight; float64, poses by MuJoCo."""
    d = mujoco.MjData(problem.mjm)
    d.qpos[:], d.qvel[:], d.ctrl[:] = qpos, qvel, ctrl
    mujoco.mj_forward(problem.mjm, d)
    pos, tip = qpos[-7:-4], d.site_xpos[problem.mjm.site("tip").id]
    distance, rotation = pose_errors(problem.mjm, qpos, qvel, GOAL)
    away = qpos[: problem.nr] - problem.mjm.qpos0[: problem.nr]
    return {
        "reach": float(np.square(tip - pos).sum()),
        "grasp": 1.0,
        "control": float(np.square(u).sum()),
        "posture": float(np.square(away).sum()),
        "rotation": rotation,
        "distance": float(np.abs(pos - GOAL.pos).sum()),
        "position": distance**2,
        "outside": max(0.0, distance - 0.035),
        "fallen": float(pos[2] < 0.16),
        "speed": float(qvel[0] ** 2 + 0.1 * abs(qvel[1])),
        "sensed": float(0.1 * abs(ctrl[2]) + tip[2]),
    }


def test_costs_are_those_of_the_rollouts(planner: Sampler):
    """Every sample's cost against float64: its rollout is done again, step by step, and added up."""
    problem, s, batch = planner.problem, planner.settings, planner.batch
    seen = observation(problem)
    planner.reset(GOAL, 3)
    plan = planner.plan(seen)
    knots, found = read(batch._drawn).astype(float), read(batch._cost)
    sim = ss.Simulation(problem.mjm, batch.sim.physics, nworld=s.samples, device="cpu", timestep=batch.dt)
    sim.qpos, sim.qvel = seen.qpos, seen.qvel
    target = np.tile(seen.ctrl, (s.samples, 1))
    low, high = problem.limits()
    expected = np.zeros(s.samples)
    u = np.zeros_like(target)

    def add(share: float, ends: float) -> None:
        q, v = sim.qpos.numpy().astype(float), sim.qvel.numpy().astype(float)
        for i in range(s.samples):
            found = values(problem, q[i], v[i], target[i], u[i])
            expected[i] += sum((share * term.weight + ends * term.final) * found[term.name] for term in COST)

    for step in range(batch.horizon):
        if step % batch.knot_steps == 0:
            u = knots[:, step // batch.knot_steps]
            joints = sim.qpos.numpy()[:, : problem.nr]
            bound = problem.task.bound
            assert bound is not None
            target = np.clip(np.clip(target + u, joints - bound, joints + bound), low, high)
            sim.ctrl = target
        add(1.0 / batch.horizon, 0.0)
        sim.step()
    add(0.0, 1.0)
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    assert plan.cost == pytest.approx(expected.min(), rel=2e-5)
    assert len(np.unique(found)) == s.samples
    at_start = values(problem, seen.qpos, seen.qvel, seen.ctrl + knots[0, 0], knots[0, 0])
    for term in COST:
        weighted = (term.weight + term.final) * at_start[term.name]
        assert plan.terms[term.name] == pytest.approx(weighted, rel=1e-5, abs=1e-7), term.name


def test_a_body_that_a_ball_joint_moves_is_refused_by_gradient_planners():
    text = FINGER.replace('name="bend" axis="0 0 1" range="-0.6 0.6" limited="true"', 'name="bend" type="ball"')
    mjm = mujoco.MjModel.from_xml_string(text.replace('<position joint="bend"/>', ""))
    from stickslip.mpc.model import kinematics

    with pytest.raises(ss.Unsupported, match="'bend' leads to a fingertip: it must be a hinge or a slide"):
        kinematics.chains(mjm, ("tip",))


def test_the_plan_is_the_average_by_weight(planner: Sampler):
    planner.reset(GOAL, 4)
    seen = observation(planner.problem)
    plan = planner.plan(seen)
    cost, knots = read(planner.batch._cost).astype(float), read(planner.batch._drawn).astype(float)
    weight = np.exp(-(cost - cost.min()) / planner.batch.rule.temperature)
    np.testing.assert_allclose(read(planner.batch._weight), weight, rtol=1e-3)
    average = np.einsum("s,skj->kj", weight / weight.sum(), knots)
    np.testing.assert_allclose(read(planner.batch._nominal)[0], average, atol=1e-6)
    np.testing.assert_allclose(plan.target, seen.ctrl + average[0], atol=1e-6)


def weigh(cost: list[float], top: int, temperature: float, floor: float = 0.0) -> np.ndarray:
    """The weights that the kernels give to these costs."""
    n = len(cost)
    costs, rank, weight = wp.array(cost, dtype=float), wp.zeros(n, dtype=int), wp.zeros(n, dtype=float)
    wp.launch(kernels.rank_sample, dim=n, inputs=[costs, n], outputs=[rank])
    wp.launch(kernels.weigh_sample, dim=n, inputs=[costs, rank, n, top, 0, temperature, floor], outputs=[weight])
    return weight.numpy()


def test_only_the_best_share_counts_and_is_standardised(device: str):
    cost = [5.0, 1.0, 4.0, 2.0, np.inf, 3.0, 2.0]
    best = np.array([1.0, 2.0, 2.0])
    expected = np.zeros(7)
    expected[[1, 3, 6]] = np.exp(-(best - 1.0) / best.std() / 0.6)
    np.testing.assert_allclose(weigh(cost, 3, 0.6), expected, rtol=1e-5)
    expected[[1, 3, 6]] = np.exp(-(best - 1.0) / (best.std() + 0.2) / 0.6)
    np.testing.assert_allclose(weigh(cost, 3, 0.6, 0.2), expected, rtol=1e-5)
    # a share that reaches into the infinite ones leaves those out
    finite = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 2.0])
    expected = np.exp(-(finite - 1.0) / finite.std() / 0.6)
    np.testing.assert_allclose(weigh(cost, 7, 0.6)[[0, 1, 2, 3, 5, 6]], expected, rtol=1e-5)
    assert weigh(cost, 7, 0.6)[4] == 0.0
    assert (weigh([2.0, 2.0, 2.0], 2, 0.6) == [1.0, 1.0, 0.0]).all()


def average(cost: list[float], weight: list[float], knots: np.ndarray, overflow: int = 0) -> tuple[np.ndarray, ...]:
    """The plan that the kernels make of these samples, and what they tell the host."""
    n, nknot, nu = knots.shape
    given = [wp.array(cost, dtype=float), wp.array(weight, dtype=float), wp.array(knots, dtype=float)]
    bits = wp.array(np.full(n, overflow), dtype=int)
    random, nominal = wp.zeros((1, 2), dtype=int), wp.zeros((1, nknot, nu), dtype=float)
    answer, terms = wp.zeros((1, nu + 5), dtype=float), wp.full((n, 1), 7.0, dtype=float)
    std, spread = wp.zeros((1, nknot, nu), dtype=float), wp.zeros((1, nknot, nu), dtype=float)
    wp.launch(
        kernels._average_knots,
        dim=nominal.shape,
        inputs=[*given, bits, terms, std, n, 1, 0.0],
        outputs=[random, nominal, spread, answer],
    )
    return nominal.numpy()[0], answer.numpy()[0]


def test_rollouts_that_are_not_numbers_do_not_count(device: str):
    knots = np.random.default_rng(0).normal(size=(3, 2, 4))
    sums = wp.array([[1.0, 2.0], [np.nan, 0.0], [0.5, np.inf]], dtype=float)
    cost = wp.zeros(3, dtype=float)
    wp.launch(kernels._sum_cost, dim=3, inputs=[sums, 1, 0], outputs=[cost])
    assert cost.numpy().tolist() == [3.0, np.inf, np.inf]
    weight = weigh(cost.numpy().tolist(), 0, 0.1)
    assert weight.tolist() == [1.0, 0.0, 0.0]
    nominal, answer = average([3.0, np.inf, np.inf], [1.0, 0.0, 0.0], knots, overflow=4)
    np.testing.assert_allclose(nominal, knots[0], rtol=1e-6)
    assert answer[4:].tolist() == [3.0, 3.0, 1.0, 4.0, 7.0]


def test_without_any_number_the_last_plan_is_kept_and_it_is_said(planner: Sampler):
    planner.reset(GOAL, 5)
    seen = observation(planner.problem)
    planner.plan(seen)
    kept = read(planner.batch._nominal)[0]
    broken = dataclasses.replace(seen, qvel=np.full_like(seen.qvel, np.nan), time=0.008)
    plan = planner.plan(broken)
    assert "no rollout stayed finite" in plan.note
    np.testing.assert_allclose(read(planner.batch._nominal)[0][:-1], kept[1:], atol=1e-7)  # one knot has passed
    np.testing.assert_allclose(plan.target, seen.ctrl + kept[1], atol=1e-6)
    healthy = planner.plan(dataclasses.replace(seen, time=0.016))
    assert not healthy.note and np.isfinite(healthy.cost)


def test_a_seed_gives_the_same_plans_again_whatever_came_between(planner: Sampler):
    seen = [dataclasses.replace(observation(planner.problem, i), time=0.008 * i) for i in range(3)]

    def trial(seed: int) -> list[np.ndarray]:
        planner.reset(GOAL, seed)
        return [planner.plan(o).target for o in seen]

    first, other, again = trial(7), trial(8), trial(7)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert all((a != b).any() for a, b in zip(first, other, strict=True))


def test_sample_zero_has_no_noise_and_noise_has_its_size(planner: Sampler):
    planner.reset(GOAL, 0)
    seen = observation(planner.problem)
    planner.plan(seen)
    first, kept = read(planner.batch._drawn), read(planner.batch._nominal)[0]
    assert (first[0] == 0.0).all()
    noise = first[1:].ravel()
    std = 0.02 * np.sqrt(2.0)  # a knot of two steps
    assert abs(noise.mean()) < 4 * std / np.sqrt(noise.size) and noise.std() == pytest.approx(std, rel=0.25)
    planner.plan(dataclasses.replace(seen, time=0.016))  # two knots later
    drawn = read(planner.batch._drawn)
    assert (drawn[0, 0] == kept[2]).all() and (drawn[0, 1:] == 0.0).all()
    assert (drawn[1:] != first[1:]).all()


def test_noise_shrinks_from_round_to_round():
    problem = finger()
    settings = dataclasses.replace(SMALL, iterations=3, shrink=0.5, samples=64)
    planner = Sampler(problem, settings=settings, device="cpu")
    planner.reset(GOAL, 0)
    plan = planner.plan(observation(problem))
    drawn = read(planner.batch._drawn)  # of the last round
    assert (drawn[1:] - drawn[0]).std() == pytest.approx(0.02 * np.sqrt(2.0) * 0.25, rel=0.1)
    assert (drawn[0] != 0.0).any() and plan.iterations == 3
    assert read(planner.batch._random)[0, 1] == 3


def test_targets_stay_near_the_joints_and_within_their_limits():
    problem = finger(bound=0.03)
    settings = dataclasses.replace(SMALL, std=1.0)
    planner = Sampler(problem, settings=settings, device="cpu")
    planner.reset(GOAL, 0)
    low, high = problem.limits()
    for seed in range(5):
        seen = observation(problem, seed)
        seen.qpos[2] = high[2] - 0.01
        seen.ctrl[:] += 0.02
        target = planner.plan(seen).target
        assert np.abs(read(planner.batch._drawn)).max() <= np.float32(0.03)
        assert (np.abs(target - seen.qpos[:3]) <= 0.03 + 1e-12).all()
        assert (target >= low).all() and (target <= high).all()
        ctrl = planner.batch.sim.ctrl.numpy()  # of the last knots of the rollouts
        assert (ctrl >= low - 1e-6).all() and (ctrl <= high + 1e-6).all()


def test_a_finger_reaches_a_posture():
    """Joints away from where they are wanted come back, and what a plan costs falls to a hundredth."""
    problem = finger((Posture(weight=1.0),), bound=0.1)
    planner = Sampler(problem, settings=Mppi(samples=24, horizon=16, temperature=1e-4), device="cpu")
    plant = Plant(problem)
    start = problem.mjm.qpos0.copy()
    start[:3] += [0.04, 0.5, -0.4]
    plant.reset(start, GOAL)
    planner.reset(GOAL, 0)
    costs = []
    for _ in range(80):
        plan = planner.plan(plant.observe())
        costs.append(plan.cost)
        plant.command(plan.target)
        plant.advance(problem.task.substeps)
    away = plant.mjd.qpos[:3] - problem.mjm.qpos0[:3]
    assert costs[-1] < 0.01 * costs[0]
    assert np.abs(away).max() < 0.05


@pytest.mark.parametrize("name", ["comfree", "mujoco", "cone-sweep"])
def test_every_physics_that_can_be_recorded_plans(name: str):
    problem = compile_problem(TASKS["leap-yaw"])
    start, goal = problem.task.sample(np.random.default_rng(0), problem.mjm, "cube")
    plant = Plant(problem)
    plant.reset(start, goal)
    planner = Sampler(problem, ss.PHYSICS[name](), Mppi(samples=4, horizon=6, knot_steps=3), device="cpu")
    planner.reset(goal, 0)
    for _ in range(2):
        plan = planner.plan(plant.observe())
        assert not plan.note and np.isfinite(plan.cost) and (plan.target != start[:16]).all()
    assert set(time_plans(planner, plant.observe(), n=2, warmup=0)) == {"p50", "p95", "mean"}


def test_a_buffer_that_is_too_small_is_said_with_the_number():
    problem = compile_problem(TASKS["leap-yaw"])
    start, goal = problem.task.sample(np.random.default_rng(0), problem.mjm, "cube")
    planner = Sampler(problem, settings=Mppi(samples=4, horizon=3, nconmax=1), device="cpu")
    planner.reset(goal, 0)
    start[-5] -= 0.001  # into the palm
    note = planner.plan(Observation(0.0, start, np.zeros(problem.mjm.nv), start[:16].copy())).note
    assert "raise nconmax from 1 to at least" in note


def test_a_physics_that_loops_on_the_host_is_refused():
    with pytest.raises(ss.Unsupported, match="cenic cannot be captured; use one of: (.*)") as caught:
        Sampler(finger(), ss.Cenic(), SMALL, device="cpu")
    offered = str(caught.value).rpartition(": ")[2].split(", ")
    assert {"mujoco", "comfree", "cone-sweep", "icf", "pbd-r"} <= {*offered} and "cenic" not in offered
    Sampler(finger(), ss.PHYSICS["cone-sweep"](), SMALL, device="cpu")  # what is offered is taken


@pytest.mark.parametrize(
    "bad",
    [
        {"samples": 1},
        {"samples": 2.5},
        {"horizon": 0},
        {"iterations": 0},
        {"knot_steps": 0},
        {"dt": 0.0},
        {"temperature": -1.0},
        {"std": float("nan")},
        {"shrink": 0.0},
        {"top_fraction": 1.5},
        {"models": 0},
        {"spread": 1.0},
        {"size_spread": -0.1},
        {"risk": "low"},
        {"spline": "bezier"},
    ],
    ids=lambda bad: next(iter(bad)),
)
def test_bad_settings_are_refused(bad: dict):
    (name, value), *_ = bad.items()
    with pytest.raises(ss.InputError, match=f"{name} is {value!r}: it must be"):
        Mppi(**bad)


# ---- the other planners


def weights_of(settings: Any, cost: list[float]) -> np.ndarray:
    """The weights that a planner gives to samples with these costs."""
    rule, n = settings.rule(1e-3), len(cost)
    costs, rank, weight = wp.array(cost, dtype=float), wp.zeros(n, dtype=int), wp.zeros(n, dtype=float)
    wp.launch(kernels.rank_sample, dim=n, inputs=[costs, n], outputs=[rank])
    inputs = [costs, rank, n, rule.top, int(rule.uniform), rule.temperature, 0.0]
    wp.launch(kernels.weigh_sample, dim=n, inputs=inputs, outputs=[weight])
    return weight.numpy()


def test_each_planner_weighs_samples_in_its_way(device: str):
    cost = [3.0, 1.0, 2.0, 4.0]
    assert weights_of(Predictive(samples=4), cost).tolist() == [0.0, 1.0, 0.0, 0.0]
    assert weights_of(Cem(samples=4, elites=0.5), cost).tolist() == [0.0, 1.0, 1.0, 0.0]
    every = np.array(cost)
    expected = np.exp(-(every - 1.0) / every.std() / 0.1)
    np.testing.assert_allclose(weights_of(Dial(samples=4), cost), expected, rtol=1e-5)


def test_the_best_sample_is_the_plan_of_predictive_sampling():
    problem = finger()
    planner = Sampler(problem, settings=Predictive(samples=16, horizon=6, knot_steps=2), device="cpu")
    planner.reset(GOAL, 1)
    for step in range(3):
        plan = planner.plan(dataclasses.replace(observation(problem), time=0.008 * step))
        drawn, cost = read(planner.batch._drawn), read(planner.batch._cost)
        assert (read(planner.batch._nominal)[0] == drawn[cost.argmin()]).all()
        assert plan.cost == cost.min() <= cost[0]


def test_the_noise_of_cem_is_the_spread_of_its_elites():
    """Mean and spread of the best quarter after a round; the next round has that noise around that mean."""
    problem, found = finger(), []
    for iterations in (1, 2):
        settings = Cem(samples=256, horizon=6, knot_steps=2, iterations=iterations, elites=0.25, least=0.3)
        planner = Sampler(problem, settings=settings, device="cpu")
        planner.reset(GOAL, 1)
        planner.plan(observation(problem))
        batch = planner.batch
        found.append([read(a) for a in (batch._drawn, batch._cost, batch._nominal, batch._spread)])
    drawn, cost, nominal, spread = found[0]
    elites = drawn[np.argsort(cost)[:64]]
    floor = 0.3 * 0.02 * np.sqrt(2.0)
    np.testing.assert_allclose(nominal[0], elites.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(spread[0], np.maximum(floor, elites.std(axis=0)), atol=1e-6)
    again = found[1][0]
    np.testing.assert_allclose(again[0], nominal[0], atol=1e-7)
    np.testing.assert_allclose((again[1:] - again[0]).std(axis=0), spread[0], rtol=0.15)
    assert spread.min() < 0.8 * 0.02 * np.sqrt(2.0)


def test_the_noise_of_dial_grows_along_the_horizon_and_shrinks_from_round_to_round():
    problem = finger()
    settings = Dial(samples=256, horizon=6, knot_steps=2, iterations=3, shrink=0.5, early=0.25)
    planner = Sampler(problem, settings=settings, device="cpu")
    planner.reset(GOAL, 1)
    planner.plan(observation(problem))
    drawn = read(planner.batch._drawn)  # of the last round
    noise = (drawn[1:] - drawn[0]).std(axis=(0, 2))
    expected = 0.02 * np.sqrt(2.0) * 0.25 * np.array([0.25, 0.5, 1.0])
    np.testing.assert_allclose(noise, expected, rtol=0.1)


# ---- controls that are ctrl itself


@wp.kernel
def _interpolate(knots: wp.array2d[float], times: wp.array[float], spline: int, found: wp.array[float]):
    i = wp.tid()
    found[i] = kernels.interpolated(knots, times[i], 0, spline)


@pytest.mark.parametrize("spline", SPLINES)
def test_splines_go_through_their_knots(spline: str, device: str):
    """A line is kept by a linear spline, and by a cubic one inside; a parabola by a cubic one inside."""
    times = np.linspace(0.0, 5.0, 51)
    for curve in (lambda t: 2.0 * t - 1.0, lambda t: (t - 2.0) ** 2):
        knots = wp.array(np.array([[curve(float(t))] for t in range(6)]), dtype=float)
        found = wp.zeros(len(times), dtype=float)
        inputs = [knots, wp.array(times, dtype=float), SPLINES.index(spline)]
        wp.launch(_interpolate, dim=len(times), inputs=inputs, outputs=[found])
        got = found.numpy()
        np.testing.assert_allclose(got[::10], knots.numpy()[:, 0], atol=1e-5)
        if spline == "hold":
            np.testing.assert_allclose(got[:-1], np.repeat(knots.numpy()[:-1, 0], 10), atol=1e-5)
        if spline == "linear":
            np.testing.assert_allclose(got, np.interp(times, np.arange(6), knots.numpy()[:, 0]), atol=1e-5)
        if spline == "cubic":
            np.testing.assert_allclose(got[10:41], curve(times[10:41]), atol=1e-5)


@pytest.mark.parametrize("name", ["mppi", "predictive", "cem", "dial"])
def test_every_sampling_planner_stops_a_cart_at_its_goal(name: str):
    problem = cart()
    planner = make_planner(f"{name}:samples=32", problem, device="cpu")
    ran = trial.run(problem, planner, 0)
    assert ran.success, (name, ran.errors)
    assert (ran.history[-1] < [0.05, 0.1]).all() and set(ran.terms) == {"off", "control"}
    assert ran.terms["off"][-1] < 0.02 * ran.terms["off"][0]


def test_controls_stay_in_their_range_and_are_those_of_the_rollouts():
    problem = cart()
    planner = Sampler(problem, settings=Mppi(samples=8, std=3.0), device="cpu")
    planner.reset(Goal(np.array([1.0])), 0)
    plan = planner.plan(Observation(0.0, np.zeros(1), np.zeros(1), np.zeros(1)))
    assert -2.0 <= plan.target[0] <= 4.0
    drawn = read(planner.batch._drawn)
    assert drawn.min() == -2.0 and drawn.max() == 4.0 and (drawn[0] == 0.0).all()
    assert plan.target[0] == pytest.approx(read(planner.batch._nominal)[0, 0, 0])


def test_the_last_plan_is_shifted_by_the_time_that_passed():
    """Half a knot later, a linear plan starts half way between its first two knots."""
    problem = cart()
    planner = Sampler(problem, settings=Mppi(samples=8, spline="linear"), device="cpu")
    planner.reset(Goal(np.array([1.0])), 0)
    planner.plan(Observation(0.0, np.zeros(1), np.zeros(1), np.zeros(1)))
    kept = read(planner.batch._nominal)[0, :, 0]
    planner.plan(Observation(0.05, np.zeros(1), np.zeros(1), np.zeros(1)))
    first = read(planner.batch._drawn)[0, :, 0]
    np.testing.assert_allclose(first[:-1], 0.5 * (kept[:-1] + kept[1:]), atol=1e-6)
    assert first[-1] == pytest.approx(kept[-1])


def test_held_controls_are_shifted_by_whole_knots_and_the_rest_counts_later():
    """Three control steps to a knot: the plan moves on every third time."""
    planner = Sampler(finger(), settings=Mppi(samples=4, horizon=12, knot_steps=6), device="cpu")
    planner.reset(GOAL, 0)
    shifts = []
    for step in range(10):
        planner.plan(dataclasses.replace(observation(planner.problem), time=0.008 * step))
        shifts.append(float(planner.batch._host.numpy()[0, -1]))
    assert shifts[0] == 0.0 and sum(shifts) == 3.0 and set(shifts) == {0.0, 1.0}
