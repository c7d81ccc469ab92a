"""`throughput`: how many worlds of a hand that grasps a cube are stepped in a second.

Every 50 steps each world gets its own random joint targets about those of the grasp, the same for every physics. The
rate is taken between one command and the next; giving the command is not timed. The paper's commands of half a radian
keep the grasp, it says, without saying how. With our hand they lose the cube in most worlds, in more or fewer with each
physics, and a hand that has dropped its cube has fewer contacts to solve. So the share of worlds with the cube still in
the hand and the contacts per world stand beside the rate, and the same is measured with commands that do keep the
grasp and with the hand at rest, where every physics has about the same to do.

On a CPU the run is repeated and the fastest of each stretch counts: see `timing.fastest`.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench import methods, timing
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial, problems
from stickslip.bench.references.in_hand import REACH
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes import hand
from stickslip.simulation import Simulation


@dataclasses.dataclass(frozen=True)
class Settings:
    worlds: tuple[int, ...] = parameter(
        (256, 512, 1024, 2048, 4096), "numbers of worlds (fewer on a CPU)", low=1, high=1 << 20
    )
    commands: tuple[float, ...] = parameter(
        (0.5, 0.1, 0.0), "farthest a joint target is from that of the grasp [rad]; 0: at rest", low=0.0, high=3.0
    )
    steps: int = parameter(1500, "steps that are timed", low=4, high=1_000_000)
    every: int = parameter(50, "steps between two commands; the rate is taken over as many", low=1, high=1_000_000)
    warm_up: int = parameter(100, "steps before, from the same start, that are not timed", low=0, high=100_000)
    repeats: int = parameter(1, "runs, of which the fastest of each stretch counts; several on a CPU", low=1, high=100)


@dataclasses.dataclass(frozen=True)
class Case:
    worlds: int
    command: float


def _kind(command: float) -> str:
    return f"commands of {command:g} rad" if command else "at rest"


def _label(command: float, worlds: int) -> str:
    return f"{_kind(command)}, {worlds} world{'s' if worlds > 1 else ''}"


def held_percent(sim: Simulation) -> float:
    """Share of the worlds whose cube is still in the hand: above the palm, and not far from where it started.

    A world that is no longer finite holds nothing.
    """
    place = sim.mjm.joint("cube").qposadr[0]
    qpos, qvel = sim.qpos.numpy(), sim.qvel.numpy()
    position = qpos[:, place : place + 3]
    near = np.linalg.norm(position - hand.CUBE, axis=1) < REACH
    finite = np.isfinite(qpos).all(axis=1) & np.isfinite(qvel).all(axis=1)
    return 100.0 * float(np.mean(finite & near & (position[:, 2] > hand.PALM)))


class Throughput(Experiment[Settings]):
    name = "throughput"
    summary = "steps of single worlds in a second, of a hand that holds a cube, commanded at random and at rest"
    source = "ComFree-Sim (arXiv:2603.12185), Fig. 7"
    settings = Settings
    cpu = {"worlds": (1, 4), "warm_up": 20, "repeats": 3}
    quick = {"worlds": (2,), "commands": (0.5, 0.0), "steps": 20, "every": 10, "warm_up": 2, "repeats": 1}
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        pairs = itertools.product(settings.commands, settings.worlds)
        return {_label(command, worlds): Case(worlds, command) for command, worlds in pairs}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        sim = trial.simulation(hand.SCENE.name, physics, nworld=case.worlds)
        timing.warm_up(sim, settings.warm_up)
        runs = [_run(sim, case.command, settings, trial, done) for done in range(settings.repeats)]
        seconds, doubts = timing.fastest([run["seconds"] for run in runs], [run["contacts"] for run in runs])
        contacts, held = runs[0]["contacts"] / case.worlds, runs[0]["held_percent"]
        rate = case.worlds * runs[0]["steps"] / seconds
        metrics = {
            "world_steps_per_s": rate.mean(),
            "world_steps_per_s_std": rate.std(),
            "contacts_per_world": contacts.mean(),
        }
        metrics = timing.unless_diverged(sim, metrics) | {"held_percent": held[-1]}
        stretches = {"world_steps_per_s": rate, "contacts_per_world": contacts, "held_percent": held}
        return Outcome(metrics, stretches, problems(sim) + doubts)

    def relate(self, result: Result) -> None:
        timing.add_ratios(result, "world_steps_per_s", "speedup", best="high")

    def scores(self, settings: Settings) -> Sequence[Score]:
        cases = [_label(command, max(settings.worlds)) for command in settings.commands]
        return [
            score
            for case in cases
            for score in (
                Score(f"throughput of a hand, {case}", case, "world_steps_per_s", "world steps/s", "high"),
                Score(f"worlds that still hold the cube, {case}", case, "held_percent", "%", "high"),
            )
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        rows = []
        for command in result.settings["commands"]:
            case = _label(command, max(result.settings["worlds"]))
            ours = timing.beside_mujoco(result, "comfree", case, "speedup")
            if ours:
                held = style.number(result.metric("comfree", case, "held_percent"))
                measured = f"{ours}; {held} % of the cubes held; {case} on {result.machine['device']}"
                quantity = f"throughput of comfree beside MuJoCo Warp, {_kind(command)}"
                rows.append(Reported(quantity, "nearly 2 x, commands of 0.5 rad, RTX 4090", measured))
        return rows

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        worlds, commands = sorted(settings.worlds), settings.commands
        title = f"throughput: a hand that holds a cube, on {result.machine['device']}"
        fig, axes = style.figure(title, 3, len(commands), height=2.8, width=max(8.0, 4.8 * len(commands)))
        for column, command in zip(axes.T, commands, strict=True):
            _draw_column(column, result, [_label(command, n) for n in worlds], worlds)
            style.label(column[0], f"{_kind(command)}: mean and std", "worlds", "world steps per second")
            column[0].yaxis.set_major_formatter(lambda value, place: style.number(value))
        style.legend(fig, axes)
        return fig


def _run(
    sim: Simulation, command: float, settings: Settings, trial: Trial, done: int
) -> dict[str, NDArray[np.float64]]:
    """Of every stretch between two commands: steps, seconds, and contacts and cubes held at its end.

    `done` is the number of runs before.
    """
    sim.reset()
    home = sim.ctrl.numpy().copy()  # on a CPU it is the array itself
    random = trial.random()
    rows = []
    with timing.undisturbed():
        for start in range(0, settings.steps, settings.every):
            steps = min(settings.every, settings.steps - start)
            if command:
                sim.ctrl = home + random.uniform(-command, command, home.shape)
            seconds = timing.timed(sim, steps, trial)
            rows.append((steps, seconds, sim.contact_count(), held_percent(sim)))
            trial.progress((done + (start + steps) / settings.steps) / settings.repeats)
    return dict(zip(("steps", "seconds", "contacts", "held_percent"), np.array(rows, dtype=float).T, strict=True))


def _draw_column(axes: Any, result: Result, cases: Sequence[str], worlds: Sequence[int]) -> None:
    """Rate, contacts and cubes held against the number of worlds, under one kind of command."""
    names = ("world_steps_per_s", "world_steps_per_s_std", "speedup")
    rate, std, speedup = (series.metrics(result, cases, name) for name in names)
    ticks = list(map(str, worlds))
    top, middle, bottom = axes
    for c in rate:
        shade = style.colour(c, list(result.methods))
        top.errorbar(worlds, rate[c], std[c], color=shade, marker="o", ms=4, capsize=3, label=style.short(c))
        if np.isfinite(speedup[c][-1]) and c not in methods.REFERENCES:
            text = f"{timing.times(speedup[c][-1])} the faster MuJoCo"
            at = {"textcoords": "offset points", "ha": "right", "fontsize": 8, "color": style.INK}
            top.annotate(text, (worlds[-1], rate[c][-1] + np.nan_to_num(std[c][-1])), (0, 5), **at)
    top.set_xscale("log")
    top.set_xticks(worlds, ticks)
    top.set_xticks([], minor=True)
    top.margins(y=0.2)
    top.set_ylim(bottom=0)
    series.bars(middle, result, cases, "contacts_per_world", ticks, log=False)
    style.label(middle, "contacts to solve", "worlds", "contacts per world")
    series.bars(bottom, result, cases, "held_percent", ticks, log=False)
    style.label(bottom, "cube still in the hand at the end", "worlds", "worlds [%]")
    bottom.set_ylim(0, 115)
