"""`transfer`: friction found where boxes come to rest, tested where they slide, and the other way round.

Boxes are sent down slopes. On gentle ones friction brakes them to rest and holds them, on steep ones they go faster and
faster; `exact` has the way of each. One recording is fitted, the other is foretold. A physics that creeps finds more
friction where boxes rest, to make up for its creep, and then has too much of it where they slide.

The way of steps with exact forces is off by a step's length over the duration, see `motion.step_error`.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import identification
from stickslip.bench.experiment import GRAVITY, Experiment, Outcome, Score, Trial
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.errors import InputError, MissingExtra, StickslipError, Unsupported
from stickslip.identification import Friction
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

HALF = 0.05
"""Half of a box's side [m]."""
FRICTION = Friction(None, 0.05, 5.0)
RATE = 50.0
"""Measurements in a second [Hz]."""


@dataclasses.dataclass(frozen=True)
class Settings:
    mu: float = parameter(0.4, "coefficient of friction", low=0.06, high=4.0)
    resting: tuple[float, ...] = parameter((0.1, 0.25), "slopes on which boxes come to rest [rad]", low=0.0, high=1.2)
    sliding: tuple[float, ...] = parameter((0.5, 0.6), "slopes on which they do not [rad]", low=0.0, high=1.2)
    speed: float = parameter(0.3, "of the boxes at first [m/s]", low=0.01, high=10.0)
    noise: float = parameter(0.001, "standard deviation of a measured place [m]", low=1e-6, high=0.1)
    duration: float = parameter(1.0, "of a recording [s]", low=0.1, high=10.0)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-4, high=0.01)
    worlds: int = parameter(256, "candidates at a time (fewer on a CPU)", low=4, high=1 << 20)
    generations: int = parameter(12, "of the search, at most", low=1, high=1000)


CASES = {"from rest to sliding": ("resting", "sliding"), "from sliding to rest": ("sliding", "resting")}
"""Which slopes are fitted, and which are foretold."""


def exact(angle: float, mu: float, speed: float, time: NDArray[np.floating]) -> NDArray[np.floating]:
    """Way down a slope under Coulomb's law, from a speed on [m]."""
    gain = GRAVITY * (math.sin(angle) - mu * math.cos(angle))
    moving = np.minimum(time, speed / -gain) if gain < 0.0 else time
    return speed * moving + 0.5 * gain * moving**2


def model(angles: Sequence[float], timestep: float) -> mujoco.MjModel:
    """A box on each slope; box and slope touch each other only. Joints are free, and go along their own axes."""
    spec = mujoco.MjSpec()
    spec.option.timestep = timestep
    for k, angle in enumerate(angles):
        quat = [math.cos(0.5 * angle), 0.0, math.sin(0.5 * angle), 0.0]
        bit, place = 1 << k, [0.0, 0.3 * k, 0.0]
        mask = {"contype": bit, "conaffinity": bit}
        plane = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0], quat=quat, **mask)
        plane.pos = place
        above = np.array(place) + HALF * np.array([math.sin(angle), 0.0, math.cos(angle)])
        box = spec.worldbody.add_body(name=f"box{k}", pos=above.tolist(), quat=quat)
        box.add_freejoint()
        box.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[HALF] * 3, mass=1.0, **mask)
    return spec.compile()


