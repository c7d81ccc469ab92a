"""`resolution`: errors that packings are known for, what bodies are made of, and the picture of spheres."""

import math

import numpy as np
import pytest

import stickslip as ss
from stickslip.bench.baselines.pbd_paper.physics import PbdRAblated, PbdRPaper
from stickslip.bench.experiment import Trial
from stickslip.bench.experiments.free_bodies import resolution_picture
from stickslip.bench.experiments.free_bodies.resolution import BOX, ROD, Resolution, Settings, done_label, shape_label
from stickslip.bench.methods import PAPER
from stickslip.bench.references import motion
from stickslip.errors import Unsupported
from tests.bench import scripted

BRIEF = {"mesh": "stand-in", "duration": 1.0, "mesh_duration": 0.5}
PACKED = PbdRAblated(inertia="packed")


def measured(label, physics, **settings):
    experiment = Resolution()
    chosen = experiment.make_settings({**BRIEF, **settings})
    return experiment.measure(experiment.cases(chosen)[label], physics, chosen, Trial("cpu"))


def test_cases_are_those_of_the_seven_tests():
    cases = Resolution().cases(Settings(mesh="bunny"))
    tests = {label: case.test for label, case in cases.items() if case.test}
    assert len(tests) == 3 * 6 + 2 * 4
    assert not any(test.noise for test in tests.values())
    push, torque = tests["pushed bunny, 16 across"], tests["box with torque, 4 along an edge"]
    assert (push.kind, push.body, push.mu, push.value) == ("push", "bunny", 0.4, 10.0)
    assert (torque.kind, torque.body, torque.mu, torque.value) == ("torque", "box", 0.0, 0.01)
    rod = tests[done_label("rod", BOX, 12)]
    assert (rod.kind, rod.value) == ("rod", 0.01)
    assert cases["pushed bunny, 16 across"].resolution == 16
    assert shape_label("bunny", 8) in cases


@pytest.mark.parametrize("n", [2, 3])
def test_points_turn_a_box_faster_by_what_their_inertia_lacks(n):
    """A grid of n^3 points has 1 - 1/n^2 of a cube's inertia; with that of the cube nothing is left but the steps."""
    label = done_label("torque", BOX, n)
    packed, true = measured(label, PACKED).metrics, measured(label, ss.PbdR()).metrics
    turn = math.degrees(motion.turned(0.01, motion.box_inertia(4.0, 0.1), 1.0))
    assert packed["spheres"] == true["spheres"] == n**3
    assert packed["inertia_percent"] == pytest.approx(100.0 * (1.0 - 1.0 / n**2))
    assert packed["coverage_percent"] == pytest.approx(100.0 * math.pi / 6.0, rel=0.01)
    assert packed["rotation_error_deg"] == pytest.approx(turn / (n**2 - 1.0), rel=0.01)
    assert true["rotation_error_deg"] == pytest.approx(motion.step_error(turn, 1e-3, 1.0), rel=0.05)


def test_a_mesh_has_as_many_spheres_as_its_own_resolution_says():
    coarse, fine = (measured(f"stand-in with torque, {n} across", PACKED, mesh_resolutions=(4, 8)) for n in (4, 8))
    assert fine.metrics["spheres"] > 6.0 * coarse.metrics["spheres"]
    assert fine.metrics["coverage_percent"] > coarse.metrics["coverage_percent"] + 5.0
    for found in (coarse, fine):
        lacks = 100.0 / found.metrics["inertia_percent"] - 1.0
        assert found.metrics["rotation_error_deg"] == pytest.approx(lacks * found.metrics["expected_deg"], rel=0.05)


