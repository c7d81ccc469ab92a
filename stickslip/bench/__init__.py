"""Benchmarks: one file an experiment, the physics an argument; every metric we print comes from here."""

from typing import Any

from stickslip.bench.experiment import Experiment
from stickslip.bench.experiments.accuracy.energy import Energy
from stickslip.bench.experiments.accuracy.fuzz import Fuzz
from stickslip.bench.experiments.accuracy.robust import Robust
from stickslip.bench.experiments.accuracy.soak import Soak
from stickslip.bench.experiments.accuracy.work_precision import WorkPrecision
from stickslip.bench.experiments.depth.bullet import Bullet
from stickslip.bench.experiments.depth.kern import Kern
from stickslip.bench.experiments.depth.penetration import Penetration
from stickslip.bench.experiments.depth.pile import Pile
from stickslip.bench.experiments.depth.stack import Stack
from stickslip.bench.experiments.free_bodies.ablation import Ablation
from stickslip.bench.experiments.free_bodies.free_spin import FreeSpin
from stickslip.bench.experiments.free_bodies.resolution import Resolution
from stickslip.bench.experiments.free_bodies.seven_tests import SevenTests
from stickslip.bench.experiments.free_bodies.stability import Stability
from stickslip.bench.experiments.free_bodies.tumble import Tumble
from stickslip.bench.experiments.friction.creep_floor import CreepFloor
from stickslip.bench.experiments.friction.grasp_creep import GraspCreep
from stickslip.bench.experiments.friction.hold import Hold
from stickslip.bench.experiments.friction.pinch_moment import PinchMoment
from stickslip.bench.experiments.friction.rolling import Rolling
from stickslip.bench.experiments.friction.sheath import Sheath
from stickslip.bench.experiments.friction.slide import Slide
from stickslip.bench.experiments.friction.stick import Stick
from stickslip.bench.experiments.friction.torsion import Torsion
from stickslip.bench.experiments.friction.torsion_patch import TorsionPatch
from stickslip.bench.experiments.identification.coverage import Coverage
from stickslip.bench.experiments.identification.identify import Identify
from stickslip.bench.experiments.identification.rebound import Rebound
from stickslip.bench.experiments.identification.rollouts import RolloutRate
from stickslip.bench.experiments.identification.transfer import Transfer
from stickslip.bench.experiments.planning.plan_delay import PlanDelay
from stickslip.bench.experiments.planning.plan_gradient import PlanGradient
from stickslip.bench.experiments.planning.plan_mismatch import PlanMismatch
from stickslip.bench.experiments.planning.plan_mppi import PlanMppi
from stickslip.bench.experiments.planning.plan_settings import PlanSettings
from stickslip.bench.experiments.planning.retarget import Retarget
from stickslip.bench.experiments.smoothness.contact_force import ContactForce
from stickslip.bench.experiments.smoothness.force_profile import ForceProfile
from stickslip.bench.experiments.smoothness.planar_pushing import PlanarPushing
from stickslip.bench.experiments.smoothness.smooth import Smooth
from stickslip.bench.experiments.smoothness.soft_distance import SoftDistance
from stickslip.bench.experiments.speed.env_steps import EnvSteps
from stickslip.bench.experiments.speed.growth import Growth
from stickslip.bench.experiments.speed.particles import Particles
from stickslip.bench.experiments.speed.patch_cost import PatchCost
from stickslip.bench.experiments.speed.push_cubes import PushCubes
from stickslip.bench.experiments.speed.scaling import Scaling
from stickslip.bench.experiments.speed.speed import Speed
from stickslip.bench.experiments.speed.threads import Threads
from stickslip.bench.experiments.speed.throughput import Throughput
from stickslip.bench.experiments.speed.worlds import Worlds

EXPERIMENTS: dict[str, Experiment[Any]] = {
    experiment.name: experiment
    for experiment in (
        Stick(),
        CreepFloor(),
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
        TorsionPatch(),
        PinchMoment(),
        Kern(),
        Stability(),
        Slide(),
        Tumble(),
        FreeSpin(),
        Sheath(),
        Energy(),
        WorkPrecision(),
        Robust(),
        Soak(),
        Fuzz(),
        PushCubes(),
        SoftDistance(),
        ForceProfile(),
        ContactForce(),
        PlanarPushing(),
        Identify(),
        Transfer(),
        Coverage(),
        Rebound(),
        PlanGradient(),
        PlanMppi(),
        PlanSettings(),
        PlanDelay(),
        PlanMismatch(),
        Retarget(),
        Scaling(),
        Throughput(),
        EnvSteps(),
        RolloutRate(),
        Speed(),
        PatchCost(),
        Growth(),
        Worlds(),
        Threads(),
        Particles(),
        Smooth(),
    )
}
"""Every experiment by its name, in the order of the report: what is right first, then what is fast."""
