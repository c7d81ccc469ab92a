"""Contact parameters per world, with the convex step: against separate simulations and closed forms."""

import math
from typing import Any

import numpy as np
import pytest

import stickslip as ss
from tests import support
from tests.reference import hydro_exact

G = 9.81
BOTH = pytest.mark.parametrize("physics", [ss.Icf, ss.Cenic], ids=lambda physics: physics.name)
NAMES = ("geom_stiffness", "geom_dissipation", "geom_static_friction", "geom_hydroelastic")

SCENE = """<mujoco>
  <option timestep="0.004"/>
  <size nuser_geom="5"/>
  <custom><numeric name="stiction_velocity" data="{stiction!r}"/></custom>
  <default><geom friction="0.4 0.005 0.0001"/></default>
  <worldbody>
    <geom type="plane" size="5 5 .1" user="{user[0]}"/>
    <body pos="0 0 .049"><freejoint/><geom type="box" size=".08 .06 .05" mass="1" user="{user[1]}"/></body>
    <body pos=".02 .01 .16"><freejoint/><geom size=".05" mass=".5" user="{user[2]}"/></body>
    <body pos=".4 0 .3"><joint axis="0 1 0" frictionloss=".02" damping="1e-3"/>
      <geom type="capsule" size=".02" fromto="0 0 0 -.25 0 -.2" mass=".2" user="{user[3]}"/></body>
  </worldbody>
</mujoco>"""
"""A box slides on the floor with a ball on it, and an arm with dry friction falls upon both."""

SOFT = np.array([0.0, 3e6, 2e6, 0.0])
"""Moduli of its geoms, Pa."""


def materials(patches: bool) -> dict[str, np.ndarray]:
    """Of three worlds: (3, 4) for each name, (3,) of the stiction velocity."""
    k = np.array([[0.0, 2e4, 5e4, 3e3], [1e5, 3.3e3, 0.0, 1e4], [1e6, 1e5, 2e5, 0.0]])
    d = np.array([[-1.0, 5.0, 20.0, -1.0], [-1.0, 40.0, -1.0, 0.3], [10.0, 1.0, 1.7, 12.0]])
    mu = np.array([[0.0, 0.6, 0.0, 0.5], [0.9, 0.0, 0.0, 0.0], [0.0, 0.0, 0.7, 0.8]])
    found = dict(zip(NAMES, (k, d, mu, np.outer([1.0, 0.3, 4.1], SOFT)), strict=True))
    if not patches:
        del found["geom_hydroelastic"]
    return {**found, "stiction": np.array([1e-6, 1e-4, 2e-3])}


def scene_of(world: int | None, patches: bool) -> str:
    """The model with the materials of a world as its own; None: with other ones."""
    found = materials(patches)
    table = np.zeros((4, 5))
    table[:, :3], table[:, 3] = (4e3, 3.0, 0.0), SOFT * patches
    stiction = 1e-5
    if world is not None:
        for column, name in enumerate(NAMES[: 3 + patches]):
            table[:, column] = np.maximum(found[name][world], 0.0)  # in `user`, 0 is the default
        stiction = float(found["stiction"][world])
    return SCENE.format(user=[" ".join(map(repr, map(float, row))) for row in table], stiction=stiction)


def run(scene: str, physics: ss.Physics, nworld: int, device: str, **fields: Any) -> ss.Simulation:
    sim = ss.Simulation(scene, physics, nworld=nworld, device=device)
    if fields:
        sim.set_model(**fields)
    sim.qvel = np.array([0.6, 0.2, 0, 0, 0, 1.0, 0, 0, 0, 0, 0, 0, 0])
    sim.step(100)
    assert sim.health().ok
    return sim


def assert_is(world: int, of: ss.Simulation, alone: ss.Simulation, device: str) -> None:
    """A world of one simulation has the state of the only world of another."""
    support.assert_same(of.get_state(worlds=[world]), alone.state, device)
    if device == "cpu":
        for a, b in zip(support.exact(of), support.exact(alone), strict=True):
            assert support.same_bits(a[[world]], b)


# A world against a simulation of its own