def test_a_shorter_time_for_the_mesh():
    still = scripted.Scripted(lambda mjm, mjd: None)
    settings = {"timestep": 0.01, "duration": 2.0, "mesh_duration": 1.0}
    for label, way in (
        ("pushed box, 4 along an edge", motion.pushed(17.0, 0.4, 4.0, 2.0)),
        ("pushed stand-in, 16 across", motion.pushed(10.0, 0.4, 2.176, 1.0)),
    ):
        metrics = measured(label, still, **settings).metrics
        assert metrics["position_error_m"] == pytest.approx(way, rel=1e-5)
        assert "spheres" not in metrics  # this one knows none


def test_spheres_are_stored_as_they_are():
    outcome = measured(shape_label(BOX, 4), ss.PbdR())
    assert outcome.metrics["spheres"] == 64 == len(outcome.series["radius"])
    np.testing.assert_allclose(outcome.series["radius"], 0.025)
    places = np.stack([outcome.series[f"centre_{axis}"] for axis in "xyz"], axis=1)
    assert np.abs(places).max() == pytest.approx(0.075)
    assert len(np.unique(places.round(6), axis=0)) == 64
    with pytest.raises(Unsupported, match="no bodies of spheres"):
        measured(shape_label(BOX, 4), ss.MuJoCo())


def test_a_sphere_is_drawn_as_a_disc_that_hides_what_is_behind_it():
    view = resolution_picture
    toward = np.array(
        [math.sin(view.TURN) * math.cos(view.RISE), -math.cos(view.TURN) * math.cos(view.RISE), math.sin(view.RISE)]
    )
    one = np.zeros((1, 3))
    image, (left, right, bottom, top) = view.render(one, np.ones(1), "#ffffff", 200)
    assert image.shape == (200, 200, 4)
    assert (right - left, top - bottom) == (pytest.approx(2.0), pytest.approx(2.0))
    assert image[..., 3].mean() == pytest.approx(math.pi / 4.0, rel=0.01)
    upper, lower = image[50:80, 80:120, 0].mean(), image[120:150, 80:120, 0].mean()
    assert upper > 1.2 * lower  # light comes from above
    both = np.concatenate([one, one - 3.0 * toward])
    np.testing.assert_allclose(view.render(both, np.ones(2), "#ffffff", 200)[0], image, atol=1e-6)
    small = view.render(np.concatenate([one, one + 3.0 * toward]), np.array([1.0, 0.5]), "#ffffff", 200)[0]
    assert not np.allclose(small, image, atol=0.05)
    np.testing.assert_allclose(small[..., 3], image[..., 3])


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    out = tmp_path_factory.mktemp("resolution")
    physics = {"pbd-r": ss.PbdR(), PAPER: PbdRPaper(), "mujoco": ss.MuJoCo()}
    return scripted.run(Resolution(), physics, out, quick=True)


def test_every_shape_is_drawn_once_unless_somebody_makes_something_else_of_it(quick):
    titles = [ax.get_title(loc="left") for ax in Resolution().draw(quick).axes]
    assert titles[0] == "pbd-r: box\n64 spheres, 52 % of it"
    shapes = [title.partition("\n")[0] for title in titles if " spheres," in title]
    assert shapes == [
        "pbd-r: box",
        *["pbd-r: stand-in"] * 2,
        "pbd-r: capsule",
        "pbd-r: cylinder",
        "pbd-r-paper: cylinder",
    ]
    assert quick.unsupported("mujoco").keys() == {case for case in quick.cases if case.startswith("spheres of")}
    assert not quick.unsupported("pbd-r")


def test_what_the_paper_says_stands_beside_what_was_seen(quick):
    torque, rod = Resolution().reported(quick)
    assert "Fig. 6" in torque.paper
    assert "Fig. 9" in rod.paper
    for n in (8, 27):
        assert f"({n})" in torque.measured
    assert torque.measured.startswith("pbd-r ")
    assert "pbd-r-paper" in torque.measured
    scores = Resolution().scores(Settings(mesh="bunny"))
    assert len(scores) == 6
    assert {score.absent for score in scores if score.case.startswith(ROD)} == {"lost"}
