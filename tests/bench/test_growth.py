"""`growth`: scenes of the size they claim, known step times, what is left out and why, and a small run."""

import math
import pathlib

import mujoco
import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.experiment import Trial
from stickslip.bench.experiments.speed import growth, growth_cases
from stickslip.bench.experiments.speed.growth import Growth, Settings
from stickslip.bench.experiments.speed.growth_cases import Case
from stickslip.bench.result import load
from stickslip.errors import InputError, Unsupported
from tests.bench import scripted

SMALL = {"worlds": "1,2,4", "dofs": "6,12,24", "humanoids": "1", "contacts": "0,4", "dof_worlds": 2, "settle": 2}
TIMING = {"batches": 2, "steps": 4, "longest": 10.0}


def stay(mjm, mjd):
    pass


def run(tmp_path, seconds, **settings):
    """With a physics that stays and takes known seconds for a step of the model and worlds at hand."""
    clock = scripted.Clock()

    class Fake(scripted.Scripted):
        def step(self, m, d):
            d = super().step(m, d)
            clock.now += seconds(m, len(d.worlds))
            return d

    fakes = {"fake": Fake(stay)}
    return scripted.run(Growth(), fakes, tmp_path, settings={**SMALL, **TIMING, **settings}, clock=clock)


def at_start(mjm: mujoco.MjModel) -> mujoco.MjData:
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    mujoco.mj_forward(mjm, mjd)
    return mjd


@pytest.mark.parametrize("path", sorted(pathlib.Path(growth.__file__).parent.glob("*.xml")), ids=lambda path: path.stem)
def test_every_file_opens_by_itself(path):
    assert mujoco.MjModel.from_xml_path(str(path)).opt.timestep == 0.002


@pytest.mark.parametrize("label", Growth().cases(Settings(worlds=(1,), contacts=(0, 4, 64), humanoids=(1, 3))))
def test_scenes_have_the_dofs_and_contacts_they_claim_and_stay_at_rest(label):
    case = Growth().cases(Settings(worlds=(1,), contacts=(0, 4, 64), humanoids=(1, 3)))[label]
    mjm = case.model
    mjd = at_start(mjm)
    axis = growth_cases.AXES[case.curve]
    if axis == "dofs":
        assert mjm.nv == case.size
    if axis == "contacts":
        assert mjd.ncon == case.size
    start = mjd.ncon
    mujoco.mj_step(mjm, mjd, 100)
    assert mjd.ncon == start
    if start:  # what has none falls
        assert np.abs(mjd.qvel).max() < 0.5


def test_several_humanoids_stand_side_by_side_and_move_as_one_alone():
    one, three = (growth_cases.scenes.humanoids(count) for count in (1, 3))
    alone, together = at_start(one), at_start(three)
    mujoco.mj_step(one, alone, 50)
    mujoco.mj_step(three, together, 50)
    qpos = together.qpos.reshape(3, one.nq)
    assert qpos[:, 0] - alone.qpos[0] == pytest.approx([0.0, 1.5, 3.0], abs=1e-6)
    assert qpos[:, 1:] == pytest.approx(np.tile(alone.qpos[1:], (3, 1)), abs=1e-5)


def test_cases_are_sorted_and_named_by_what_grows():
    labels = list(Growth().cases(Settings(worlds=(4, 1), dofs=(6,), contacts=(4, 0))))
    assert labels[:3] == ["humanoid, 1 world", "humanoid, 4 worlds", "chain of hinges, 6 dofs"]
    assert labels[3:8] == [f"robots, {dofs} dofs" for dofs in (18, 33, 66, 132, 198)]
    assert labels[8:10] == ["spheres, 0 contacts", "spheres, 4 contacts"]
    assert labels[-1] == "quadruped among boxes, 4 contacts"  # it has contacts of its own
    settings = Growth().make_settings(device="cpu")
    assert max(settings.worlds) < max(Settings().worlds) == 65_536
    assert max(settings.contacts) < max(Settings().contacts)


def test_times_are_those_of_the_script(tmp_path):
    result = run(tmp_path, lambda m, worlds: 1e-3 * worlds)
    assert result.metric("fake", "humanoid, 4 worlds", "ms_per_step") == pytest.approx(4.0)
    assert result.metric("fake", "humanoid, 4 worlds", "world_steps_per_s") == pytest.approx(1000.0)
    assert result.metric("fake", "humanoid, 4 worlds", "worlds") == 4
    assert result.metric("fake", "chain of hinges, 24 dofs", "dofs") == 24
    assert result.metric("fake", "chain of hinges, 24 dofs", "worlds") == 2
    assert result.metric("fake", "boxes, 4 contacts", "contacts_per_world") == pytest.approx(4.0)
    assert result.metric("fake", "spheres, 0 contacts", "contacts_per_world") == 0.0
    assert result.unsupported("fake") == {}
    assert {score.case for score in Growth().scores(Growth().make_settings(result.settings))} <= set(result.cases)


