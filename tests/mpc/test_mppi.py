"""The planner `mppi`: its kinematics, cost, weights and average against NumPy and MuJoCo, and what it promises."""

import dataclasses

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.mpc.planners.mppi import kernels
from stickslip.mpc.planners.mppi.chains import make_chains
from stickslip.mpc.planners.mppi.planner import Mppi, Settings, time_plans
from stickslip.mpc.task import Cost, Goal, Observation, Problem, QuasiDynamic, Success, Task, compile_problem, quat_of
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial.plant import Plant

SMALL = Settings(samples=16, horizon=6, dt=0.004, knot_steps=2, temperature=1e-3)
COST = Cost(
    contact=2.0,
    control=0.3,
    posture=0.05,
    orientation=1.1,
    position=(0.5, 0.7, 0.9),
    fallen=0.6,
    floor=0.16,
    final_position=30.0,
    final_orientation=1.7,
)
GOAL = Goal(np.array([0.31, 0.02, 0.17]), quat_of(0.3, -0.2, 0.9))

FINGER = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002"/>
  <default>
    <joint damping="0.05" armature="0.001"/>
    <position kp="2"/>
  </default>
  <worldbody>
    <body name="rail" pos="0 0.01 0.2" euler="0.1 0.2 0.3">
      <body name="cart" pos="0.02 0 0" quat="0.9 0.1 -0.2 0.3">
        <joint name="along" type="slide" axis="1 0.2 0" ref="0.01" range="-0.1 0.1" limited="true"/>
        <joint name="swing" axis="0 1 0.3" pos="0.01 0 0.02" ref="0.2"/>
        <geom type="capsule" size="0.01" fromto="0 0 0 0.1 0 0" contype="0" conaffinity="0"/>
        <body name="fixed" pos="0.1 0 0" euler="0 0.4 0">
          <body name="last" pos="0 0 0.01">
            <joint name="bend" axis="0 0 1" range="-0.6 0.6" limited="true"/>
            <geom type="capsule" size="0.01" fromto="0 0 0 0.08 0 0"/>
            <site name="tip" pos="0.08 0.01 0"/>
          </body>
        </body>
      </body>
    </body>
    <body name="object" pos="0.3 0 0.2" gravcomp="1">
      <freejoint name="object"/>
      <geom type="sphere" size="0.02" mass="0.05"/>
    </body>
    <body name="goal" mocap="true"/>
  </worldbody>
  <actuator>
    <position joint="along" kp="50" kv="1"/><position joint="swing"/><position joint="bend"/>
  </actuator>
