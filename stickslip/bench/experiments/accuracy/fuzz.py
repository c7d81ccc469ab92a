"""`fuzz`: generated models, inputs and command lines through every physics; nothing may crash, hang or be silent.

Models have all types of joints, geoms, tendons, equalities, actuators and sensors that a physics may know, with numbers
that are now and then many orders of magnitude from what is usual (`stickslip/bench/fuzzing`). Inputs are arrays of
wrong shapes and types, not finite, denormal or huge, and options that make no sense. Each case runs in a process with a
time-out. Right answers are allowed, and errors of stickslip that say what is wrong; a state that is not finite only
where MuJoCo in C does not stay calm either, and `health` has to tell it.

Each fault is told with the seeds that bring it back. With `failures`, the model of the first fault of each sort is
shrunk, and written there.
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import stickslip as ss
from stickslip import files, spec
from stickslip.bench.experiment import Experiment, Outcome, Score, Trial
from stickslip.bench.fuzzing.case import FAULTS, Case, Ending
from stickslip.bench.fuzzing.process import Worker
from stickslip.bench.fuzzing.shrink import shrink
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import Unsupported
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

KINDS = {"generated models": "model", "inputs": "inputs", "command lines": "command"}
ALL = "all cases"
"""The case that adds up the others."""
ENDINGS = ("right", "refused", "reported", *FAULTS)


@dataclasses.dataclass(frozen=True)
class Settings:
    models: int = parameter(10_000, "models for each physics", low=1, high=100_000_000)
    inputs: int = parameter(3_000, "simulations that are given inputs, for each physics", low=1, high=100_000_000)
    commands: int = parameter(1_000, "command lines for each physics", low=1, high=100_000_000)
    structures: int = parameter(50, "structures of models; those of one share their kernels", low=1, high=1_000_000)
    steps: int = parameter(60, "steps of a model", low=1, high=1_000_000)
    timeout: float = parameter(
        20.0, "processor time of a model, after the kernels of its structure are compiled [s]", low=0.1
    )
    failures: str = parameter("", "folder for models that fail, shrunk; empty: none are written")
    trials: int = parameter(120, "models to try for shrinking one", low=1, high=100_000)


class Fuzz(Experiment[Settings]):
    name = "fuzz"
    summary = "generated models, inputs and command lines: no crash, no hang, nothing silent"
    source = "stickslip"
    settings = Settings
    quick = {"models": 2, "inputs": 2, "commands": 2, "structures": 1, "steps": 4}
    cpu = {"models": 50, "inputs": 24, "commands": 12, "structures": 5}

    def cases(self, settings: Settings) -> Mapping[str, str | None]:
        return {**KINDS, ALL: None}

    def measure(self, case: str | None, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        if case is None:
            return Outcome({})  # filled by `relate`
        if physics.name not in ss.PHYSICS:
            raise Unsupported(f"{physics.name} is not registered: a process of its own could not make it")
        total = {"model": settings.models, "inputs": settings.inputs, "command": settings.commands}[case]
        counts: dict[str, int] = dict.fromkeys(ENDINGS, 0)
        faults: dict[str, tuple[int, Case, Ending]] = {}
        written = spec.written(physics.name, physics)
        with Worker(settings.timeout) as worker:
            for number in range(total):
                structure = number * settings.structures // total  # one after the other
                one = Case(case, written, trial.seed, structure, number, settings.steps, trial.device)
                ending = worker.run(one)
                counts[ending.what] += 1
                if ending.is_fault:
                    sort = sort_of(ending)
                    known, first, how = faults.get(sort, (0, one, ending))
                    faults[sort] = (known + 1, first, how)
                trial.progress((number + 1) / total)
            if settings.failures:
                for _, first, ending in faults.values():
                    _write(pathlib.Path(settings.failures), worker, first, ending, settings)
            memory = worker.memory
        told = [
            f"{ending.what}, {count} times, first {first}: {ending.why}" for count, first, ending in faults.values()
        ]
        metrics = {
            "cases": float(total),
            **{what: float(count) for what, count in counts.items()},
            "faults": float(sum(counts[what] for what in FAULTS)),
            "sorts": float(len(faults)),
            "memory_mb": memory / 1e6,
        }
        return Outcome(metrics, problems=told)

    def relate(self, result: Result) -> None:
        for label in result.ran(ALL):
            kinds = [case for case in result.cases if case != ALL and result.has(label, case)]
            names = ("cases", *ENDINGS, "faults", "sorts")
            total = {name: float(sum(result.metric(label, case, name) for case in kinds)) for name in names}
            result.outcomes[label][ALL]["metrics"] = total

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [
            Score("crashes, hangs and silent answers", ALL, "faults", ""),
            Score("cases", ALL, "cases", "", "high"),
        ]

    def draw(self, result: Result) -> Any:
        labels = result.ran(ALL)
        fig, axes = style.figure("fuzz: what became of the cases", 1, 1, width=9.0, height=4.2)
        ax = axes[0][0]
        for place, label in enumerate(labels):
            below = 0.0
            cases = max(1.0, result.metric(label, ALL, "cases"))
            for what, colour in _COLOURS.items():
                names = FAULTS if what == "faults" else (what,)
                share = 100.0 * sum(result.metric(label, ALL, name) for name in names) / cases
                share = share if share == share else 0.0
                ax.barh(place, share, 0.7, left=below, color=colour, label=what)
                below += share
            faults = result.metric(label, ALL, "faults")
            ax.text(101.0, place, f"{faults:.0f} of {cases:.0f}" if faults == faults else "", va="center", fontsize=8)
        ax.set_yticks(range(len(labels)), [style.short(label) for label in labels])
        ax.invert_yaxis()
        ax.set_xlim(0.0, 114.0)
        ax.set_xlabel("share of the cases [%]; at the right the faults")
        style.legend(fig, axes)
        return fig


_COLOURS = {"right": "#2a9d6f", "refused": "#b9c4cf", "reported": "#e0a13b", "faults": "#8c2d2d"}


def sort_of(ending: Ending) -> str:
    """What faults of one cause have in common: the numbers in what is told of them do not count."""
    return f"{ending.what}: {re.sub(r'[-+0-9.e]+', '#', ending.why.rpartition(': ')[2])}"


def _write(folder: pathlib.Path, worker: Worker, first: Case, ending: Ending, settings: Settings) -> None:
    """Write the model of a fault, shrunk; of a fault without a model, what was done."""
    name = re.sub(r"[^a-z0-9]+", "-", f"{first.physics} {ending.what} {first}".lower())
    if first.kind != "model":
        files.write_bytes_atomic(folder / f"{name}.txt", f"{first}: {ending.why}\n".encode())
        return
    sort = sort_of(ending)

    def fails(xml: str) -> bool:
        return sort_of(worker.run(dataclasses.replace(first, xml=xml))) == sort

    small = shrink(first.text, fails, settings.trials)
    files.write_bytes_atomic(folder / f"{name}.xml", f"{small}\n<!-- {first}: {ending.why} -->\n".encode())
