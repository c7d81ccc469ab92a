"""Cells: their hash is over all that the result depends on, and over nothing else."""

import json

import pytest

from stickslip import provenance
from stickslip.errors import InputError, SceneError, StickslipError, Unsupported
from stickslip.studies import cell, parse, plan
from stickslip.studies.execute import execute

SLOPE = {"scene": "box-on-slope", "steps": 100}
ROBOT = "<mujoco><worldbody><body><joint/><geom size='{size}'/></body></worldbody></mujoco>"


def hashes(run="rollout", **tables):
    return [one.hash for one in plan(parse({"run": run, "device": "cpu", **tables}))]


def one(run="rollout", **fixed):
    (found,) = hashes(run, fixed=fixed)
    return found


def test_all_ways_to_write_the_same_have_one_hash():
    same = one(**SLOPE, physics="cone-sweep:substeps=2", seed=0)
    assert one(**SLOPE, **{"physics.substeps": 2}) == same
    assert one(**SLOPE, physics="cone-sweep", **{"physics.substeps": 2}) == same
    assert one(steps=100, scene="box-on-slope:angle=0.25", **{"physics.substeps": 2}) == same  # a default
    assert len(set(hashes(fixed=SLOPE, list=[{"seed": 0}, {}]))) == 1


def test_every_parameter_counts():
    found = [
        one(**SLOPE),
        one(**SLOPE, seed=1),
        one(**SLOPE, physics="mujoco"),
        one(**SLOPE, **{"scene.mu": 0.5}),
        one(**SLOPE, **{"scene.mu": 0.5000000000000001}),
        one(**SLOPE, nworld=2),
        one(**SLOPE, **{"randomize.geom_friction": [0.9, 1.1]}),
    ]
    assert len(set(found)) == len(found)


def test_versions_and_code_and_device_count(monkeypatch):
    before = one(**SLOPE)
    versions = provenance.versions()
    cell.versions_of.cache_clear()
    monkeypatch.setattr(provenance, "versions", lambda: {**versions, "mujoco": "9.9"})
    assert one(**SLOPE) != before
    monkeypatch.undo()
    cell.versions_of.cache_clear()
    assert one(**SLOPE) == before
    (on_cuda,) = plan(parse({"run": "rollout", "device": "cuda", "fixed": SLOPE}))
    assert on_cuda.hash != before
    key = next(modules for modules in cell._digests if "stickslip.studies.work.rollout" in modules)
    monkeypatch.setitem(cell._digests, key, "other code")
    assert one(**SLOPE) != before


def test_the_content_of_a_model_counts_and_not_its_place(tmp_path):
    from stickslip.studies.work import base

    found = []
    for name, size in (("a", 0.1), ("b", 0.1), ("c", 0.2)):
        path = tmp_path / name / "robot.xml"
        path.parent.mkdir()
        path.write_text(ROBOT.format(size=size))
        found.append(one(scene=str(path), steps=10))
    assert found[0] == found[1] != found[2]
    path.write_text(ROBOT.format(size=0.3))
    base._model.cache_clear()
    base.scene_of.cache_clear()
    assert one(scene=str(path), steps=10) != found[2]


def test_a_model_has_another_digest_by_any_number_or_option(tmp_path):
    import mujoco

    def digest(text):
        return provenance.model_digest(mujoco.MjModel.from_xml_string(text))

    plain = ROBOT.format(size=0.1)
    assert digest(plain) == digest(plain)
    assert digest(plain) != digest(plain.replace("0.1", "0.10001"))
    assert digest(plain) != digest(plain.replace("<worldbody>", "<option timestep='0.001'/><worldbody>", 1))


def test_the_digest_of_code_is_taken_over_only_where_files_are_the_same(tmp_path, monkeypatch):
    one(**SLOPE)
    known = cell.known_code()
    before = dict(cell._digests)
    cell._digests.clear()
    cell.trust(known)
    assert cell._digests == before
    cell._digests.clear()
    for entry in known:
        path = next(iter(entry["files"]))
        entry["files"][path] = [1, 1]
    cell.trust(known)
    assert not cell._digests
    cell._digests.update(before)


