"""Trials of a planning task as the work of cells; the plant waits for every plan."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from stickslip import files, spec
from stickslip.errors import InputError, StickslipError, unknown
from stickslip.mpc.planners.catalogue import PLANNERS, SAMPLING, make_planner, settings_of
from stickslip.mpc.task import Task, compile_problem
from stickslip.mpc.tasks.load import load_task
from stickslip.mpc.tasks.load import split as split_file
from stickslip.mpc.trial import film, trial
from stickslip.parameters import checked as checked_class
from stickslip.parameters import parameter
from stickslip.physics.registry import DEFAULT, PHYSICS
from stickslip.studies.work import base
from stickslip.studies.work.base import Outcome, Place, Resolved, Work


@checked_class
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of a trial, besides those of planner and physics."""

    task: str = parameter("", "a task, as `stickslip tasks` lists them, or a Python file that defines one")
    object: str = parameter("", "an object of the task; empty: its first")
    planner: str = parameter("", "a planner, with or without parameters; empty: the task's")
    physics: str = parameter("", "contact physics of the rollouts of a sampling planner; empty: cone-sweep")
    seed: int = parameter(0, "of start, goal and planner", 0)
    film: bool = parameter(False, "write a film and a recording")


class Plan(Work):
    """A trial of a planning task, on MuJoCo in C."""

    name = "plan"
    packages = ("casadi", "mujoco-menagerie")

    def resolve(self, given: Mapping[str, Any], device: str) -> Resolved:
        chosen, task, planner, physics = _chosen(given)
        name = spec.split(planner)[0]
        values = {
            "task": task.name,
            "object": chosen.object or task.objects[0],
            "planner": name,
            "settings": base.listed(dataclasses.asdict(settings_of(planner))),
            "seed": chosen.seed,
            "film": chosen.film,
        }
        modules = (type(self).__module__, "stickslip.mpc.tasks", PLANNERS[name].partition(":")[0])
        contents = {}
        if name in SAMPLING:
            values["physics"], more, _ = base.physics_of(physics)
            modules = (*modules, *more)
        file, _ = split_file(chosen.task)
        if file is not None:
            contents["task"] = base.file_digest(str(file))
        return Resolved(values, f"{task.name} {name} {spec.split(physics)[0]}", modules, contents)

    def run(self, given: Mapping[str, Any], place: Place) -> Outcome:
        chosen, task, planner, physics = _chosen(given)
        problem = compile_problem(task, chosen.object or task.objects[0])
        sampling = spec.split(planner)[0] in SAMPLING
        method = spec.resolve(physics, PHYSICS, "physics") if sampling else None
        options = {"physics": method, "device": place.device} if sampling else {}
        ran = trial.run(problem, make_planner(planner, problem, **options), chosen.seed)
        if ran.aborted:
            raise StickslipError(ran.reason)
        measures = zip(task.success.measures, ran.errors, strict=True)
        metrics = {"success": ran.success, "steps": ran.steps}
        metrics |= {measure.key: float(measure.shown(float(error))) for measure, error in measures}
        if chosen.film:
            shown, _ = film.pictures(problem, ran)
            (place.folder / "film.gif").write_bytes(film.film(shown, ran.steps * problem.period))
            files.write_bytes_atomic(place.folder / "recording.npz", film.recording(problem, ran))
        return Outcome(metrics, {"reason": ran.reason}, {"history": ran.history}, ran.notes)


def _chosen(given: Mapping[str, Any]) -> tuple[Parameters, Task, str, str]:
    """Parameters, the task, and the specs of planner and physics."""
    plain, of = base.split(given, ("planner", "physics"))
    chosen = base.checked(Parameters, plain, "plan", ["task"])
    task = load_task(chosen.task)
    if chosen.object and chosen.object not in (*task.objects, *task.optional):
        raise unknown(f"object of {task.name}", chosen.object, (*task.objects, *task.optional))
    planner = base.joined(chosen.planner or task.planner, of["planner"], "planner")
    name = spec.split(planner)[0]
    if name not in PLANNERS:
        raise unknown("planner", name, PLANNERS)
    if name not in SAMPLING and (chosen.physics or of["physics"]):
        raise InputError(f"physics is given: the planner {name} has a model of its own; leave physics out")
    return chosen, task, planner, base.joined(chosen.physics or DEFAULT, of["physics"], "physics")
