"""`scaling`: the time of each step against the contacts it had, in many worlds of a small pile.

A step that treats each contact on its own takes time in proportion to their number; one that iterates takes as long as
its slowest world needs. So the line through the points gives the cost of a contact, and the scatter about it how
predictable a step is. The bodies fall at first: the run covers every number of contacts from none to that of the pile
at rest. Every step is timed alone, launch and wait included, and its contacts are counted after its time was taken.

On a CPU the run is repeated and the fastest of each step counts: see `timing.fastest`.

The paper's N(0, 1e-3) is read as a standard deviation, in m/s.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.bench import timing
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial, problems
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation

SCENE = "scaling"
PAPER = "comfree:stiffness=0.1,damping=0.001"
"""The method with the paper's parameters."""
SHOWN = 99.5
"""Share of the steps that set the scale of the picture [%]."""
PARTS = 50
"""How often progress is reported."""


@dataclasses.dataclass(frozen=True)
class Settings:
    worlds: int = parameter(512, "number of worlds (paper: 512; fewer on a CPU)", low=1, high=1 << 20)
    steps: int = parameter(750, "steps that are timed, each alone", low=4, high=100_000)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)
    noise: float = parameter(
        1e-3, "standard deviation of each body's linear velocity at the start [m/s]", low=0, high=10
    )
    warm_up: int = parameter(100, "steps before, from the same start, that are not timed", low=0, high=100_000)
    repeats: int = parameter(1, "runs, of which the fastest of each step counts; several on a CPU", low=1, high=100)


