"""`particles`: time of a step against the number of spheres that a body is made of.

The box of the first of the seven tests stands on a plane, once unmoved and once pushed so that it slides; it is made of
64 to a million spheres. Then there are many boxes of few spheres, one per world. MuJoCo has no such spheres: its step
is timed beside each of them, and drawn as one level line.

A step is 1 ms, of one substep, replayed from a captured graph. Steps are timed in batches, from an idle device to an
idle device, and the median batch counts. The paper times 100 frames of 10 substeps each, on another machine: what
compares is the ratio to MuJoCo's step, and how time grows with spheres. To MuJoCo all cases with as many worlds are one
and the same scene, timed again and again: the ratio is to the median of these times, so that one of them that was held
up, or was not, does not decide it. Its MuJoCo has an elliptic cone; both of ours can be run (`--physics`), the default
is MuJoCo's own.

On a CPU what has more spheres than `most` is left out.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench import methods, timing
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial, problems, state_of
from stickslip.bench.references import spheres
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation

MOTIONS = ("resting", "sliding")
FEW = 10_648
"""Spheres up to about which the paper's method takes less than two thirds of MuJoCo's time."""


@dataclasses.dataclass(frozen=True)
class Settings:
    resolutions: tuple[int, ...] = parameter(
        (4, 10, 22, 46, 100), "spheres along an edge of the box in one world", low=1, high=200
    )
    worlds: tuple[int, ...] = parameter(
        (256, 4096), "numbers of worlds in which there is a box of the fewest spheres", low=2, high=1 << 20
    )
    most: int = parameter(2_000_000, "spheres of all worlds; what has more is left out", low=1, high=1 << 30)
    mu: float = parameter(0.4, "coefficient of friction", low=0.0, high=5.0)
    force: float = parameter(17.0, "force on a box that slides [N]", low=0.0, high=1e4)
    timestep: float = parameter(0.001, "length of a step, of one substep [s]", low=1e-5, high=0.001)
    settle: int = parameter(20, "steps before the timing", low=0, high=100_000)
    repeats: int = parameter(7, "batches of steps, of which the median counts", low=1, high=1000)
    steps: int = parameter(100, "steps of a batch", low=1, high=100_000)
    longest: float = parameter(0.1, "time after which a batch has fewer steps [s]", low=1e-3, high=100.0)


@dataclasses.dataclass(frozen=True)
class Case:
    """How many spheres along an edge, in how many worlds."""

    resolution: int
    worlds: int

    @property
    def label(self) -> str:
        worlds = f", {self.worlds:,} worlds" if self.worlds > 1 else ""
        return f"{self.resolution**3:,} sphere{'s' if self.resolution > 1 else ''}{worlds}"


def _alone(settings: Settings) -> list[Case]:
    """One world, of more and more spheres."""
    cases = [Case(resolution, 1) for resolution in sorted(set(settings.resolutions))]
    return [case for case in cases if case.resolution**3 <= settings.most]


def _many(settings: Settings) -> list[Case]:
    """More and more worlds, of the fewest spheres."""
    cases = [Case(min(settings.resolutions), worlds) for worlds in sorted(set(settings.worlds))]
    return [case for case in cases if case.resolution**3 * case.worlds <= settings.most]


class Particles(Experiment[Settings]):
    name = "particles"
    summary = "time of a step against the number of spheres of a box at rest and of one that is pushed"
    source = "Physically Accurate Rigid-Body Dynamics in Particle-Based Simulation, Fig. 4"
    settings = Settings
    cpu = {"most": 100_000, "repeats": 15}
    quick = {"resolutions": (2, 4), "worlds": (2,), "settle": 2, "repeats": 3, "steps": 4}
    only = ("mujoco", "pbd", "pbd-r", methods.PAPER)
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        if not _alone(settings):
            raise InputError(
                f"resolutions has {min(settings.resolutions)} at the least, which is {min(settings.resolutions) ** 3} "
                f"spheres, and most is {settings.most}: raise most, or lower the resolution"
            )
        return {case.label: case for case in [*_alone(settings), *_many(settings)]}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        if spheres.known(physics):
            physics = dataclasses.replace(physics, resolution=case.resolution)  # type: ignore[type-var]
        scene = f"pushed-box:mu={settings.mu!r}"
        sim = trial.simulation(scene, physics, nworld=case.worlds, timestep=settings.timestep)
        count = spheres.number(physics, sim.m)
        metrics, found = {"spheres": count}, []
        for motion in MOTIONS:
            seconds, contacts, moved = _time(sim, settings.force if motion == "sliding" else 0.0, settings, trial)
            metrics |= {
                f"{motion}_us": 1e6 * seconds,
                f"{motion}_ns_per_sphere": 1e9 * seconds / (count * case.worlds),
                f"{motion}_contacts": contacts / case.worlds,
                f"{motion}_moved_mm": 1e3 * moved,
            }
            found += [f"{motion}: there was no contact in what was timed"] if not contacts else []
            trial.progress((MOTIONS.index(motion) + 1) / len(MOTIONS))
        return Outcome(timing.unless_diverged(sim, metrics), problems=[*problems(sim), *found])

    def relate(self, result: Result) -> None:
        worlds = {label: case.worlds for label, case in self.cases(self.make_settings(result.settings)).items()}

        def alike(label: str) -> list[str]:
            return [each for each, count in worlds.items() if count == worlds[label]]

        for motion in MOTIONS:
            timing.add_ratios(result, f"{motion}_us", f"{motion}_speedup", alike=alike)

    def scores(self, settings: Settings) -> Sequence[Score]:
        alone, many = _alone(settings), _many(settings)
        shown = dict.fromkeys([alone[0], alone[len(alone) // 2], alone[-1], *many[-1:]])
        return [Score(f"step of a box that slides, {case.label}", case.label, "sliding_us", "us") for case in shown]

    def reported(self, result: Result) -> Sequence[Reported]:
        label = f"{FEW:,} spheres"
        shares = {c: 1.0 / result.metric(c, label, "sliding_speedup_over_mujoco") for c in result.ran(label)}
        shares_text = [
            f"{c} {style.number(x)}" for c, x in shares.items() if np.isfinite(x) and c not in methods.REFERENCES
        ]
        if not shares_text:
            return ()
        ours = f"{', '.join(shares_text)}, at {label}; {result.machine['device']}"
        paper = "below 2/3 up to about 10^4 spheres, on an RTX 3060"
        return [Reported("time of a step of PBD-R over that of MuJoCo, one box", paper, ours)]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        whole = len(self.cases(dataclasses.replace(settings, most=Settings.most))) == len(result.cases)
        left_out = "" if whole else f"; more than {settings.most:,} spheres left out"
        title = f"particles: a step of {1e3 * settings.timestep:g} ms of a box on {result.machine['device']}{left_out}"
        fig, axes = style.figure(title, len(MOTIONS), 3, height=3.9, width=15.0)
        for row, motion in zip(axes, MOTIONS, strict=True):
            _draw_growth(row[0], result, _alone(settings), motion)
            _draw_cost(row[1], result, _alone(settings), motion)
            _draw_worlds(row[2], result, [_alone(settings)[0], *_many(settings)], motion)
        style.legend(fig, axes)
        return fig


def _time(sim: Simulation, force: float, settings: Settings, trial: Trial) -> tuple[float, float, float]:
    """Seconds of a step, contacts of all worlds, and how far boxes came [m] that are pushed from the start."""
    sim.reset()
    start = state_of(sim)["qpos"][:, :3]
    applied = np.zeros((sim.nworld, sim.mjm.nbody, 6))
    applied[:, 1, 0] = force
    sim.xfrc_applied = applied
    sim.step(settings.settle)
    seconds, contacts = timing.batches(sim, settings.repeats, settings.steps, settings.longest, trial)
    moved = np.linalg.norm(state_of(sim)["qpos"][:, :3] - start, axis=1).mean()
    return float(np.median(seconds)), float(contacts.mean()), float(moved)


def _metrics(result: Result, cases: Sequence[Case], name: str) -> dict[str, list[float]]:
    return series.metrics(result, [case.label for case in cases], name)


def _draw_growth(ax: Any, result: Result, cases: Sequence[Case], motion: str) -> None:
    """Time of a step against spheres; of a physics that has none, its median and the range of what was measured."""
    count = [case.resolution**3 for case in cases]
    made = _metrics(result, cases, "spheres")
    for method, us in _metrics(result, cases, f"{motion}_us").items():
        if np.isfinite(made[method]).any():
            style.line(ax, result, method, count, us, marker="o", ms=4)
        elif np.isfinite(us).any():
            level, shade = np.nanmedian(us), style.colour(method, list(result.methods))
            style.line(ax, result, method, [count[0], count[-1]], [level, level], ls="--")
            ax.axhspan(np.nanmin(us), np.nanmax(us), color=shade, alpha=0.15, lw=0.0)
    _spheres_axis(ax, result, cases, motion)
    style.plain_logs(ax, "y")
    style.label(
        ax, f"{motion}: one box (mujoco has no spheres)", "spheres, and their contacts below", "time of a step [us]"
    )


def _draw_cost(ax: Any, result: Result, cases: Sequence[Case], motion: str) -> None:
    """Time of a step for each sphere."""
    for method, ns in _metrics(result, cases, f"{motion}_ns_per_sphere").items():
        if np.isfinite(ns).any():
            style.line(ax, result, method, [case.resolution**3 for case in cases], ns, marker="o", ms=4)
    _spheres_axis(ax, result, cases, motion)
    style.plain_logs(ax, "y")
    style.label(
        ax, f"{motion}: cost of a sphere", "spheres, and their contacts below", "time of a step and sphere [ns]"
    )


def _draw_worlds(ax: Any, result: Result, cases: Sequence[Case], motion: str) -> None:
    """Bars of the time of a step in one and in many worlds."""
    ticks = [f"{case.worlds:,} world{'s' if case.worlds > 1 else ''}" for case in cases]
    labels = [case.label for case in cases]
    style.bars(ax, result, labels, _metrics(result, cases, f"{motion}_us"), log=True, ticks=ticks)
    style.label(ax, f"{motion}: boxes of {cases[0].resolution ** 3} spheres", "", "time of a step of all worlds [us]")


def _spheres_axis(ax: Any, result: Result, cases: Sequence[Case], motion: str) -> None:
    """Marks of every number of spheres, with the contacts that these have."""
    made = _metrics(result, cases, "spheres")
    contacts = [
        c for label, c in _metrics(result, cases, f"{motion}_contacts").items() if np.isfinite(made[label]).any()
    ]
    most = np.nanmax(np.nan_to_num(contacts), axis=0) if contacts else np.zeros(len(cases))
    ticks = [f"{_short(case.resolution**3)}\n{_short(round(c))}" for case, c in zip(cases, most, strict=True)]
    ax.set_xscale("log")
    ax.set_xticks([case.resolution**3 for case in cases], ticks)
    ax.set_xticks([], minor=True)


def _short(count: int) -> str:
    """A number with as few letters as will do: 64, 10.6k, 1M."""
    for size, letter in ((1_000_000, "M"), (1000, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return str(count)
