"""`work-precision`: levels in words, known times, errors, depths and counts, and error that falls with accuracy."""

import dataclasses
from typing import ClassVar

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.bench import runner
from stickslip.bench.baselines.host import HostData, HostPhysics
from stickslip.bench.experiment import Trial
from stickslip.bench.experiments.accuracy import work_precision
from stickslip.bench.experiments.accuracy.work_precision import Scene, WorkPrecision, bodies_of, parse, power
from stickslip.bench.result import load
from stickslip.errors import InputError
from stickslip.physics.base import CountingPhysics, Stats
from tests.bench import scripted

SCENE = "soft-clutter:layers=1"
SETTINGS = {
    "scenes": f"{SCENE} for 0.2 compared at 0.1",
    "timesteps": "0.01,0.005",
    "accuracies": "1e-2,1e-3",
    "reference_timestep": 0.001,
    "reference_accuracy": 1e-5,
    "trace": 0.2,
    "worlds": 2,
}
COARSE, FINE = f"{SCENE}, 10 ms or 1e-2", f"{SCENE}, 5 ms or 1e-3"
RADIUS, DEPTH = 0.05, 1.5e-3


def place(mjd, offset: float, depth: float | None = None) -> None:
    """Four spheres in the air, the second `offset` from its place, the first in the floor if `depth` is given.

    The third moves at 0.25 m/s, as far as its velocity tells.
    """
    for body in range(4):
        mjd.qpos[7 * body : 7 * body + 7] = (0.2 * body - 0.3, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0)
    mjd.qvel[:], mjd.qvel[13] = 0.0, 0.25
    mjd.qpos[7] += offset
    if depth is not None:
        mjd.qpos[2] = RADIUS - depth


def off_by_a_step(mjm, mjd):
    """An error of three steps, and a depth that is there for 20 ms about 0.06 s."""
    place(mjd, 3.0 * mjm.opt.timestep, DEPTH if 0.0495 < mjd.time < 0.0705 else None)


def run(tmp_path, physics, **options):
    settings = {**SETTINGS, **options.pop("settings", {})}
    return scripted.run(WorkPrecision(), physics, tmp_path, settings=settings, **options)


class Watched(scripted.Scripted):
    """Looking at its contacts takes a second, which no time of a step may contain."""

    def contacts(self, m, d):
        assert self.clock is not None
        self.clock.now += 1.0
        return super().contacts(m, d)


@dataclasses.dataclass(frozen=True)
class Controlled(HostPhysics, CountingPhysics[mujoco.MjModel, HostData]):
    """Off by three times its accuracy; a step of its own is its accuracy in seconds."""

    name: ClassVar[str] = "controlled"
    accuracy: float = 0.5
    trace: int = 0

    def check(self, mjm):
        pass

    def advance(self, mjm, mjd):
        mjd.time += mjm.opt.timestep
        place(mjd, 3.0 * self.accuracy, DEPTH if 0.0495 < mjd.time < 0.0705 else None)
        mujoco.mj_fwdPosition(mjm, mjd)
        return np.zeros((mjd.ncon, 6))

    def stats(self, m, d):
        steps = np.array([round(mjd.time / self.accuracy) for mjd in d.worlds])
        ends = self.accuracy * np.arange(1, steps[0] + 1)
        trace = ((ends, np.full(len(ends), self.accuracy)),) if self.trace else ()
        dt = np.full(len(steps), self.accuracy)
        return Stats(steps, steps // 2, 10 * steps, 5 * steps, 0 * steps, dt, dt, trace)


def test_scenes_are_written_in_words():
    assert parse("hard-clutter for 10 compared at 0.3") == Scene("hard-clutter", 10.0, 0.3)
    for wrong in ("hard-clutter", "hard-clutter for 10", "a for x compared at 1", "a for 1 compared at 2", "a for 1"):
        with pytest.raises(InputError, match="SCENE for SECONDS compared at SECONDS"):
            parse(wrong)
    assert [power(value) for value in (1e-1, 1e-2, 1e-5, 2.5e-4)] == ["1e-1", "1e-2", "1e-5", "2.5e-4"]


def test_a_case_is_a_scene_and_a_level():
    settings = WorkPrecision().make_settings(device="cpu")
    cases = WorkPrecision().cases(settings)
    assert len(cases) == 9
    assert list(cases)[1] == "hard-clutter, 5 ms or 1e-3"
    assert [label for label, case in cases.items() if case.traced] == ["hard-clutter, 5 ms or 1e-3"]
    assert {score.case for score in WorkPrecision().scores(settings)} == {"hard-clutter, 5 ms or 1e-3"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accuracies": (1e-3,)}, "3 timesteps and 1 accuracies"),
        ({"timesteps": (0.01, 0.005, 0.007)}, "timesteps has 0.007 s, and 0.3 s of hard-clutter"),
        ({"interval": 0.2}, "interval has 0.2 s, and 0.3 s"),
        ({"reference_timestep": 7e-4}, "reference_timestep has 0.0007 s"),
        ({"timesteps": (0.01,) * 3, "accuracies": (0.1,) * 3}, "twice"),
    ],
)
def test_settings_that_do_not_fit_say_so(change, message):
    with pytest.raises(InputError, match=message):
        WorkPrecision().cases(WorkPrecision().make_settings(change, device="cpu"))


