"""Benchmarks: one file an experiment, the physics an argument; every figure we print comes from here."""

from stickslip.bench.experiment import Experiment, Settings, run
from stickslip.bench.speed import SPEED

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (SPEED,)}

__all__ = ["EXPERIMENTS", "Experiment", "Settings", "run"]
