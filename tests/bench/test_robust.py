"""`robust`: which models there are, their controls, what counts as broken, and MuJoCo Warp beside MuJoCo in C."""

import dataclasses
import math

import numpy as np
import pytest

from stickslip import scenes
from stickslip.bench import runner
from stickslip.bench.experiment import MIN_STEPS
from stickslip.bench.experiments.accuracy import robust
from stickslip.bench.experiments.accuracy.robust import EVERY_MODEL, FAST, TIMES, Reference, Robust, Settings
from stickslip.bench.report import summary
from stickslip.bench.result import load
from stickslip.errors import InputError, Unsupported
from tests.bench import scripted

SHORT = {"models": "hand,stack", "steps": 40, "every": 20}
BROKEN = "actuation/position.xml"
"""Its servos are too stiff for 2 ms: it breaks in C after 22 steps."""


class Fake(scripted.Scripted):
    """Moves the first joint at a given velocity, of the number of steps done; may refuse models or tell of overflow."""

    def __init__(self, velocity, refuses=lambda mjm: False, overflow=()):
        super().__init__(self.move)
        self.velocity, self.refuses, self.overflow, self.steps = velocity, refuses, overflow, 0

    def move(self, mjm, mjd):
        self.steps += 1
        mjd.qvel[:] = 0.0
        mjd.qvel[0] = self.velocity(round(mjd.time / mjm.opt.timestep))

    def check(self, mjm):
        if self.refuses(mjm):
            raise Unsupported("fake does not support: hands")

    def health(self, m, d):
        return dataclasses.replace(super().health(m, d), overflow=self.overflow)


def run(tmp_path, settings=SHORT, picture=False, **physics):
    return scripted.run(Robust(), physics, tmp_path, settings=settings, picture=picture)


def test_models_are_every_scene_and_the_whole_files_of_mujoco_warp():
    models = robust.every_model()
    ours = [name for name in scenes.names() if name not in robust.LATER]
    assert list(models[: len(ours)]) == ours
    files = models[len(ours) :]
    assert {"humanoid/humanoid.xml", "flex/rope.xml", "hfield/hfield.xml", "constraints.xml"} <= set(files)
    assert "ray.xml" not in files  # nothing moves
    assert "collision_sdf/torus.xml" not in files  # its mesh is made by its test
    for name in files:
        mjm = robust.load(name)
        assert mjm.nv and not mjm.nplugin
    assert Robust().make_settings().models == models
    assert Robust().make_settings(SHORT).models == ("hand", "stack")


def test_a_folder_stands_for_its_models(tmp_path):
    (tmp_path / "below").mkdir()
    ball = '<mujoco><worldbody><body>{}<geom size="1"/></body></worldbody></mujoco>'
    moves, still = tmp_path / "below" / "moves.xml", tmp_path / "still.xml"
    moves.write_text(ball.format("<freejoint/>"))
    still.write_text(ball.format(""))
    (tmp_path / "part.xml").write_text("<mujoco><include file='nowhere.xml'/></mujoco>")
    made = Robust().make_settings({"models": f"stack,{tmp_path}", "steps": 10})
    assert made.models == ("stack", str(moves))
    assert robust.in_c(str(moves), made, 0).sound
    moves.unlink()
    with pytest.raises(InputError, match="no file in .* is a whole model in which something moves"):
        Robust().make_settings({"models": str(tmp_path)})


def test_controls_are_within_their_range_and_the_same_for_all():
    settings = Settings(steps=10_000, every=5)
    mjm = robust.load("humanoid")
    control = robust.commands(mjm, settings, 3)
    low, high = mjm.actuator_ctrlrange.T
    assert control.shape == (2000, mjm.nu)
    assert (control >= low).all() and (control <= high).all()
    np.testing.assert_allclose(control.max(axis=0), high, atol=0.02 * (high - low).max())
    np.testing.assert_allclose(control.min(axis=0), low, atol=0.02 * (high - low).max())
    np.testing.assert_array_equal(control, robust.commands(mjm, settings, 3))
    free = robust.load("pendula.xml")
    assert not free.actuator_ctrllimited.any()
    assert np.abs(robust.commands(free, settings, 0)).max() == pytest.approx(1.0, abs=0.01)


def test_large_models_take_fewer_steps():
    settings = Settings()
    assert robust.steps_of(robust.load("humanoid"), settings) == 10_000
    assert robust.steps_of(robust.load("drop-test"), settings) == 10_000 * 50 // 750
    assert robust.steps_of(robust.load("drop-test"), Settings(steps=20)) == MIN_STEPS


def test_the_bound_is_that_of_c_or_a_thousand():
    assert Reference(True, 5.0, 0, 0).limit == FAST
    assert Reference(True, 500.0, 0, 0).limit == TIMES * 500.0
    assert Reference(False, 1e9, 0, 0).limit == FAST


def test_c_tells_sound_models_from_broken_ones_and_says_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    settings = Settings(steps=100)
    broken = robust.in_c(BROKEN, settings, 0)
    assert not broken.sound
    sound = robust.in_c("stack", settings, 0)
    assert sound.sound
    assert sound.speed == pytest.approx(0.0785, abs=1e-3)  # what a step of gravity gives the upper cubes
    assert (sound.ncon, sound.nefc) == (20, 80)
    assert "".join(capfd.readouterr()) == ""
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()


