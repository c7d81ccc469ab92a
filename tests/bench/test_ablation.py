"""`ablation`: its metrics on known motion, who takes part, and what each part of PBD-R is seen to do."""

import dataclasses
import math

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.bench import methods
from stickslip.bench.baselines.pbd_paper.physics import PbdRAblated, PbdRPaper
from stickslip.bench.experiment import Trial
from stickslip.bench.experiments.free_bodies import ablation, ablation_cases
from stickslip.bench.experiments.free_bodies.ablation import (
    COLLIDING,
    OWN,
    PUBLISHED,
    PUSHED,
    SLIPPERY,
    TURNED,
    Ablation,
    Settings,
)
from stickslip.bench.methods import PAPER
from stickslip.bench.references import motion
from stickslip.bench.result import Record, Result
from tests import support
from tests.bench import scripted

BRISK = {"duration": 2.0, "flight": 0.4, "timestep": 0.02}
"""Settings for motion that is written down, not simulated."""


def measured(physics, case, **settings):
    experiment = Ablation()
    chosen = experiment.make_settings(settings)
    return experiment.measure(experiment.cases(chosen)[case], physics, chosen, Trial("cpu"))


def test_cases_are_those_of_the_paper_and_of_the_seven_tests():
    cases = Ablation().cases(Settings())
    assert (cases[SLIPPERY].mu, cases[SLIPPERY].value) == (0.0, 2.0)
    assert (cases[PUSHED].mu, cases[PUSHED].value) == (0.4, 17.0)
    assert (cases[TURNED].kind, cases[TURNED].value) == ("torque", 0.01)
    assert not any(case.noise for case in cases.values() if case)


def body_script(way=1.0, turn=1.0, spin=0.0):
    """A box that goes as the references do, but for factors on its way and turn, and a spin [rad/s] of its own."""

    def script(mjm, mjd):
        if mjm.nbody > 2:
            return
        force, torque, time = mjd.xfrc_applied[1, 0], mjd.xfrc_applied[1, 5], mjd.time
        mu = mjm.geom_friction[1, 0] if mjm.geom_condim[1] > 1 else 0.0
        mjd.qpos[0] = way * motion.pushed(force, mu, 4.0, time)
        inertia = motion.box_inertia(4.0, 0.1)
        mjd.qpos[3:7] = motion.yaw(spin * time + turn * motion.turned(torque, inertia, time))

    return script


def test_known_errors_of_a_box_are_told():
    for case in (SLIPPERY, PUSHED, TURNED):
        metrics = measured(scripted.Scripted(body_script()), case, **BRISK).metrics
        assert metrics["position_error_m"] == pytest.approx(0.0, abs=1e-6)
        assert metrics["rotation_error_deg"] == pytest.approx(0.0, abs=1e-4)
    wrong = scripted.Scripted(body_script(way=1.5, turn=1.1, spin=0.1))
    metrics = {case: measured(wrong, case, **BRISK).metrics for case in (SLIPPERY, PUSHED, TURNED)}
    assert metrics[SLIPPERY]["position_error_m"] == pytest.approx(0.5 * 0.5 * 0.5 * 4.0)
    assert metrics[SLIPPERY]["rotation_error_deg"] == pytest.approx(math.degrees(0.2), rel=1e-4)
    assert metrics[PUSHED]["position_error_m"] == pytest.approx(0.5 * 0.326 * 2.0, rel=1e-3)
    turned = 0.1 * motion.turned(0.01, motion.box_inertia(4.0, 0.1), 2.0) + 0.2
    assert metrics[TURNED]["rotation_error_deg"] == pytest.approx(math.degrees(turned), rel=1e-4)


def test_momentum_is_that_of_mujoco():
    mjm = mujoco.MjModel.from_xml_string(ablation.BOXES)
    random = np.random.default_rng(3)
    qpos, qvel = random.normal(size=mjm.nq), random.normal(size=mjm.nv)
    qpos[3:7] /= np.linalg.norm(qpos[3:7])
    qpos[10:] /= np.linalg.norm(qpos[10:])
    linear, angular = ablation.momentum(mjm, qpos, qvel)
    expected = support.momentum(mjm, qpos, qvel)
    np.testing.assert_allclose(linear.sum(axis=0), expected[0])
    np.testing.assert_allclose(angular, expected[1])


