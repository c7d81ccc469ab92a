"""`creep-floor`: how slowly a box creeps on a slope that must hold it, over all gains of a physics that has gains.

A physics whose `stiffness` and `damping` may differ between worlds runs a grid of them, a world each; the others run as
they are and give a level line.

`comfree` answers each facet of a contact by itself, with one gain M (k dt + d) / dt for slip and approach. In a steady
creep the velocity that it predicts is -g dt cos(a) along the normal and s = v + g dt sin(a) down the slope. A contact
that touches is pressed in, so that a facet across the slope has at least the force c g dt cos(a), c its gain. The two
along the slope have that and c mu s more, and less, but no less than nothing. Of a force with friction q mu times its
normal, the slip is thus at least g dt cos(a) / mu times r, where

    q = r / 2 for r <= 1, where all four facets are pressed;  q = (1 + r) / (3 + r) beyond

and q is tan(a) / mu on this slope. Contacts of unequal load cannot do better together than the best of them. So the
creep v has a floor in which no gain is left, no mass and no number of contacts. Gains that differ from contact to
contact, or follow depth and speed, do not get below it either. Where gains are too large for a contact to stay pressed,
the box hops.

Nothing follows for `impedance=exact`, whose facets have a gain each, and for `tangential`, which gives slip its own.
"""

import dataclasses
import itertools
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip import parameters
from stickslip.bench.experiment import GRAVITY, Experiment, Outcome, Score, Trial, problems, state_of
from stickslip.bench.references import timesteps
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

CASE = "slope"
GAINS = ("stiffness", "damping")
HOP = 2e-5
"""Height above the slope from which a box counts as hopping [m]."""
SLOWEST = 1e-5
"""What is slower is drawn at this creep [mm/s]."""


@dataclasses.dataclass(frozen=True)
class Settings:
    angle: float = parameter(0.25, "slope [rad]", low=0.01, high=1.2)
    mu: float = parameter(0.4, "coefficient of friction; more than tan(angle)", low=0.01, high=5.0)
    mass: float = parameter(4.0, "mass of the box [kg]", low=1e-3, high=1e3)
    half: float = parameter(0.05, "half of the box's side [m]", low=0.005, high=1.0)
    stiffnesses: tuple[float, ...] = parameter((0.1, 0.2, 0.4, 0.8, 1.6, 3.2), "of the grid", low=1e-3, high=1e6)
    dampings: tuple[float, ...] = parameter(
        (0.0, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.016, 0.032), "of the grid", low=0.0, high=1e6
    )
    duration: float = parameter(2.0, "simulated time [s]", low=0.01, high=100.0)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)


def floor(angle: float, mu: float, timestep: float) -> float:
    """The least steady creep with one gain a contact for slip and approach [m/s]."""
    q = math.tan(angle) / mu
    slip = 2.0 * q if q <= 0.5 else (3.0 * q - 1.0) / (1.0 - q)
    return GRAVITY * timestep * (math.cos(angle) * slip / mu - math.sin(angle))


def has_grid(physics: Physics[Any, Any]) -> bool:
    """Whether a physics has one pair of gains, and each world may have its own."""
    declared = parameters.fields(physics) if dataclasses.is_dataclass(physics) else {}
    return all(
        name in declared
        and parameters.declaration(declared[name]).per_world
        and isinstance(getattr(physics, name), numbers.Real)
        for name in GAINS
    )