class Transfer(Experiment[Settings]):
    name = "transfer"
    summary = "friction identified where boxes come to rest, tested where they slide, and the other way round"
    source = "stickslip"
    settings = Settings
    cpu = {"worlds": 16}
    quick = {"resting": (0.1,), "sliding": (0.6,), "duration": 0.2, "timestep": 0.01, "worlds": 4, "generations": 1}
    extra = ("comfree:tangential=0.5",)

    def cases(self, settings: Settings) -> Mapping[str, tuple[str, str]]:
        for names, fine in (("resting", lambda tangent: tangent < settings.mu),
                            ("sliding", lambda tangent: tangent > settings.mu)):  # fmt: skip
            bad = [angle for angle in getattr(settings, names) if not fine(math.tan(angle))]
            if bad:
                raise InputError(
                    f"{names} has a slope of {bad[0]:g} rad: it must be {'below' if names == 'resting' else 'above'} "
                    f"{math.atan(settings.mu):.3g} rad, the slope of friction {settings.mu:g}"
                )
        if len(settings.resting) + len(settings.sliding) > 30:
            raise InputError("more than 30 slopes: take fewer, since each needs a bit of its own for its contacts")
        return CASES

    def measure(self, case: tuple[str, str], physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        angles = (*settings.resting, *settings.sliding)
        mjm = model(angles, settings.timestep)
        every = max(1, round(1.0 / (RATE * settings.timestep)))
        time = np.arange(0, round(settings.duration / settings.timestep) + 1, every) * settings.timestep
        way = np.stack([exact(angle, settings.mu, settings.speed, time) for angle in angles], axis=1)
        along = np.array([[math.cos(angle), -math.sin(angle)] for angle in angles])
        start = mjm.qpos0.reshape(-1, 7)[:, [0, 2]]
        truth = (start + way[..., None] * along).reshape(len(time), -1)
        measured = truth + settings.noise * trial.random().normal(size=truth.shape)
        qvel = np.zeros((len(angles), 6))
        qvel[:, [0, 2]] = settings.speed * along
        channels = [f"qpos[{7 * k + axis}]" for k in range(len(angles)) for axis in (0, 2)]
        used = {
            "resting": np.arange(2 * len(angles)) < 2 * len(settings.resting),
            "sliding": np.arange(2 * len(angles)) >= 2 * len(settings.resting),
        }
        fitted, foretold = (
            identification.Trial(
                time, measured, np.where(used[name], settings.noise, np.inf), channels, qvel=qvel.ravel(), name=name
            )
            for name in case
        )
        try:
            found = identification.identify(
                mjm, physics, data=[fitted], held_out=[foretold], parameters=[FRICTION], nworld=settings.worlds,
                generations=settings.generations, seed=trial.seed, device=trial.device,
            )  # fmt: skip
        except (Unsupported, MissingExtra):
            raise
        except StickslipError as error:
            return Outcome({}, problems=[f"no fit: {error}"])
        assert found.held_out is not None
        estimate = found.estimates[FRICTION.name]
        off = (found.held_out_predicted[0] - truth)[:, used[case[1]]]
        metrics = {
            "friction": estimate.value,
            "friction_low": estimate.low,
            "friction_high": estimate.high,
            "friction_error_percent": 100.0 * (estimate.value / settings.mu - 1.0),
            "identified": float(estimate.identified),
            "residual_of_right": found.residual / found.floor,
            "held_out": found.held_out,
            "farthest_mm": 1e3 * float(np.hypot(off[:, ::2], off[:, 1::2]).max()),
            "carries": float(found.carries),
        }
        return Outcome(metrics)

    def scores(self, settings: Settings) -> Sequence[Score]:
        return [
            score
            for case in self.cases(settings)
            for score in (
                Score(f"friction, {case}", case, "friction_error_percent", "%"),
                Score(f"place of the boxes that were not fitted, {case}", case, "farthest_mm", "mm"),
            )
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        fig, axes = style.figure(f"transfer: boxes on slopes, friction {settings.mu:g}", 1, 3, width=16.0, height=4.2)
        cases, ran = result.cases, [m for m in result.methods if any(result.has(m, case) for case in result.cases)]
        names = ["fitted where boxes rest", "fitted where they slide"]
        frictions = {m: [result.metric(m, case, "friction") for case in cases] for m in ran}
        style.bars(axes[0, 0], result, names, frictions)
        axes[0, 0].axhline(settings.mu, ls="--", color=style.REFERENCE, lw=1.2)
        style.label(axes[0, 0], "friction", "", "")
        series.bars(axes[0, 1], result, cases, "residual_of_right", names)
        style.label(axes[0, 1], "residual of what was fitted, over that of a right model", "", "")
        series.bars(axes[0, 2], result, cases, "farthest_mm", ["tested where boxes slide", "tested where they rest"])
        style.label(axes[0, 2], "farthest from where a box is, in what was not fitted", "", "[mm]")
        style.legend(fig, axes)
        return fig
