"""Identifications as the work of cells."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from stickslip import mjcf, spec
from stickslip.errors import InputError
from stickslip.identification import notation
from stickslip.identification.identify import identify
from stickslip.identification.trial import Trial
from stickslip.parameters import checked as checked_class
from stickslip.parameters import parameter
from stickslip.physics.registry import DEFAULT, PHYSICS
from stickslip.studies.work import base
from stickslip.studies.work.base import Outcome, Place, Resolved, Work


@checked_class
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of an identification, besides those of scene and physics."""

    scene: str = parameter("", "a built-in scene, a file or menagerie:NAME")
    physics: str = parameter(DEFAULT, "contact physics, with or without parameters")
    data: str | None = parameter(None, "trials to fit: .npz or .csv files", kind=str, several=True)
    held_out: str | None = parameter(None, "trials that are tested; none: there are none", kind=str, several=True)
    parameters: str | None = parameter(None, "what to identify, such as friction:T=0.05:2", kind=str, several=True)
    noise: float | None = parameter(
        None, "standard deviations of the measurements; none: what the files say", 0.0, kind=float, several=True
    )
    measure: str | None = parameter(None, "what the measured columns are", kind=str, several=True)
    timestep: float | None = parameter(None, "of the rollouts [s]; none: the model's", 0.0, above=True, kind=float)
    nworld: int | None = parameter(None, "worlds at a time; none: 64 on a CPU, 2048 on a GPU", 1, kind=int)
    generations: int = parameter(25, "generations of the search, at most", 1)
    seed: int = parameter(0, "of random numbers", 0)


class Identify(Work):
    """Parameters of a model from recorded trials."""

    name = "identify"
    packages = ("cmaes",)

    def resolve(self, given: Mapping[str, Any], device: str) -> Resolved:
        chosen, scene, physics = _chosen(given)
        values, of_scene, contents, named = base.scene_of(scene)
        method, of_physics, kind = base.physics_of(physics)
        for text in chosen.parameters:
            notation.parse(text)
        trials = [*chosen.data, *(chosen.held_out or ())]
        whole = base.listed(dataclasses.asdict(chosen)) | {"scene": values, "physics": method}
        contents = {**contents, **{f"trial {i}": base.file_digest(path) for i, path in enumerate(trials)}}
        modules = (type(self).__module__, *of_physics, *of_scene)
        del whole["data"], whole["held_out"]  # their contents count, not their places
        return Resolved(whole | {"fitted": len(chosen.data)}, f"{named} {kind}", modules, contents)

    def run(self, given: Mapping[str, Any], place: Place) -> Outcome:
        chosen, scene, physics = _chosen(given)
        fit = identify(
            mjcf.load(scene, timestep=chosen.timestep),
            spec.resolve(physics, PHYSICS, "physics"),
            data=_trials(chosen.data, chosen),
            held_out=_trials(chosen.held_out or (), chosen),
            parameters=[notation.parse(text) for text in chosen.parameters],
            nworld=chosen.nworld,
            generations=chosen.generations,
            seed=chosen.seed,
            device=place.device,
        )
        fit.plot(place.folder / "fit.png")
        metrics: dict[str, Any] = {"residual": fit.residual, "floor": fit.floor, "lost": fit.lost}
        metrics |= {"explains": fit.explains} | ({} if fit.held_out is None else {"held_out_residual": fit.held_out})
        for name, estimate in fit.estimates.items():
            metrics |= {name: estimate.value, f"{name}, low": estimate.low, f"{name}, high": estimate.high}
            metrics |= {f"{name}, identified": estimate.identified}
        return Outcome(metrics, {"verdict": fit.verdict})


def _trials(paths: Any, chosen: Parameters) -> list[Trial]:
    noise: Any = chosen.noise
    if noise is not None:
        noise = noise[0] if len(noise) == 1 else list(noise)
    found = [Trial.load(path, noise=noise) for path in paths]
    return [dataclasses.replace(one, channels=chosen.measure) for one in found] if chosen.measure else found


def _chosen(given: Mapping[str, Any]) -> tuple[Any, str, str]:
    """Parameters, and the specs of scene and physics."""
    plain, of = base.split(given, ("scene", "physics"))
    chosen = base.checked(Parameters, plain, "identify", ["scene", "data", "parameters"])
    both = set(chosen.data) & set(chosen.held_out or ())
    if both:
        raise InputError(
            f"{sorted(both)[0]} is both in data and in held_out: a trial that was fitted tests nothing"
            "; leave it out of one"
        )
    scene = base.joined(chosen.scene, of["scene"], "scene")
    return chosen, scene, base.joined(chosen.physics, of["physics"], "physics")
