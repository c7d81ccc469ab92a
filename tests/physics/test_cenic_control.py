"""How steps are chosen, rejected and given up, and what of a state is kept from step to step."""

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.errors import Diverged
from stickslip.physics.convex.cenic.data import workspace_of
from tests import support

FREE = """<mujoco>
  <option timestep="0.5" gravity="0 0 0"/>
  <worldbody><body><freejoint/><geom size="0.1" mass="1"/></body></worldbody>
  <keyframe><key qpos="0 0 0 1 0 0 0" qvel="1 2 3 0 0 0"/></keyframe>
</mujoco>"""
"""A body that nothing acts on."""

FALL = "bouncing-ball:height=0.5"


# The size of steps.


def test_without_error_steps_grow_fivefold_up_to_the_longest(device: str) -> None:
    """From a tenth of the longest, where nothing acts on a body; none is rejected."""
    sim = ss.Simulation(FREE, ss.Cenic(max_step=0.4, trace=100), device=device, timestep=4.0)
    sim.step()
    sizes = sim.stats().trace[0][1]
    np.testing.assert_allclose(sizes[:3], [0.04, 0.2, 0.4])
    np.testing.assert_allclose(sizes[2:-2], 0.4)
    assert (sizes[1:] <= 5.0 * sizes[:-1] * (1.0 + 1e-12)).all() and sizes.max() <= 0.44
    assert sim.stats().rejections[0] == 0
    np.testing.assert_allclose(support.exact(sim)[0][0, :3], [4.0, 8.0, 12.0], rtol=1e-12)


def test_rejections_are_counted(device: str) -> None:
    """None while a ball flies, some when it hits the floor."""
    sim = ss.Simulation(FALL, ss.Cenic(accuracy=1e-4, max_step=0.01), device=device, timestep=0.1)
    sim.step(2)
    assert sim.stats().rejections[0] == 0
    sim.step(3)
    assert sim.stats().rejections[0] > 0
    sim.reset()
    stats = sim.stats()
    assert stats.rejections[0] == stats.steps[0] == stats.iterations[0] == 0


def test_weights_say_what_counts(device: str) -> None:
    """A ball whose height does not count is not watched; with ten times the weight it takes more steps."""
    steps = []
    for weight in (0.0, 1.0, 10.0):
        sim = ss.Simulation(FALL, ss.Cenic(weights=[1, 1, weight, 1, 1, 1, 1]), device=device, timestep=0.1)
        sim.step(5)
        steps.append(int(sim.stats().steps[0]))
    assert steps[0] <= 10 and steps[0] < steps[1] < 0.6 * steps[2], steps


@pytest.mark.parametrize("scene", ["sliding-cube", "hand", "hard-clutter:layers=2"])
def test_kept_factors_change_nothing(device: str, scene: str) -> None:
    """With factors that serve twice, fewer are made than there are iterations, and bodies go where they go without."""
    runs = [ss.Simulation(scene, ss.Cenic(reuse=r, accuracy=1e-4), device=device, timestep=0.01) for r in (True, False)]
    for sim in runs:
        sim.step(20)
    np.testing.assert_allclose(support.exact(runs[0])[0], support.exact(runs[1])[0], atol=1e-5)
    kept, fresh = (sim.stats() for sim in runs)
    assert kept.factorizations[0] < kept.iterations[0] and fresh.factorizations[0] == fresh.iterations[0]


@pytest.mark.parametrize("scheme, accuracy", [("doubling", 1e-2), ("doubling", 1e-4), ("trapezoid", 1e-6)])
def test_a_box_stays_on_a_slope(device: str, scheme: str, accuracy: float) -> None:
    """tan(0.25) < mu = 0.3. The trapezoid rule is not L-stable: it has to be told to be accurate."""
    physics = ss.Cenic(accuracy=accuracy, scheme=scheme)
    sim = ss.Simulation("box-on-slope:angle=0.25,mu=0.3", physics, device=device, timestep=0.01)
    sim.step(20)
    before = support.exact(sim)[0][0, :3]
    sim.step(30)
    assert np.linalg.norm(support.exact(sim)[0][0, :3] - before) < 1e-4


@pytest.mark.parametrize("nworld", [1, 3])
def test_contacts_carry_the_weight(device: str, nworld: int) -> None:
    """Forces that are told are those of the last step of each world."""
    sim = ss.Simulation("sliding-cube", ss.Cenic(), nworld=nworld, device=device, timestep=0.01)
    sim.state = support.perturbed(sim.mjm, nworld, scale=0.1)
    sim.step(200)
    contacts = sim.contacts()
    for w in range(nworld):
        np.testing.assert_allclose(contacts.force[contacts.world == w, 0].sum(), 9.81, rtol=1e-3)


