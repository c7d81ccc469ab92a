"""Models with other friction, mass and size: ensembles of a plan, and plants that differ."""

import dataclasses

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.mpc import variation
from stickslip.mpc.cost import (
    Position,
    Rotation,
)
from stickslip.mpc.planners.sampling.planner import Mppi, Sampler
from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS
from stickslip.mpc.trial import trial
from tests.mpc.small import FINGER, GOAL, cart, finger, observation, read


def test_an_ensemble_is_judged_by_its_mean_or_its_worst():
    """Costs of a sample are those of single planners whose models have the same factors."""
    problem = finger((Position(weight=1.0), Rotation(weight=0.1)), build=lambda name: mujoco.MjSpec.from_string(HEAVY))
    physics, seen = ss.ComFree(), observation(problem)
    seen.qvel[-6:] = 0.5
    found = {}
    for risk in ("mean", "worst"):
        settings = Mppi(samples=4, horizon=20, knot_steps=5, models=3, spread=0.5, size_spread=0.5, risk=risk)
        planner = Sampler(problem, physics, settings, "cpu")
        planner.reset(GOAL, 2)
        planner.plan(seen)
        found[risk] = read(planner.batch._cost)
        mass = planner.batch.sim.m.body_mass.numpy()[:, problem.mjm.body("object").id]
    each = []
    factors = variation.factors(3, 0.5, 0.5)
    np.testing.assert_allclose(mass, np.tile(0.05 * factors[:, 1], 4), rtol=1e-6)
    for friction, of_mass, size in factors:
        other = variation.varied(problem, friction=friction, mass=of_mass, size=size)
        alone = dataclasses.replace(problem.task, build=lambda name, other=other: _spec(other.mjm))
        planner = Sampler(compile_problem(alone), physics, Mppi(samples=4, horizon=20, knot_steps=5), "cpu")
        planner.reset(GOAL, 2)
        planner.plan(seen)
        each.append(read(planner.batch._cost))
    np.testing.assert_allclose(found["mean"], np.mean(each, axis=0), rtol=1e-4)
    np.testing.assert_allclose(found["worst"], np.max(each, axis=0), rtol=1e-4)
    assert np.ptp(each, axis=0).min() > 5e-5


HEAVY = (
    FINGER.replace(' gravcomp="1"', "")
    .replace('<geom type="sphere" size="0.02"', '<geom type="sphere" contype="3" conaffinity="3" size="0.02"')
    .replace("<worldbody>", '<worldbody><geom type="plane" size="1 1 1" pos="0 0 0.18" contype="2" conaffinity="2"/>')
)
"""The finger, and a ball that rolls on a floor."""


def _spec(mjm: mujoco.MjModel) -> mujoco.MjSpec:
    """The finger with the mass and the size of the object of a model."""
    spec = mujoco.MjSpec.from_string(HEAVY)
    body = mjm.body("object")
    (geom,) = spec.body("object").geoms
    geom.size[0] = mjm.geom_size[body.geomadr[0], 0]
    geom.mass = body.mass[0]
    return spec


def test_a_plant_differs_by_the_factors_given():
    problem = compile_problem(TASKS["leap-yaw"], "duck")
    other = variation.varied(problem, friction=0.7, mass=1.3, size=1.1)
    before, after = problem.mjm, other.mjm
    body = before.body("object").id
    mine = before.geom_bodyid == body
    for mjm, factor in ((before, 1.0), (after, 0.7)):
        data = mujoco.MjData(mjm)
        data.qpos[:] = trial.draw(problem, 0)[0]
        data.qpos[-5] -= 0.005  # into the palm
        mujoco.mj_forward(mjm, data)
        touching = [c for c in data.contact if body in mjm.geom_bodyid[c.geom]]
        assert touching and all(c.friction[0] == pytest.approx(factor) for c in touching)
    np.testing.assert_allclose(after.geom_size[mine], 1.1 * before.geom_size[mine])
    np.testing.assert_allclose(after.geom_pos[mine], 1.1 * before.geom_pos[mine])
    np.testing.assert_allclose(after.body_inertia[body], 1.3 * 1.21 * before.body_inertia[body])
    assert after.body_mass[body] == pytest.approx(1.3 * before.body_mass[body])
    assert (after.geom_size[~mine] == before.geom_size[~mine]).all()
    assert after.body_subtreemass[body] == pytest.approx(after.body_mass[body])
    with pytest.raises(ss.InputError, match="mass 0.0: it is a factor and must be above 0"):
        variation.varied(problem, mass=0.0)
    with pytest.raises(ss.InputError, match="cart names no body .* Task.uncertain"):
        variation.varied(cart(), mass=1.1)
