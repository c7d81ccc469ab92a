"""`torsion`: a sphere spins about the vertical on a plane until torsional friction has stopped it.

The torque is torsion m g, so the spin falls by torsion m g / I = 5/2 torsion g / r^2 a second. The sphere can only rise
and spin, as in the paper. Its coefficients, sizes and start are in no text of the paper; these are ours.
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
from stickslip.scenes.sphere_spin import RADIUS


@dataclasses.dataclass(frozen=True)
class Settings:
    torsions: tuple[float, ...] = parameter(
        (0.002, 0.005, 0.02), "coefficients of torsional friction [m]", low=1e-4, high=1.0
    )
    spin: float = parameter(10.0, "angular velocity at the start [rad/s]", low=0.01, high=100.0)
    timestep: float = parameter(0.002, "length of a step [s]", low=1e-5, high=0.1)
    span: float = parameter(2.0, "simulated time, of the exact time to rest", low=1.0, high=100.0)


def exact(torsion: float, spin: float) -> decay.Decay:
    """The spin [rad/s] of a solid sphere under the torque torsion m g."""
    return decay.Decay(spin, 2.5 * torsion * GRAVITY / RADIUS**2)


def _label(torsion: float) -> str:
    return f"torsion {1e3 * torsion:g} mm"


class Torsion(Experiment[Settings]):
    name = "torsion"
    summary = "a spinning sphere braked by torsional friction, against the exact constant deceleration"
    source = "ComFree-Sim (arXiv:2603.12185), Sec. IV-B, Fig. 3(a) and 4(a)"
    settings = Settings
    quick = {"torsions": (0.02,), "span": 1.0}

    def cases(self, settings: Settings) -> Mapping[str, float]:
        return {_label(torsion): torsion for torsion in settings.torsions}

    def measure(self, case: float, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        scene = f"sphere-spin:torsion={case!r},spin={settings.spin!r}"
        sim = trial.simulation(scene, physics, timestep=settings.timestep)
        dof = int(sim.mjm.joint("spin").dofadr[0])
        reference = exact(case, settings.spin)
        return decay.measure(sim, reference, settings.span, lambda sim: float(sim.qvel.numpy()[0, dof]), trial)

    def scores(self, settings: Settings) -> Sequence[Score]:
        middle = settings.torsions[len(settings.torsions) // 2]
        case = _label(middle)
        return [
            Score(f"error of a spin under torsional friction ({case}), rms", case, "rms_percent", "%"),
            Score(f"spin left when torsional friction must have stopped it ({case})", case, "left_percent", "%"),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        cases = {label: exact(torsion, settings.spin) for label, torsion in self.cases(settings).items()}
        title = "torsion: a sphere spins about the vertical on a plane"
        return decay_picture.draw(title, result, cases, settings.span, "angular velocity [rad/s]")
