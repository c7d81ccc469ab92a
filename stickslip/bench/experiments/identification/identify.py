"""`identify`: friction and mass of a T from recorded pushes, under each physics, tested on a push from another side.

A finger pushes the T twice through its centre of mass, which is fitted, and once beside it so that the T turns, which
is not. A camera sees T and finger with noise. The pushes are recorded with MuJoCo in C, with `cenic`, and with the
physics itself, so that one can tell what noise does from what a wrong model does: of its own data, a physics has to
find the truth; of another's, it has to say that it is wrong.

A parameter that is not identified has no value: its error is missing, and the table says so.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from stickslip import identification
from stickslip.bench import methods
from stickslip.bench.experiment import Experiment, Outcome, Score, Trial
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import MissingExtra, StickslipError, Unsupported
from stickslip.identification import Fit, Friction, Mass, fit, pushes
from stickslip.mjcf import load
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

OWN = "its own data"
OTHERS = (methods.IN_C, "cenic")
"""Who else records."""
FITTED = {"foot": pushes.FOOT.beside(0.003), "top": pushes.TOP.beside(-0.002)}
TESTED = {"side": pushes.SIDE}
"""Pushes by name."""
PARAMETERS = {"friction": "friction of all geoms", "mass": "mass of T"}
"""Names in a fit."""


@dataclasses.dataclass(frozen=True)
class Settings:
    friction: float = parameter(0.35, "of all geoms", low=0.06, high=1.9)
    mass: float = parameter(0.8, "of the T [kg]", low=0.11, high=2.9)
    noise: float = parameter(0.001, "standard deviation of a measured place [m]", low=1e-6, high=0.1)
    duration: float = parameter(0.8, "of a push [s]", low=0.3, high=10.0)
    timestep: float = parameter(0.004, "length of a step [s]", low=1e-4, high=0.01)
    worlds: int = parameter(2048, "candidates and pushes at a time (fewer on a CPU)", low=8, high=1 << 20)
    generations: int = parameter(20, "of the search, at most", low=1, high=1000)


def parameters() -> list[identification.Parameter]:
    """What is identified."""
    return [Friction(None, 0.05, 2.0), Mass("T", 0.1, 3.0)]


def label(source: str) -> str:
    """Of a case."""
    return source if source == OWN else f"data of {source}"


class Identify(Experiment[Settings]):
    name = "identify"
    summary = "friction and mass of a T from pushes seen with noise, recorded by three physics, tested on another push"
    source = "stickslip"
    settings = Settings
    cpu = {"worlds": 64}
    quick = {"duration": 0.4, "timestep": 0.008, "worlds": 8, "generations": 2}

    def cases(self, settings: Settings) -> Mapping[str, str]:
        return {label(source): source for source in (*OTHERS, OWN)}

    def measure(self, case: str, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        recorder = None if case == methods.IN_C else physics if case == OWN else methods.resolve([case])[case].subject
        random = trial.random()
        data, held_out = (
            [
                pushes.spoil(
                    pushes.record(
                        push, settings.friction, settings.mass, place=settings.noise, timestep=settings.timestep,
                        duration=settings.duration, physics=recorder, device=trial.device, name=name,
                    ),
                    random,
                )
                for name, push in given.items()
            ]
            for given in (FITTED, TESTED)
        )  # fmt: skip
        try:
            found = identification.identify(
                load(pushes.SCENE, timestep=settings.timestep), physics, data=data, held_out=held_out,
                parameters=parameters(), nworld=settings.worlds, generations=settings.generations, seed=trial.seed,
                device=trial.device,
            )  # fmt: skip
        except (Unsupported, MissingExtra):
            raise
        except StickslipError as error:
            return Outcome({}, problems=[f"no fit: {error}"])
        return Outcome(metrics(found, {"friction": settings.friction, "mass": settings.mass}))

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [
            score
            for case in self.cases(settings)
            for score in (
                Score(f"friction of a pushed T, {case}", case, "friction_error_percent", "%", absent="not identified"),
                Score(f"mass of that T, {case}", case, "mass_error_percent", "%", absent="not identified"),
                Score(f"residual over that of a right model, {case}", case, "residual_of_right", ""),
                Score(f"the same of a push from another side, {case}", case, "held_out_of_right", ""),
            )
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        title = f"identify: a T of friction {settings.friction:g} and mass {settings.mass:g} kg"
        title += f", seen with noise of {1e3 * settings.noise:g} mm"
        fig, axes = style.figure(title, len(result.cases), 3, height=2.9, width=15.0)
        for row, case in zip(axes, result.cases, strict=True):
            for ax, name, unit in ((row[0], "friction", ""), (row[1], "mass", "kg")):
                _intervals(ax, result, case, name, getattr(settings, name))
                style.label(ax, f"{name}, {case}; open: not identified", "", unit)
            shares = {
                method: [result.metric(method, case, f"{name}_of_right") for name in ("residual", "held_out")]
                for method in result.ran(case)
            }
            style.bars(row[2], result, ["fitted pushes", "push from another side"], shares, log=True)
            row[2].axhline(fit.WRONG, ls="--", color=style.REFERENCE, lw=1.2)
            style.label(row[2], f"residual over that of a right model, {case}", "", "")
        style.legend(fig, axes)
        return fig


def metrics(found: Fit, truth: Mapping[str, float]) -> dict[str, float]:
    """Of a fit with the parameters of a push; a parameter that is not identified has no error."""
    assert found.held_out is not None and found.held_out_floor is not None
    out = {}
    for name, true in truth.items():
        estimate = found.estimates[PARAMETERS[name]]
        error = 100.0 * (estimate.value / true - 1.0) if estimate.identified else math.nan
        out |= {
            name: estimate.value,
            f"{name}_low": estimate.low,
            f"{name}_high": estimate.high,
            f"{name}_error_percent": error,
            f"{name}_inside": float(estimate.low <= true <= estimate.high),
        }
    return out | {
        "residual": found.residual,
        "residual_of_right": found.residual / found.floor,
        "held_out": found.held_out,
        "held_out_of_right": found.held_out / found.held_out_floor,
        "explains": float(found.explains),
        "carries": float(found.carries),
        "rollouts": found.rollouts,
    }


def _intervals(ax: Any, result: Result, case: str, name: str, truth: float) -> None:
    """The interval of every physics, and the truth."""
    ran = result.ran(case)
    for place, method in enumerate(ran):
        value, low, high, error = (
            result.metric(method, case, f"{name}{end}") for end in ("", "_low", "_high", "_error_percent")
        )
        if not math.isfinite(value):
            continue
        shade = style.colour(method, list(result.methods))
        ax.errorbar(
            place, value, [[value - low], [high - value]], color=shade, marker="o", ms=6, capsize=4, lw=1.6,
            mfc="white" if math.isnan(error) else shade,
        )  # fmt: skip
    ax.axhline(truth, ls="--", color=style.REFERENCE, lw=1.2)
    ax.set_xticks(range(len(ran)), [style.short(method) for method in ran], rotation=20, ha="right")
    ax.set_xlim(-0.5, max(len(ran), 1) - 0.5)
    ax.margins(y=0.15)