@pytest.mark.parametrize("patches", [False, True], ids=["points", "patches"])
@pytest.mark.parametrize(
    "physics", [ss.Icf(), ss.Cenic(), ss.Cenic(scheme="trapezoid")], ids=["icf", "cenic", "trapezoid"]
)
def test_a_world_is_the_simulation_with_its_material(physics: ss.Physics, patches: bool, device: str) -> None:
    """Whether the model itself has the materials, or `set_model` gave them to the one world."""
    given = materials(patches)
    sim = run(scene_of(None, patches), physics, 3, device, **given)
    for world in range(3):
        assert_is(world, sim, run(scene_of(world, patches), physics, 1, device), device)
        own = {name: value[world] for name, value in given.items()}
        assert_is(world, sim, run(scene_of(None, patches), physics, 1, device, **own), device)
    ends = support.exact(sim)[0]
    assert np.abs(ends[1:] - ends[:1]).max(axis=1).min() > 1e-3  # they do differ
    if patches:
        assert set(sim.patches().world) == {0, 1, 2}


@BOTH
def test_parameters_of_the_physics_are_those_of_all_geoms(physics: type[ss.Icf] | type[ss.Cenic], device: str) -> None:
    k, d, e, v = np.array([3e3, 5e4]), np.array([2.0, 30.0]), np.array([1e6, 4e6]), np.array([1e-5, 1e-3])
    start = physics(stiffness=1e4, dissipation=1.0, hydroelastic=2e6, stiction=1e-4)
    one = np.ones(4)
    fields = {"geom_stiffness": np.outer(k, one), "geom_dissipation": np.outer(d, one), "stiction": v}
    sim = run(scene_of(None, True), start, 2, device, geom_hydroelastic=np.outer(e, [0, 1, 1, 1]), **fields)
    for w in range(2):
        own = physics(stiffness=k[w], dissipation=d[w], hydroelastic=e[w], stiction=v[w])
        assert_is(w, sim, run(scene_of(None, True), own, 1, device), device)


@BOTH
def test_the_number_of_threads_does_not_matter(physics: type[ss.Icf] | type[ss.Cenic]) -> None:
    sims = [ss.Simulation(scene_of(None, True), physics(), nworld=3, device="cpu", threads=n) for n in (1, 2)]
    for sim in sims:
        sim.set_model(np.array([True, False, True]), **materials(True))
        sim.randomize(geom_stiffness=ss.Scale(0.5, 2.0), geom_static_friction=ss.Uniform(0.1, 0.9))
        sim.step(60)
    support.assert_same(sims[1].state, sims[0].state, "cpu")


# Closed forms

BALL = """<mujoco>
  <option timestep="{timestep}" gravity="0 0 {gravity}"/>
  <size nuser_geom="5"/>
  <worldbody>
    <geom type="plane" size="1 1 .1"/>
    <body pos="0 0 .05"><joint type="slide" axis="0 0 1"/><geom size=".05" mass="1" user="1e4 20 0 {modulus}"/></body>
  </worldbody>
</mujoco>"""


def ball(*, timestep: float = 0.002, gravity: float = -G, modulus: float = 0.0) -> str:
    return BALL.format(timestep=timestep, gravity=gravity, modulus=modulus)


@BOTH
def test_depth_at_rest_goes_by_stiffness(physics: type[ss.Icf] | type[ss.Cenic], device: str) -> None:
    """m g (1/k1 + 1/k2): of the ball on a rigid floor, and on one with a stiffness of its own."""
    floor, k = np.array([0.0, 0.0, 3e4, 5e3]), np.array([2e3, 5e5, 1e4, 2e4])
    sim = ss.Simulation(ball(), physics(), nworld=4, device=device)
    sim.set_model(geom_stiffness=np.stack([floor, k], axis=1))
    sim.step(1000)
    compliance = 1.0 / k + np.divide(1.0, floor, out=np.zeros(4), where=floor > 0.0)
    # the height is in single precision where contacts are found: 4 nm
    np.testing.assert_allclose(-support.exact(sim)[0][:, 0], G * compliance, rtol=1e-5, atol=1e-8)


@BOTH
def test_depth_at_rest_goes_by_modulus(physics: type[ss.Icf] | type[ss.Cenic], device: str) -> None:
    """m g = pi E x^2 (1 - 2x/3R), with patches that tell the same force and more area where it is softer."""
    modulus = np.array([3e5, 1e6, 2e7])
    sim = ss.Simulation(ball(modulus=1e6), physics(), nworld=3, device=device)
    sim.set_model(geom_hydroelastic=np.stack([np.zeros(3), modulus], axis=1))
    sim.step(1000)
    depth = -support.exact(sim)[0][:, 0]
    for E, x in zip(modulus, depth, strict=True):
        assert hydro_exact.sphere_on_plane(E, 0.05, x) == pytest.approx(G, rel=1e-3)
    patches = sim.patches()
    assert sorted(patches.world) == [0, 1, 2] and sim.health().ok
    np.testing.assert_allclose(patches.force[:, 2], G, rtol=1e-3)
    np.testing.assert_allclose(patches.area[np.argsort(patches.world)], np.pi * (0.1 * depth - depth**2), rtol=5e-3)


