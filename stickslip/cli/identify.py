"""`stickslip identify`: trials in, a verdict, a table of parameters, and files out."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import stickslip as ss
from stickslip import spec
from stickslip.cli import identify_example
from stickslip.cli.output import make_folder
from stickslip.errors import InputError, StickslipError
from stickslip.identification.fit import Estimate, Fit
from stickslip.identification.identify import identify
from stickslip.identification.notation import parse
from stickslip.identification.parameter import Parameter
from stickslip.identification.trial import Trial
from stickslip.physics.base import Physics

if TYPE_CHECKING:
    from stickslip.cli.commands.identify import Identify


def run(order: "Identify", console: Console) -> bool:
    """Identify under each physics; False if the result of one is not to be trusted, or one cannot be run."""
    if order.scene is None:
        raise InputError(
            "give a scene, --data and --parameters; `stickslip identify --example DIR` writes data to begin with"
        )
    if not order.data:
        raise InputError("--data names no trial: give .npz or .csv files")
    if not order.held_out and not order.no_held_out:
        raise InputError(
            "no trial is held out: give trials of another motion with --held-out, which are tested and not fitted, or "
            "say --no-held-out"
        )
    if order.held_out and order.no_held_out:
        raise InputError("--held-out and --no-held-out exclude each other: leave one out")
    both = sorted({path.resolve() for path in order.data} & {path.resolve() for path in order.held_out})
    if both:
        raise InputError(
            f"{both[0]} is both in --data and in --held-out: a trial that was fitted tests nothing; leave it out of one"
        )
    if not order.parameters:
        raise InputError("--parameters names nothing to identify: such as friction:T=0.05:2 mass:T=0.1:3")
    if not order.physics:
        raise InputError("--physics names no physics; `stickslip physics` lists them")
    parameters = [parse(text) for text in order.parameters]
    chosen = {text: spec.resolve(text, ss.PHYSICS, "physics") for text in dict.fromkeys(order.physics)}
    data, held_out = load(order.data, order), load(order.held_out, order)
    mjm = ss.load(order.scene, timestep=order.timestep)
    make_folder(order.out)
    fits: dict[str, Fit] = {}
    for text, physics in chosen.items():
        alone = len(chosen) == 1
        try:
            fits[text] = _identify(order, mjm, physics, data, held_out, parameters)
        except StickslipError as error:
            if alone:
                raise
            console.print(f"[bold]{escape(text)}[/]: [red]{escape(str(error))}[/]\n", soft_wrap=True)
            continue
        _tell(text, fits[text], order.out, alone, console)
    if len(fits) > 1:
        console.print(_comparison(fits, parameters))
    return len(fits) == len(chosen) and all(map(trusted, fits.values()))


def example(order: "Identify", console: Console) -> None:
    """Write trials to begin with, and print what to run."""
    assert order.example is not None
    if order.scene is not None or order.data or order.held_out:
        raise InputError("--example DIR writes trials of its own: give it without a scene and without data")
    make_folder(order.example)
    console.print(identify_example.write(order.example), soft_wrap=True, markup=False)


def load(paths: Sequence[Path], order: "Identify") -> list[Trial]:
    """Trials from files, with the noise and the channels of the order."""
    noise = order.noise[0] if len(order.noise) == 1 else list(order.noise)
    trials = []
    for path in paths:
        trial = Trial.load(path, noise=noise if order.noise else None)
        trials.append(dataclasses.replace(trial, channels=order.measure) if order.measure else trial)
    return trials


def _identify(
    order: "Identify",
    mjm: mujoco.MjModel,
    physics: Physics[Any, Any],
    data: Sequence[Trial],
    held_out: Sequence[Trial],
    parameters: Sequence[Parameter],
) -> Fit:
    return identify(
        mjm,
        physics,
        data=data,
        held_out=held_out,
        parameters=parameters,
        nworld=order.nworld,
        generations=order.generations,
        seed=order.seed,
        device=order.device,
        threads=order.threads,
        progress=True,
    )


def trusted(fit: Fit) -> bool:
    """Whether the model explains all trials, and all parameters are identified."""
    return fit.explains and fit.carries and all(fit.identified.values())


def _tell(text: str, fit: Fit, out: Path, alone: bool, console: Console) -> None:
    """Print a fit, the verdict first, and write its files."""
    console.print(f"[bold]{escape(text)}[/]: {escape(fit.verdict)}\n", soft_wrap=True)
    table = Table("parameter", "value", "95 % interval", "", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for estimate in fit.estimates.values():
        low, high = (f"{end:.4g}" for end in (estimate.low, estimate.high))
        interval = escape(f"{low} to {high} {estimate.parameter.unit}".rstrip())
        table.add_row(escape(estimate.parameter.name), _value(estimate), interval, escape(estimate.reason))
    console.print(table)
    stem = "fit" if alone else "fit-" + re.sub(r"[^\w.=-]+", "-", text)
    saved, drawn = fit.save(out / f"{stem}.json"), fit.plot(out / f"{stem}.png")
    lost = f", {fit.lost} of them not finite" if fit.lost else ""
    console.print(f"\n{fit.rollouts} rollouts{lost}, {fit.seconds:.0f} s")
    console.print(f"Wrote {escape(str(saved))} and {escape(str(drawn))}\n", soft_wrap=True)


def _value(estimate: Estimate) -> str:
    if not estimate.identified:
        return "[yellow]not identified[/]"
    return escape(f"{estimate.value:.4g} {estimate.parameter.unit}".rstrip())


def _comparison(fits: dict[str, Fit], parameters: Sequence[Parameter]) -> Table:
    """One column for each physics."""
    table = Table("", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for text in fits:
        table.add_column(escape(text), justify="right")
    rows = list(fits.values())
    table.add_row("residual over noise", *(f"{fit.residual:.3g}" for fit in rows))
    table.add_row("the same of a model that is right", *(f"{fit.floor:.3g}" for fit in rows))
    table.add_row("held-out trials", *("none" if fit.held_out is None else f"{fit.held_out:.3g}" for fit in rows))
    floors = [fit.held_out_floor for fit in rows if fit.held_out_floor is not None]
    if floors:
        table.add_row("the same of a model that is right", *(f"{floor:.3g}" for floor in floors))
    for parameter in parameters:
        table.add_row(escape(parameter.name), *(_value(fit.estimates[parameter.name]) for fit in rows))
    table.add_row("to be trusted", *("yes" if trusted(fit) else "[yellow]no[/]" for fit in rows))
    return table
