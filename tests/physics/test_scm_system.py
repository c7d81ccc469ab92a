"""Dynamics with soft contact: against MuJoCo in C where nothing touches, and by what must hold where something does."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="needs the extra `jax`")
jnp = pytest.importorskip("jax.numpy")
pytest.importorskip("mujoco.mjx", reason="needs the extra `jax`")

import stickslip as ss  # noqa: E402
from stickslip.physics.scm.build import build, start_of  # noqa: E402
from stickslip.physics.scm.motion import difference, integrate  # noqa: E402
from stickslip.physics.scm.system import System  # noqa: E402
from stickslip.physics.scm.values import Params, State  # noqa: E402
from tests.physics.test_scm_clouds import horseshoe  # noqa: E402

PAIR = """
<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody>
<body pos="0 0 0"><freejoint/><geom type="box" size=".05 .06 .07" mass="1"/></body>
<body pos=".03 .02 .115"><freejoint/><geom type="{kind}" size=".05 .04 .06" mass=".5" friction=".7"/></body>
</worldbody></mujoco>"""
ARM = """
<mujoco><option timestep="0.002"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
<body pos="0 0 1"><joint type="hinge" axis="0 1 0" damping=".1" stiffness="2" springref=".3" armature=".01"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1"/>
<body pos=".3 0 0"><joint type="ball"/><geom type="box" size=".05 .02 .03" pos=".1 0 0" mass=".4"/>
<body pos=".2 0 0"><joint name="s" type="slide" axis="1 0 0" damping=".5"/><geom size=".03" mass=".2"/></body>
</body></body>
<body pos="1 0 .5"><freejoint/><geom type="ellipsoid" size=".1 .05 .08" mass="2"/></body></worldbody>
<actuator><position joint="s" kp="20" kv="1"/></actuator></mujoco>"""

LOOSE = """
<mujoco><option timestep="0.002"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
<body><joint type="free" damping=".1"/><geom type="ellipsoid" size=".1 .05 .08" pos=".1 0 0" mass="2"/></body>
</worldbody></mujoco>"""


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def made(xml: str, **fields: Any) -> tuple[mujoco.MjModel, System, Params, State, Any]:
    mjm = mujoco.MjModel.from_xml_string(xml)
    system, params = build(ss.Scm(**fields), mjm)
    return mjm, system, params, *start_of(mjm)


def random_state(mjm: mujoco.MjModel, seed: int) -> State:
    rng = np.random.default_rng(seed)
    d = mujoco.MjData(mjm)
    mujoco.mj_integratePos(mjm, d.qpos, rng.normal(0.0, 0.3, mjm.nv), 1.0)
    return State(jnp.asarray(0.0), jnp.asarray(d.qpos), jnp.asarray(rng.normal(0.0, 1.0, mjm.nv)), jnp.zeros(mjm.na))


def pushed(mjm: mujoco.MjModel, inputs: Any) -> Any:
    """Inputs with a force on everything."""
    rng = np.random.default_rng(0)
    return inputs._replace(
        ctrl=jnp.full(mjm.nu, 0.1),
        qfrc_applied=jnp.asarray(rng.normal(size=mjm.nv)),
        xfrc_applied=jnp.asarray(rng.normal(size=(mjm.nbody, 6))),
    )


def in_mujoco(mjm: mujoco.MjModel, state: State, inputs: Any) -> mujoco.MjData:
    d = mujoco.MjData(mjm)
    d.qpos, d.qvel, d.ctrl = np.asarray(state.qpos), np.asarray(state.qvel), np.asarray(inputs.ctrl)
    d.qfrc_applied, d.xfrc_applied = np.asarray(inputs.qfrc_applied), np.asarray(inputs.xfrc_applied)
    return d


def test_without_contact_it_is_mujoco() -> None:
    """Accelerations against MuJoCo in C."""
    mjm, system, params, _, inputs = made(ARM)
    inputs = pushed(mjm, inputs)
    forward = jax.jit(system.forward)
    for seed in range(3):
        state = random_state(mjm, seed)
        d = in_mujoco(mjm, state, inputs)
        mujoco.mj_forward(mjm, d)
        np.testing.assert_allclose(forward(params, state, inputs), d.qacc, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["euler", "rk4"])
def test_steps_are_mujocos(name: str) -> None:
    """Of Euler and of Runge and Kutta, of a free body."""
    mjm, system, params, _, inputs = made(LOOSE)
    mjm.opt.integrator = {"euler": mujoco.mjtIntegrator.mjINT_EULER, "rk4": mujoco.mjtIntegrator.mjINT_RK4}[name]
    inputs, state = pushed(mjm, inputs), random_state(mjm, 2)
    d, step = in_mujoco(mjm, state, inputs), jax.jit(dataclasses.replace(system, integrator=name).step)
    for _ in range(5):
        mujoco.mj_step(mjm, d)
        state = step(params, state, inputs)
    np.testing.assert_allclose(state.qvel, d.qvel, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(state.qpos, d.qpos, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("average", ["planes", "forces"])
@pytest.mark.parametrize("kind", ["box", "sphere"])
def test_contact_repels_and_keeps_momentum(kind: str, average: str) -> None:
    """Two bodies that overlap are pushed apart, by forces and torques that are opposite about any point."""
    mjm, system, params, state, inputs = made(PAIR.format(kind=kind), average=average)
    rng = np.random.default_rng(0)
    state = state._replace(qvel=jnp.asarray(rng.normal(0.0, 0.3, mjm.nv)))
    acc = np.asarray(jax.jit(system.forward)(params, state, inputs))
    still = np.asarray(jax.jit(system.forward)(params, state._replace(qvel=jnp.zeros(mjm.nv)), inputs))
    apart = np.asarray(state.qpos)[7:10] - np.asarray(state.qpos)[:3]
    assert still[6:9] @ apart > 1.0 and still[:3] @ apart < -0.5
    d = mujoco.MjData(mjm)
    d.qpos, d.qvel = np.asarray(state.qpos), np.asarray(state.qvel)
    mujoco.mj_forward(mjm, d)
    mass = np.zeros((mjm.nv, mjm.nv))
    mujoco.mj_fullM(mjm, d, mass)
    force = mass @ acc + d.qfrc_bias  # of contact
    np.testing.assert_allclose(force[:3], -force[6:9], rtol=1e-9, atol=1e-9)
    first, second = (d.xmat[b].reshape(3, 3) for b in (1, 2))
    torque = first @ force[3:6] + np.cross(d.xpos[1], force[:3])
    torque += second @ force[9:12] + np.cross(d.xpos[2], force[6:9])
    np.testing.assert_allclose(torque, 0.0, atol=1e-9 * np.abs(force).max())


def test_inverse_dynamics_gives_the_force_back() -> None:
    """(24) of (25), in contact."""
    mjm, system, params, state, inputs = made(PAIR.format(kind="ellipsoid"))
    state = state._replace(qvel=jnp.asarray(np.random.default_rng(1).normal(size=mjm.nv)))
    tau = jnp.asarray(np.random.default_rng(2).normal(size=mjm.nv))
    acc = jax.jit(system.forward)(params, state, inputs._replace(qfrc_applied=tau))
    back = jax.jit(system.inverse)(params, state, inputs, acc)
    assert np.abs(np.asarray(acc)).max() > 1.0
    np.testing.assert_allclose(back, tau, atol=1e-6)


def settle(system: System, params: Params, state: State, inputs: Any, steps: int) -> State:
    def body(_: Any, x: State) -> State:
        return system.step(params, x, inputs)

    return jax.jit(lambda x: jax.lax.fori_loop(0, steps, body, x))(state)


def test_a_box_rests_with_its_weight_carried() -> None:
    """At the depth where the spring of its pair carries it, level and still; the force is its weight."""
    xml = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="1 1 .1"/>
    <body pos="0 0 .051"><freejoint/><geom type="box" size=".05 .04 .05" mass="2"/></body></worldbody></mujoco>"""
    mjm, system, params, state, inputs = made(xml)
    x = settle(system, params, state, inputs, 1500)
    np.testing.assert_allclose(x.qvel, 0.0, atol=1e-6)
    np.testing.assert_allclose(np.asarray(x.qpos)[3:], [1, 0, 0, 0], atol=1e-6)
    weight, k, reach = 2 * 9.81, float(params.stiffness[0]), float(params.reach)
    assert k == pytest.approx(2.0 / 0.01**2)
    # the points of the sides, half a spacing above, carry nothing
    depth = reach * np.log(np.expm1(weight / (k * reach)))
    assert 0.05 - float(x.qpos[2]) == pytest.approx(depth, abs=2e-5)
    distance, spot, force = system.contacts(params, x, inputs)
    np.testing.assert_allclose(force[0], [0, 0, weight], atol=1e-3)
    np.testing.assert_allclose(spot[0], [0, 0, -depth], atol=1e-4)
    assert float(distance[0]) == pytest.approx(-depth, abs=2e-5)


