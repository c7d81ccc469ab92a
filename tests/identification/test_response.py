"""Least squares through responses that jump: known errors, many times over, without a simulation."""

import numpy as np
import pytest

from stickslip.identification import Friction, Mass, profiles, response, search

pytest.importorskip("cmaes")

BOTH = [Friction("box", 0.1, 1.0), Mass("box", 0.1, 10.0)]
TIME = np.linspace(0.0, 1.0, 60)
SLOPES = np.stack([40.0 * TIME**2, 30.0 * np.sin(5.0 * TIME)], axis=1)
"""How measurements, over their noise, depend on coordinates."""
JUMPS = np.stack([np.cos(k * np.pi * TIME) for k in range(1, 5)])
"""What jumps, likewise: it lasts for a while, as motion after a contact does."""


class Rough:
    """Measurements that jump with the parameters by `size` times the noise, and a recording with a jump of its own."""

    def __init__(self, size: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.truth = rng.uniform(-1.0, 1.0, 2)
        self._ways = 1e4 * rng.normal(size=(len(JUMPS), 2))
        self._size = size
        self._recorded = size * rng.normal(size=len(JUMPS)) @ JUMPS + rng.normal(size=len(TIME))

    def __call__(self, z):
        away = z - self.truth
        bent = away + 0.1 * away**2  # the response is no straight line
        jumps = self._size * np.sqrt(2.0) * np.sin(z @ self._ways.T) @ JUMPS
        return search.huber(bent @ SLOPES.T + jumps - self._recorded)


def interval(evaluate, seed: int) -> tuple[response.Response, list[profiles.Profile]]:
    found = search.sample(evaluate, 2, 16, 10, seed, lambda cost: None)
    around = response.settle(evaluate, found.z, seed)
    found.z, found.cost = around.z, float(search.cost(evaluate(around.z[None]))[0])
    scale = max(1.0, around.cost / (len(TIME) - 2) / around.floor**2)
    return around, [profiles.profile(evaluate, found, around, k, scale) for k in range(2)]


@pytest.mark.parametrize("size", [0.02, 0.1, 0.3, 1.0])
def test_intervals_hold_the_truth_where_rollouts_jump(size):
    """19 of 20, of two parameters and 60 recordings; they are not wider than they have to be; and the floor is right.

    The sizes are those in which costs jump by less than the rise, by about as much and by more, and in which the jumps
    are as large as the noise.
    """
    held, errors, widths, floors = [], [], [], []
    for seed in range(60):
        rough = Rough(size, seed)
        around, found = interval(rough, seed)
        held += [one.low <= truth <= one.high for one, truth in zip(found, rough.truth, strict=True)]
        errors.append(around.z - rough.truth)
        widths.append([one.high - one.low for one in found])
        floors.append(around.floor)
    assert 0.92 <= np.mean(held) <= 0.99
    error = np.sqrt(np.mean(np.square(errors), axis=0))
    assert np.mean(widths, axis=0) == pytest.approx(2.0 * 1.96 * error, rel=0.35)
    jumps = size**2 * np.mean(JUMPS**2) * len(JUMPS)
    assert np.mean(floors) == pytest.approx(np.sqrt(1.0 + 2.0 * jumps), rel=0.07)


def test_the_point_is_not_that_of_the_luckiest_jump():
    """The lowest of all costs is farther from the truth than what a regression over many points foretells."""
    lowest, foretold = [], []
    for seed in range(40):
        rough = Rough(1.0, seed)
        found = search.sample(rough, 2, 16, 10, seed, lambda cost: None)
        around = response.settle(rough, found.z, seed)
        lowest.append(np.abs(found.z - rough.truth))
        foretold.append(np.abs(around.z - rough.truth))
    assert (np.mean(foretold, axis=0) < 0.8 * np.mean(lowest, axis=0)).all()


def test_a_smooth_response_has_no_floor():
    for seed in range(10):
        around, found = interval(Rough(0.0, seed), seed)
        assert around.floor < 1.001
        assert all(one.better is None for one in found)