class CreepFloor(Experiment[Settings]):
    name = "creep-floor"
    summary = "how slowly a box creeps on a slope that must hold it, over all gains, against what gains can reach"
    source = "stickslip"
    settings = Settings
    quick = {"stiffnesses": (0.2,), "dampings": (0.001, 0.004), "duration": 0.05}
    extra = ("comfree:impedance=exact", "comfree:tangential=0.5", "comfree:tangential=2")

    def cases(self, settings: Settings) -> Mapping[str, str]:
        if math.tan(settings.angle) >= settings.mu:
            raise InputError(
                f"angle is {settings.angle:g} rad and mu {settings.mu:g}: the box slides; "
                f"raise mu above tan(angle) = {math.tan(settings.angle):.3g}"
            )
        return {CASE: CASE}

    def measure(self, case: str, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        gains = np.empty((1, 0))
        if has_grid(physics):
            own = [getattr(physics, name) for name in GAINS]
            gains = np.array([own, *itertools.product(settings.stiffnesses, settings.dampings)])
            physics = dataclasses.replace(physics, **dict(zip(GAINS, map(tuple, gains.T.tolist()), strict=True)))  # type: ignore[type-var]
        given = f"angle={settings.angle!r},mu={settings.mu!r},mass={settings.mass!r},half={settings.half!r}"
        scene = f"box-on-slope:{given},overlap=0"
        sim = trial.simulation(scene, physics, nworld=len(gains), timestep=settings.timestep)
        track = trial.record(sim, round(settings.duration / settings.timestep), state_of)
        late = timesteps.late(track["time"])
        time, place = track["time"][late], track["qpos"][late][..., :3]
        creep = 1e3 * np.linalg.norm(place[-1] - place[0], axis=-1) / (time[-1] - time[0])
        height = place @ (math.sin(settings.angle), 0.0, math.cos(settings.angle)) - settings.half
        hops = 1.0 * (height.max(axis=0) > HOP)
        metrics = {"creep_mm_per_s": float(creep[0]), "hops": float(hops[0])}
        if gains.size:
            least = int(np.nanargmin(creep)) if np.isfinite(creep).any() else 0
            lowest = 1e3 * floor(settings.angle, settings.mu, settings.timestep)
            metrics |= {"least_mm_per_s": float(creep[least]), "least_of_floor": float(creep[least]) / lowest}
            metrics |= {f"least_{name}": float(gains[least, i]) for i, name in enumerate(GAINS)}
            metrics |= {"hopping_percent": 100.0 * float(hops.mean()), "floor_mm_per_s": lowest}
        shown = {"creep_mm_per_s": creep, "hops": hops} | {
            name: gains[:, i] for i, name in enumerate(GAINS[: gains.shape[1]])
        }
        return Outcome(metrics, shown, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        grid = f"the best of {len(settings.stiffnesses) * len(settings.dampings)} pairs of gains"
        return [
            Score("creep of a box that must stick", CASE, "creep_mm_per_s", "mm/s"),
            Score(f"the same with {grid}", CASE, "least_mm_per_s", "mm/s", absent="no gains"),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        title = f"creep-floor: a box that must stick, slope {settings.angle:g} rad, friction {settings.mu:g}"
        fig, axes = style.figure(title, 1, 2, width=15.0, height=5.0)
        ax, ran = axes[0, 0], result.ran(CASE)
        shares = [k * settings.timestep + d for k, d in itertools.product(settings.stiffnesses, settings.dampings)]
        ends = [min(shares), max(shares)]
        best = {}
        for method in ran:
            creep = np.maximum(result.series(method, CASE, "creep_mm_per_s"), SLOWEST)
            own, least = (result.metric(method, CASE, name) for name in ("creep_mm_per_s", "least_mm_per_s"))
            best[method] = [own, own if math.isnan(least) else least]
            name = {"label": style.in_full(method)}
            if len(creep) == 1:
                style.line(ax, result, method, ends, [creep[0]] * 2, **name)
                continue
            x = settings.timestep * result.series(method, CASE, "stiffness") + result.series(method, CASE, "damping")
            hops = result.series(method, CASE, "hops") > 0.5
            dots = {"ls": "none", "marker": "o", "ms": 4.5, "alpha": 0.8}
            style.line(ax, result, method, x[~hops], creep[~hops], **dots, **name)
            style.line(ax, result, method, x[hops], creep[hops], **dots, mfc="none", label=None)
        lowest = 1e3 * floor(settings.angle, settings.mu, settings.timestep)
        style.reference(ax, ends, [lowest] * 2, "floor of one gain for slip and approach")
        ax.set_xscale("log")
        ax.set_yscale("log")
        step = timesteps.tick(settings.timestep)
        style.label(ax, f"over the gains k and d, {step}; open: the box hops", "k dt + d", "creep [mm/s]")
        style.bars(axes[0, 1], result, ["as it is", "with the best gains, if it has any"], best, log=True)
        axes[0, 1].axhline(lowest, ls="--", color=style.REFERENCE, lw=1.2)
        style.label(axes[0, 1], "creep at the end", "", "creep [mm/s]")
        style.legend(fig, [ax])
        return fig
