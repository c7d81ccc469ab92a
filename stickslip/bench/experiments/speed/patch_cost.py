"""`patch-cost`: what a step with contact patches costs, beside one with points, and beside Drake's.

The same bodies touch in patches (hydroelastic) and at points: a box and a sphere dropped on a plane, a sphere on a box,
eight of each, and the cylinder and the gripper of the paper. Drake's surfaces are of meshes: its force is as good as
they are fine, and its time grows with them. So Drake runs with several resolutions. The error of the force at rest is
that of closed forms (`references/patches.py`). Compared with is the fastest resolution whose error is no larger than
ours, or the one of the least error if ours is smaller than all; its error stands beside. Boxes are exact in Drake at
any resolution. Its surfaces are of polygons, mostly quicker than triangles at the same force. Accuracy of error control
is the same in both.

Geometry is found once more on the state at the end, and timed alone: the share of a step that it takes is the paper's
question of Fig. 18. Under error control a step needs it twice.

A method that runs on the host (Drake) steps one world, on one thread, whatever the number of worlds. Rates are worlds
times steps in a second.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.bench import methods, timing
from stickslip.bench.baselines.drake import Drake
from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems
from stickslip.bench.experiments.speed.patch_cost_cases import FORMS, Case, Settings, force_errors, model
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.physics.base import CountingPhysics, Physics, StagedPhysics
from stickslip.simulation import Simulation

RESOLUTIONS = (0.2, 0.05, 0.02)
"""Edge lengths of Drake's meshes, of the smallest half size of a geom."""
EQUAL = 1e-3
"""Errors of a force closer than that are equal [%]."""
BATCHES = 3
"""In which the repeats of the geometry are timed; the fastest counts."""


class PatchCost(Experiment[Settings]):
    name = "patch-cost"
    summary = "time of a step with contact patches, over one with points and over Drake's at its resolutions"
    source = "CENIC: Convex Error-controlled Numerical Integration for Contact, Fig. 18"
    settings = Settings
    cpu = {
        "scenes": ("box", "sphere", "sphere on a box", "cylinder", "gripper", "8 boxes", "8 round bodies"),
        "worlds": 1,
        "repeats": 2,
    }
    quick = {"scenes": ("box",), "worlds": 2, "duration": 0.1, "repeats": 1, "geometry_repeats": 3}
    only = ("icf", "cenic", *(f"{Drake.name}:resolution={each:g},polygons=true" for each in RESOLUTIONS))
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        if settings.duration < settings.interval:
            raise InputError(
                f"duration is {settings.duration:g} s, less than interval: raise it to {settings.interval:g}"
            )
        found = [Case(scene, form) for scene in settings.scenes for form in FORMS]
        return {case.label: case for case in found}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        controlled, chosen = methods.has(physics, "accuracy"), physics
        if controlled:
            chosen = dataclasses.replace(physics, accuracy=settings.accuracy)  # type: ignore[type-var]
        worlds = 1 if isinstance(physics, Drake) else settings.worlds
        timestep = settings.interval if controlled else settings.timestep
        sim = trial.simulation(model(case), chosen, nworld=worlds, timestep=timestep)
        timing.warm_up(sim, 1)
        runs = []
        for _ in range(settings.repeats):
            sim.reset()
            before = _steps(sim)
            runs.append(_run(sim, settings, trial))
        seconds, doubts = timing.fastest([run[0] for run in runs], [run[1] for run in runs])
        wall, lasted = float(seconds.sum()), len(seconds) * _stretch(sim, settings) * timestep
        steps = _steps(sim) - before or round(lasted / timestep)
        errors = force_errors(case, sim)
        metrics = {
            "ms_per_step": 1e3 * wall / steps,
            "ms_per_sim_s": 1e3 * wall / lasted,
            "steps_per_sim_s": steps / lasted,
            "world_steps_per_s": worlds * steps / wall,
            "world_seconds_per_s": worlds * lasted / wall,
            "contacts_per_world": float(runs[-1][1][-1]) / worlds,
            "force_percent": max(errors, key=abs) if errors else np.nan,
        }
        if isinstance(chosen, StagedPhysics):
            metrics["geometry_ms"] = _geometry_ms(sim, chosen, settings.geometry_repeats, trial)
            metrics["geometry_percent"] = 100.0 * metrics["geometry_ms"] / metrics["ms_per_step"]
        return Outcome(timing.unless_diverged(sim, metrics), problems=problems(sim) + doubts)

    def relate(self, result: Result) -> None:
        """Every method's time with patches over that with points, and over that of Drake at a resolution as exact."""
        for case in self.cases(self.make_settings(result.settings)).values():
            for label in result.ran(case.label):
                own = result.outcomes[label][case.label]["metrics"]
                value = {name: result.metric(label, case.label, name) for name in own}
                if case.form == "patches":
                    points = result.metric(label, Case(case.scene, "points").label, "ms_per_step")
                    own["patches_over_points"] = value["ms_per_step"] / points
                rival = _rival(result, case.label, value["force_percent"])
                if rival is None or _is_drake(label):
                    continue
                theirs = {name: result.metric(rival, case.label, name) for name in value}
                own["drake_force_percent"] = theirs["force_percent"]
                own["step_over_drake"] = value["ms_per_step"] / theirs["ms_per_step"]
                own["second_over_drake"] = theirs["world_seconds_per_s"] / value["world_seconds_per_s"]
                own["rate_over_drake"] = value["world_steps_per_s"] / theirs["world_steps_per_s"]

    def scores(self, settings: Settings) -> Sequence[Score]:
        many = settings.worlds > 1
        rows = []
        for scene in settings.scenes:
            case = Case(scene, "patches").label
            absent = "not compared"
            rows += [
                Score(f"step of {scene} with patches", case, "ms_per_step", "ms"),
                Score(f"step of {scene}, patches over points", case, "patches_over_points", "x"),
                Score(f"error of the force of {scene}", case, "force_percent", "%"),
                Score(
                    f"steps of worlds in a second, over Drake's, {scene}", case, "rate_over_drake", "x", "high", absent
                )
                if many
                else Score(f"simulated second of {scene}, over Drake's", case, "second_over_drake", "x", absent=absent),
            ]
        return rows

    def draw(self, result: Result) -> Any:
        from stickslip.bench.experiments.speed import patch_cost_picture

        return patch_cost_picture.draw(result, self.make_settings(result.settings))


