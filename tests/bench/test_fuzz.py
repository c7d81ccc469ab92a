"""`fuzz`: what is generated, what counts as a fault, processes that die or hang, models that are shrunk."""

import dataclasses
import os
import sys
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.bench.experiments.accuracy.fuzz import ALL, Fuzz, sort_of
from stickslip.bench.fuzzing import case as cases
from stickslip.bench.fuzzing import models, parts, process
from stickslip.bench.fuzzing.case import FAULTS, Case, Ending
from stickslip.bench.fuzzing.process import Worker
from stickslip.bench.fuzzing.shrink import shrink
from tests.bench import scripted

CALM = '<mujoco><worldbody><body pos="0 0 1"><freejoint/><geom size=".1"/></body></worldbody></mujoco>'


@pytest.fixture(scope="module")
def drawn():
    return [models.text(0, structure, case) for structure in range(400) for case in range(1)]


def test_models_are_drawn_from_three_numbers(drawn):
    assert drawn[7] == models.text(0, 7, 0)
    assert len(set(drawn)) == len(drawn)
    tags = [[element.tag for element in ElementTree.fromstring(models.text(0, 3, case)).iter()] for case in range(4)]
    assert all(found == tags[0] for found in tags)  # one structure


def test_models_have_everything(drawn):
    """All joints, geoms, tendons, equalities, actuators and sensors of the generator, and nearly all compile."""
    found, compiled = set(), 0
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        for text in drawn:
            found |= {(element.tag, element.get("type", "")) for element in ElementTree.fromstring(text).iter()}
            try:
                mujoco.MjModel.from_xml_string(text)
                compiled += 1
            except ValueError:
                pass
    finally:
        mujoco.set_mju_user_warning(None)
    assert compiled > 0.95 * len(drawn)
    wanted = {("freejoint", ""), ("hfield", ""), ("pair", ""), ("fixed", ""), ("spatial", ""), ("pulley", "")}
    wanted |= {("joint", kind) for kind in models._JOINTS} | {("geom", kind) for kind in (*models._GEOMS, "hfield")}
    wanted |= {(kind, "") for kind in ("connect", "weld", "adhesion", "general", *parts._ARGUMENTS)}
    sensors = (*parts._OF_SITE, *parts._OF_BODY, *parts._OF_FRAME, *parts._OF_NOTHING, "contact", "distance")
    wanted |= {(kind, "") for kind in sensors}
    assert not wanted - found, wanted - found


def test_numbers_are_ordinary_and_extreme():
    draw = models.Draw(np.random.default_rng(0), np.random.default_rng(1))
    sizes = np.array([float(draw.size(1.0)) for _ in range(2000)])
    assert (sizes > 0.0).all() and sizes.max() > 1e4 and sizes.min() < 1e-4
    assert 0.02 < (np.abs(np.log10(sizes)) > 0.5).mean() < 0.1
    tame = models.Draw(np.random.default_rng(0), np.random.default_rng(1), tame=True)
    assert all(0.1 < float(tame.size(1.0)) < 10.0 for _ in range(500))


def ending(kind, number, physics="comfree", **options):
    return cases.run(dataclasses.asdict(Case(kind, physics, 0, 0, number, steps=4, **options)))


def test_a_right_answer_a_refusal_and_their_faults(monkeypatch):
    assert ending("model", 0, xml=CALM) == Ending("right")
    refused = ending("model", 0, xml="<mujoco><worldbody><no/></worldbody></mujoco>")
    assert refused.what == "refused" and refused.why.startswith("SceneError")

    def spoil(self, n=1, **options):
        self.qvel.assign(np.full(self.qvel.shape, np.nan, dtype=np.float32))

    with monkeypatch.context() as patch:
        patch.setattr(ss.Simulation, "step", spoil)
        assert ending("model", 0, xml=CALM).what == "diverged"
        fast = CALM.replace("</worldbody>", "</worldbody><option gravity='0 0 -1e12'/>")
        assert ending("model", 0, xml=fast).what == "reported"  # C is not calm either
        well = ss.Health((), (), (), 0, 0)
        patch.setattr(ss.Simulation, "health", lambda self: well)
        assert ending("model", 0, xml=CALM).what == "silent"
    for error, what in ((KeyError("x"), "exception"), (ss.InputError("no"), "message")):

        def fail(*args, error=error, **options):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(ss.Simulation, "step", fail)
            assert ending("model", 0, xml=CALM).what == what
    assert {"diverged", "silent", "exception", "message"} < set(FAULTS)


