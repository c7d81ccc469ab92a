"""Benchmarks: one file an experiment, the physics an argument; every figure we print comes from here."""

from typing import Any

from stickslip.bench.ablation import Ablation
from stickslip.bench.bullet import Bullet
from stickslip.bench.energy import Energy
from stickslip.bench.experiment import Experiment
from stickslip.bench.force_profile import ForceProfile
from stickslip.bench.grasp_creep import GraspCreep
from stickslip.bench.hold import Hold
from stickslip.bench.particles import Particles
from stickslip.bench.penetration import Penetration
from stickslip.bench.pile import Pile
from stickslip.bench.plan_gradient import PlanGradient
from stickslip.bench.plan_mppi import PlanMppi
from stickslip.bench.planar_pushing import PlanarPushing
from stickslip.bench.push_cubes import PushCubes
from stickslip.bench.resolution import Resolution
from stickslip.bench.robust import Robust
from stickslip.bench.rolling import Rolling
from stickslip.bench.scaling import Scaling
from stickslip.bench.seven_tests import SevenTests
from stickslip.bench.sheath import Sheath
from stickslip.bench.slide import Slide
from stickslip.bench.smooth import Smooth
from stickslip.bench.soft_distance import SoftDistance
from stickslip.bench.speed import Speed
from stickslip.bench.stability import Stability
from stickslip.bench.stack import Stack
from stickslip.bench.stick import Stick
from stickslip.bench.throughput import Throughput
from stickslip.bench.torsion import Torsion
from stickslip.bench.tumble import Tumble
from stickslip.bench.work_precision import WorkPrecision

EXPERIMENTS: dict[str, Experiment[Any]] = {
    experiment.name: experiment
    for experiment in (
        Stick(),
        GraspCreep(),
        Hold(),
        Stack(),
        SevenTests(),
        Ablation(),
        Resolution(),
        Penetration(),
        Pile(),
        Bullet(),
        Torsion(),
        Rolling(),
        Stability(),
        Slide(),
        Tumble(),
        Sheath(),
        Energy(),
        WorkPrecision(),
        Robust(),
        PushCubes(),
        SoftDistance(),
        ForceProfile(),
        PlanarPushing(),
        PlanGradient(),
        PlanMppi(),
        Scaling(),
        Throughput(),
        Speed(),
        Particles(),
        Smooth(),
    )
}
"""Every experiment by its name, in the order of the report: what is right first, then what is fast."""
