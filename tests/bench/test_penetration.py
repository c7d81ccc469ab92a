"""`penetration`: its statistics on known depths, its comparison with the paper, and MuJoCo in C as an anchor."""

import dataclasses
import types
from typing import Any

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.bench import runner
from stickslip.bench.experiments.depth.penetration import CASE, EDGES, PAPER, Penetration, Settings, Tally, depths_of
from stickslip.bench.result import load
from stickslip.scenes.pile import TOP
from tests.bench import scripted

ONE = {"n": 1, "layers": 1, "other_timesteps": "0.002"}
HALF = 0.025


def sinking(depth: Any) -> scripted.Scripted:
    """A cube that is `depth` (a function of the step, from 1 on) m deep in the block."""

    def script(mjm, mjd):
        mjd.qpos[2] = TOP + HALF - depth(round(mjd.time / mjm.opt.timestep))

    return scripted.Scripted(script)


def test_tally_is_numpys_mean_and_deviation():
    depths = np.random.default_rng(0).lognormal(size=(10, 50))
    tally = Tally()
    for part in depths:
        tally.add(part)
    tally.add(np.zeros(0))
    assert tally.mean == pytest.approx(depths.mean())
    assert tally.deviation == pytest.approx(depths.std())
    assert tally.largest == depths.max()
    np.testing.assert_array_equal(tally.deeper, [(depths > edge).sum() for edge in EDGES])


def test_only_contacts_that_touch_count():
    contacts = types.SimpleNamespace(dist=np.array([0.002, -0.003, 0.0, -0.001], dtype=np.float32))
    sim: Any = types.SimpleNamespace(contacts=lambda: contacts)
    np.testing.assert_allclose(depths_of(sim), [3.0, 0.0, 1.0])


def test_metrics_tell_known_depths(tmp_path):
    """Three quarters of the run alternate between 1 and 3 mm, the last is 0.5 mm deep; all four corners touch."""
    physics = {
        "rigid": sinking(lambda step: -1e-3),
        "deep": sinking(lambda step: 0.5e-3 if step > 30 else 1e-3 if step % 2 else 3e-3),
    }
    result = scripted.run(Penetration(), physics, tmp_path, settings={**ONE, "steps": 40})
    names = ("mean_mm", "std_mm", "max_mm", "settled_mean_mm", "contacts_a_step")
    depths = np.array([1.0, 3.0] * 15 + [0.5] * 10)
    assert np.isnan([result.metric("rigid", CASE, name) for name in names[:-1]]).all()  # nothing touches it
    assert result.metric("rigid", CASE, "contacts_a_step") == 0.0
    assert result.problems("rigid", CASE) == []  # so that the tables say "no contact"
    assert {score.absent for score in Penetration().scores(Settings())} == {"no contact"}
    expected = [depths.mean(), depths.std(), 3.0, 0.5, 4.0]
    assert [result.metric("deep", CASE, name) for name in names] == pytest.approx(expected, rel=1e-6)
    deeper = result.series("deep", CASE, "deeper_percent")
    assert deeper[np.searchsorted(EDGES, 2.0)] == pytest.approx(100.0 * (depths > 2.0).mean())
    assert result.series("deep", CASE, "mean_mm")[-1] == pytest.approx(0.5)


def test_a_pile_that_is_thrown_away_has_no_depth_at_rest(tmp_path):
    physics = {"fake": sinking(lambda step: 1e-3 if step < 5 else -1.0)}
    result = scripted.run(Penetration(), physics, tmp_path, settings={**ONE, "steps": 40})
    assert result.metric("fake", CASE, "mean_mm") == pytest.approx(1.0, rel=1e-4)
    assert np.isnan(result.metric("fake", CASE, "settled_mean_mm"))
    assert result.metric("fake", CASE, "contacts_a_step") == pytest.approx(4 * 4 / 40)


def test_samples_may_be_further_apart(tmp_path):
    physics = {"fake": sinking(lambda step: 1e-3 * step)}
    result = scripted.run(Penetration(), physics, tmp_path, settings={**ONE, "steps": 10, "every": 4}, picture=False)
    assert result.metric("fake", CASE, "mean_mm") == pytest.approx((4 + 8 + 10) / 3)


