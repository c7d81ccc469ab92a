"""The optimisation against NumPy in float64, and what it promises: same bits, early stop, guidance that vanishes."""

import dataclasses

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.mpc.retarget import kernels, rollout, score
from stickslip.mpc.retarget.batch import Batch
from stickslip.mpc.retarget.settings import Settings, Weights
from tests.mpc.retarget import toy

ALL = Weights(velocity=0.05, control=0.7, contact=0.9)


def read(array: wp.array) -> np.ndarray:
    return array.numpy().astype(np.float64)


@pytest.fixture(scope="module")
def batch() -> Batch:
    return Batch(toy.problem(ALL), ss.ConeSweep(), toy.SMALL, "cpu", trials=2)


def start(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """States of two trials, one of them off the reference."""
    r = batch.problem.reference
    qpos, qvel = np.tile(r.qpos[0], (2, 1)), np.tile(r.qvel[0], (2, 1))
    qpos[1, 0] += 0.05
    qvel[1, 6] = 0.3
    return qpos, qvel


def between(knots: np.ndarray, steps: int) -> np.ndarray:
    """Noise (k, nu) at every step (steps, nu)."""
    at = np.linspace(0.0, len(knots) - 1.0, steps)
    return np.stack([np.interp(at, np.arange(len(knots)), column) for column in knots.T], axis=1)


def test_noise_of_two_knots_goes_from_the_first_step_to_the_last():
    @wp.kernel(module="unique")
    def at(knots: wp.array2d[float], out: wp.array[float]):
        step = wp.tid()
        out[step] = kernels.between_knots(knots, step, 5, 0)

    out = wp.zeros(5, dtype=float, device="cpu")
    knots = wp.array([[1.0], [3.0]], dtype=float, device="cpu")
    wp.launch(at, dim=5, inputs=[knots], outputs=[out], device="cpu")
    np.testing.assert_allclose(out.numpy(), [1.0, 1.5, 2.0, 2.5, 3.0])


def test_noise_grows_over_the_horizon_and_shrinks_from_round_to_round(device: str):
    samples, knots, nu, nexploit = 4000, 3, 2, 400
    std = wp.array(0.2 * np.array([[0.5, 0.5], [0.7, 0.7], [1.0, 1.0]]), dtype=float, device=device)
    out = wp.zeros((samples, knots, nu), dtype=float, device=device)
    random = wp.array([[3, 7]], dtype=int, device=device)
    for turn in (0, 2):
        done = wp.array([turn], dtype=int, device=device)
        inputs = [random, done, std, 0.6, nexploit, 0.01]
        wp.launch(kernels.draw_noise, dim=out.shape, inputs=inputs, outputs=[out], device=device)
        noise = out.numpy()
        assert (noise[0] == 0.0).all()
        expected = 0.6**turn * std.numpy()
        np.testing.assert_allclose(noise[1:-nexploit].std(axis=0), expected, rtol=0.06)
        np.testing.assert_allclose(noise[-nexploit:].std(axis=0), 0.01 * expected, rtol=0.15)
        flat = noise[1:].reshape(samples - 1, -1)
        assert np.abs(np.corrcoef(flat.T) - np.eye(knots * nu)).max() < 0.08


def test_costs_are_those_of_the_rollouts(batch: Batch):
    """Every sample's cost against float64: its rollout is done again, step by step, and added up."""
    problem, s = batch.problem, toy.SMALL
    qpos, qvel = start(batch)
    batch.reset([5, 6])
    batch.compile()
    begin = 3
    with wp.ScopedDevice("cpu"):
        batch._start.assign(qpos.astype(np.float32))
        batch._start_vel.assign(qvel.astype(np.float32))
        batch._begin.fill_(begin)
        batch._refill(s.horizon)
        batch._round.zero_()
        batch._active.fill_(0)  # controls stay
        wp.capture_launch(batch._graphs["round"])
    controls, noise = read(batch._controls), read(batch._many.noise)
    reference = problem.reference.ctrl[np.minimum(begin + np.arange(s.horizon), problem.steps)]
    np.testing.assert_allclose(controls[0], reference, atol=1e-6)
    worlds = 2 * s.samples
    sim = ss.Simulation(batch._many.sim.mjm, ss.ConeSweep(), nworld=worlds, device="cpu", timestep=s.dt)
    sim.qpos, sim.qvel = np.repeat(qpos, s.samples, axis=0), np.repeat(qvel, s.samples, axis=0)
    low, high = problem.limits
    ctrl = np.array(
        [np.clip(controls[w // s.samples] + between(noise[w], s.horizon), low, high) for w in range(worlds)]
    )
    states = [(read(sim.qpos), read(sim.qvel))]
    for step in range(s.horizon):
        sim.ctrl = ctrl[:, step]
        sim.step()
        states.append((read(sim.qpos), read(sim.qvel)))
    q, v = (np.array(x).transpose(1, 0, 2) for x in zip(*states, strict=True))
    expected = [score.costs(problem, q[w], v[w], ctrl[w], begin).mean() for w in range(worlds)]
    np.testing.assert_allclose(read(batch._many.cost), expected, rtol=2e-4)
    assert len(np.unique(expected)) > 0.9 * worlds


def test_controls_move_to_the_mean_of_the_best(batch: Batch):
    s = toy.SMALL
    qpos, qvel = start(batch)
    batch.reset([1, 2])
    batch.compile()
    before = read(batch._controls)
    with wp.ScopedDevice("cpu"):
        batch._start.assign(qpos.astype(np.float32))
        batch._start_vel.assign(qvel.astype(np.float32))
        batch._round.zero_()
        batch._best_cost.fill_(np.inf)
        batch._active.assign(np.array([1, 0], dtype=np.int32))
        wp.capture_launch(batch._graphs["round"])
    cost, noise, after = (
        read(batch._many.cost)[: s.samples],
        read(batch._many.noise)[: s.samples],
        read(batch._controls),
    )
    best = np.argsort(cost, kind="stable")[: s.top]
    chosen = cost[best]
    weight = np.exp(-(chosen - chosen.min()) / (s.temperature * (chosen.std() + s.spread_floor)))
    mean = np.einsum("s,ska->ka", weight / weight.sum(), noise[best])
    np.testing.assert_allclose(after[0], before[0] + between(mean, s.horizon), atol=2e-6)
    assert (after[1] == before[1]).all()  # not active
    assert read(batch._answer)[0, 0] == pytest.approx(cost[0]) and read(batch._answer)[0, 1] == pytest.approx(
        cost.min()
    )


def test_an_optimisation_never_ends_worse_than_it_began(batch: Batch):
    """Noise so large that the mean of the samples is worse than the controls: these are kept."""
    wild = dataclasses.replace(toy.SMALL, noise=3.0, samples=8, iterations=1, top_fraction=1.0, temperature=100.0)
    problem = batch.problem
    one = Batch(problem, ss.ConeSweep(), wild, "cpu")
    one.reset([0])
    before = read(one._controls)
    (answer,) = one.optimise(problem.reference.qpos[:1], problem.reference.qvel[:1], 0)
    assert (read(one._controls) == before).all()
    assert answer.predicted.mean() == pytest.approx(float(read(one._answer)[0, 0]), rel=1e-4)


@pytest.mark.parametrize("improvement, patience, rounds", [(0.0, 1, 4), (100.0, 1, 1), (100.0, 3, 3)])
def test_it_stops_when_nothing_improves(improvement: float, patience: int, rounds: int):
    settings = dataclasses.replace(toy.SMALL, samples=8, improvement=improvement, patience=patience)
    problem = toy.problem()
    batch = Batch(problem, ss.ConeSweep(), settings, "cpu")
    batch.reset([0])
    (answer,) = batch.optimise(problem.reference.qpos[:1], problem.reference.qvel[:1], 0)
    assert answer.rounds == rounds


def test_seeds_side_by_side_and_resumed_are_as_alone(tmp_path, monkeypatch):
    problem, physics = toy.problem(seconds=0.4), ss.ConeSweep()
    settings = dataclasses.replace(toy.SMALL, samples=8, horizon=6, knot_steps=3, iterations=2, improvement=0.002)
    alone = [rollout.run(problem, physics, settings, device="cpu", seeds=[seed])[0] for seed in (4, 9)]
    both = rollout.run(problem, physics, settings, device="cpu", seeds=[4, 9])
    assert (alone[0].ctrl != alone[1].ctrl).any()
    for one, other in zip(alone, both, strict=True):
        assert (one.qpos == other.qpos).all() and (one.ctrl == other.ctrl).all() and (one.rounds == other.rounds).all()

    class Enough(Exception):
        pass

    def stop(where: rollout.Progress) -> None:
        if where.tick == 3:
            raise Enough

    monkeypatch.setattr(rollout, "SAVE_EVERY", 2)
    state = tmp_path / "state.npz"
    with pytest.raises(Enough):
        rollout.run(problem, physics, settings, device="cpu", seeds=[4, 9], state=state, progress=stop)
    ticks = []
    again = rollout.run(
        problem,
        physics,
        settings,
        device="cpu",
        seeds=[4, 9],
        state=state,
        progress=lambda where: ticks.append(where.tick),
    )
    assert ticks[0] == 3 and not state.exists()
    for one, other in zip(alone, again, strict=True):
        assert (one.qpos == other.qpos).all() and (one.ctrl == other.ctrl).all()
        assert one.reason == other.reason == "done"
    state.write_bytes(b"nothing")
    with pytest.raises(ss.InputError, match="is not the state of a retargeting"):
        rollout.run(problem, physics, settings, device="cpu", seeds=[4, 9], state=state)


def test_guidance_pulls_an_object_and_is_gone_in_the_end():
    """A reference ball hovers: guidance carries it in early rounds, and nothing does in the last ones."""
    settings = dataclasses.replace(
        toy.SMALL, samples=4, iterations=5, guidance=1.0, guidance_decay=1.0, improvement=0.0, horizon=10
    )
    assert settings.guided() == [1.0, 1.0, 1.0, 0.0, 0.0]
    problem = toy.problem(thing=True)
    reference = problem.reference
    reference.qpos[:, -5] = 0.3
    batch = Batch(problem, ss.ConeSweep(), settings, "cpu")
    batch.reset([0])
    batch.compile()
    qpos = reference.qpos[:1].copy()
    heights = []
    with wp.ScopedDevice("cpu"):
        batch._start.assign(qpos.astype(np.float32))
        batch._start_vel.zero_()
        batch._active.fill_(1)
        for _ in range(settings.iterations):
            wp.capture_launch(batch._graphs["round"])
            heights.append(float(read(batch._many.sim.qpos)[0, -5]))
    fallen = 0.3 - 0.5 * 9.81 * (settings.horizon * settings.dt) ** 2
    np.testing.assert_allclose(heights[:3], 0.3, atol=2e-3)
    np.testing.assert_allclose(heights[3:], fallen, atol=0.03)
    assert not read(batch._many.sim.xfrc_applied).any()
    with pytest.raises(ss.InputError, match="it is 0 in the last two rounds; use 3 iterations"):
        Settings(guidance=0.5, iterations=2)
