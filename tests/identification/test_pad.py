"""The pressure law of a pad: volumes in closed form, numbers that come back, the hydroelastic geom that it gives."""

import numpy as np
import pytest

import stickslip as ss
from stickslip.identification.pad import Ball, Flat, Law, PadFit, Press, fit_pad
from tests.reference import hydro_exact

pytest.importorskip("cmaes")

THICKNESS = 0.02
TRUE = Law(modulus=2e5, exponent=1.6, dissipation=3.0, thickness=THICKNESS)
FLAT, BALL = Flat(4e-4), Ball(0.015)
DEPTH = np.linspace(0.0, 0.006, 25)


def press(punch: Flat | Ball, speed: float, noise: float, rng: np.random.Generator, law: Law = TRUE) -> Press:
    force = law.force(punch, DEPTH, speed)
    return Press(DEPTH, force + rng.normal(0.0, noise, force.shape), noise, punch, speed=speed)


def fit(seed: int, noise: float = 0.2, law: Law = TRUE, speeds: tuple[float, ...] = (0.0, 0.1, -0.05)) -> PadFit:
    rng = np.random.default_rng(seed)
    data = [press(FLAT, speed, noise, rng, law) for speed in speeds]
    return fit_pad(data, [press(BALL, 0.05, noise, rng, law)], thickness=THICKNESS, seed=seed)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.3])
def test_the_volume_under_a_ball_is_the_integral(exponent):
    depth = np.array([1e-4, 2e-3, 8e-3])
    r = np.linspace(0.0, BALL.radius, 500_001)
    for x, found in zip(depth, BALL.volume(depth, np.array([exponent])), strict=True):
        strain = np.maximum(x - BALL.radius + np.sqrt(BALL.radius**2 - r**2), 0.0)
        assert found == pytest.approx(np.trapezoid(2.0 * np.pi * r * strain**exponent, r), rel=1e-4)
    if exponent == 1.0:
        cap = [hydro_exact.rigid_sphere_on_slab(1.0, BALL.radius, x) for x in depth]
        assert BALL.volume(depth, np.array([1.0])) == pytest.approx(cap)


def test_all_three_numbers_come_back_and_foretell_another_punch():
    found = fit(0, noise=1e-3)
    for name in ("modulus", "exponent", "dissipation"):
        assert found.estimates[name].value == pytest.approx(getattr(TRUE, name), rel=0.01)
        assert found.estimates[name].identified
    assert found.law.force(BALL, 0.004, 0.02) == pytest.approx(TRUE.force(BALL, 0.004, 0.02), rel=0.01)
    assert found.explains and found.carries and not found.linear
    assert found.law.modulus_at(0.004) * 0.2 == pytest.approx(2e5 * 0.2**1.6, rel=0.01)  # the pressure there
    assert "explains the forces. Held-out presses" in str(found)


def test_intervals_hold_the_truth_of_18_of_20():
    held = {"modulus": 0, "exponent": 0, "dissipation": 0}
    for seed in range(20):
        for name, estimate in fit(seed).estimates.items():
            held[name] += estimate.low <= getattr(TRUE, name) <= estimate.high
            assert estimate.high < 1.2 * estimate.low  # no interval that holds anything
    assert min(held.values()) >= 18


def test_without_motion_dissipation_is_left_out():
    found = fit(0, speeds=(0.0,))
    assert list(found.estimates) == ["modulus", "exponent"] and found.law.dissipation == 0.0
    assert found.estimates["exponent"].low < 1.6 < found.estimates["exponent"].high < 1.8


def test_a_pad_that_has_another_law_says_so():
    """It ends in something hard at a fifth of its thickness."""
    rng = np.random.default_rng(0)
    force = TRUE.force(FLAT, DEPTH) + 2e4 * np.maximum(DEPTH - 0.004, 0.0)
    bad = Press(DEPTH, force + rng.normal(0.0, 0.2, force.shape), 0.2, FLAT)
    found = fit_pad([bad], (), thickness=THICKNESS)
    assert not found.explains and "does not explain" in str(found) and "There was no test" in str(found)
    fitted = fit_pad([press(FLAT, 0.0, 0.2, rng)], [bad], thickness=THICKNESS)
    assert fitted.explains and not fitted.carries and "much worse" in str(fitted)


def test_a_hydroelastic_slab_is_found_to_be_linear_and_is_rebuilt():
    """Forces of patches at given depths give the slab's own modulus, and `user` builds it again.

    Without friction, which holds against the way out along the sides of the ball.
    """

    def forces(user: str) -> np.ndarray:
        model = f"""
        <mujoco><option gravity="0 0 0" timestep="1e-4"/><size nuser_geom="5"/>
        <default><geom condim="1"/></default><worldbody>
          <geom name="slab" type="box" size=".1 .1 {THICKNESS}" pos="0 0 -{THICKNESS}" user="{user}"/>
          <body pos="0 0 {BALL.radius}"><joint type="slide" axis="0 0 -1"/>
            <geom type="sphere" size="{BALL.radius}" mass="1e3"/></body>
        </worldbody></mujoco>"""
        sim = ss.Simulation(model, ss.Icf(), nworld=len(depth), device="cpu")
        sim.qpos = depth[:, None]
        sim.forward()
        patches = sim.patches()
        return np.abs(patches.force[np.argsort(patches.world), 2])

    depth = np.linspace(0.0005, 0.004, 8)
    measured = forces(f"0 1 0 3e5 {THICKNESS}")
    found = fit_pad([Press(depth, measured, 1e-3 * measured.max(), BALL)], (), thickness=THICKNESS)
    assert found.linear
    assert found.estimates["exponent"].value == pytest.approx(1.0, abs=0.02)
    assert found.law.modulus_at(0.002) == pytest.approx(3e5, rel=0.01)
    assert forces(found.user(0.002))[3] == pytest.approx(measured[3], rel=0.01)


GOOD = Press([0.001, 0.002], [1.0, 2.0], 0.1, FLAT)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Press([0.001, 0.002], [1.0], 0.1, FLAT), r"force of press has shape \(1,\)"),
        (lambda: Press([0.001, np.nan], [1.0, 2.0], 0.1, FLAT), "depth of press has a number that is not finite"),
        (lambda: Press([-0.001, 0.0], [1.0, 2.0], 0.1, FLAT), "depth of press is -0.001 m somewhere"),
        (lambda: Press([0.001, 0.002], [1.0, 2.0], 0.0, FLAT), "noise of press is 0 N somewhere"),
        (lambda: Press([0.001, 0.002], ["a", "b"], 0.1, FLAT), "it must be numbers"),
        (lambda: Press([0.001, 0.02], [1.0, 2.0], 0.1, BALL), "beyond the radius of the ball, 0.015 m"),
        (lambda: Press([0.001, 0.002], [1.0, 2.0], 0.1, Flat(0.0)), "a size of 0: it must be above 0"),
        (lambda: fit_pad([], (), thickness=0.02), "presses is empty"),
        (lambda: fit_pad([GOOD], (), thickness=0.0), "thickness is 0 m"),
        (lambda: fit_pad([GOOD], [1.0], thickness=0.02), "must be lists of Press, got 1.0"),
        (lambda: fit_pad([GOOD], (), thickness=0.001), "depth of press is 0.002 m, beyond the pad, 0.001 m thick"),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises(ss.InputError, match=words):
        make()


def test_a_geom_can_only_be_pressed_into_its_thickness():
    with pytest.raises(ss.InputError, match=r"depth is 0.03 m: it must be above 0, and at most 0.02 m"):
        fit(0, speeds=(0.0,)).user(0.03)
