"""`growth`: how the cost of a step grows with the worlds, with the dofs of a world and with its contacts.

Six curves: humanoids in 1 to 65,536 worlds; a chain of 6 to 200 hinges that touches nothing; a quadruped, a humanoid
and several of them in one world; and spheres, boxes, and boxes around a quadruped, each lying on a floor, with up to
1024 contacts. All is at rest but for a little noise in every velocity: see `speed` for robots in motion.

A case that does not fit into memory is left out, and so is one whose steps would take longer than `limit`; larger cases
of its curve are then left out too. So is a case of which that is to be expected: the cost is taken to grow on as it did
between the two cases before. Every reason is stored.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench import timing
from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems
from stickslip.bench.experiments.speed import growth_cases as cases_of
from stickslip.bench.experiments.speed import growth_picture
from stickslip.bench.experiments.speed.growth_cases import Case
from stickslip.bench.experiments.speed.speed import array_bytes
from stickslip.bench.result import Result
from stickslip.errors import Unsupported
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation

FULL = ("allocate", "out of memory", "do not fit", "must not exceed", "enough for about")
"""What errors say where memory does not suffice."""
STEEPEST = 3.0
"""Largest exponent by which a cost is taken to grow: that of a factorization."""


@dataclasses.dataclass(frozen=True)
class Settings:
    worlds: tuple[int, ...] = parameter(
        (1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536), "worlds of a humanoid (fewer on a CPU)", low=1, high=1 << 20
    )
    dofs: tuple[int, ...] = parameter((6, 12, 25, 50, 100, 200), "hinges of a chain", low=1, high=1000)
    humanoids: tuple[int, ...] = parameter((1, 2, 4, 6), "humanoids in one world, after a quadruped", low=1, high=100)
    contacts: tuple[int, ...] = parameter(
        (0, 4, 16, 64, 256, 1024), "contacts in one world (fewer on a CPU)", low=0, high=10_000
    )
    dof_worlds: int = parameter(1024, "worlds of chains and robots (one on a CPU)", low=1, high=1 << 20)
    contact_worlds: int = parameter(64, "worlds of spheres and boxes (one on a CPU)", low=1, high=1 << 20)
    noise: float = parameter(1e-3, "standard deviation of every velocity at the start [m/s, rad/s]", low=0, high=10)
    settle: int = parameter(20, "steps before the timing starts", low=0, high=100_000)
    batches: int = parameter(5, "batches of steps; their median counts", low=1, high=1000)
    steps: int = parameter(50, "steps of a batch, at most", low=1, high=100_000)
    longest: float = parameter(0.5, "duration of a batch, about [s]", low=1e-3, high=100.0)
    limit: float = parameter(60.0, "time the steps of a case may take, else it is left out [s]", low=1e-3, high=1e5)


class Growth(Experiment[Settings]):
    name = "growth"
    summary = "how the time of a step grows with worlds, with dofs and with contacts, each up to what fits"
    source = "stickslip"
    settings = Settings
    cpu = {
        "worlds": (1, 4, 16, 64, 256),
        "contacts": (0, 4, 16, 64, 256),
        "dof_worlds": 1,
        "contact_worlds": 1,
        "limit": 30.0,
    }
    quick = {
        "worlds": (1, 2),
        "dofs": (6, 12),
        "humanoids": (1,),
        "contacts": (0, 4, 8),
        "dof_worlds": 2,
        "contact_worlds": 2,
        "settle": 2,
        "batches": 2,
        "steps": 2,
        "longest": 0.01,
    }
    only = ("mujoco", "comfree", "cone-sweep", "icf")
    timing = True

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        robots = (cases_of.QUADRUPED, *(cases_of.PER_HUMANOID * count for count in sorted(set(settings.humanoids))))
        contacts = sorted(set(settings.contacts))
        curves = {
            cases_of.HUMANOID: [(worlds, worlds) for worlds in sorted(set(settings.worlds))],
            cases_of.CHAIN: [(dofs, settings.dof_worlds) for dofs in sorted(set(settings.dofs))],
            cases_of.ROBOTS: [(dofs, settings.dof_worlds) for dofs in robots],
            cases_of.SPHERES: [(count, settings.contact_worlds) for count in contacts],
            cases_of.BOXES: [(count, settings.contact_worlds) for count in contacts],
            cases_of.AMONG: [(count, settings.contact_worlds) for count in contacts if count >= cases_of.FEET],
        }
        found = [Case(curve, size, worlds) for curve, points in curves.items() for size, worlds in points]
        return {case.label: case for case in found}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        before = [other for other in self.cases(settings).values() if other.curve == case.curve]
        _expect(case, [other for other in before if other.size < case.size], settings, trial)
        try:
            return _measure(case, physics, settings, trial)
        except (MemoryError, RuntimeError, ValueError) as error:
            if not (isinstance(error, MemoryError) or any(words in str(error) for words in FULL)):
                raise
            reason = f"{case.label}: does not fit into the memory of {trial.device} ({error})"
        raise Unsupported(reason)

    def relate(self, result: Result) -> None:
        timing.add_ratios(result, "ms_per_step", "speedup")

    def scores(self, settings: Settings) -> Sequence[Score]:
        """The largest case of each curve."""
        largest = {case.curve: label for label, case in self.cases(settings).items()}
        scores = [Score(f"step of {label}", label, "ms_per_step", "ms") for label in largest.values()]
        most = largest[cases_of.HUMANOID]
        rate = Score(f"throughput of {most}", most, "world_steps_per_s", "world steps/s", "high")
        return [rate, *scores]

    def draw(self, result: Result) -> Any:
        return growth_picture.draw(result, self.cases(self.make_settings(result.settings)))


def _expect(case: Case, smaller: Sequence[Case], settings: Settings, trial: Trial) -> None:
    """Raise Unsupported if a smaller case of the curve was left out, or if this one would take too long."""
    for other in smaller:
        reason = trial.earlier.get(other.label, {}).get("unsupported")
        if reason:
            raise Unsupported(reason if reason.startswith(other.label) else f"{other.label}: {reason}")
    points = [
        (max(other.size, 1), trial.earlier.get(other.label, {}).get("metrics", {}).get("ms_per_step", math.nan))
        for other in smaller
    ]
    points = [(size, ms) for size, ms in points if ms is not None and math.isfinite(ms) and ms > 0.0]
    if len(points) < 2 or points[-1][0] == points[-2][0]:
        return
    (first, ms_first), (second, ms_second) = points[-2:]
    exponent = float(np.clip(math.log(ms_second / ms_first) / math.log(second / first), 0.0, STEEPEST))
    seconds = 1e-3 * ms_second * (case.size / second) ** exponent
    if _needed(settings) * seconds > settings.limit:
        raise Unsupported(
            f"{case.label}: a step would take about {seconds:.3g} s by the cases before, and {_needed(settings)} of "
            f"them longer than the limit of {settings.limit:g} s"
            "; raise limit to measure it"
        )


def _needed(settings: Settings) -> int:
    """The fewest steps that a case takes."""
    return 2 + settings.settle + timing.LOOKS + settings.batches


def _measure(case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
    mjm = case.model
    sim = Simulation(mjm, physics, nworld=case.worlds, device=trial.device)
    sim.qvel = sim.qvel.numpy() + trial.random().normal(0.0, settings.noise, (case.worlds, mjm.nv))
    started = trial.clock()
    sim.compile()
    compile_s = trial.clock() - started
    first = min(timing.timed(sim, 1, trial) for _ in range(2))  # one may be held up
    if _needed(settings) * first > settings.limit:
        raise Unsupported(
            f"{case.label}: a step takes {first:.3g} s, and {_needed(settings)} of them longer than the limit of "
            f"{settings.limit:g} s"
            "; raise limit to measure it"
        )
    trial.progress(0.2)
    sim.step(settings.settle)
    trial.progress(0.6)
    seconds, contacts = timing.batches(sim, settings.batches, settings.steps, settings.longest, trial)
    ms = 1e3 * float(np.median(seconds))
    metrics = {
        "ms_per_step": ms if ms > 0.0 else math.nan,
        "world_steps_per_s": 1e3 * case.worlds / ms if ms > 0.0 else math.nan,
        "contacts_per_world": contacts.mean() / case.worlds,
        "bytes_per_world": array_bytes(sim.d) / case.worlds or math.nan,
        "worlds": case.worlds,
        "dofs": mjm.nv,
        "bodies": mjm.nbody - 1,
        "compile_s": compile_s,
    }
    found = problems(sim) + ([] if ms > 0.0 else ["the clock is too coarse for the times"])
    return Outcome(timing.unless_diverged(sim, metrics), {"ms": 1e3 * seconds, "contacts": contacts}, found)
