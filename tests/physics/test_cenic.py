"""Error control: what the accuracy buys, worlds that take steps of their own, and landing on the timestep."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import stickslip as ss
from tests import support

BALL = """<mujoco>
  <option timestep="0.1"/>
  <size nuser_geom="2"/>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body pos="0 0 1.05"><freejoint/>
      <geom type="sphere" size="0.05" mass="0.1" condim="1" user="1000 0"/></body>
  </worldbody>
</mujoco>"""
"""A ball on a floor that is a spring without a damper."""

SPRING = """<mujoco>
  <option timestep="0.1" gravity="0 0 0"/>
  <worldbody>
    <body><joint type="slide" axis="1 0 0" stiffness="{stiffness}"/><geom size="0.1" mass="1"/></body>
  </worldbody>
</mujoco>"""
"""A mass of 1 kg on a spring."""

FALL = "bouncing-ball:height=0.5"


# What the accuracy buys.


def loss(device: str, scheme: str, accuracy: float) -> NDArray:
    """Share of its energy that a ball has lost after 2 s, dropped from eight heights."""
    height = np.linspace(0.3, 1.0, 8)
    physics = ss.Cenic(accuracy=accuracy, scheme=scheme, dissipation=0.0)
    sim = ss.Simulation(BALL, physics, nworld=height.size, device=device)
    start = sim.qpos.numpy().copy()
    start[:, 2] = 0.05 + height
    sim.qpos = start
    sim.step(20)
    assert sim.health().ok
    qpos, qvel = support.exact(sim)
    z, v = qpos[:, 2] - 0.05, qvel[:, 2]
    weight = 0.1 * 9.81
    return 1.0 - (weight * z + 0.05 * v**2 + 500.0 * np.minimum(z, 0.0) ** 2) / (weight * height)


def test_step_doubling_is_of_first_order_in_energy(device: str) -> None:
    """An elastic impact loses energy in proportion to the step, which goes as the root of the accuracy."""
    coarse, fine = (loss(device, "doubling", accuracy).mean() for accuracy in (1e-5, 1e-6))
    assert 0.15 < coarse < 0.4
    np.testing.assert_allclose(coarse / fine, math.sqrt(10.0), rtol=0.15)


def test_the_trapezoid_rule_is_of_second_order_in_energy(device: str) -> None:
    """Nearly ten times less a decade, averaged over heights since one is noisy; and far less than step doubling."""
    error = [np.abs(loss(device, "trapezoid", accuracy)).mean() for accuracy in (1e-3, 1e-4, 1e-5, 1e-6)]
    decade = (error[0] / error[-1]) ** (1.0 / 3.0)
    assert 5.0 < decade < 15.0, error
    assert error[2] < 0.03 * loss(device, "doubling", 1e-5).mean()


def test_errors_of_many_short_steps_do_not_add_up(device: str) -> None:
    """A box that is pushed hardly harder than friction holds it, 1500 steps of 2 ms: way = (F / m - mu g) t^2 / 2."""
    sim = ss.Simulation("pushed-box", ss.Cenic(), device=device, timestep=0.002)
    push = np.zeros((1, 2, 6))
    push[0, 1, 0] = 17.0
    sim.xfrc_applied = push
    sim.step(1500)
    way = 0.5 * (17.0 / 4.0 - 0.4 * 9.81) * support.seconds_of(sim, 1500) ** 2
    np.testing.assert_allclose(support.exact(sim)[0][0, :2], [way, 0.0], atol=1e-3)


@pytest.mark.parametrize("scheme, order", [("doubling", 0.5), ("trapezoid", 1.0)])
def test_spring_converges_to_cosine(device: str, scheme: str, order: float) -> None:
    """The error of a mass on a spring after 1 s, cos(w t), goes as accuracy to that power."""
    error = []
    for accuracy in (1e-3, 1e-4, 1e-5, 1e-6):
        sim = ss.Simulation(SPRING.format(stiffness=25.0), ss.Cenic(accuracy=accuracy, scheme=scheme), device=device)
        sim.qpos = [1.0]
        sim.step(10)
        qpos, qvel = support.exact(sim)
        t = support.seconds_of(sim, 10)
        error.append(math.hypot(qpos[0, 0] - math.cos(5.0 * t), qvel[0, 0] / 5.0 + math.sin(5.0 * t)))
    slope = np.polyfit(np.log10([1e-3, 1e-4, 1e-5, 1e-6]), np.log10(error), 1)[0]
    np.testing.assert_allclose(slope, order, atol=0.1, err_msg=str(error))


def test_contact_converges(device: str) -> None:
    """A cube thrown on the floor: error after 0.2 s, by the same at 1e-7, falls with the root of the accuracy."""

    def run(accuracy: float) -> NDArray:
        sim = ss.Simulation("sliding-cube", ss.Cenic(accuracy=accuracy), device=device, timestep=0.01)
        sim.step(20)
        return support.exact(sim)[0][0]

    truth = run(1e-7)
    accuracies = (1e-4, 1e-5, 1e-6)
    error = [np.abs(run(accuracy) - truth).max() for accuracy in accuracies]
    slope = np.polyfit(np.log10(accuracies), np.log10(error), 1)[0]
    assert 0.35 < slope < 1.0 and error[-1] < 1e-3, error


LAG = """<mujoco>
  <option gravity="0 0 0" timestep="0.1"/>
  <worldbody><body><joint name="a" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/></body></worldbody>
  <actuator><general joint="a" dyntype="filter" dynprm="0.2" gainprm="3"/></actuator>