def test_wall_time_is_that_of_the_steps_alone(tmp_path):
    clock = scripted.Clock()
    result = run(tmp_path, {"fake": Watched(off_by_a_step, clock, lambda ncon: 2e-3)}, clock=clock, picture=False)
    assert result.metric("fake", COARSE, "wall_s_per_sim_s") == pytest.approx(0.2)
    assert result.metric("fake", FINE, "wall_s_per_sim_s") == pytest.approx(0.4)
    assert result.metric("fake", FINE, "world_seconds_per_s") == pytest.approx(2 / 0.4)
    assert result.metric("fake", FINE, "steps") == 40
    assert np.isnan(result.metric("fake", FINE, "iterations"))
    assert result.problems("fake", FINE) == []


def test_of_repeated_runs_the_fastest_of_each_stretch_counts(tmp_path):
    clock, step = scripted.Clock(), iter(range(10_000))
    slow = (103, 140)  # one in each run: 100 steps are the reference, one warms up, then twice 20
    fake = scripted.Scripted(off_by_a_step, clock, lambda ncon: 1.0 if next(step) in slow else 1e-3)
    result = run(tmp_path, {"fake": fake}, clock=clock, settings={"repeats": 2}, picture=False)
    assert result.metric("fake", COARSE, "wall_s_per_sim_s") == pytest.approx(0.1)


def test_error_is_the_distance_from_the_finest_run_and_depth_the_deepest_moment(tmp_path):
    result = run(
        tmp_path, {"fake": scripted.Scripted(off_by_a_step, clock := scripted.Clock(), lambda n: 1e-3)}, clock=clock
    )
    for case, timestep in ((COARSE, 0.01), (FINE, 0.005)):
        assert result.metric("fake", case, "error_mm") == pytest.approx(3e3 * (timestep - 0.001), rel=1e-4)
        assert result.metric("fake", case, "deepest_mm") == pytest.approx(1e3 * DEPTH, rel=1e-3)
        assert result.metric("fake", case, "end_speed_mm_per_s") == pytest.approx(250.0)
    assert 0.0 < result.metric("fake", FINE, "contacts_per_world") < 0.5