@pytest.mark.parametrize("nworld", [1, 3])
def test_friction_that_is_told_goes_by_the_normal_force_that_is_told(device: str, nworld: int) -> None:
    """A cube that slides is pressed down with twice its weight from one step to the next: friction is mu times that."""
    sim = ss.Simulation("sliding-cube", ss.Cenic(), nworld=nworld, device=device, timestep=0.01)
    sim.step(50)
    speed = np.zeros((nworld, 6))
    speed[:, 0] = 2.0
    sim.qvel = speed
    sim.step()
    press = np.zeros((nworld, 6))
    press[:, 2] = -20.0
    sim.qfrc_applied = press
    sim.step()
    contacts = sim.contacts()
    mu = float(sim.mjm.geom_friction[:, 0].max())
    for w in range(nworld):
        force = contacts.force[contacts.world == w]
        assert force[:, 0].sum() > 20.0
        np.testing.assert_allclose(np.linalg.norm(force[:, 1:3], axis=1).sum(), mu * force[:, 0].sum(), rtol=0.02)


# Giving up.


def test_too_many_attempts_are_told(device: str) -> None:
    """A world that has not arrived when attempts run out does not claim the time: health says so, with their number."""
    sim = ss.Simulation(FALL, ss.Cenic(accuracy=1e-5, trace=100, attempts=3), device=device, timestep=0.1)
    sim.step()
    assert sim.stats().trace[0][1].sum() < 0.05
    health = sim.health()
    assert health.nan_worlds == (0,)
    for word in ("world 0 ", "attempts=3 a timestep", "more attempts"):
        assert word in health.failures[0], health.failures


def test_a_world_that_blows_up_is_given_up(device: str) -> None:
    """Health names world, time and step; the others move as if it were not there; a reset brings it back."""
    sim, other = (ss.Simulation("sliding-cube", ss.Cenic(), nworld=3, device=device, timestep=0.01) for _ in range(2))
    sim.step(2)
    other.step(2)
    push = np.zeros((3, 6))
    push[1, 0] = 1e38
    sim.qfrc_applied = push
    sim.step(2)
    other.step(2)
    health = sim.health()
    assert not health.ok and health.nan_worlds == (1,)
    assert len(health.failures) == 1
    for word in ("world 1 ", "time 0.02 s", "min_step 1e-09", "accuracy of 0.001"):
        assert word in health.failures[0], health.failures
    with pytest.warns(ss.HealthWarning, match="world 1 "):
        got = sim.state
    for w in (0, 2):
        support.assert_same(support.world(got, w), support.world(other.state, w), device)
    np.testing.assert_allclose(got.time, [0.04, 0.02, 0.04], rtol=1e-6)
    sim.qfrc_applied = np.zeros((3, 6))
    sim.reset([False, True, False])
    assert sim.health().ok
    sim.step(2)
    assert sim.health().ok
    np.testing.assert_allclose(sim.state.time, [0.06, 0.02, 0.06], rtol=1e-6)


def test_a_state_that_is_not_finite_is_given_up(device: str) -> None:
    """NaN in one world, written past the checks: that world ends at its time, the others go on."""
    sim = ss.Simulation("sliding-cube", ss.Cenic(), nworld=3, device=device, timestep=0.01)
    sim.step(3)
    bad = sim.qpos.numpy().copy()
    bad[2, 1] = np.nan
    sim.qpos.assign(bad)
    sim.step()
    failures = sim.health().failures
    assert len(failures) == 1 and "world 2 stopped at time 0.03 s" in failures[0], failures
    assert np.isfinite(sim.qpos.numpy()[:2]).all() and sim.health().nan_worlds == (2,)


def test_a_checked_step_that_fails_is_taken_back(device: str) -> None:
    """Diverged, with the message of the world; every world is where it was, and goes on from there."""
    sim, other = (ss.Simulation("sliding-cube", ss.Cenic(), nworld=2, device=device, timestep=0.01) for _ in range(2))
    for one in (sim, other):
        one.step(3)
    before, digits = sim.state, support.exact(sim)
    push = np.zeros((2, 6))
    push[1, 0] = 1e38
    sim.qfrc_applied = push
    with pytest.raises(Diverged, match=r"world 1 stopped at time 0.03 s.*as it was before these 2 steps"):
        sim.step(2, check=True)
    assert sim.health().ok
    support.assert_same(sim.state, before, device)
    for a, b in zip(support.exact(sim), digits, strict=True):
        np.testing.assert_array_equal(a, b)
    sim.qfrc_applied = np.zeros((2, 6))
    sim.step(3, check=True)
    other.step(3)
    support.assert_same(sim.state, other.state, device)


