"""`patch-cost`: closed forms against sums over the patch, known times and ratios, who it is compared with."""

import math

import numpy as np
import pytest

import stickslip as ss
from stickslip.bench import runner
from stickslip.bench.experiments.speed import patch_cost_cases
from stickslip.bench.experiments.speed.patch_cost import PatchCost, _rival
from stickslip.bench.experiments.speed.patch_cost_cases import MASS, MODULUS, SCENES, SIZES, Case, model, pressed
from stickslip.bench.references import patches
from stickslip.bench.result import load
from stickslip.errors import InputError
from tests.bench import scripted

PATCHES, POINTS = "box, patches", "box, points"
SETTINGS = {"scenes": "box", "duration": 0.1, "repeats": 1, "worlds": 1}


def over(width: float, length: float, field, deep: float) -> float:
    """The sum of `field(x, y, height)` where it is positive, on the plane that is `deep` above the lowest point."""
    x = ((np.arange(1200) + 0.5) / 1200 - 0.5) * width
    y = ((np.arange(1200) + 0.5) / 1200 - 0.5) * length
    values = field(*np.meshgrid(x, y, indexing="ij"), deep)
    return float(np.maximum(values, 0.0).mean() * width * length)


def test_forces_are_those_of_the_pressure_fields():
    r, deep = 0.04, 2e-3
    ball = over(0.03, 0.03, lambda x, y, d: 1.0 - np.sqrt(x**2 + y**2 + (r - d) ** 2) / r, deep)
    assert patches.sphere_force(1.0, r, deep) == pytest.approx(ball, rel=1e-3)
    rim = over(0.1, 0.08, lambda x, y, d: np.minimum(d, np.minimum(0.05 - abs(x), 0.04 - abs(y))), deep)
    assert patches.box_force(1.0, 0.1, 0.08, deep) == pytest.approx(rim, rel=1e-3)
    cap = over(0.08, 0.08, lambda x, y, d: np.minimum(d, r - np.hypot(x, y)), deep)
    assert patches.cap_force(1.0, r, deep) == pytest.approx(cap, rel=1e-3)
    flank = over(0.03, 0.2, lambda x, y, d: r - np.sqrt(x**2 + (r - d) ** 2), deep)
    assert patches.flank_force(1.0, r, 0.2, deep) == pytest.approx(flank, rel=1e-3)


@pytest.mark.parametrize("kind", SIZES)
def test_a_force_grows_from_zero_at_the_floor(kind):
    assert pressed(kind, -1e-3) == 0.0 == pressed(kind, 0.0)
    assert math.isnan(pressed(kind, math.nan))
    assert 0.0 < pressed(kind, 1e-5) < pressed(kind, 1e-4)


@pytest.mark.parametrize("scene", SCENES)
def test_the_two_forms_are_of_the_same_bodies(scene):
    soft, hard = (model(Case(scene, form)) for form in patch_cost_cases.FORMS)
    assert (soft.body_mass == hard.body_mass).all()
    assert (soft.geom_size == hard.geom_size).all()
    assert soft.geom_user[:, 3].any()
    assert hard.geom_user.shape[1] < 4 or not hard.geom_user[:, 3].any()


def test_known_times_steps_and_ratios(tmp_path):
    clock = scripted.Clock()

    def still(mjm, mjd):
        """As deep as the weight presses the box, by a soft box of the same slope."""
        mjd.qpos[2] = SIZES["box"][2] - MASS * 9.81 / (MODULUS / 0.03 * 0.1 * 0.08)

    def fake(seconds: float) -> scripted.Scripted:
        return scripted.Scripted(still, clock, lambda ncon: seconds)

    physics = {"own": fake(1e-3), "drake": fake(4e-3)}
    result = scripted.run(PatchCost(), physics, tmp_path, settings=SETTINGS, clock=clock)
    for case in (PATCHES, POINTS):
        assert result.metric("own", case, "ms_per_step") == pytest.approx(1.0)
        assert result.metric("own", case, "ms_per_sim_s") == pytest.approx(500.0)
        assert result.metric("own", case, "world_steps_per_s") == pytest.approx(1000.0)
        assert result.metric("own", case, "step_over_drake") == pytest.approx(0.25)
        assert result.metric("own", case, "second_over_drake") == pytest.approx(0.25)
        assert result.metric("own", case, "rate_over_drake") == pytest.approx(4.0)
        assert np.isnan(result.metric("drake", case, "rate_over_drake"))
    assert result.metric("own", PATCHES, "patches_over_points") == pytest.approx(1.0)
    assert result.metric("own", PATCHES, "force_percent") == pytest.approx(0.0, abs=0.1)
    assert np.isnan(result.metric("own", POINTS, "force_percent"))


def test_the_rival_is_the_fastest_of_those_as_exact(tmp_path):
    clock = scripted.Clock()
    still = scripted.Scripted(lambda mjm, mjd: None, clock, lambda ncon: 1e-3)
    labels = ("own", *(f"drake:resolution={each}" for each in (0.2, 0.05, 0.02)))
    result = scripted.run(PatchCost(), dict.fromkeys(labels, still), tmp_path, settings=SETTINGS, clock=clock)
    for label, error, time in zip(labels[1:], (60.0, -3.0, 0.2), (1.0, 5.0, 40.0), strict=True):
        result.outcomes[label][PATCHES]["metrics"] |= {"force_percent": error, "ms_per_sim_s": time}
    assert _rival(result, PATCHES, 70.0) == labels[1]
    assert _rival(result, PATCHES, -5.0) == labels[2]
    assert _rival(result, PATCHES, 0.01) == labels[3]
    result.outcomes[labels[3]][PATCHES]["metrics"]["ms_per_sim_s"] = None
    assert _rival(result, PATCHES, 0.01) == labels[2]
    assert _rival(result, POINTS, math.nan) in labels[1:]
    del result.outcomes[labels[1]], result.outcomes[labels[2]], result.outcomes[labels[3]]
    assert _rival(result, PATCHES, 0.01) is None


def test_a_run_shorter_than_a_report_is_refused():
    with pytest.raises(InputError, match=r"duration is 0\.05 s.*raise it to 0\.1"):
        PatchCost().cases(PatchCost().make_settings({"duration": 0.05}))


def test_patches_press_with_the_weight_and_geometry_is_part_of_a_step(tmp_path):
    settings = {**SETTINGS, "duration": 0.5}
    result = load(
        runner.run(PatchCost(), tmp_path, methods=["icf", "cenic"], device="cpu", settings=settings, picture=False)
    )
    for label in ("icf", "cenic"):
        assert result.metric(label, PATCHES, "force_percent") == pytest.approx(0.0, abs=0.1)
        assert result.metric(label, PATCHES, "contacts_per_world") == 12
        assert result.problems(label, PATCHES) == []
    assert result.metric("icf", PATCHES, "geometry_ms") > 0.0
    assert result.metric("icf", PATCHES, "steps_per_sim_s") == pytest.approx(500.0)


def test_worlds_differ_by_their_noise_alone():
    mjm = model(Case("8 round bodies", "patches"))
    sim = ss.Simulation(mjm, ss.MuJoCo(), device="cpu")
    assert mjm.nbody == 9
    assert sim.qvel.numpy()[0, 1::6] == pytest.approx(np.full(8, 0.2))