</mujoco>
"""


def finger(cost: Cost = COST, **changes) -> Problem:
    """A slide and two hinges, off the axes in every way, and an object that floats beyond their reach."""
    task = Task(
        name="finger",
        summary="",
        objects=("ball",),
        build=lambda name: mujoco.MjSpec.from_string(FINGER),
        sample=lambda rng, mjm, name: (mjm.qpos0.copy(), GOAL),
        tips=("tip",),
        cost=cost,
        success=Success(0.01, 0.01),
        model=QuasiDynamic(),
        bound=0.05,
        substeps=4,
        longest=10,
    )
    return compile_problem(dataclasses.replace(task, **changes))


def observation(problem: Problem, seed: int = 0) -> Observation:
    """At rest, the joints a little off where they start."""
    rng = np.random.default_rng(seed)
    qpos = problem.mjm.qpos0.copy()
    qpos[: problem.nr] += rng.uniform(-0.05, 0.05, problem.nr)
    return Observation(0.0, qpos, np.zeros(problem.mjm.nv), qpos[: problem.nr].copy())


def read(array: wp.array) -> np.ndarray:
    """A copy on the host: on the CPU `numpy()` alone is a view of what the next plan writes."""
    return array.numpy().copy()


@pytest.fixture(scope="module")
def planner() -> Mppi:
    return Mppi(finger(), settings=SMALL, device="cpu")


def to_go(qpos: np.ndarray, cost: Cost) -> float:
    """What a state costs along the way, but for control; float64, tips by MuJoCo."""
    problem = finger()
    d = mujoco.MjData(problem.mjm)
    d.qpos[:] = qpos
    mujoco.mj_kinematics(problem.mjm, d)
    pos = qpos[-7:-4]
    total = cost.contact * np.square(d.site_xpos[problem.tips] - pos).sum()
    total += cost.posture * np.square(qpos[: problem.nr] - problem.mjm.qpos0[: problem.nr]).sum()
    total += cost.orientation * GOAL.errors(qpos)[1] + np.abs(pos - GOAL.pos) @ np.array(cost.position)
    return float(total + cost.fallen * (pos[2] < cost.floor))


@wp.kernel
def _find_tip(
    start: wp.array[int],
    frame: wp.array[wp.transform],
    hinge: wp.array[int],
    axis: wp.array[wp.vec3],
    adr: wp.array[int],
    rest: wp.array[float],
    tip: wp.array[wp.vec3],
    qpos: wp.array2d[float],
    found: wp.array2d[wp.vec3],
):
    w, i = wp.tid()
    found[w, i] = kernels.tip_position(start[i], start[i + 1], frame, hinge, axis, adr, rest, tip[i], qpos[w])


@pytest.mark.parametrize("problem", [finger(), compile_problem(TASKS["leap-yaw"])], ids=["finger", "leap"])
def test_fingertips_are_where_mujoco_has_them(problem: Problem, device: str):
    m = problem.mjm
    rng = np.random.default_rng(1)
    qpos = np.tile(m.qpos0, (20, 1))
    qpos[:, : problem.nr] += rng.uniform(-1.0, 1.0, (20, problem.nr))
    found = wp.zeros((20, len(problem.tips)), dtype=wp.vec3)
    given = wp.array(qpos, dtype=float)
    wp.launch(_find_tip, dim=found.shape, inputs=[*make_chains(problem).arrays(), given], outputs=[found])
    d = mujoco.MjData(m)
    for q, tips in zip(qpos, found.numpy(), strict=True):
        d.qpos[:] = q
        mujoco.mj_kinematics(m, d)
        np.testing.assert_allclose(tips, d.site_xpos[problem.tips], atol=1e-6)


def test_a_fingertip_on_a_ball_joint_is_refused():
    text = FINGER.replace('name="bend" axis="0 0 1" range="-0.6 0.6" limited="true"', 'name="bend" type="ball"')
    mjm = mujoco.MjModel.from_xml_string(text.replace('<position joint="bend"/>', ""))
    problem = Problem(finger().task, "ball", mjm, np.array([mjm.site("tip").id]))
    with pytest.raises(ss.Unsupported, match="'bend' leads to a fingertip: it must be a hinge or a slide"):
        make_chains(problem)


def test_costs_are_those_of_the_rollouts(planner: Mppi):
    """Every sample's cost against float64: its rollout is done again, step by step, and added up."""
    problem, s = planner.problem, planner.settings
    seen = observation(problem)
    planner.reset(GOAL, 3)
    plan = planner.plan(seen)
    knots, costs = read(planner.batch._drawn).astype(float), read(planner.batch._cost)
    sim = ss.Simulation(problem.mjm, planner.batch.sim.physics, nworld=s.samples, device="cpu", timestep=s.dt)
    sim.qpos, sim.qvel = seen.qpos, seen.qvel
    target = np.tile(seen.ctrl, (s.samples, 1))
    low, high = problem.limits()
    expected = np.zeros(s.samples)
    for step in range(s.horizon):
        if step % planner.batch.knot_steps == 0:
            u = knots[:, step // planner.batch.knot_steps]
            joints = sim.qpos.numpy()[:, : problem.nr]
            bound = problem.task.bound
            target = np.clip(np.clip(target + u, joints - bound, joints + bound), low, high)
            sim.ctrl = target
        expected += COST.control * np.square(u).sum(axis=1) / s.horizon
        sim.step()
        expected += [to_go(q.astype(float), COST) / s.horizon for q in sim.qpos.numpy()]
    for i, q in enumerate(sim.qpos.numpy().astype(float)):
        distance, rotation = GOAL.errors(q)
        expected[i] += COST.final_position * distance**2 + COST.final_orientation * rotation
    np.testing.assert_allclose(costs, expected, rtol=2e-5)
    assert plan.cost == pytest.approx(expected.min(), rel=2e-5)
    assert len(np.unique(costs)) == s.samples


def test_the_plan_is_the_average_by_weight(planner: Mppi):
    planner.reset(GOAL, 4)
    seen = observation(planner.problem)
    plan = planner.plan(seen)
    cost, knots = read(planner.batch._cost).astype(float), read(planner.batch._drawn).astype(float)
    weight = np.exp(-(cost - cost.min()) / planner.settings.temperature)
    np.testing.assert_allclose(read(planner.batch._weight), weight, rtol=1e-3)
    average = np.einsum("s,skj->kj", weight / weight.sum(), knots)
    np.testing.assert_allclose(read(planner.batch._nominal)[0], average, atol=1e-6)
    np.testing.assert_allclose(plan.target, seen.ctrl + average[0], atol=1e-6)


def weigh(cost: list[float], top: int, temperature: float) -> np.ndarray:
    """The weights that the kernels give to these costs."""
    n = len(cost)
    costs, rank, weight = wp.array(cost, dtype=float), wp.zeros(n, dtype=int), wp.zeros(n, dtype=float)
    wp.launch(kernels._rank_sample, dim=n, inputs=[costs, n], outputs=[rank])
    wp.launch(kernels._weigh_sample, dim=n, inputs=[costs, rank, n, top, temperature], outputs=[weight])
    return weight.numpy()


def test_only_the_best_share_counts_and_is_standardised(device: str):
    cost = [5.0, 1.0, 4.0, 2.0, np.inf, 3.0, 2.0]
    best = np.array([1.0, 2.0, 2.0])
    expected = np.zeros(7)
    expected[[1, 3, 6]] = np.exp(-(best - 1.0) / best.std() / 0.6)
    np.testing.assert_allclose(weigh(cost, 3, 0.6), expected, rtol=1e-5)
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
    answer = wp.zeros((1, nu + 4), dtype=float)
    wp.launch(kernels._average_knots, dim=nominal.shape, inputs=[*given, bits, n], outputs=[random, nominal, answer])
    return nominal.numpy()[0], answer.numpy()[0]


def test_rollouts_that_are_not_numbers_do_not_count(device: str):
    knots = np.random.default_rng(0).normal(size=(3, 2, 4))
    sums = wp.array([[1.0, 2.0], [np.nan, 0.0], [0.5, np.inf]], dtype=float)
    cost = wp.zeros(3, dtype=float)
    wp.launch(kernels._sum_cost, dim=3, inputs=[sums], outputs=[cost])
    assert cost.numpy().tolist() == [3.0, np.inf, np.inf]
    weight = weigh(cost.numpy().tolist(), 0, 0.1)
    assert weight.tolist() == [1.0, 0.0, 0.0]
    nominal, answer = average([3.0, np.inf, np.inf], [1.0, 0.0, 0.0], knots, overflow=4)
    np.testing.assert_allclose(nominal, knots[0], rtol=1e-6)
    assert answer[4:].tolist() == [3.0, 3.0, 1.0, 4.0]


def test_without_any_number_the_last_plan_is_kept_and_it_is_said(planner: Mppi):
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


def test_a_seed_gives_the_same_plans_again_whatever_came_between(planner: Mppi):
    seen = [dataclasses.replace(observation(planner.problem, i), time=0.008 * i) for i in range(3)]

    def trial(seed: int) -> list[np.ndarray]:
        planner.reset(GOAL, seed)
        return [planner.plan(o).target for o in seen]

    first, other, again = trial(7), trial(8), trial(7)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert all((a != b).any() for a, b in zip(first, other, strict=True))


def test_sample_zero_has_no_noise_and_noise_has_its_size(planner: Mppi):
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
    planner = Mppi(problem, settings=settings, device="cpu")
    planner.reset(GOAL, 0)
    plan = planner.plan(observation(problem))
    drawn = read(planner.batch._drawn)  # of the last round
    assert (drawn[1:] - drawn[0]).std() == pytest.approx(0.02 * np.sqrt(2.0) * 0.25, rel=0.1)
    assert (drawn[0] != 0.0).any() and plan.iterations == 3
    assert read(planner.batch._random)[0, 1] == 3


def test_targets_stay_near_the_joints_and_within_their_limits():
    problem = finger(bound=0.03)
    settings = dataclasses.replace(SMALL, std=1.0)
    planner = Mppi(problem, settings=settings, device="cpu")
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
    problem = finger(Cost(posture=1.0), bound=0.1)
    planner = Mppi(problem, settings=Settings(samples=24, horizon=16, temperature=1e-4), device="cpu")
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
    planner = Mppi(problem, ss.PHYSICS[name](), Settings(samples=4, horizon=6, knot_steps=3), device="cpu")
    planner.reset(goal, 0)
    for _ in range(2):
        plan = planner.plan(plant.observe())
        assert not plan.note and np.isfinite(plan.cost) and (plan.target != start[:16]).all()
    assert set(time_plans(planner, plant.observe(), n=2, warmup=0)) == {"p50", "p95", "mean"}


def test_a_buffer_that_is_too_small_is_said_with_the_number():
    problem = compile_problem(TASKS["leap-yaw"])
    start, goal = problem.task.sample(np.random.default_rng(0), problem.mjm, "cube")
    planner = Mppi(problem, settings=Settings(samples=4, horizon=3, nconmax=1), device="cpu")
    planner.reset(goal, 0)
    start[-5] -= 0.001  # into the palm
    note = planner.plan(Observation(0.0, start, np.zeros(problem.mjm.nv), start[:16].copy())).note
    assert "raise nconmax from 1 to at least" in note


def test_a_physics_that_loops_on_the_host_is_refused():
    with pytest.raises(ss.Unsupported, match="cenic cannot be captured; use one of: (.*)") as caught:
        Mppi(finger(), ss.Cenic(), SMALL, device="cpu")
    offered = str(caught.value).rpartition(": ")[2].split(", ")
    assert {"mujoco", "comfree", "cone-sweep", "icf", "pbd-r"} <= {*offered} and "cenic" not in offered
    Mppi(finger(), ss.PHYSICS["cone-sweep"](), SMALL, device="cpu")  # what is offered is taken


def test_a_cost_with_a_grasp_is_refused():
    with pytest.raises(ss.Unsupported, match="grasp"):
        Mppi(finger(Cost(grasp=0.1)), settings=SMALL, device="cpu")


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
    ],
    ids=lambda bad: next(iter(bad)),
)
def test_bad_settings_are_refused(bad: dict):
    (name, value), *_ = bad.items()
    with pytest.raises(ss.InputError, match=f"{name} is {value}: it must be"):
        Settings(**bad)
