"""`soak`: which models there are, events that a fake physics provokes, and what is found when a watch is blind."""

import math
import pathlib

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip import scenes
from stickslip.bench.experiments.accuracy import soak
from stickslip.bench.experiments.accuracy.soak import EVERY_MODEL, Soak
from stickslip.bench.experiments.accuracy.soak_check import HostCheck
from stickslip.errors import InputError
from stickslip.simulation.watching import Limits, Watch
from tests.bench import scripted

SHORT = {"models": "stack", "world_steps": 160, "nworld": 4, "every": 10}


def physics(script=lambda mjm, mjd: None):
    return scripted.Scripted(script)


def lost(mjm: mujoco.MjModel, mjd: mujoco.MjData) -> None:
    if mjd.time > 0.035:
        mjd.qvel[3] = math.nan


def thrown(mjm: mujoco.MjModel, mjd: mujoco.MjData) -> None:
    """Faster and faster, without a force."""
    mjd.qvel[0] = 1.5 * mjd.qvel[0] + 0.5


def run(tmp_path, settings=SHORT, **fakes):
    return scripted.run(Soak(), fakes, tmp_path, settings=settings, picture=True)


def test_events_are_counted_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "RESETS", 0.0)
    result = run(tmp_path, still=physics(), lost=physics(lost), thrown=physics(thrown))
    assert [result.metric(label, "stack", "world_steps") for label in ("still", "lost", "thrown")] == [160.0] * 3
    assert result.metric("still", "stack", "events") == 0.0
    # every world is lost after 17 steps; it is reset at the end of its command, after 20, and lost again
    assert result.metric("lost", "stack", "not_finite") == 8.0
    assert result.metric("thrown", "stack", "energy") > 0.0
    for label in ("still", "lost", "thrown"):
        assert result.metric(label, EVERY_MODEL, "silent") == 0.0, result.problems(label, "stack")
    assert result.metric("lost", EVERY_MODEL, "not_finite_rate") == pytest.approx(1e6 * 8 / 160)


def test_the_host_finds_what_a_blind_watch_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr(Watch, "after", lambda self, n: None)
    result = run(tmp_path, lost=physics(lost), thrown=physics(thrown))
    assert result.metric("lost", "stack", "silent") >= 8.0
    assert result.metric("thrown", "stack", "silent") >= 1.0
    assert any("silent: not finite" in problem for problem in result.problems("lost", "stack"))


def test_events_that_health_does_not_tell_are_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(Watch, "messages", ())
    result = run(tmp_path, thrown=physics(thrown))
    assert any("health() says nothing" in problem for problem in result.problems("thrown", "stack"))


def test_what_the_host_looks_for():
    mjm = ss.load("hand")
    check = HostCheck(mjm, Limits(twins=0.0))
    qpos, qvel = np.tile(mjm.qpos0, (4, 1)), np.zeros((4, mjm.nv))
    assert not any(worlds.any() for worlds in check.broken(qpos, qvel).values())
    qvel[1, 2] = 2e10
    joint = int(np.flatnonzero(mjm.jnt_limited)[0])
    low, high = mjm.jnt_range[joint]
    qpos[2:, mjm.jnt_qposadr[joint]] = high + 0.3 * (high - low)
    qpos[3, -1] += 1e-6
    found = check.broken(qpos, qvel)
    assert found["not finite"].tolist() == [False, True, False, False]
    assert found["joint"].tolist() == [False, False, True, True]
    assert found["twins"].tolist() == [False, False, False, True]

    cube = ss.load("stack")
    check = HostCheck(cube, Limits())
    assert check.knows_energy and not HostCheck(mjm, Limits()).knows_energy
    assert not check.deep(cube.qpos0)
    below = cube.qpos0.copy()
    below[2] = -1.0
    assert check.deep(below)
    moving = np.zeros(cube.nv)
    before = check.energy(cube.qpos0, moving, {})
    moving[0] = 2.0
    after = check.energy(cube.qpos0, moving, {})
    assert after[0] == pytest.approx(0.5 * cube.body_mass[1] * 4.0)
    heavy = check.energy(cube.qpos0, moving, {"body_mass": 3.0 * cube.body_mass})
    assert heavy[0] == pytest.approx(3.0 * after[0])
    assert not check.gained(before, after)
    moving[0] = 50.0
    assert check.gained(before, check.energy(cube.qpos0, moving, {}))


def test_twins_get_the_same(tmp_path):
    """Controls of worlds 2k and 2k + 1; those of others differ."""
    seen = []

    def listen(mjm, mjd):
        seen.append(mjd.ctrl.copy())

    run(tmp_path, settings={**SHORT, "models": "hand"}, fake=physics(listen))
    control = np.array(seen).reshape(-1, 4, 16)
    np.testing.assert_array_equal(control[:, ::2], control[:, 1::2])
    assert np.abs(control[:, 0] - control[:, 2]).max() > 0.01


def test_models_are_scenes_files_and_folders(tmp_path, monkeypatch):
    experiment = Soak()
    monkeypatch.delenv("MENAGERIE_ROOT", raising=False)
    soak._members.cache_clear()
    assert [*experiment.cases(experiment.make_settings())] == [*scenes.names(), EVERY_MODEL]
    (tmp_path / "robot").mkdir()
    text = "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    (tmp_path / "robot" / "scene.xml").write_text(text)
    (tmp_path / "robot" / "part.xml").write_text("<mujoco><include file='no.xml'/></mujoco>")
    folder = experiment.cases(experiment.make_settings({"models": str(tmp_path)}))
    assert [*folder] == ["robot/scene.xml", EVERY_MODEL]
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    soak._members.cache_clear()
    assert "robot/scene.xml" in experiment.cases(experiment.make_settings({"models": "stack,menagerie"}))
    soak._members.cache_clear()
    with pytest.raises(InputError, match="must be even"):
        experiment.cases(experiment.make_settings({"nworld": 3}))


def test_events_are_written(tmp_path):
    folder = tmp_path / "events"
    settings = {**SHORT, "events": str(folder)}
    scripted.run(Soak(), {"lost": physics(lost)}, tmp_path, settings=settings, picture=False)
    assert {path.name for path in pathlib.Path(folder).iterdir()} >= {"scripted-not-finite-world-0-step-18.npz"}