def test_too_short_a_step_ends_a_world(device: str) -> None:
    """An impact that needs steps below min_step: the message has the step, min_step and the accuracy."""
    sim = ss.Simulation(FALL, ss.Cenic(accuracy=1e-6, min_step=5e-4), device=device, timestep=0.1)
    sim.step(5)
    failures = sim.health().failures
    assert len(failures) == 1 and "world 0 stopped at time 0.3" in failures[0], failures  # it lands at 0.319 s
    for word in ("min_step 0.0005", "accuracy of 1e-06", "less accuracy"):
        assert word in failures[0], failures


# The state between steps.


@pytest.mark.parametrize("scene", ["sliding-cube", FALL])
def test_stepping_twice_is_stepping_once_as_far(device: str, scene: str) -> None:
    """2 n steps, and n and n with looks and writes of the same numbers between, agree to the last digit."""
    once, twice = (ss.Simulation(scene, ss.Cenic(accuracy=1e-4), device=device, timestep=0.02) for _ in range(2))
    once.step(20)
    twice.step(10)
    assert twice.state.qpos.dtype == np.float32
    twice.contacts()
    twice.qpos = twice.qpos.numpy()
    twice.qvel = twice.qvel.numpy()
    twice.step(10)
    for a, b in zip(support.exact(once), support.exact(twice), strict=True):
        np.testing.assert_array_equal(a, b)


def test_worlds_that_need_not_wait_move_as_if_they_did(device: str) -> None:
    """Five steps at once, in which worlds run ahead of each other, and one at a time: the same states and contacts."""
    box = 'pos="0 0 {}"><freejoint/><geom type="box" size=".05 .05 .05"/></body>'
    floor = f'<worldbody><geom type="plane" size="2 2 1"/><body {box.format(0.051)}</worldbody>'
    worlds = f"<mujoco>{floor}<sensor><clock/></sensor></mujoco>"
    once, often = (ss.Simulation(worlds, ss.Cenic(), nworld=4, device=device, timestep=0.03) for _ in range(2))
    for sim in (once, often):
        start = np.tile(sim.qpos.numpy()[:1], (4, 1))
        start[:, 2] += [0.0, 0.001, 0.05, 0.4]
        sim.qpos = start
    once.step(5)
    for _ in range(5):
        often.step()
    took = once.stats().steps
    assert len(set(took)) > 1, took
    np.testing.assert_array_equal(took, often.stats().steps)
    support.assert_same(once.state, often.state, device)
    if device == "cpu":  # on CUDA sums, and contacts, come in any order
        for a, b in zip(support.exact(once), support.exact(often), strict=True):
            np.testing.assert_array_equal(a, b)
        for name in ("world", "dist", "force"):
            np.testing.assert_array_equal(getattr(once.contacts(), name), getattr(often.contacts(), name), name)
    np.testing.assert_array_equal(once.d.sensordata.numpy(), often.d.sensordata.numpy())
    assert once.d.sensordata.numpy() == pytest.approx(4 * 0.03)  # a clock, at the start of the last timestep
    assert once.health().ncon_peak == often.health().ncon_peak > 0


def test_worlds_run_ahead_of_one_that_takes_long(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds that land in different timesteps take as many attempts as the slower one; more if they had to wait."""
    attempts = []
    launch = wp.capture_launch
    sims = [ss.Simulation(FALL, ss.Cenic(accuracy=1e-5), nworld=2, device=device, timestep=0.1) for _ in range(2)]
    for sim in sims:
        start = sim.qpos.numpy()
        start[1] *= 0.2
        sim.qpos = start
        sim.compile()
        judge = workspace_of(sim.d).graphs["judge"]
        count = []
        monkeypatch.setattr(wp, "capture_launch", lambda g, n=count, j=judge: (n.append(g is j), launch(g)))
        for n in (6,) if sim is sims[0] else (1,) * 6:
            sim.step(n)
        attempts.append(sum(count))
    support.assert_same(sims[0].state, sims[1].state, device)
    stats = sims[0].stats()
    assert attempts[0] == (stats.steps + stats.rejections).max() < attempts[1], attempts


def test_a_state_written_between_steps_is_taken(device: str) -> None:
    """Positions and velocities that users assign are where the next step starts; what they leave keeps its digits."""
    sim = ss.Simulation(FREE, ss.Cenic(), nworld=2, device=device, timestep=0.1)
    sim.step(3)
    digits = support.exact(sim)[0]
    qpos, qvel = sim.qpos.numpy().copy(), sim.qvel.numpy().copy()
    qpos[1, 0], qvel[1, 0] = 7.0, -5.0
    sim.qpos, sim.qvel = qpos, qvel
    sim.step()
    got, dt = support.exact(sim)[0], support.seconds_of(sim, 1)
    np.testing.assert_allclose(got[:, 0], [digits[0, 0] + dt, 7.0 - 5.0 * dt], rtol=1e-14)
    np.testing.assert_allclose(got[:, 1], digits[:, 1] + 2.0 * dt, rtol=1e-14)