def free_velocity(mjm: mujoco.MjModel) -> NDArray[np.integer]:
    """Places in qvel of the linear velocity of every free body."""
    free = mjm.jnt_dofadr[mjm.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
    return (free[:, None] + np.arange(3)).ravel()


class Scaling(Experiment[Settings]):
    name = "scaling"
    summary = "time of each step against its contacts, 2 x 2 cubes, capsules and spheres dropped in many worlds"
    source = "ComFree-Sim (arXiv:2603.12185), Fig. 6"
    settings = Settings
    cpu = {"worlds": 8, "warm_up": 10, "repeats": 5}
    quick = {"worlds": 2, "steps": 60, "warm_up": 2, "repeats": 1}
    extra = (PAPER,)
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, int]:
        return {_label(settings): settings.worlds}

    def measure(self, case: int, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        sim = trial.simulation(SCENE, physics, nworld=case, timestep=settings.timestep)
        timing.warm_up(sim, settings.warm_up)
        runs = [_run(sim, settings, trial, done) for done in range(settings.repeats)]
        contacts = runs[0][0]
        seconds, doubts = timing.fastest([seconds for _, seconds in runs], [counts for counts, _ in runs])
        ms = 1e3 * seconds
        line = timing.fit(contacts, ms)
        metrics = {
            "ms_per_step": ms.mean(),
            "median_ms": np.median(ms),
            "slowest_ms": ms.max(),
            "offset_ms": line.offset,
            "ns_per_contact": 1e6 * line.slope,
            "scatter_percent": 100 * line.scatter,
            "mean_contacts": contacts.mean(),
            "contacts_per_world": contacts.mean() / case,
            "world_steps_per_s": 1e3 * case / ms.mean(),
        }
        found = problems(sim) + doubts
        if np.ptp(contacts) == 0:
            found.append(f"every step had {contacts[0]} contacts: there is no line of step time against contacts")
        return Outcome(timing.unless_diverged(sim, metrics), {"contacts": contacts, "ms": ms}, found)

    def relate(self, result: Result) -> None:
        timing.add_ratios(result, "ms_per_step", "speedup")

    def scores(self, settings: Settings) -> Sequence[Score]:
        case = _label(settings)
        return [
            Score("step of a small pile, at its mean number of contacts", case, "ms_per_step", "ms"),
            Score("speed against the faster MuJoCo", case, "speedup", "x", "high"),
            Score("scatter of step times about a line in the contacts, rms", case, "scatter_percent", "%"),
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        case = result.cases[0]
        theirs = {label: timing.beside_mujoco(result, label, case, "speedup") for label in (PAPER, "comfree")}
        where = f"{case} on {result.machine['device']}"
        return [
            Reported(
                f"speed of {style.short(label)} beside MuJoCo Warp", "around 3 x on an RTX 4090", f"{ours}; {where}"
            )
            for label, ours in theirs.items()
            if ours and (label == PAPER or not theirs[PAPER])
        ]

    def draw(self, result: Result) -> Any:
        case = result.cases[0]
        fig, axes = style.figure(f"scaling: step time against contacts, {case}", 1, 2, height=4.6)
        left, right = axes[0]
        ran, among = result.ran(case), list(result.methods)
        everything = []
        for label in ran:
            contacts, ms = result.series(label, case, "contacts"), result.series(label, case, "ms")
            everything.extend(ms)
            shade = style.colour(label, among)
            left.plot(contacts, ms, ".", ms=5, alpha=0.4, mew=0, color=shade)
            line = timing.fit(contacts, ms)
            ends = np.linspace(contacts.min(), contacts.max(), 100)
            style.line(left, result, label, ends, line(ends))
        finite = np.array([ms for ms in everything if np.isfinite(ms)])
        top = 1.15 * np.percentile(finite, SHOWN) if finite.size else 1.0  # a hiccup does not set the scale
        left.set_ylim(0, top)
        title = f"every step, and the line through them; {(finite > top).sum()} of {finite.size:,} are above the axis"
        style.label(left, title, "contacts of all worlds", "time of a step [ms]")
        _draw_shares(right, result, case, ran)
        style.legend(fig, left)
        return fig


def _run(
    sim: Simulation, settings: Settings, trial: Trial, done: int
) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
    """Contacts of all worlds and seconds of every step, from the start on; `done` is the number of runs before."""
    sim.reset()
    velocity, moved = sim.qvel.numpy().copy(), free_velocity(sim.mjm)
    velocity[:, moved] += trial.random().normal(0.0, settings.noise, (sim.nworld, len(moved)))
    sim.qvel = velocity
    contacts, seconds = np.zeros(settings.steps, dtype=int), np.zeros(settings.steps)
    with timing.undisturbed():
        for step in range(settings.steps):
            seconds[step] = timing.timed(sim, 1, trial)
            contacts[step] = sim.contact_count()
            if step % max(1, settings.steps // PARTS) == 0:
                trial.progress((done + step / settings.steps) / settings.repeats)
    return contacts, seconds


def _draw_shares(ax: Any, result: Result, case: str, ran: Sequence[str]) -> None:
    """For each method the mean time of a step, its scatter about the line as a whisker, and the ratios in words."""
    mean = np.array([result.metric(label, case, "ms_per_step") for label in ran])
    scatter = np.array([result.metric(label, case, "scatter_percent") for label in ran]) / 100 * mean
    shades = [style.colour(label, list(result.methods)) for label in ran]
    whisker = {"lw": 1.0, "capsize": 3}
    ax.barh(range(len(ran)), np.nan_to_num(mean), 0.55, color=shades, xerr=np.nan_to_num(scatter), error_kw=whisker)
    for row, label in enumerate(ran):
        text = f"{style.number(mean[row])} ms, scatter {style.number(result.metric(label, case, 'scatter_percent'))} %"
        ratios = timing.beside_mujoco(result, label, case, "speedup")
        ax.text(0, row + 0.3, f" {text}{'; ' if ratios else ''}{ratios}", va="top", fontsize=8, color=style.INK)
    ax.set_yticks(range(len(ran)), [style.short(label) for label in ran])
    ax.set_ylim(len(ran) - 0.4, -0.5)
    ax.grid(False, axis="y")
    style.label(ax, "mean of all steps; whisker: rms about the line", "time of a step [ms]")


def _label(settings: Settings) -> str:
    return f"{settings.worlds} world{'s' if settings.worlds > 1 else ''}"