</mujoco>"""
"""A motor of 3 N whose activation follows its control with 0.2 s, on a mass of 2 kg."""


@pytest.mark.parametrize("scheme", ["doubling", "trapezoid"])
def test_activations_converge(device: str, scheme: str) -> None:
    """An activation nears its control as 1 - exp(-t / 0.2), and the velocity is that of its force."""
    sim = ss.Simulation(LAG, ss.Cenic(accuracy=1e-6, scheme=scheme), device=device)
    sim.ctrl = [2.0]
    sim.step(3)
    share = 1.0 - math.exp(-0.3 / 0.2)
    np.testing.assert_allclose(sim.state.act[0, 0], 2.0 * share, rtol=0.005)
    np.testing.assert_allclose(support.exact(sim)[1][0, 0], 3.0 / 2.0 * 2.0 * (0.3 - 0.2 * share), rtol=0.005)


def test_steps_go_as_the_root_of_the_accuracy(device: str) -> None:
    """A hundred times the accuracy, ten times the steps: an error of second order in each."""
    steps = []
    for accuracy in (1e-3, 1e-5):
        sim = ss.Simulation(SPRING.format(stiffness=100.0), ss.Cenic(accuracy=accuracy), device=device, timestep=1.0)
        sim.qpos = [1.0]
        sim.step(2)
        steps.append(int(sim.stats().steps[0]))
    assert 7.0 < steps[1] / steps[0] < 13.0, steps


def test_stiff_control_takes_no_more_steps(device: str) -> None:
    """Servos of 1e2 to 1e6 N m/rad lead an arm to its pose in as many steps, none of them rejected."""
    steps = []
    for gain in (1e2, 1e4, 1e6):
        sim = ss.Simulation(f"stiff-arm:gain={gain:g}", ss.Cenic(), device=device, timestep=0.1)
        sim.step(20)
        assert sim.health().ok
        stats = sim.stats()
        assert stats.rejections[0] == 0
        steps.append(int(stats.steps[0]))
    assert max(steps) <= 1.05 * min(steps) + 1, steps


# Worlds.


def test_every_world_takes_its_own_steps_to_the_same_time(device: str) -> None:
    """Balls at different heights: other numbers of steps, one time, a multiple of the timestep."""
    sim = ss.Simulation(FALL, ss.Cenic(accuracy=1e-4), nworld=8, device=device, timestep=0.05)
    start = sim.qpos.numpy().copy()
    start[:, 2] = np.linspace(0.06, 1.5, 8)
    sim.qpos = start
    for n in range(1, 9):
        sim.step()
        time = sim.state.time
        assert (time == time[0]).all()
        np.testing.assert_allclose(time, n * 0.05, rtol=1e-6)
    steps = sim.stats().steps
    assert steps.max() > 1.3 * steps.min() and len(set(steps)) > 3, steps


def test_every_world_may_have_a_timestep_of_its_own(device: str) -> None:
    """Each lands on multiples of its own."""
    sim = ss.Simulation("sliding-cube", ss.Cenic(trace=1000), nworld=3, device=device)
    timestep = np.array([0.01, 0.02, 0.05])
    sim.set_model(timestep=timestep)
    sim.step(3)
    np.testing.assert_allclose(sim.state.time, 3 * timestep, rtol=1e-6)
    np.testing.assert_allclose([sizes.sum() for _, sizes in sim.stats().trace], 3 * timestep, rtol=1e-7)


@pytest.mark.parametrize("scene", ["bouncing-ball:height=0.05", "sliding-cube"])
def test_a_world_moves_alone_as_among_a_thousand(device: str, scene: str) -> None:
    """Worlds 0, 500 and 999 of a thousand that all start differently, against each by itself."""
    physics, nworld, steps = ss.Cenic(accuracy=1e-3), 1000, 4
    many = ss.Simulation(scene, physics, nworld=nworld, device=device, timestep=0.05)
    start = support.perturbed(many.mjm, nworld, scale=0.3)
    many.state = start
    many.step(steps)
    assert many.health().ok
    got, counted = many.state, many.stats()
    assert len(set(counted.steps)) > 3
    for w in (0, 500, 999):
        one = ss.Simulation(scene, physics, device=device, timestep=0.05)
        one.state = support.world(start, w)
        one.step(steps)
        support.assert_same(support.world(got, w), one.state, device, atol=1e-5)
        assert counted.steps[w] == one.stats().steps[0] and counted.rejections[w] == one.stats().rejections[0]


# Landing.


@pytest.mark.parametrize("max_step", [0.003, 0.03, 1.0])
@pytest.mark.parametrize("accuracy", [1e-1, 1e-3, 1e-5])
def test_a_step_lands_on_the_timestep(device: str, accuracy: float, max_step: float) -> None:
    """Inner steps, whatever their size, add up to the time; none is longer than asked for, or than the timestep."""
    physics = ss.Cenic(accuracy=accuracy, max_step=max_step, trace=10_000)
    sim = ss.Simulation("bouncing-ball:height=0.02", physics, device=device, timestep=0.02)
    for n in (1, 2, 3, 10):
        sim.step(n - round(float(sim.state.time[0]) / 0.02))
        stats = sim.stats()
        ends, sizes = stats.trace[0]
        np.testing.assert_allclose(sim.state.time, n * 0.02, rtol=1e-6)
        np.testing.assert_allclose(sizes.sum(), support.seconds_of(sim, n), rtol=1e-12)
        np.testing.assert_allclose(ends, np.cumsum(sizes), rtol=1e-12)
        np.testing.assert_allclose(ends[-1], support.seconds_of(sim, n), rtol=1e-12)
        assert len(sizes) == stats.steps[0] and sizes.min() == stats.smallest_dt[0]
        assert sizes.max() <= min(1.1 * max_step, support.seconds_of(sim, 1)) * (1.0 + 1e-12)
    whole = np.arange(1, 11) * support.seconds_of(sim, 1)
    assert np.abs(ends[:, None] - whole).min(axis=0).max() < 1e-9  # no step crosses a multiple of the timestep


def test_trace_remembers_the_last_steps(device: str) -> None:
    """A ring: the newest, oldest first."""
    short, long = (ss.Simulation("sliding-cube", ss.Cenic(trace=n), device=device, timestep=0.01) for n in (7, 10_000))
    for sim in (short, long):
        sim.step(10)
    kept, whole = short.stats().trace[0], long.stats().trace[0]
    assert len(whole[0]) > 7
    for a, b in zip(kept, whole, strict=True):
        np.testing.assert_array_equal(a, b[-7:])
    assert ss.Simulation("sliding-cube", ss.Cenic(), device=device).stats().trace == ()
