"""`retarget`: a humanoid follows motions that nobody checked for physics; MPPI plans with the physics that is compared.

Controls are optimised with each physics as the plan's model and replayed in MuJoCo in C, for all. The first seed runs
alone and is timed, the others run side by side. Errors are means over time, by both metrics: `aligned`, and `spider`,
which compares a state with the reference of one time step earlier, as the evaluation behind the paper's table does. The
motions are our own, so that of the paper's figures the ratio between physics can be compared, and not the size. Files
of motions, or folders of them, can be named instead; their cases are called as the files.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.errors import InputError, Unsupported
from stickslip.mpc.retarget import made, rollout, score, support
from stickslip.mpc.retarget.contacts import detect_contacts
from stickslip.mpc.retarget.files import check, load
from stickslip.mpc.retarget.problem import Problem, compile_problem
from stickslip.mpc.retarget.robots import SERVOS, Options, find
from stickslip.mpc.retarget.rollout import Retargeted
from stickslip.mpc.retarget.settings import Settings as Optimisation
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

SUFFIXES = (".txt", ".csv", ".npz")
"""Of files of motions."""
COMFREE = "comfree:stiffness=0.55,damping=0.00055"
"""ComFree with the paper's parameters for retargeting."""
PAPER = {
    "cartwheel": ("Cartwheels", (0.037, 0.033), (0.100, 0.074), (0.529, 0.705)),
    "kick": ("Martial Arts", (0.047, 0.028), (0.118, 0.076), (0.589, 0.774)),
    "wave": ("Dance", (0.037, 0.033), (0.094, 0.069), (0.481, 0.646)),
    "getup": ("Getup", (0.036, 0.032), (0.088, 0.068), (0.473, 0.572)),
    "push-box": ("PushBox", (0.103, 0.080), (0.079, 0.057), (1.171, 0.719)),
}
"""The paper's motion for each of ours; its base position [m] and rotation errors [rad], and the time of an optimisation
[s], ComFree's and MuJoCo Warp's."""


@dataclasses.dataclass(frozen=True)
class Settings:
    motions: tuple[str, ...] = parameter(tuple(PAPER), "motions by name, files of motions, or folders of such files")
    servo: str = parameter("stiff", "servos: stiff as in the paper's model, or those of the robot", choices=SERVOS)
    trials: int = parameter(1, "seeds of a motion", low=1, high=1000)
    longest: float = parameter(60.0, "what is followed of a motion, at most [s]", low=0.05, high=10_000.0)
    samples: int = parameter(2048, "rollouts of a round", low=2, high=1 << 20)
    iterations: int = parameter(16, "rounds of an optimisation, at most", low=1, high=1000)
    horizon: int = parameter(48, "time steps of a rollout", low=6, high=10_000)
    improvement: float = parameter(0.0, "a round that improves the cost by less is the last", low=0.0, high=1e3)