def test_lost_momentum_is_told():
    """The first box stops at 0.2 s, and the other one does not mind: 2 kg m/s and its spin are gone."""

    def script(mjm, mjd):
        if mjd.time > 0.2:
            mjd.qvel[:6] = 0.0

    outcome = measured(scripted.Scripted(script), COLLIDING, **BRISK)
    mjm = mujoco.MjModel.from_xml_string(ablation.BOXES)
    mjd = mujoco.MjData(mjm)
    mjd.qvel[:] = ablation.THROWN
    _, before = ablation.momentum(mjm, mjd.qpos, mjd.qvel)
    mjd.qvel[:6] = 0.0
    _, after = ablation.momentum(mjm, mjd.qpos, mjd.qvel)
    assert outcome.metrics["momentum_change"] == pytest.approx(2.0)
    assert outcome.metrics["exchanged"] == pytest.approx(2.0)
    assert outcome.metrics["spin_change"] == pytest.approx(np.linalg.norm(after - before), rel=1e-5)
    assert outcome.problems == []


def test_what_is_but_rounding_is_told_as_nothing():
    def script(mjm, mjd):
        if mjd.time > 0.2:
            mjd.qvel[1] = 4e-7  # of 2 kg: less than a millionth

    assert measured(scripted.Scripted(script), COLLIDING, **BRISK).metrics["momentum_change"] == 0.0
    turned = scripted.Scripted(body_script(spin=1e-9))
    assert measured(turned, SLIPPERY, **BRISK).metrics["rotation_error_deg"] == 0.0
    lost = scripted.Scripted(lambda mjm, mjd: mjd.qpos.fill(np.nan))
    assert math.isnan(measured(lost, SLIPPERY, **BRISK).metrics["position_error_m"])


def test_boxes_that_do_not_meet_are_a_problem():
    def script(mjm, mjd):
        pass

    outcome = measured(scripted.Scripted(script), COLLIDING, **BRISK)
    assert outcome.metrics["momentum_change"] == 0.0
    assert "did not meet" in outcome.problems[0]


def test_every_field_of_the_method_is_taken_back():
    """What differs between ours and the paper's is among the methods, by itself or with what it needs."""
    fields = ("iterations", "tolerance", "relaxation", "inertia", "contact", "slip", "clamp")
    paper, ours = PbdRPaper(), PbdRAblated()
    resolved = [method.subject for method in methods.resolve(OWN).values()]
    alone = [PbdRAblated(**dataclasses.asdict(each)) for each in resolved]
    for field in fields:
        assert any(
            getattr(each, field) == getattr(paper, field) != getattr(ours, field)
            and sum(getattr(each, other) != getattr(ours, other) for other in fields) == 1
            for each in alone
        ), field
    differ = {f for f in (*fields, "coordinates") if getattr(ours, f) != getattr(paper, f)}
    assert differ == {*fields, "coordinates"}
    assert PbdRPaper(coordinates="body") in resolved
    assert all(getattr(ss.PbdR(), f.name) == getattr(ours, f.name) for f in dataclasses.fields(ss.PbdR))
    assert [each.name for each in methods.resolve(PUBLISHED).values()] == ["pbd", *[PAPER] * 4]


def stored(outcomes, **settings):
    """A result of what was measured, by method and case."""
    chosen = Ablation().make_settings(settings)
    return Result(
        experiment="ablation", quick=False, seed=0, device="cpu", settings=vars(chosen), machine={}, versions={},
        methods={label: Record(label) for label in Ablation.only}, cases=list(Ablation().cases(chosen)),
        outcomes=outcomes,
    )  # fmt: skip


SHOWN = {
    SLIPPERY: [PAPER, f"{PAPER}:coordinates=body", *(f"{PAPER}:{switch}=false" for switch in ablation_cases.SWITCHES)],
    PUSHED: [
        "pbd-r",
        "pbd-r:tolerance=0.0",
        "pbd-r:relaxation=0.9",
        "pbd-r-ablated:clamp=iteration",
        "pbd-r:iterations=10",
        "pbd-r:iterations=10,relaxation=0.9",
    ],
    TURNED: ["pbd-r", "pbd-r-ablated:inertia=packed"],
    COLLIDING: ["pbd-r", "pbd-r-ablated:slip=absolute", "pbd-r-ablated:contact=centre"],
}
"""Who is simulated in what, to see what a part does."""


