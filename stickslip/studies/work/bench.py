"""Experiments of `stickslip bench` as the work of cells: one method in one case, or in all of them."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

from stickslip import bench
from stickslip.bench import methods
from stickslip.bench.experiment import Experiment, Trial
from stickslip.errors import HealthWarning, InputError, Unsupported, unknown
from stickslip.parameters import checked as checked_class
from stickslip.parameters import parameter
from stickslip.studies.work import base
from stickslip.studies.work.base import Outcome, Place, Resolved, Work


@checked_class
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of an experiment, besides its settings."""

    experiment: str = parameter("", "an experiment, as `stickslip bench list` prints them")
    physics: str = parameter("", "a method: a physics, mujoco-anti-creep, ..., with or without parameters")
    case: str = parameter("", "one case by its label; empty: all, with the case before the name of a metric")
    seed: int = parameter(0, "of all random numbers", 0)
    quick: bool = parameter(False, "smoke test: tiny problem sizes, results are not meaningful")


class Bench(Work):
    """An experiment of `stickslip bench` that is not about time, with one method."""

    name = "bench"
    packages = ("osqp", "scipy")

    def resolve(self, given: Mapping[str, Any], device: str) -> Resolved:
        chosen, experiment, settings, physics = _chosen(given, device)
        (method,) = methods.resolve([physics]).values()
        if method.kind != experiment.kind:
            raise InputError(f"{physics} is a {method.kind}, and {experiment.name} takes a {experiment.kind}")
        values = {
            "experiment": experiment.name,
            "settings": base.listed(dataclasses.asdict(settings)),
            "physics": {"name": method.name, **base.listed(method.parameters)},
            "case": chosen.case,
            "seed": chosen.seed,
            "quick": chosen.quick,
        }
        modules = (type(self).__module__, type(experiment).__module__, *method.modules)
        return Resolved(values, f"{experiment.name} {method.name}", modules, method.versions)

    def run(self, given: Mapping[str, Any], place: Place) -> Outcome:
        chosen, experiment, settings, physics = _chosen(given, "cpu" if place.device == "cpu" else "cuda")
        (method,) = methods.resolve([physics]).values()
        cases = experiment.cases(settings)
        wanted = {chosen.case: cases[chosen.case]} if chosen.case else cases
        metrics: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        messages: list[str] = []
        refused: dict[str, str] = {}
        for label, case in wanted.items():
            trial = Trial(place.device, chosen.seed, chosen.quick)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", HealthWarning)  # kept in the messages
                    outcome = experiment.measure(case, method.subject, settings, trial)
            except Unsupported as error:
                if len(wanted) == 1:
                    raise
                refused[label] = str(error)
                continue
            before = "" if chosen.case else f"{label}: "
            metrics |= {f"{before}{name}": float(value) for name, value in outcome.metrics.items()}
            arrays |= {f"{before}{name}": base.np.asarray(values) for name, values in outcome.series.items()}
            messages += [f"{before}{problem}" for problem in outcome.problems]
        if len(refused) == len(wanted):
            raise Unsupported("; ".join(dict.fromkeys(refused.values())))
        messages += [f"{label}: {reason}" for label, reason in refused.items()]
        return Outcome(metrics, {}, arrays, messages)


def _chosen(given: Mapping[str, Any], device: str) -> tuple[Parameters, Experiment[Any], Any, str]:
    """Parameters, the experiment, its settings, and the spec of the method."""
    plain, of = base.split(given, ("settings", "physics"))
    chosen = base.checked(Parameters, plain, "bench", ["experiment", "physics"])
    if chosen.experiment not in bench.EXPERIMENTS:
        raise unknown("experiment", chosen.experiment, bench.EXPERIMENTS)
    experiment = bench.EXPERIMENTS[chosen.experiment]
    if experiment.timing:
        raise Unsupported(
            f"the experiment {experiment.name!r} is about time: its methods are compared within one run on a quiet "
            f"machine; run `stickslip bench run {experiment.name}`"
        )
    settings = experiment.make_settings(of["settings"], quick=chosen.quick, device="cpu" if device == "cpu" else None)
    cases = experiment.cases(settings)
    if chosen.case and chosen.case not in cases:
        raise unknown(f"case of {experiment.name}", chosen.case, cases)
    return chosen, experiment, settings, base.joined(chosen.physics, of["physics"], "physics")