def test_a_horseshoe_is_carried_at_both_ends() -> None:
    """A mesh that is not convex, over a box between its ends: it rests on them, and the box is free."""
    vertices, triangles = horseshoe()
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    if np.sum(a * np.cross(b, c)) < 0.0:
        triangles = triangles[:, ::-1]
    vertex, face = (" ".join(map(str, x.ravel())) for x in (vertices, triangles))
    mesh = f'<mesh name="m" vertex="{vertex}" face="{face}"/>'
    xml = f"""<mujoco><option timestep="0.002"/><asset>{mesh}</asset><worldbody>
    <geom name="table" type="box" size=".2 .1 .02" pos="0 0 -.02"/>
    <geom name="low" type="box" size=".03 .03 .03" pos="0 0 .03"/>
    <body pos="0 0 .002"><freejoint/><geom name="shoe" type="mesh" mesh="m" mass="1"/></body></worldbody></mujoco>"""
    mjm, system, params, state, inputs = made(xml, mesh_points=400, points=200)
    high = float(state.qpos[2])
    x = settle(system, params, state, inputs, 1000)
    assert np.abs(np.asarray(x.qvel)).max() < 1e-3
    assert abs(float(x.qpos[2]) - high) < 5e-3  # neither fell over nor was lifted off the small box
    pairs = [tuple(sorted(p)) for g in system.groups for p in zip(g.first.tolist(), g.second.tolist(), strict=True)]
    _, spot, force = system.contacts(params, x, inputs)
    up = {pair: abs(float(f[2])) for pair, f in zip(pairs, force, strict=True)}
    assert up[(0, 2)] == pytest.approx(9.81, rel=1e-3) and up[(1, 2)] < 1e-3
    # both ends carry: without one of them there would be a torque
    np.testing.assert_allclose(np.asarray(x.qpos)[3:], np.asarray(state.qpos)[3:], atol=0.02)
    np.testing.assert_allclose(np.asarray(spot)[pairs.index((0, 2))][:2], 0.0, atol=5e-3)


def test_positions_and_differences_are_mujocos() -> None:
    mjm = mujoco.MjModel.from_xml_string(ARM)
    _, params = build(ss.Scm(), mjm)
    for seed in range(4):
        a, v = np.asarray(random_state(mjm, seed).qpos), np.random.default_rng(seed).normal(size=mjm.nv)
        want = a.copy()
        mujoco.mj_integratePos(mjm, want, v, 0.3)
        got = integrate(params.model, jnp.asarray(a), jnp.asarray(v), 0.3)
        np.testing.assert_allclose(got, want, atol=1e-12)
        np.testing.assert_allclose(difference(params.model, got, jnp.asarray(a)), 0.3 * v, atol=1e-12)
