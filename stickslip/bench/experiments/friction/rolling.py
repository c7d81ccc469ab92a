"""`rolling`: a cylinder rolls on a plane until rolling friction has stopped it.

The torque T = rolling m g brakes the roll, and dry friction F keeps it free of slip: m dv/dt = -F and
I/r dv/dt = F r - T give dv/dt = -(2/3) rolling g / r for a solid cylinder, as long as F = (2/3) T / r stays below
mu m g.

That holds where force and torque are bounded one by one. MuJoCo bounds them together: its pyramid has
|F|/mu + |T|/rolling <= N and so brakes less, by 1 / (1 + 2 rolling / (3 mu r)): 6 % less at the largest coefficient
here. Its elliptic cone takes squares in their place: 0.2 % less. Neither is more real; the closed form is what the
name of the coefficient promises. The coefficients, sizes and start are in no text of the paper; these are ours.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from stickslip.bench.experiment import GRAVITY, Experiment, Outcome, Score, Trial
from stickslip.bench.experiments.friction import decay_picture
from stickslip.bench.references import decay
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics
from stickslip.scenes.cylinder_roll import RADIUS


@dataclasses.dataclass(frozen=True)
class Settings:
    rollings: tuple[float, ...] = parameter(
        (0.001, 0.003, 0.01), "coefficients of rolling friction [m]", low=1e-4, high=0.1
    )
    speed: float = parameter(1.0, "velocity at the start [m/s]", low=0.01, high=20.0)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)
    span: float = parameter(2.0, "simulated time, of the exact time to rest", low=1.0, high=100.0)


def exact(rolling: float, speed: float) -> decay.Decay:
    """The speed [m/s] of a solid cylinder that rolls without slip under the torque rolling m g."""
    return decay.Decay(speed, 2.0 / 3.0 * rolling * GRAVITY / RADIUS)


def _label(rolling: float) -> str:
    return f"rolling {1e3 * rolling:g} mm"


class Rolling(Experiment[Settings]):
    name = "rolling"
    summary = "a rolling cylinder braked by rolling friction, against the exact constant deceleration"
    source = "ComFree-Sim (arXiv:2603.12185), Sec. IV-B, Fig. 3(b) and 4(b)"
    settings = Settings
    quick = {"rollings": (0.01,), "span": 1.0, "timestep": 0.005}

    def cases(self, settings: Settings) -> Mapping[str, float]:
        return {_label(rolling): rolling for rolling in settings.rollings}

    def measure(self, case: float, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        scene = f"cylinder-roll:rolling={case!r},speed={settings.speed!r}"
        sim = trial.simulation(scene, physics, timestep=settings.timestep)
        reference = exact(case, settings.speed)
        return decay.measure(sim, reference, settings.span, lambda sim: float(sim.qvel.numpy()[0, 0]), trial)

    def scores(self, settings: Settings) -> Sequence[Score]:
        middle = settings.rollings[len(settings.rollings) // 2]
        case = _label(middle)
        return [
            Score(f"error of a speed under rolling friction ({case}), rms", case, "rms_percent", "%"),
            Score(f"speed left when rolling friction must have stopped it ({case})", case, "left_percent", "%"),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        cases = {label: exact(rolling, settings.speed) for label, rolling in self.cases(settings).items()}
        title = "rolling: a cylinder rolls on a plane"
        return decay_picture.draw(title, result, cases, settings.span, "speed of the centre [m/s]")