def test_a_case_that_takes_too_long_is_left_out_with_all_larger_ones(tmp_path):
    """Two cases are too few to foresee the third; the first step shows it."""
    result = run(tmp_path, lambda m, worlds: 1.0 if m.nv == 12 else 1e-3, limit=3.0)
    reasons = result.unsupported("fake")
    assert list(reasons) == ["chain of hinges, 12 dofs", "chain of hinges, 24 dofs"]
    told = "chain of hinges, 12 dofs: a step takes 1 s, and 11 of them longer than the limit of 3 s"
    assert set(reasons.values()) == {told}
    assert result.complete


def test_a_case_that_would_take_too_long_by_those_before_is_not_tried(tmp_path):
    tried = []

    def seconds(m, worlds):
        tried.append(m.nv)
        return 1e-3 * (m.nv / 6.0) ** 2 if m.nv != 33 else 1e-3

    result = run(tmp_path, seconds, limit=0.1)  # 11 steps of 4 ms, and of 16 ms
    assert result.metric("fake", "chain of hinges, 12 dofs", "ms_per_step") == pytest.approx(4.0)
    reason = "chain of hinges, 24 dofs: a step would take about 0.016 s by the cases before, and 11 of them longer"
    assert result.unsupported("fake")["chain of hinges, 24 dofs"].startswith(reason)
    assert 24 not in tried[: tried.index(18)]


def test_a_case_that_does_not_fit_is_left_out_and_other_errors_are_not_hidden(monkeypatch):
    case, settings = Case("humanoid", 4, 4), Settings(worlds=(1, 4))

    def failing(error):
        def measure(*_):
            raise error

        return measure

    for error in (MemoryError("no"), RuntimeError("Failed to allocate 8 bytes"), InputError("enough for about 3")):
        monkeypatch.setattr(growth, "_measure", failing(error))
        with pytest.raises(Unsupported, match="humanoid, 4 worlds: does not fit into the memory of cpu"):
            Growth().measure(case, None, settings, Trial("cpu"))  # type: ignore[arg-type]
    monkeypatch.setattr(growth, "_measure", failing(RuntimeError("something else")))
    with pytest.raises(RuntimeError, match="something else"):
        Growth().measure(case, None, settings, Trial("cpu"))  # type: ignore[arg-type]


def test_a_case_after_one_that_the_physics_cannot_run_gives_its_reason():
    earlier = {"humanoid, 1 world": {"unsupported": "no joints"}}
    with pytest.raises(Unsupported, match="^humanoid, 1 world: no joints$"):
        Growth().measure(Case("humanoid", 4, 4), None, Settings(worlds=(1, 4)), Trial("cpu", earlier=earlier))  # type: ignore[arg-type]


def test_the_picture_marks_where_cases_were_left_out(tmp_path):
    result = run(tmp_path, lambda m, worlds: 1.0 if m.nv == 12 else 1e-3, limit=3.0)
    axes = Growth().draw(result).axes
    assert [ax.get_xlabel() for ax in axes[3:]] == ["worlds", "dofs of a world", "contacts of a world"]
    assert axes[0].get_ylabel() == "time of a step of all worlds [ms]"
    crosses = [[line for line in ax.lines if line.get_marker() == "x" and len(line.get_xdata())] for ax in axes[:3]]
    assert [len(found) for found in crosses] == [0, 1, 0]
    assert list(crosses[1][0].get_xdata()) == [6.0]
    contacts = {tuple(line.get_xdata()) for line in axes[2].lines if len(line.get_xdata()) > 1}
    assert contacts == {(0.0, 4.0)}


def test_small_run_has_every_metric(tmp_path):
    settings = {"worlds": "1,2", "dofs": "6", "contacts": "4", "contact_worlds": 1, "dof_worlds": 1}
    result = load(
        runner.run(Growth(), tmp_path, methods=["mujoco", "comfree"], device="cpu", quick=True, settings=settings)
    )
    for label in result.methods:
        assert result.unsupported(label) == {}
        for case in result.cases:
            assert result.metric(label, case, "ms_per_step") > 0.0
            assert result.metric(label, case, "bytes_per_world") > 0.0
            assert math.isfinite(result.metric(label, case, "speedup"))
            assert result.problems(label, case) == []
    assert (tmp_path / "growth.png").exists()
