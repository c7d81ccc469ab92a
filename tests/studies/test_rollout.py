"""Rollouts as cells: metrics against what is known, the same again, episodes as data sets."""

import math

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from stickslip import datasets, studies
from stickslip.studies import datasets as study_datasets
from stickslip.studies import records
from stickslip.studies.records import DONE
from tests.studies.scripted import serial, study

ARM = """
<mujoco>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody><body><joint name="j" axis="0 1 0"/><geom type="box" size=".1 .1 .1" mass="1"/></body></worldbody>
  <actuator><motor joint="j" ctrllimited="true" ctrlrange="-2 2"/></actuator>
</mujoco>
"""


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(ARM)
    return {"scene": str(path), "physics": "mujoco", "steps": 40}


def test_a_motion_that_is_known(tmp_path, arm):
    """Nothing acts: the angle is time times the speed at the start, which the seed alone gives."""
    fixed = {**arm, "speeds": 0.5, "arrays": ["qpos"], "every": 10, "measure": "tests.studies.functions:speed"}
    store, progress, _ = serial(tmp_path / "out", study("rollout", fixed=fixed, grid={"seed": [3, 4]}))
    assert progress.complete, studies.table(tmp_path / "out")["error"].to_pylist()
    for seed, cell in zip((3, 4), store.manifest(), strict=True):
        speed = np.random.default_rng(seed).normal(0.0, 0.5)
        found = store.record(DONE, cell).metrics
        assert found["moved"] == pytest.approx(abs(speed) * 0.4, rel=1e-5)
        assert found["fastest"] == found["speed"] == pytest.approx(abs(speed), rel=1e-6)
        assert found["simulated_s"] == pytest.approx(0.4) and found["lost_worlds"] == 0
        kept = studies.arrays(tmp_path / "out", cell)
        assert kept["qpos"].shape == (5, 1, 1)
        np.testing.assert_allclose(kept["qpos"][:, 0, 0], speed * kept["time"][:, 0], rtol=1e-4)


def test_the_same_again_to_the_last_bit(tmp_path, arm):
    random = {**arm, "controls": "random", "nworld": 3, "randomize.body_mass": [0.5, 2.0], "arrays": ["qpos", "ctrl"]}
    definition = study("rollout", fixed=random, grid={"seed": [0, 1]})
    one, _, _ = serial(tmp_path / "one", definition)
    two, _, _ = serial(tmp_path / "two", definition)
    cells = list(one.manifest())
    assert all(records.same(one.record(DONE, cell), two.record(DONE, cell)) for cell in cells)
    first, again, other = (
        studies.arrays(tmp_path / n, c) for n, c in (("one", cells[0]), ("two", cells[0]), ("one", cells[1]))
    )
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["qpos"], other["qpos"])
    ctrl = first["ctrl"]  # drawn every 10 steps, sampled every 10, within the limits, for each world
    assert np.abs(ctrl).max() <= 2.0 and len(np.unique(ctrl[1:])) == 4 * 3


def test_episodes_become_data_sets(tmp_path, arm):
    for package in ("h5py",):
        pytest.importorskip(package)
    random = {**arm, "controls": "random", "nworld": 2, "episodes": True, "decimation": 10}
    store, progress, _ = serial(tmp_path / "out", study("rollout", fixed=random, grid={"seed": [0, 1, 2]}))
    assert progress.complete, studies.table(tmp_path / "out")["error"].to_pylist()
    shards = study_datasets.shards(store)
    assert len(shards) == 3 and datasets.summary(shards[0]).episodes == 2
    for kind, target in (("hdf5", "episodes.hdf5"), ("lerobot", "lerobot")):
        assert study_datasets.build(store, kind) == tmp_path / "out" / target
        found = datasets.summary(tmp_path / "out" / target)
        assert (found.episodes, found.frames, found.fps) == (6, 24, 10.0)
    with datasets.Hdf5Reader(tmp_path / "out" / "episodes.hdf5") as file:
        assert [episode.info["seed"] for episode in file] == [0, 0, 1, 1, 2, 2]
        for episode in file:  # the last velocity is the sum of torques over the inertia
            inertia = 1.0 * (0.2**2 + 0.2**2) / 12.0
            expected = float(episode.actions.sum()) * 0.1 / inertia
            assert math.isclose(float(episode.final["qvel"][0]), expected, rel_tol=1e-4)
    before = (tmp_path / "out" / "episodes.hdf5").stat().st_mtime_ns
    study_datasets.build(store, "hdf5")
    assert (tmp_path / "out" / "episodes.hdf5").stat().st_mtime_ns == before  # of the same cells: it stays


def test_what_a_scene_cannot_do_is_told(tmp_path):
    definition = study("rollout", fixed={"scene": "pendulum", "physics": "mujoco", "steps": 10, "controls": "random"})
    store, progress, _ = serial(tmp_path / "out", definition, tries=1)
    assert progress.failed == 1
    assert "has no actuators" in studies.table(tmp_path / "out")["error"].to_pylist()[0]
