"""`slide`: its reference, its metrics on known motion, and the hop that convex models are known for."""

import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiments.friction.slide import CASE, PAPER, Settings, Slide, speed, way
from stickslip.bench.result import load
from tests.bench import scripted


def test_reference_is_coulombs_law_integrated():
    now, moved, dt = 2.0, 0.0, 1e-4
    for step in range(1, 6001):
        now = max(0.0, now - dt * 0.5 * 9.81)
        moved += dt * now
        if step in (2000, 6000):
            assert speed(Settings(), step * dt) == pytest.approx(now, abs=1e-9)
            assert way(Settings(), step * dt) == pytest.approx(moved, abs=2e-4)
    assert way(Settings(), 10.0) == pytest.approx(2.0**2 / (2 * 0.5 * 9.81))


@pytest.mark.parametrize(
    ("factor", "faster", "hop", "sink"), [(1.0, 0.0, 0.0, 0.0), (1.1, 0.2, 0.007, 0.0), (0.9, -0.1, 0.0, 0.003)]
)
def test_metrics_tell_a_known_error(factor, faster, hop, sink, tmp_path):
    def script(mjm, mjd):
        mjd.qpos[0] = factor * way(Settings(), mjd.time)
        mjd.qpos[2] = 0.05 + (hop if 0.1 < mjd.time < 0.2 else -sink)
        mjd.qvel[0] = speed(Settings(), mjd.time) + faster

    result = scripted.run(Slide(), {"fake": scripted.Scripted(script)}, tmp_path)
    metrics = {name: result.metric("fake", CASE, name) for name in result.outcomes["fake"][CASE]["metrics"]}
    assert metrics["way_error_mm"] == pytest.approx(407.747 * (factor - 1.0), abs=1e-3)
    assert metrics["speed_error_rms"] == pytest.approx(abs(faster), rel=2e-3, abs=1e-6)  # the start has no error
    assert metrics["hop_mm"] == pytest.approx(1e3 * hop, abs=1e-4)
    assert metrics["sink_mm"] == pytest.approx(1e3 * sink, abs=1e-4)
    assert metrics["jolt"] == pytest.approx(
        abs(faster - 0.002 * 0.5 * 9.81) if faster else 0.002 * 0.5 * 9.81, rel=1e-3
    )
    assert metrics["end_speed"] == pytest.approx(abs(faster), abs=1e-6)


@pytest.mark.parametrize("name", ["qpos", "qvel"])
def test_a_broken_state_has_no_metrics(name, tmp_path):
    def script(mjm, mjd):
        getattr(mjd, name)[0] = np.nan

    result = scripted.run(Slide(), {"fake": scripted.Scripted(script)}, tmp_path, quick=True)
    assert np.isnan(result.metric("fake", CASE, "way_error_mm")) and np.isnan(result.metric("fake", CASE, "hop_mm"))
    assert any("no longer finite" in problem for problem in result.problems("fake", CASE))


def test_convex_model_hops_as_derived(tmp_path):
    pytest.importorskip("osqp", reason="the method qp needs OSQP: pip install 'stickslip[bench]'")
    result = load(runner.run(Slide(), tmp_path, methods=["qp"], device="cpu"))
    rise = 0.5 * 2.0 / (1 + 0.5**2)
    assert result.metric("qp", CASE, "hop_mm") == pytest.approx(1e3 * rise**2 / (2 * 9.81), rel=0.03)
    assert result.metric("qp", CASE, "way_error_mm") == pytest.approx(-0.5e3 * 2.0 * 0.002, abs=0.2)


def test_mujoco_and_comfree_hop_less(tmp_path):
    names = ["mujoco", "comfree", PAPER]
    result = load(runner.run(Slide(), tmp_path, methods=names, device="cpu"))
    assert result.metric("mujoco", CASE, "hop_mm") == pytest.approx(5.0, abs=0.5)
    assert result.metric("mujoco", CASE, "way_error_mm") == pytest.approx(-1.6, abs=0.5)
    for name in names[1:]:
        assert result.metric(name, CASE, "hop_mm") < 3.0
        assert result.metric(name, CASE, "way_error_mm") > 50.0
    assert len(Slide().reported(result)) == 1


def test_comfree_moves_alike_whatever_the_mass(tmp_path):
    ends = [
        load(
            runner.run(Slide(), tmp_path / mass, methods=[PAPER], device="cpu", settings={"mass": mass}, picture=False)
        ).metric(PAPER, CASE, "moved_mm")
        for mass in ("0.01", "3")
    ]
    assert ends[0] == pytest.approx(ends[1], rel=1e-2)