def test_longer_steps_cover_the_same_time_in_a_case_of_their_own(tmp_path):
    """1 mm deep in the first half of it, and 2 mm in the second; three times as much at the longer step."""
    seen = {}

    def script(mjm, mjd):
        seen[mjm.opt.timestep] = mjd.time
        depth = 1e-3 if mjd.time < 0.101 else 2e-3
        mjd.qpos[2] = TOP + HALF - depth * (3.0 if mjm.opt.timestep > 0.005 else 1.0)

    settings = {**ONE, "steps": 100, "other_timesteps": "0.01,0.002"}
    result = scripted.run(Penetration(), {"fake": scripted.Scripted(script)}, tmp_path, settings=settings)
    assert result.cases == [CASE, "drop, dt 10 ms"]
    assert seen == {0.002: pytest.approx(0.2), 0.01: pytest.approx(0.2)}
    assert result.metric("fake", CASE, "mean_mm") == pytest.approx(1.5, rel=1e-4)
    assert result.metric("fake", CASE, "settled_mean_mm") == pytest.approx(2.0, rel=1e-4)
    assert result.metric("fake", "drop, dt 10 ms", "mean_mm") == pytest.approx(4.5, rel=1e-4)
    assert result.series("fake", "drop, dt 10 ms", "time")[[0, -1]] == pytest.approx([0.01, 0.2])
    titles = [score.title for score in Penetration().scores(Penetration().make_settings(settings))]
    assert titles[::3] == ["penetration in a falling pile, mean", "penetration in a falling pile, mean, dt 10 ms"]


def test_a_run_that_diverges_has_no_metrics_but_a_reason(tmp_path):
    physics = {"fake": sinking(lambda step: np.nan if step > 5 else 1e-3)}
    result = scripted.run(Penetration(), physics, tmp_path, settings={**ONE, "steps": 10})
    assert np.isnan(result.metric("fake", CASE, "mean_mm"))
    assert "no longer finite" in result.problems("fake", CASE)[0]


def test_papers_table_stands_beside_ours(tmp_path):
    soft, stiff = (f"comfree:stiffness={k},damping=0.001" for k in (0.1, 0.5))
    physics = {soft: sinking(lambda step: 4e-3), stiff: sinking(lambda step: 1e-3)}
    result = scripted.run(Penetration(), physics, tmp_path, settings={**ONE, "steps": 4}, picture=False)
    assert Penetration().reported(result) == ()  # not the paper's scene
    result.settings = dataclasses.asdict(Settings())
    rows = Penetration().reported(result)
    measured = {row.paper: row.measured for row in rows}
    assert len(rows) == len(PAPER) + 1
    assert measured["3.9 ± 6.9"].startswith("4 ± ")
    assert measured["1.7 ± 4.9"] == "not run"
    assert rows[-1].measured == "decreases: 4 to 1"


def test_mujoco_sinks_as_deep_as_in_c_and_stiffer_comfree_less(tmp_path):
    soft, stiff = (f"comfree:stiffness={k},damping=0.001" for k in (0.1, 0.5))
    names = ["mujoco", soft, stiff]
    settings = {**ONE, "steps": 300}
    result = load(runner.run(Penetration(), tmp_path, methods=names, device="cpu", settings=settings, picture=False))
    mjm = mjcf.load("drop-test:n=1,layers=1")
    mjd = mujoco.MjData(mjm)
    depths = []
    for _ in range(300):
        mujoco.mj_step(mjm, mjd)
        depths += (-1e3 * mjd.contact.dist).tolist()
    assert result.metric("mujoco", CASE, "mean_mm") == pytest.approx(np.mean(depths), rel=0.05)
    assert result.metric("mujoco", CASE, "max_mm") == pytest.approx(np.max(depths), rel=0.02)
    settled = [result.metric(name, CASE, "settled_mean_mm") for name in names]
    assert settled[2] < 0.5 * settled[1]
