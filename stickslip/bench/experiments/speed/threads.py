"""`threads`: how much faster threads of a CPU step many worlds than one thread does.

Humanoids fall and lie about. Batches of steps with one thread and with several take turns, from the same state. The
median of the ratios, batch by batch, counts. The fastest batches would not do: the cores of a virtual machine run at
two speeds or more, as their neighbours leave room, and one core is lucky more often than all of them are at once.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench import timing
from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import Unsupported
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation

SCENE = "humanoid"


@dataclasses.dataclass(frozen=True)
class Settings:
    threads: tuple[int, ...] = parameter((2,), "numbers of threads", low=2, high=1024)
    worlds: int = parameter(64, "number of worlds", low=1, high=1 << 20)
    steps: int = parameter(20, "steps of a batch", low=1, high=100_000)
    batches: int = parameter(30, "batches with one thread, and as many with several", low=1, high=1000)
    warm_up: int = parameter(100, "steps before; the humanoids lie on the floor then", low=0, high=100_000)


class Threads(Experiment[Settings]):
    name = "threads"
    summary = "steps of many humanoids on a CPU with several threads, beside one thread"
    source = "stickslip"
    settings = Settings
    quick = {"worlds": 4, "steps": 2, "batches": 2, "warm_up": 3}
    only = ("mujoco", "comfree", "cone-sweep", "icf")
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, int]:
        return {_label(threads): threads for threads in settings.threads}

    def measure(self, case: int, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        if trial.device != "cpu":
            raise Unsupported(f"device is {trial.device}: threads share worlds on a CPU only; use --device cpu")
        sims = {
            threads: Simulation(SCENE, physics, nworld=settings.worlds, device="cpu", threads=threads)
            for threads in (1, case)
        }
        sims[1].step(settings.warm_up)
        state = sims[1].state
        sims[case].step()
        seconds: dict[int, list[float]] = {1: [], case: []}
        with timing.undisturbed():
            for batch in range(settings.batches):
                for threads, sim in sims.items():
                    sim.set_state(state)
                    seconds[threads].append(timing.timed(sim, settings.steps, trial) / settings.steps)
                trial.progress((batch + 1) / settings.batches)
        one, several = (np.array(seconds[threads]) for threads in (1, case))
        same = np.array_equal(sims[1].qpos.numpy(), sims[case].qpos.numpy(), equal_nan=True)
        metrics = {
            "world_steps_per_s": settings.worlds / float(np.median(several)),
            "world_steps_per_s_one": settings.worlds / float(np.median(one)),
            "speedup": float(np.median(one / several)),
            "same_bits": float(same),
        }
        found = problems(sims[case]) + ([] if same else ["positions differ from those of one thread"])
        series = {"ms": 1e3 * several, "ms_one": 1e3 * one}
        return Outcome(timing.unless_diverged(sims[case], metrics), series, found)

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [
            Score(f"speed with {case} beside one, on a CPU", case, "speedup", "x", "high")
            for case in self.cases(settings)
        ]

    def draw(self, result: Result) -> Any:
        fig, axes = style.figure(f"threads: humanoids on {result.machine['device']}", 1, 1, height=4.0, width=8.0)
        ax, among = axes[0][0], list(result.methods)
        cases = result.cases
        width = 0.8 / max(len(among), 1)
        for number, label in enumerate(among):
            values = [result.metric(label, case, "speedup") for case in cases]
            places = np.arange(len(cases)) + (number - (len(among) - 1) / 2) * width
            ax.bar(
                places, np.nan_to_num(values), 0.9 * width, color=style.colour(label, among), label=style.short(label)
            )
            for place, value in zip(places, values, strict=True):
                if np.isfinite(value):
                    ax.text(place, value, style.number(value), ha="center", va="bottom", fontsize=8, color=style.INK)
        ax.set_xticks(range(len(cases)), cases)
        ax.margins(y=0.15)
        style.label(ax, "time of one thread over that of several, median of batches", "", "times as fast")
        style.legend(fig, axes)
        return fig


def _label(threads: int) -> str:
    return f"{threads} threads"
