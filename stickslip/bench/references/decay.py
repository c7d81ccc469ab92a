"""A speed that dry friction brings to rest at a constant rate: what `torsion` and `rolling` measure and draw alike."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stickslip.bench.experiment import SAMPLES, Outcome, Trial, problems
from stickslip.simulation import Simulation

REST = 0.01
"""Share of the start speed below which a body counts as being at rest."""
MOMENTS = 5 * SAMPLES
"""Samples the metrics are taken from, about; fewer are stored."""


@dataclasses.dataclass(frozen=True)
class Decay:
    """What must happen: a positive `start` speed falls by `rate` a second (both > 0, in the same unit) to zero."""

    start: float
    rate: float

    @property
    def stop(self) -> float:
        """When it stands still [s]."""
        return self.start / self.rate

    def speed(self, time: Any) -> Any:
        """The exact speed at `time` [s]."""
        return np.maximum(self.start - self.rate * time, 0.0)


def measure(
    sim: Simulation, exact: Decay, span: float, speed_of: Callable[[Simulation], float], trial: Trial
) -> Outcome:
    """Run for `span` times the exact time to rest; all metrics are relative to the exact answer, in percent.

    - rms_percent: rms over the run of the error in speed, of the start speed
    - left_percent: speed left when it has to stand still, of the start speed
    - braking_percent: error of the mean braking in the first half of the exact time, of the exact braking
    - stop_percent: error of the time until the speed stays below REST of the start, of the exact such time; NaN if it
      does not within the run
    """
    steps = math.ceil(span * exact.stop / float(sim.mjm.opt.timestep))
    track = trial.record(sim, steps, lambda sim: {"speed": speed_of(sim)}, samples=MOMENTS)
    time, speed = track["time"], track["speed"]
    half, end = np.interp([0.5 * exact.stop, exact.stop], time, speed)
    moving = np.flatnonzero(~(np.abs(speed) <= REST * exact.start))  # NaN counts as moving
    rests = len(moving) > 0 and moving[-1] + 1 < len(time)
    stopped = time[moving[-1] + 1] if rests else math.nan
    metrics = {
        "rms_percent": 100.0 * float(np.sqrt(np.mean((speed - exact.speed(time)) ** 2))) / exact.start,
        "left_percent": 100.0 * float(end) / exact.start,
        "braking_percent": 100.0 * (float(exact.start - half) / (0.5 * exact.start) - 1.0),
        "stop_percent": 100.0 * (stopped / ((1.0 - REST) * exact.stop) - 1.0),
        "stop_s": stopped,
        "exact_stop_s": exact.stop,
    }
    thin = slice(None, None, max(1, len(time) // SAMPLES))
    return Outcome(metrics, {"time": time[thin], "speed": speed[thin]}, problems(sim))