def test_inputs_and_command_lines(tmp_path):
    """A few of each: all are taken or refused."""
    found = [ending(kind, number) for kind in ("inputs", "command") for number in range(10)]
    assert {one.what for one in found} <= {"right", "refused"}, found
    assert "refused" in {one.what for one in found}


def test_a_refusal_that_changes_something_is_a_fault(monkeypatch):
    before = ss.Simulation.__setattr__

    def careless(self, name, value):
        if name == "qvel":
            self._array("qvel").fill_(7.0)
        before(self, name, value)

    monkeypatch.setattr(ss.Simulation, "__setattr__", careless)
    found = {ending("inputs", number).what for number in range(1, 24) if number % 4}
    assert "changed" in found


FAKE = """
import json, os, sys, time
for line in sys.stdin:
    number = json.loads(line)["number"]
    if number == 1: os.kill(os.getpid(), 11)
    if number == 2: time.sleep(60)
    print(json.dumps({"what": "right", "why": str(os.getpid()), "memory": 1000}), flush=True)
"""


def test_a_process_that_dies_or_hangs_is_replaced(monkeypatch):
    monkeypatch.setattr(process, "PATIENCE", 0.5)
    monkeypatch.setattr(process, "LOOK", 0.1)
    one = Case("model", "comfree", 0, 0, 0)
    with Worker(0.2, [sys.executable, "-c", FAKE]) as worker:
        first = worker.run(one)
        assert first.what == "right" and worker.run(one) == first
        crash = worker.run(dataclasses.replace(one, number=1))
        assert crash == Ending("crash", "the process ended with SIGSEGV")
        second = worker.run(one)
        assert second.what == "right" and second.why != first.why
        hang = worker.run(dataclasses.replace(one, number=2))
        assert hang.what == "hang"
        assert worker.run(one).why not in (first.why, second.why)
        last = int(worker.run(one).why)
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


def test_a_model_is_shrunk_to_what_fails():
    text = models.text(0, 3, 1)
    tags = [element.tag for element in ElementTree.fromstring(text).iter()]
    assert len(tags) > 20
    tried = []

    def fails(xml):
        tried.append(xml)
        root = ElementTree.fromstring(xml)
        geom = root.find(".//geom[@density]")
        return geom is not None and root.find("option") is not None

    small = ElementTree.fromstring(shrink(text, fails, most=10_000))
    left = [element.tag for element in small.iter()]
    assert left[0] == "mujoco" and sorted(set(left)) == ["body", "geom", "mujoco", "option", "worldbody"]
    assert {len(element.attrib) for element in small.iter("geom")} == {1}
    tried.clear()
    shrink(text, fails, most=5)
    assert len(tried) == 5


def test_faults_of_one_cause_are_one_sort():
    one = Ending("exception", "sim.qvel = 3: KeyError: 12 at stickslip/a.py:f")
    assert sort_of(one) == sort_of(dataclasses.replace(one, why="sim.ctrl = 1: KeyError: 7 at stickslip/a.py:f"))
    assert sort_of(one) != sort_of(dataclasses.replace(one, why="sim.ctrl = 1: KeyError: 7 at stickslip/b.py:f"))


def test_faults_are_told_with_their_seeds_and_shrunk(tmp_path, monkeypatch):
    def fake(self, case):
        bad = case.number > 1 and ElementTree.fromstring(case.text).find(".//geom") is not None
        return Ending("crash", f"of case {case.number}") if bad and case.kind == "model" else Ending("right")

    monkeypatch.setattr(Worker, "run", fake)
    settings = {"models": 5, "inputs": 2, "commands": 2, "failures": str(tmp_path / "failures"), "trials": 2000}
    result = scripted.run(Fuzz(), {"one": ss.ComFree()}, tmp_path, settings=settings, picture=True)
    assert result.metric("one", ALL, "faults") == 3.0 and result.metric("one", ALL, "cases") == 9.0
    assert result.metric("one", ALL, "right") == 6.0 and result.metric("one", ALL, "sorts") == 1.0
    (told,) = result.problems("one", "generated models")
    assert told.startswith("crash, 3 times, first model 0/2/2: ")
    (file,) = (tmp_path / "failures").iterdir()
    left = [element.tag for element in ElementTree.fromstring(file.read_text()).iter()]
    assert left.count("geom") == 1 and len(left) <= 4


def test_a_physics_of_nobody_is_not_run(tmp_path):
    result = scripted.run(Fuzz(), {"fake": scripted.Scripted(lambda m, d: None)}, tmp_path, settings={"models": 1})
    assert "not registered" in result.unsupported("fake")["generated models"]