def test_what_controls_its_error_is_given_the_accuracy_and_peaks_between_reports_are_seen(tmp_path):
    result = run(tmp_path, {"own": Controlled()})
    for case, accuracy in ((COARSE, 1e-2), (FINE, 1e-3)):
        assert result.metric("own", case, "error_mm") == pytest.approx(3e3 * (accuracy - 1e-5), rel=1e-3)
        assert result.metric("own", case, "deepest_mm") == pytest.approx(1e3 * DEPTH, rel=1e-3)
        steps = round(0.2 / accuracy)
        counts = [result.metric("own", case, name) for name in ("steps", "rejections", "iterations", "factorizations")]
        assert counts == [steps, steps // 2, 10 * steps, 5 * steps]
    assert result.series("own", COARSE, "trace_s").size == 0
    assert result.series("own", FINE, "trace_s") == pytest.approx(1e-3 * np.arange(1, 201))
    assert result.series("own", FINE, "trace_dt_s") == pytest.approx(np.full(200, 1e-3))


def test_peaks_within_a_stretch_are_seen_in_a_second_run_that_no_time_is_taken_of(monkeypatch, tmp_path):
    """A stretch of 0.1 s passes over a depth about 0.06 s; the second run looks every 10 ms, at the same steps."""
    clock, timesteps, simulation = scripted.Clock(), [], Trial.simulation

    def watched(self, scene, physics, **options):
        timesteps.append(options["timestep"])
        return simulation(self, scene, physics, **options)

    monkeypatch.setattr(Trial, "simulation", watched)
    fake = scripted.Scripted(off_by_a_step, clock, lambda ncon: 2e-3)
    result = run(tmp_path, {"fake": fake}, clock=clock, settings={"stretch": 0.1}, picture=False)
    assert timesteps == [0.001, 0.01, 0.01, 0.005, 0.005]
    for case, wall in ((COARSE, 0.2), (FINE, 0.4)):
        assert result.metric("fake", case, "deepest_mm") == pytest.approx(1e3 * DEPTH, rel=1e-3)
        assert result.metric("fake", case, "contacts_per_world") == 0.0
        assert result.metric("fake", case, "wall_s_per_sim_s") == pytest.approx(wall)


def test_a_patch_has_no_depth_and_the_picture_has_iterations_instead(tmp_path):
    settings = {"scenes": "cylinder:modulus=1e7 for 0.2 compared at 0.1", "worlds": 1}
    result = run(tmp_path, {"fake": scripted.Scripted(lambda mjm, mjd: None)}, settings=settings)
    assert all(np.isnan(result.metric("fake", case, "deepest_mm")) for case in result.cases)
    titles = [ax.get_title(loc="left") for ax in WorkPrecision().draw(result).axes]
    assert "cylinder:modulus=1e7: iterations against error" in titles
    assert not any("deepest" in title for title in titles)


def test_every_world_but_the_first_starts_with_velocities_of_its_own(tmp_path):
    seen = []

    def watch(mjm, mjd):
        if mjd.time < 1.5 * mjm.opt.timestep:
            seen.append(mjd.qvel.copy())
        place(mjd, 0.0)

    run(tmp_path, {"fake": scripted.Scripted(watch)}, settings={"worlds": 3, "noise": 0.1}, picture=False)
    starts = np.reshape(seen, (-1, 3, 24))
    expected = np.random.default_rng(0).normal(0.0, 0.1, (3, 24))
    expected[0] = 0.0
    warm_up = [index for index, start in enumerate(starts) if not start.any()]
    assert warm_up == [1, 3]  # of each case, after the reference, which serves both
    for index in (0, 2, 4):
        assert starts[index] == pytest.approx(expected, abs=1e-6)


def test_a_reference_serves_every_level_of_a_scene(monkeypatch, tmp_path):
    timesteps = []
    simulation = Trial.simulation

    def watched(self, scene, physics, **options):
        timesteps.append(options["timestep"])
        return simulation(self, scene, physics, **options)

    monkeypatch.setattr(Trial, "simulation", watched)
    run(tmp_path, {"fake": scripted.Scripted(off_by_a_step)}, picture=False)
    assert timesteps == [0.001, 0.01, 0.005]


def test_nothing_that_touches_and_a_lost_reference_are_noted(tmp_path):
    def lost(mjm, mjd):
        place(mjd, np.nan if mjm.opt.timestep < 0.002 else 0.0)

    clock = scripted.Clock()
    result = run(tmp_path, {"fake": scripted.Scripted(lost, clock, lambda n: 1e-3)}, clock=clock)
    assert np.isnan(result.metric("fake", FINE, "error_mm"))
    assert np.isnan(result.metric("fake", FINE, "deepest_mm"))
    told = " ".join(result.problems("fake", FINE))
    assert "no contact in what was timed" in told
    assert "the reference run is no longer finite" in told


def test_positions_speed_and_energy_of_a_body_in_flight():
    mass, size, v, w = 2.0, np.array([0.1, 0.2, 0.3]), np.array([1.0, -2.0, 0.5]), np.array([3.0, 1.0, -2.0])
    scene = f"""
    <mujoco><worldbody><body pos="0 0 1"><freejoint/>
      <geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0" mass="{mass}"/></body></worldbody></mujoco>
    """
    sim = ss.Simulation(scene, ss.MuJoCo(), device="cpu")
    sim.qvel = [[*v, *w]]
    position, speed, energy = bodies_of(sim)
    assert position[0, 0] == pytest.approx([0.1, 0.0, 1.0], abs=1e-6)
    centre = v + np.cross(w, [0.1, 0.0, 0.0])
    assert speed[0, 0] == pytest.approx(np.linalg.norm(centre), rel=1e-5)
    inertia = mass / 3.0 * (size @ size - size**2)
    expected = 0.5 * mass * centre @ centre + 0.5 * inertia @ w**2 + mass * 9.81 * 1.0
    assert energy[0] == pytest.approx(expected, rel=1e-5)


def test_ratios_are_over_mujoco_and_over_drake(tmp_path):
    clock = scripted.Clock()
    times = {"mujoco": 4e-3, "drake": 6e-3, "cenic": 2e-3}
    physics = {n: scripted.Scripted(off_by_a_step, clock, lambda ncon, t=t: t) for n, t in times.items()}
    result = run(tmp_path, physics, clock=clock, picture=False)
    assert result.metric("cenic", FINE, "speedup_over_mujoco") == pytest.approx(2.0)
    assert result.metric("cenic", FINE, "speedup_over_drake") == pytest.approx(3.0)
    assert result.metric("mujoco", FINE, "speedup_over_drake") == pytest.approx(1.5)
    alone = run(tmp_path / "alone", {"cenic": physics["cenic"]}, clock=clock, picture=False)
    assert np.isnan(alone.metric("cenic", FINE, "speedup_over_drake"))


def test_work_stands_beside_that_of_the_paper(tmp_path):
    result = run(tmp_path, {"own": Controlled(), "fake": scripted.Scripted(off_by_a_step)}, picture=False)
    assert not WorkPrecision().reported(result)  # another scene than the paper's
    result.settings |= {"scenes": [work_precision.PAPER], "timesteps": [0.01, 0.005], "accuracies": [1e-2, 1e-3]}
    for cases in result.outcomes.values():
        for old, new in ((COARSE, "hard-clutter, 10 ms or 1e-2"), (FINE, "hard-clutter, 5 ms or 1e-3")):
            cases[new] = cases.pop(old)
    rows = {row.quantity: row for row in WorkPrecision().reported(result)}
    table = rows["steps, factorizations, iterations in 10 s of hard clutter, accuracy 1e-3, factors kept"]
    assert (table.paper, table.measured) == ("510, 10,557, 19,235", "own 200, 1,000, 2,000")
    assert rows["iterations in 10 s of hard clutter, accuracy 1e-2"].measured == "own 200"
    assert not any("not kept" in quantity or "10 ms" in quantity for quantity in rows)


def test_the_error_of_error_control_falls_with_its_accuracy_and_that_of_steps_with_their_length(tmp_path):
    settings = {
        **SETTINGS,
        "timesteps": "0.02,0.002",
        "accuracies": "1e-2,1e-4",
        "worlds": 1,
        "reference_accuracy": 1e-6,
    }
    path = runner.run(
        WorkPrecision(), tmp_path, methods=["icf", "cenic"], device="cpu", settings=settings, picture=False
    )
    result = load(path)
    cases = [f"{SCENE}, 20 ms or 1e-2", f"{SCENE}, 2 ms or 1e-4"]
    for label in ("icf", "cenic"):
        coarse, fine = (result.metric(label, case, "error_mm") for case in cases)
        assert 0.0 < fine < coarse / 4.0
        steps, iterations = ([result.metric(label, case, name) for case in cases] for name in ("steps", "iterations"))
        assert steps[1] > steps[0]
        assert iterations[0] > 0.0
        assert all(result.problems(label, case) == [] for case in cases)
    assert result.series("cenic", cases[1], "trace_dt_s").sum() == pytest.approx(0.2)
    assert result.metric("cenic", cases[1], "steps") == len(result.series("cenic", cases[1], "trace_dt_s"))
