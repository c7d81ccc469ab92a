"""`torsion-patch`: its reference against sums and integration, its metrics on known motion, and points at corners."""

import math

import numpy as np
import pytest

from stickslip import mjcf
from stickslip.bench import runner
from stickslip.bench.experiments.friction.torsion_patch import SLIDING, Settings, TorsionPatch, exact, scene
from stickslip.bench.references import patches
from stickslip.bench.result import load
from tests.bench import scripted

SPINNING = ("disc", "square", "rectangle", "sphere")


def spread(n: int = 801) -> tuple[np.ndarray, np.ndarray]:
    side = (np.arange(n) + 0.5) / n - 0.5
    return tuple(np.meshgrid(side, side))


def test_arms_are_mean_distances_weighted_by_pressure():
    x, y = spread()
    r = np.hypot(x, y)
    inside = r < 0.5
    assert patches.disc_arm(0.5) == pytest.approx(r[inside].mean(), rel=1e-3)
    assert patches.rectangle_arm(1.0, 1.0) == pytest.approx(r.mean(), rel=1e-5)
    assert patches.rectangle_arm(1.0, 1.0) == pytest.approx(0.38260, abs=1e-5)
    assert patches.rectangle_arm(1.0, 0.5) == pytest.approx(np.hypot(x, 0.5 * y).mean(), rel=1e-5)
    modulus, radius, force = 1e7, 0.05, 9.81
    patch = patches.sphere_patch(modulus, radius, force)
    at = patch * 2.0 * r[inside]
    pressure = modulus * (1.0 - np.sqrt(radius**2 - patch**2 + at**2) / radius)
    assert pressure.mean() * math.pi * patch**2 == pytest.approx(force, rel=1e-3)
    assert patches.sphere_arm(patch) == pytest.approx((pressure * at).sum() / pressure.sum(), rel=5e-3)


def test_a_disc_ends_sliding_and_spinning_at_once():
    """Friction against a dense sum, the end against the known ratio, the way against work and energy."""
    x, y = spread(1001)
    inside = np.hypot(x, y) < 0.5
    x, y = 2.0 * x[inside], 2.0 * y[inside]
    u, v = 0.4 - y, x
    size = np.hypot(u, v)
    assert patches.disc_friction(0.4, 1.0) == pytest.approx(
        ((u / size).mean(), ((x * v - y * u) / size).mean()), rel=5e-3
    )
    for speed, spin in ((1.0, 20.0), (0.2, 20.0)):
        path = patches.disc_slide(speed, spin, 0.05, 0.3)
        assert path.speed[-1] / (0.05 * path.spin[-1]) == pytest.approx(patches.TOGETHER, rel=0.02)
        assert path.speed[-1] < 2e-3 * speed
        power = [0.3 * 9.81 * np.dot(patches.disc_friction(v, 0.05 * w), (v, 0.05 * w)) for v, w in zip(
            path.speed, path.spin, strict=True)]  # fmt: skip
        energy = 0.5 * path.speed**2 + 0.25 * (0.05 * path.spin) ** 2
        assert energy[0] == pytest.approx(np.trapezoid(power, path.time), rel=2e-3)


def test_the_spin_is_that_of_the_scenes_inertia():
    for shape in SPINNING:
        mjm = mjcf.load(scene(shape, Settings()))
        torque = 0.3 * 9.81 * {"disc": 0.1 / 3, "square": 0.03826}.get(shape, 0.0)
        if torque:
            assert exact(shape, Settings()).rate == pytest.approx(torque / mjm.body_inertia[1, 2], rel=1e-4)
        assert exact(shape, Settings()).rate * mjm.body_inertia[1, 2] > 0.0
        assert mjm.geom_user[-1, 3] == (1e7 if shape == "sphere" else 1e6)


def test_metrics_tell_a_known_error(tmp_path):
    """Braking that is 10 % too weak, and a disc that spins as it should and slides too long."""
    path = patches.disc_slide(1.0, 20.0, 0.05, 0.3)

    def moving(factor: float, slide: float) -> scripted.Scripted:
        def script(mjm, mjd):
            if mjm.key_qvel[0, 0]:
                mjd.qvel[0] = np.interp(slide * mjd.time, path.time, path.speed, right=0.0)
                mjd.qvel[5] = np.interp(mjd.time, path.time, path.spin, right=0.0)
            else:
                decay = exact("square", Settings())
                mjd.qvel[5] = max(20.0 - factor * decay.rate * mjd.time, 0.0)

        return scripted.Scripted(script)

    physics = {"exact": moving(1.0, 1.0), "weak": moving(0.9, 0.8)}
    result = scripted.run(TorsionPatch(), physics, tmp_path, settings={"shapes": f"square,{SLIDING}"})
    assert result.metric("exact", "square", "braking_percent") == pytest.approx(0.0, abs=1e-3)
    assert result.metric("weak", "square", "braking_percent") == pytest.approx(-10.0, abs=0.1)
    assert result.metric("exact", SLIDING, "rms_percent") < 0.01
    assert result.metric("exact", SLIDING, "ratio_percent") == pytest.approx(0.0, abs=1.0)
    late = np.interp(2.0, path.spin[::-1], path.time[::-1])
    slower = np.interp(0.8 * late, path.time, path.speed) / np.interp(late, path.time, path.speed)
    assert result.metric("weak", SLIDING, "ratio_percent") == pytest.approx(100.0 * (slower - 1.0), rel=0.02)


def test_points_at_corners_have_the_arm_of_corners(tmp_path):
    settings = {"shapes": "square,sphere"}
    result = load(
        runner.run(TorsionPatch(), tmp_path, methods=["cone-sweep"], device="cpu", settings=settings, picture=False)
    )
    corners = 100.0 * (math.sqrt(0.5) / 0.38260 - 1.0)
    assert result.metric("cone-sweep", "square", "braking_percent") == pytest.approx(corners, abs=1.0)
    assert result.metric("cone-sweep", "sphere", "braking_percent") == pytest.approx(-100.0, abs=0.1)


def test_patches_brake_as_they_should(tmp_path):
    """To what their points leave: one percent of a disc or box, three of a sphere."""
    result = load(runner.run(TorsionPatch(), tmp_path, methods=["icf"], device="cpu", picture=False))
    errors = {shape: abs(result.metric("icf", shape, "braking_percent")) for shape in SPINNING}
    assert errors["sphere"] < 3.5
    assert max(errors["disc"], errors["square"], errors["rectangle"]) < 1.3
    assert result.metric("icf", SLIDING, "rms_percent") < 0.5
    assert abs(result.metric("icf", SLIDING, "ratio_percent")) < 8.0