def test_metrics_tell_what_became_of_a_model(tmp_path):
    result = run(
        tmp_path,
        picture=True,
        still=Fake(lambda step: 0.5),
        fast=Fake(lambda step: 2.0 * FAST if step == 7 else 0.0),
        lost=Fake(lambda step: math.nan if step == 9 else 3.0),
        cannot=Fake(lambda step: 0.0, refuses=lambda mjm: mjm.nu),
        full=Fake(lambda step: 0.0, overflow=("contacts were dropped",)),
    )

    def told(name, case="stack"):
        return [result.metric(label, case, name) for label in ("still", "fast", "lost", "cannot", "full")]

    assert told("sound") == [1.0, 0.0, 0.0, 1.0, 1.0]
    assert told("finite") == [1.0, 1.0, 0.0, 1.0, 1.0]
    assert told("largest_speed") == pytest.approx([0.5, 2.0 * FAST, 3.0, 0.0, 0.0])
    assert told("survived_s") == pytest.approx([0.08, 0.014, 0.018, 0.08, 0.08])  # the rest is not run
    assert told("overflow") == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert told("sound_in_c") == [1.0] * 5
    assert result.metric("still", "stack", "times_c") == pytest.approx(
        0.5 / result.metric("still", "stack", "largest_speed_in_c")
    )
    assert told("sound", EVERY_MODEL) == [2.0, 0.0, 0.0, 1.0, 2.0]
    assert told("broken", EVERY_MODEL) == [0.0, 2.0, 2.0, 0.0, 0.0]
    assert told("unsupported", EVERY_MODEL) == [0.0, 0.0, 0.0, 1.0, 0.0]
    assert told("overflow", EVERY_MODEL) == [0.0, 0.0, 0.0, 0.0, 2.0]
    notes = summary.notes(result)
    assert f"fast: {robust.BLOWS_UP} (hand; stack)" in notes
    assert any(note.startswith("lost: 1 world(s) are no longer finite") for note in notes)
    assert "cannot cannot run: fake does not support: hands (hand)" in notes
    assert "full: contacts were dropped (hand; stack)" in notes


def test_a_model_that_is_fast_in_c_may_be_fast(tmp_path, monkeypatch):
    monkeypatch.setattr(robust, "in_c", lambda name, settings, seed: Reference(True, 1e4, 8, 32))
    result = run(tmp_path, quick=Fake(lambda step: 9e4), quicker=Fake(lambda step: 1.1e5))
    assert result.metric("quick", "stack", "sound") == 1.0
    assert result.metric("quick", "stack", "times_c") == pytest.approx(9.0)
    assert result.metric("quicker", "stack", "sound") == 0.0


def test_what_breaks_in_c_is_run_and_shown_but_does_not_count(tmp_path):
    settings = {"models": f"stack,{BROKEN}", "steps": 100}
    result = run(tmp_path, settings=settings, picture=True, fine=Fake(lambda step: 0.0), bad=Fake(lambda step: 1e11))
    assert result.metric("bad", BROKEN, "sound") == 0.0
    assert result.metric("fine", BROKEN, "sound") == 1.0
    assert result.metric("fine", BROKEN, "sound_in_c") == 0.0
    assert math.isnan(result.metric("fine", BROKEN, "times_c"))
    for name, expected in (("sound", [1.0, 0.0]), ("broken", [0.0, 1.0]), ("broken_in_c", [1.0, 1.0])):
        assert [result.metric(label, EVERY_MODEL, name) for label in ("fine", "bad")] == expected
    assert result.problems("bad", BROKEN) == [f"{robust.BLOWS_UP}, in C too"]


def test_every_physics_gets_the_controls_of_c_at_the_same_steps(tmp_path):
    seen = []

    class Listening(Fake):
        def move(self, mjm, mjd):
            super().move(mjm, mjd)
            seen.append(mjd.ctrl.copy())

    run(tmp_path, settings={"models": "hand", "steps": 10, "every": 4}, fake=Listening(lambda step: 0.0))
    expected = robust.commands(robust.load("hand"), Settings(steps=10, every=4), 0)
    assert expected.shape == (3, 16)
    np.testing.assert_allclose(seen, expected[np.arange(10) // 4], atol=1e-6)


def test_a_model_named_twice_is_refused():
    experiment = Robust()
    with pytest.raises(InputError, match="models has one twice"):
        experiment.cases(experiment.make_settings({"models": "hand,hand"}))


def test_scores_name_metrics_that_exist(tmp_path):
    result = run(tmp_path, fake=Fake(lambda step: 0.0))
    for score in Robust().scores(Robust().make_settings(SHORT)):
        assert not math.isnan(result.metric("fake", score.case, score.metric)), score
        assert "of 2" in score.title


def test_mujoco_warp_does_with_a_hand_what_c_does(tmp_path):
    settings = {"models": "hand", "steps": 100, "every": 20}
    result = load(runner.run(Robust(), tmp_path, methods=["mujoco"], device="cpu", settings=settings, picture=False))
    assert result.metric("mujoco", "hand", "times_c") == pytest.approx(1.0, abs=1e-3)
    assert result.metric("mujoco", EVERY_MODEL, "sound") == 1.0
    assert result.problems("mujoco", "hand") == []