def test_a_process_with_other_code_refuses_a_cell(tmp_path):
    (found,) = plan(parse({"run": "tests.studies.functions:plain", "device": "cpu", "fixed": {"x": 1.0}}))
    assert execute(found.task(), tmp_path, "cpu")["status"] == "done"
    changed = {**found.task(), "source": "0123456789abcdef", "hash": "0" * 40}
    reply = execute(changed, tmp_path, "cpu")
    assert reply["status"] == "other" and "0123456789abcdef where the study was begun" in reply["error"]


@pytest.mark.parametrize(
    ("run", "fixed", "kind", "says"),
    [
        ("rolout", {}, InputError, "did you mean 'rollout'"),
        ("rollout", {}, InputError, "scene is missing"),
        ("rollout", {"scene": "box-on-slop"}, SceneError, "did you mean 'box-on-slope'"),
        ("rollout", {**SLOPE, "scene.angel": 0.1}, SceneError, "did you mean 'angle'"),
        ("rollout", {**SLOPE, "scene.angle": 10.0}, SceneError, "from 0 to 1.2"),
        ("rollout", {**SLOPE, "stpes": 10}, InputError, "did you mean 'steps'"),
        ("rollout", {**SLOPE, "physics": "conesweep"}, InputError, "did you mean 'cone-sweep'"),
        ("rollout", {**SLOPE, "physics.sweps": 3}, InputError, "did you mean 'sweeps'"),
        ("rollout", {**SLOPE, "physics": "cone-sweep:sweeps=3", "physics.sweeps": 4}, InputError, "give it once"),
        ("rollout", {**SLOPE, "measure": "tests.studies.functions:none"}, InputError, "has no 'none'"),
        ("rollout", {**SLOPE, "randomize.geom_friction": 0.9}, InputError, "give two factors"),
        ("rollout", {"scene": "no/such.xml"}, SceneError, "no model file"),
        ("bench", {"experiment": "speed", "physics": "mujoco"}, Unsupported, "'speed' is about time"),
        ("bench", {"experiment": "stik", "physics": "mujoco"}, InputError, "did you mean 'stick'"),
        ("bench", {"experiment": "stick", "physics": "mujoco", "settings.angel": 1}, InputError, "no parameter"),
        ("bench", {"experiment": "stick", "physics": "newton"}, InputError, "newton is a planner"),
        ("bench", {"experiment": "stick", "physics": "mujoco", "case": "no"}, InputError, "no case of stick"),
        ("plan", {"task": "alegro"}, InputError, "did you mean 'allegro'"),
        ("plan", {"task": "allegro", "planner": "newton", "physics": "mujoco"}, InputError, "leave physics out"),
        ("retarget", {"motion": "no-such"}, InputError, "no file 'no-such'"),
        ("retarget", {"motion": "kick", "settings.sample": 3}, InputError, "did you mean 'samples'"),
        ("identify", {"scene": "push-t", "data": ["no.npz"], "parameters": ["mass:T=1:2"]}, InputError, "no file"),
        ("tests.studies.functions:plain", {"y": 1.0}, InputError, "does not take these parameters"),
        ("tests.studies.functions:plain", {"x": 1.0, "device": "cpu"}, InputError, "itself gives device"),
        ("tests.studies.no:plain", {}, InputError, "cannot be imported"),
    ],
)
def test_what_is_wrong_is_named_before_anything_runs(run, fixed, kind, says):
    with pytest.raises(kind, match=says):
        plan(parse({"run": run, "device": "cpu", "fixed": fixed}))


def test_the_cell_with_the_mistake_is_named():
    with pytest.raises(StickslipError, match=r"cell 3: scene.angle = 2.0"):
        hashes(fixed=SLOPE, grid={"scene.angle": [0.1, 0.2, 2.0]})


def test_every_experiment_about_time_is_refused():
    from stickslip.bench import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        table = {"run": "bench", "device": "cpu", "fixed": {"experiment": experiment.name, "physics": "mujoco"}}
        table["fixed"]["quick"] = True
        if experiment.timing:
            with pytest.raises(Unsupported, match=f"{experiment.name!r} is about time"):
                plan(parse(table))


def test_tasks_are_json_and_hold_what_was_given():
    (found,) = plan(parse({"run": "rollout", "device": "cpu", "fixed": SLOPE}))
    task = json.loads(json.dumps(found.task()))
    assert json.loads(task["parameters"]) == SLOPE