@pytest.fixture(scope="module")
def simulated():
    """Two seconds of each."""
    outcomes = {}
    for case, labels in SHOWN.items():
        for label, method in methods.resolve(labels).items():
            outcome = measured(method.subject, case, duration=2.0)
            assert outcome.problems == []
            outcomes.setdefault(label, {})[case] = {"metrics": outcome.metrics, "series": outcome.series}
    return stored(outcomes, duration=2.0)


def test_each_part_is_seen_to_do_what_it_is_there_for(simulated):
    """Errors and lost momentum where one is taken out.

    With 50 iterations it makes no difference when they end and how far each goes: the tolerance is there to save them,
    and the relaxation shows where there are few.
    """
    metric, way, turn = simulated.metric, "position_error_m", "rotation_error_deg"
    exact = 0.326 * 2.0 * 1e-3 / 2.0  # of steps, under a constant force
    assert metric("pbd-r", PUSHED, way) == pytest.approx(exact, rel=0.05)
    for variant in ("pbd-r-ablated:clamp=iteration", "pbd-r:iterations=10"):
        assert metric(variant, PUSHED, way) > 3.0 * exact
    for variant in ("tolerance=0.0", "relaxation=0.9"):
        assert metric(f"pbd-r:{variant}", PUSHED, way) == pytest.approx(exact, rel=0.05)
    few, fewer = (metric(f"pbd-r:iterations=10{more}", PUSHED, way) for more in ("", ",relaxation=0.9"))
    assert fewer > 1.5 * few
    assert metric("pbd-r-ablated:inertia=packed", TURNED, turn) > 50.0 * metric("pbd-r", TURNED, turn)
    assert metric("pbd-r-ablated:slip=absolute", COLLIDING, "momentum_change") > 0.01
    assert metric("pbd-r-ablated:contact=centre", COLLIDING, "spin_change") > 0.01
    for name in ("momentum_change", "spin_change"):
        assert metric("pbd-r", COLLIDING, name) < 1e-5
    assert metric(f"{PAPER}:coordinates=body", SLIPPERY, turn) == 0.0 < metric(PAPER, SLIPPERY, turn)
    assert metric(f"{PAPER}:linear=false", SLIPPERY, way) > 10.0 * metric(PAPER, SLIPPERY, way)
    assert metric(f"{PAPER}:angular=false", SLIPPERY, turn) > 10.0 * metric(PAPER, SLIPPERY, turn)


def test_velocities_by_positions_lead_astray_in_the_course_of_time():
    """Twice as far in two seconds, hundreds of times in ten: where the box is by then, positions are rounded more."""
    course, without = (
        measured(methods.resolve([label])[label].subject, SLIPPERY).series["position_error_m"]
        for label in (PAPER, f"{PAPER}:velocity=false")
    )
    early = len(course) // 5
    assert np.max(without[: early + 1]) > 2.0 * np.max(course[: early + 1])
    assert without[-1] > 100.0 * course[-1]


def test_the_table_of_the_paper_stands_beside_ours_at_its_settings(simulated):
    experiment = Ablation()
    assert experiment.reported(simulated) == ()  # 2 s
    time = np.linspace(0.0, 10.0, 201)
    series = {"time": time, "position_error_m": 0.1 * time, "rotation_error_deg": 3.0 * time}
    outcome = {SLIPPERY: {"metrics": {}, "series": series}}
    result = stored(dict.fromkeys(PUBLISHED, outcome))
    velocity, _, angular = experiment.reported(result)
    assert velocity.paper == "0.0002, 1.33, 0.32 (with it: about 0)"
    assert velocity.measured == "0.2, 1, 0.5 (with it: 0.2, 1, 0.5)"
    assert angular.paper.startswith("15, 136, 64.7")
    assert angular.measured.startswith("6, 30, 15 ")


def test_the_picture_has_a_row_for_everyone(simulated):
    fig = Ablation().draw(simulated)
    names = {text.get_text() for ax in fig.axes for text in ax.get_yticklabels()}
    assert {"pbd-r-ablated: inertia packed", "pbd-r-paper: without velocity", "pbd-r-paper: coordinates body"} <= names
    assert len(fig.axes[2].get_yticks()) == len(Ablation.only)
    steps = [line for ax in fig.axes for line in ax.lines if line.get_label().startswith("what steps")]
    assert [line.get_xdata()[0] for line in steps] == [
        pytest.approx(x, rel=1e-3) for x in (5e-4, 3.26e-4, math.degrees(0.01 / motion.box_inertia(4.0, 0.1) * 1e-3))
    ]
