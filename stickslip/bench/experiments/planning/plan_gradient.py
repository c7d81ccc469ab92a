"""`plan-gradient`: three fingertips, a TriFinger and an Allegro-like hand, with planners that use derivatives.

Each trial starts and is to end at random, the same for every planner. MuJoCo in C is the plant, and waits for every
plan. A planner is timed afterwards, alone: it goes once more through the states of the first trial.

`newton` solves the quasi-dynamic closed form by Gauss-Newton, `ipopt` the same problem by multiple shooting, `implicit`
has the complementarity conditions of the convex model as constraints. The last two take many times longer: they run
two of the cases, and fewer steps.

The last cases turn the cube with other contact stiffnesses K in the plan's model.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from stickslip.bench.baselines.planners import PlannerMethod
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial
from stickslip.bench.experiments.planning import trials as planning
from stickslip.bench.report import series, style
from stickslip.bench.result import Record, Result
from stickslip.errors import InputError, Unsupported
from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import trial as mpc_trial
from stickslip.parameters import parameter

COMMON = ("fingertips-rotate cube", "allegro cube")
"""What every planner runs; the others take too long for more."""
OBJECT = "cube"
"""The object of the sweep over K."""
SWEPT = "fingertips-rotate"
"""The task of the sweep over K."""
REPLAYED = 200
"""Most plans that are timed."""


@dataclasses.dataclass(frozen=True)
class Settings:
    tasks: tuple[str, ...] = parameter(
        ("fingertips-rotate", "fingertips-flip", "fingertips-air", "trifinger", "allegro"), "tasks"
    )
    trials: int = parameter(20, "trials of each object", low=1, high=10_000)
    objects: int = parameter(100, "objects of each task, at most", low=1, high=100)
    others: int = parameter(20, "trials of the planners other than newton", low=1, high=10_000)
    steps: int = parameter(300, "control steps of those, at most", low=2, high=100_000)
    stiffness: tuple[float, ...] = parameter(
        (0.001, 0.01, 0.1, 1.0, 10.0, 100.0), "contact stiffnesses K of the sweep", low=1e-9, high=1e9
    )
    sweep: int = parameter(10, "trials with each of them", low=1, high=10_000)
    longest: int = parameter(500, "control steps of those, at most", low=2, high=100_000)


@dataclasses.dataclass(frozen=True)
class Case:
    """A task with an object; `contact` is K of the sweep."""

    task: str
    object: str
    contact: float | None = None


class PlanGradient(Experiment[Settings]):
    name = "plan-gradient"
    summary = "success, errors and plan times of planners with derivatives: fingertips, TriFinger, Allegro-like hand"
    source = "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous Manipulation, Tables III-VIII"
    settings = Settings
    quick = {
        "tasks": ("fingertips-rotate",), "trials": 1, "objects": 1, "others": 1, "steps": 3, "stiffness": (1.0,),
        "sweep": 1, "longest": 3,
    }  # fmt: skip
    only = ("newton", "ipopt", "implicit")
    kind = "planner"
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        cases = {}
        for name in settings.tasks:
            if name not in TASKS:
                raise InputError(f"tasks is {name!r}: there is no such task; there are: {', '.join(TASKS)}")
            for thing in TASKS[name].objects[: settings.objects]:
                cases[f"{name} {thing}"] = Case(name, thing)
        for contact in settings.stiffness:
            cases[_swept(contact)] = Case(SWEPT, OBJECT, contact)
        return cases

    def measure(self, case: Case, planner: PlannerMethod, settings: Settings, trial: Trial) -> Outcome:
        if planner.slow and (f"{case.task} {case.object}" not in COMMON or case.contact is not None):
            raise Unsupported(f"{planner.name} takes too long: it runs {' and '.join(COMMON)} alone")
        if case.contact is not None:
            planner = dataclasses.replace(planner, contact=case.contact)
            trials, longest = settings.sweep, settings.longest
        elif not planner.slow:
            trials, longest = settings.trials, settings.steps if trial.quick else TASKS[case.task].longest
        else:
            planner.make(compile_problem(TASKS[case.task], case.object))  # an optional package that is missing shows
            trials, longest = settings.others, settings.steps
        ran = list(
            planning.many(_run, [(case, planner, trial.seed + place, longest) for place in range(trials)], trial)
        )
        metrics = planning.metrics(TASKS[case.task], ran)
        if case.contact is None:
            problem = compile_problem(TASKS[case.task], case.object)
            metrics |= planning.replay(problem, planner.make(problem), ran[0], REPLAYED, trial.clock)
        return Outcome(metrics, planning.series(TASKS[case.task], ran), planning.failures(ran))

    def relate(self, result: Result) -> None:
        """How many times longer than newton another planner takes."""
        for label in result.methods:
            for case in result.cases:
                ours = result.metric("newton", case, "plan_p50_ms")
                if label != "newton" and result.has(label, case) and ours > 0.0:
                    metrics = result.outcomes[label][case]["metrics"]
                    metrics["times_newton"] = result.metric(label, case, "plan_p50_ms") / ours

    def scores(self, settings: Settings) -> Sequence[Score]:
        scores = []
        for name in settings.tasks:
            case = f"{name} {TASKS[name].objects[0]}"
            scores.append(Score(f"{name}: success with the {TASKS[name].objects[0]}", case, "success", "", "high"))
            scores.append(Score(f"{name}: time of a plan", case, "plan_p50_ms", "ms"))
        return scores

    def reported(self, result: Result) -> Sequence[Reported]:
        settings = self.make_settings(result.settings)
        published = {
            "fingertips-rotate": "100 %",
            "fingertips-flip": "over 95 %",
            "fingertips-air": "over 90 %",
            "trifinger": "about 80 Hz",
            "allegro": "97.6 %, 11.5 deg, over 50 Hz",
        }
        rows = []
        for name in settings.tasks:
            cases = [case for case in result.cases if case.startswith(f"{name} ") and result.has("newton", case)]
            if name not in published or not cases:
                continue
            mean = {
                metric: sum(result.metric("newton", case, metric) for case in cases) / len(cases)
                for metric in ("success", "plan_p50_ms")
            }
            measured = f"{100 * mean['success']:.1f} % of {len(cases)} objects, {style.number(mean['plan_p50_ms'])} ms"
            rows.append(Reported(f"{name}: success over all objects", published[name], measured))
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        title = f"plan-gradient: {settings.trials} trials an object, plant MuJoCo in C, on {result.machine['device']}"
        fig, axes = style.figure(title, 3, 1, width=16.0, height=4.1)
        cases = [case for case in result.cases if not case.startswith("K ")]
        lone = [case for case in cases if case in COMMON]
        series.bars(axes[0, 0], _only(result, "newton"), cases, "success", cases, log=False)
        style.label(axes[0, 0], "newton: share of trials that succeeded", "", "success")
        _slant(axes[0, 0], cases)
        low, middle = style.split(axes[1, 0], 2)
        series.bars(low, result, lone, "plan_p50_ms", lone)
        style.label(low, "time of a plan, median", "", "time [ms]")
        series.bars(middle, result, lone, "success", lone, log=False)
        style.label(
            middle,
            f"success; planners other than newton: {settings.others} trials of {settings.steps} steps",
            "",
            "success",
        )
        left, right = style.split(axes[2, 0], 2)
        series.bars(left, _only(result, "newton"), cases, "angle_deg", [c.split()[-1] for c in cases], log=False)
        style.label(left, "newton: rotation still to go after success, mean", "", "angle [deg]")
        _slant(left, cases)
        swept = [_swept(contact) for contact in settings.stiffness]
        series.bars(right, _only(result, "newton"), swept, "success", swept, log=False)
        style.label(right, f"stiffness of contact in the plan's model ({SWEPT}, {OBJECT})", "", "success")
        style.legend(fig, [low, middle])
        return fig


def _slant(ax: Any, cases: Sequence[str]) -> None:
    """Name many cases below an axis, slanted so that they do not meet."""
    names = [case.removeprefix("fingertips-") for case in cases]
    ax.set_xticks(range(len(names)), names, rotation=50, ha="right", fontsize=8)


def _run(case: Case, planner: PlannerMethod, seed: int, longest: int) -> Any:
    """A trial, in a process of its own."""
    task = dataclasses.replace(TASKS[case.task], longest=longest)
    problem = compile_problem(task, case.object)
    return mpc_trial.run(problem, planner.make(problem), seed)


def _swept(contact: float) -> str:
    return f"K {contact:g}"


def _only(result: Result, label: str) -> Result:
    """A result with one of its methods."""
    return dataclasses.replace(result, methods={label: result.methods.get(label, Record(label))})