def leaves(speed: float, d: float) -> float:
    """Speed at which a body leaves that came at another: m v dv/dx = -k x (1 + d v) while it approaches at v.

    So v/d - ln(1 + d v)/d^2 is the same at both ends, whatever m and k are; found by bisection.
    """
    if d == 0.0:
        return speed

    def level(v: float) -> float:
        return v / d - math.log1p(d * v) / d**2

    low, high = 0.0, min(speed, (1.0 - 1e-12) / d)
    for _ in range(100):
        mid = 0.5 * (low + high)
        low, high = (mid, high) if level(-mid) < level(speed) else (low, mid)
    return low


@pytest.mark.parametrize("physics", [ss.Icf(), ss.Cenic(accuracy=1e-7)], ids=lambda physics: physics.name)
def test_rebound_goes_by_dissipation(physics: ss.Physics, device: str) -> None:
    """Without gravity; Hunt and Crossley's law in closed form. A dissipation of 0 gives all of the speed back."""
    d, speed = np.array([0.0, 0.1, 0.5, 2.0, 20.0]), 0.8
    sim = ss.Simulation(ball(gravity=0.0, timestep=2e-5), physics, nworld=len(d), device=device)
    sim.set_model(geom_dissipation=np.stack([np.full(len(d), -1.0), d], axis=1))
    sim.qvel = np.array([-speed])
    sim.step(3000)  # half a period is 31 ms
    wanted = [leaves(speed, each) for each in d]
    # the first order of icf loses 1e-3 of the speed: pi/2 omega dt
    np.testing.assert_allclose(support.exact(sim)[1][:, 0], wanted, rtol=5e-3)
    assert wanted[0] == speed and wanted[-1] < 1.0 / d[-1]


BLOCK = """<mujoco>
  <option timestep="0.01"/>
  <size nuser_geom="3"/>
  <default><geom friction="0.4 0.005 0.0001" user="1e5 20"/></default>
  <worldbody>
    <geom type="plane" size="9 9 .1"/>
    <body pos="0 0 .02"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
      <geom type="box" size=".1 .1 .02" mass="1"/></body>
  </worldbody>
</mujoco>"""


def most_friction(mu: float, static: float) -> float:
    """The largest friction, over the normal force, at any slip: (5), (7), (8)."""
    s = np.linspace(0.0, 20.0, 200001)
    share = (1.0 - (s - 10.0) / np.hypot(s - 10.0, 1.0)) / (1.0 + 10.0 / math.hypot(10.0, 1.0))
    return float(((mu + (max(static, mu) - mu) * share) * s / np.hypot(s, 1.0)).max())


@BOTH
def test_slip_begins_at_static_friction(physics: type[ss.Icf] | type[ss.Cenic], device: str) -> None:
    """Pushed with 1 % less or more than friction can bear; in worlds with several stiction velocities."""
    static = np.repeat([0.0, 0.6, 0.9], 2)
    sim = ss.Simulation(BLOCK, physics(), nworld=6, device=device)
    sim.set_model(
        geom_static_friction=np.stack([np.zeros(6), static], axis=1), stiction=np.repeat([1e-4, 1e-3, 1e-5], 2)
    )
    sim.step(50)
    most = np.array([most_friction(0.4, mu) for mu in static])
    push = most * G * np.tile([0.99, 1.01], 3)
    sim.qfrc_applied = np.stack([push, np.zeros(6)], axis=1)
    sim.step(200)
    speed = support.exact(sim)[1][:, 0]
    assert (speed[::2] < 1e-2).all(), speed
    slides = 2.0 * (push - 0.4 * G)[1::2]  # in two seconds, by the dynamic coefficient
    np.testing.assert_allclose(speed[1::2], slides, rtol=0.06)  # less what it took to come off


@BOTH
def test_creep_goes_by_stiction(physics: type[ss.Icf] | type[ss.Cenic], device: str) -> None:
    """A load of mu s/sqrt(s^2 + 1) creeps at s times the stiction velocity."""
    stiction = np.array([1e-5, 1e-4, 2e-3])
    sim = ss.Simulation(BLOCK, physics(), nworld=3, device=device)
    sim.set_model(stiction=stiction)
    sim.qfrc_applied = np.array([0.8 * 0.4 * G, 0.0])
    sim.step(200)
    np.testing.assert_allclose(support.exact(sim)[1][:, 0], stiction * 4.0 / 3.0, rtol=0.01)