class Retarget(Experiment[Settings]):
    name = "retarget"
    summary = "a humanoid follows motions that are only kinematic: MPPI with each physics as the plan's model"
    source = "ComFree-Sim: A GPU-Parallelized Analytical Contact Physics Engine, Table II"
    settings = Settings
    cpu = {"motions": ("squat", "side-step"), "trials": 1, "longest": 1.0, "samples": 48, "iterations": 4}
    quick = {
        "motions": ("squat",), "trials": 2, "longest": 0.2, "samples": 4, "iterations": 2, "horizon": 8,
    }  # fmt: skip
    only = ("cone-sweep", "mujoco", COMFREE)
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for name in settings.motions:
            for label, motion in [(name, name)] if made.known(name) else _files(name):
                if label in found or (motion != label and made.known(label)):
                    raise InputError(f"motions: {motion} is another motion called {label!r}; rename the file")
                found[label] = motion
        return found

    def measure(self, case: str, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        problem = _problem(case, settings)
        motion = problem.motion
        how = Optimisation(
            samples=settings.samples,
            iterations=settings.iterations,
            horizon=settings.horizon,
            improvement=settings.improvement,
            guidance=1.0 if motion.objects and settings.iterations > 2 else 0.0,
        )
        seeds = list(range(trial.seed, trial.seed + settings.trials))
        groups = [seeds[:1], *([seeds[1:]] if seeds[1:] else [])]
        ran: list[Retargeted] = []
        for place, group in enumerate(groups):

            def share(where: rollout.Progress, place: int = place) -> None:
                trial.progress((place + where.tick / where.ticks) / len(groups))

            ran += rollout.run(
                problem, physics, how, device=trial.device, seeds=group, progress=share, clock=trial.clock
            )
        problems = [f"seed {one.seed}: {one.reason}" for one in ran if one.reason == rollout.NOT_FINITE]
        problems += list(dict.fromkeys(f"plans: {note}" for one in ran for note in one.notes))
        over = {name: values.tolist() for name, values in score.series(ran[0]).items()}
        over["completed_by_seed"] = [float(one.completed) for one in ran]
        return Outcome(_metrics(problem, ran), over, problems)

    def relate(self, result: Result) -> None:
        """Time of an optimisation over MuJoCo Warp's."""
        for label in result.methods:
            for case in result.cases:
                if label != "mujoco" and result.has(label, case) and result.has("mujoco", case):
                    metrics = result.outcomes[label][case]["metrics"]
                    metrics["time_ratio"] = metrics["seconds"] / result.metric("mujoco", case, "seconds")

    def scores(self, settings: Settings) -> Sequence[Score]:
        found = []
        for case in self.cases(settings):
            found += [
                Score(f"{case}: base position error", case, "base_pos", "m"),
                Score(f"{case}: base rotation error", case, "base_rot", "rad"),
                Score(f"{case}: time of an optimisation", case, "seconds", "s"),
            ]
        return found

    def reported(self, result: Result) -> Sequence[Reported]:
        rows = []
        for case, (name, *figures) in PAPER.items():
            if not (result.has(COMFREE, case) and result.has("mujoco", case)):
                continue
            for what, key, (ours, theirs), unit in zip(
                ("base position error", "base rotation error", "time of an optimisation"),
                ("spider_base_pos", "spider_base_rot", "seconds"),
                figures,
                ("m", "rad", "s"),
                strict=True,
            ):
                measured = [style.number(result.metric(label, case, key)) for label in (COMFREE, "mujoco")]
                rows.append(
                    Reported(
                        f"{what}, {case} ({name}), ComFree against MuJoCo Warp",
                        f"{ours} {unit} against {theirs} {unit}",
                        f"{measured[0]} {unit} against {measured[1]} {unit}",
                    )
                )
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        title = f"retarget: {settings.samples} rollouts a round on {result.machine['device']}, servos {settings.servo}"
        fig, axes = style.figure(title, 2, 2, width=12.0, height=3.2)
        for ax, name, title, y in (
            (axes[0, 0], "base_pos", "base position error, mean over time", "error [m]"),
            (axes[0, 1], "base_rot", "base rotation error, mean over time", "error [rad]"),
            (axes[1, 0], "completed", "share of seeds that followed to the end", "completed"),
            (axes[1, 1], "seconds", "time of an optimisation, mean", "time [s]"),
        ):
            series.bars(ax, result, result.cases, name, result.cases, log=name in ("seconds", "base_pos", "base_rot"))
            style.label(ax, title, "", y)
        style.legend(fig, axes)
        return fig


def _files(name: str) -> list[tuple[str, str]]:
    """Labels and paths of a file of a motion, which need not be there yet, or of those in a folder."""
    path = Path(name)
    if path.is_dir():
        paths = sorted(str(one) for one in path.iterdir() if one.suffix.lower() in SUFFIXES)
        if not paths:
            raise InputError(
                f"motions: the folder {name} has no file with the suffix {', '.join(SUFFIXES)}"
                "; name a folder with motions"
            )
        return [(Path(one).stem, one) for one in paths]
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"motions is {name!r}: there is none; there are: {', '.join(made.MOTIONS)}, files with the suffix "
            f"{', '.join(SUFFIXES)}, and folders of them"
        )
    return [(path.stem, name)]


def _problem(name: str, settings: Settings) -> Problem:
    """A motion on its robot; of a file, on g1, with contacts with the floor where the file has none."""
    options = Options(servo=settings.servo)
    if made.known(name):
        motion, robot = made.make(name), find(made.find(name).robot)
    else:
        robot = find("g1")
        mjm = robot.build(options).compile()
        try:
            motion = load(name, robot=robot)
            if motion.objects:
                raise InputError(
                    f"{name} moves the object {next(iter(motion.objects))!r}; give files of the robot alone"
                )
            motion = check(motion, mjm, robot.base)
        except InputError as error:
            raise Unsupported(str(error)) from error  # the other files can be measured
        if motion.base is not None and not motion.contacts:
            motion = detect_contacts(motion, mjm, robot.contacts, robot.base)
    if motion.duration > settings.longest:
        motion = motion.clip(0.0, settings.longest)
    return compile_problem(robot, motion, options=options)


def _metrics(problem: Problem, ran: Sequence[Retargeted]) -> dict[str, float]:
    """Means over the seeds, and of the errors their standard deviation too."""
    found: dict[str, float] = {"completed": float(np.mean([one.completed for one in ran])), "seeds": float(len(ran))}
    for prefix, metric in (("", "aligned"), ("spider_", "spider")):
        errors = [dataclasses.asdict(score.errors(one, metric)) for one in ran]
        for name in errors[0]:
            values = [error[name] for error in errors]
            if not np.isnan(values).any():
                found[prefix + name] = float(np.mean(values))
                found[f"{prefix}{name}_std"] = float(np.std(values))
    reports = [score.report(one) for one in ran]
    given, without = score.reference_report(problem), rollout.open_loop(problem)
    for name in ("foot_slide", "penetration", "torque_share", "jerk", "gap"):
        values = [getattr(report, name) for report in reports]
        if not np.isnan(values).any():
            found[name] = float(np.mean(values))
    found["reference_foot_slide"], found["reference_penetration"] = given.foot_slide, given.penetration
    if problem.motion.base is not None:
        found["reference_missing"] = float(support.missing(problem.motion, problem.mjm, problem.robot.base).mean())
    found |= {f"open_loop_{k}": v for k, v in dataclasses.asdict(score.errors(without)).items() if not math.isnan(v)}
    first = ran[0]
    found["seconds"], found["seconds_std"] = float(first.seconds.mean()), float(first.seconds.std())
    found["rounds"] = float(np.mean([one.rounds.mean() for one in ran]))
    return {name: value for name, value in found.items() if math.isfinite(value)}