def _stretch(sim: Simulation, settings: Settings) -> int:
    """Steps that are timed at once."""
    return max(1, round(settings.interval / float(sim.mjm.opt.timestep)))


def _run(sim: Simulation, settings: Settings, trial: Trial) -> tuple[NDArray[np.float64], NDArray[np.integer]]:
    """Seconds of each stretch of a run from the start, and contacts of all worlds at its end."""
    if sim.nworld > 1:
        noise = trial.random().normal(0.0, settings.noise, (sim.nworld, sim.mjm.nv))
        noise[0] = 0.0
        sim.qvel = sim.qvel.numpy() + noise
    stretch = _stretch(sim, settings)
    count = round(settings.duration / settings.interval)
    seconds, contacts = np.zeros(count), np.zeros(count, dtype=int)
    with timing.undisturbed():
        for place in range(count):
            seconds[place] = timing.timed(sim, stretch, trial)
            contacts[place] = sim.contact_count()
            trial.progress((place + 1) / count)
    return seconds, contacts


def _steps(sim: Simulation) -> float:
    """Steps so far, a mean over the worlds, of a physics that counts them; else 0."""
    if not isinstance(sim.physics, CountingPhysics):
        return 0.0
    return float(np.mean(sim.physics.stats(sim.m, sim.d).steps))


def _geometry_ms(sim: Simulation, physics: StagedPhysics[Any, Any], repeats: int, trial: Trial) -> float:
    """Time of finding contacts, all worlds, where the bodies are; what clears them first is timed too and taken off."""
    with wp.ScopedDevice(sim.device), timing.undisturbed():
        stages = physics.stages(sim.m, sim.d)
        last = [name for name, _ in stages].index("collision")
        before, all_of_it = ([run for _, run in stages[:end]] for end in (last, last + 1))
        times = [_fastest(sim, physics, parts, repeats, trial) if parts else 0.0 for parts in (before, all_of_it)]
    return max(0.0, 1e3 * (times[1] - times[0]))


def _fastest(sim: Simulation, physics: Physics[Any, Any], parts: Sequence[Any], repeats: int, trial: Trial) -> float:
    """Seconds of the parts one after another: the least mean of a few batches."""

    def run() -> None:
        for part in parts:
            part()

    run()
    launch = run
    if physics.capturable:
        with wp.ScopedCapture(device=sim.device) as capture:
            run()
        launch = lambda: wp.capture_launch(capture.graph)  # noqa: E731
    often = max(1, repeats // BATCHES)
    return min(timing.elapsed(sim, launch, often, trial) for _ in range(BATCHES)) / often


def _rival(result: Result, case: str, error: float) -> str | None:
    """The fastest Drake whose force is as good, or the one of the best force; None if none ran."""
    time = {label: result.metric(label, case, "ms_per_sim_s") for label in result.ran(case) if _is_drake(label)}
    time = {label: value for label, value in time.items() if np.isfinite(value)}
    off = {label: abs(result.metric(label, case, "force_percent")) for label in time}
    known = {label: value for label, value in off.items() if np.isfinite(value)}
    if known:
        allowed = max(min(known.values()), abs(np.nan_to_num(error))) + EQUAL
        time = {label: time[label] for label, value in known.items() if value <= allowed}
    return min(time, key=lambda label: time[label]) if time else None


def _is_drake(label: str) -> bool:
    return label.partition(":")[0] == Drake.name
