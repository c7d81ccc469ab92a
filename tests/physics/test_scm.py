"""Scm through `Simulation`: worlds, derivatives, contacts and errors. One small model, compiled once for all tests."""

import sys

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.errors import InputError, MissingExtra, Unsupported

XML = """
<mujoco><option timestep="0.002"/><worldbody><geom name="floor" type="plane" size="1 1 .1" friction=".5"/>
<body pos="0 0 .0495"><freejoint/><geom name="box" type="box" size=".05 .05 .05" mass="1" friction=".5"/></body>
<body pos="0 1 0"><joint name="j" type="slide" axis="1 0 0" range="-.1 .1" limited="true" frictionloss=".01"/>
<geom type="sphere" size=".02" mass=".2" contype="0" conaffinity="0"/></body></worldbody>
<actuator><position joint="j" kp="10" kv="1" ctrlrange="-1 1"/></actuator></mujoco>"""
NWORLD = 3


@pytest.fixture(scope="module")
def sim() -> ss.Simulation:
    pytest.importorskip("jax", reason="needs the extra `jax`")
    return ss.Simulation(XML, ss.Scm(), nworld=NWORLD, device="cpu")


def pushed(sim: ss.Simulation, steps: int = 50) -> ss.State:
    """The state after pushing the boxes, each harder than the one before."""
    sim.reset()
    force = np.zeros((NWORLD, sim.mjm.nbody, 6))
    force[:, 1, 0] = [2.0, 4.0, 9.0]
    sim.xfrc_applied = force
    sim.ctrl = np.array([[0.0], [0.05], [0.5]])
    sim.step(steps)
    return sim.state


def test_worlds_go_their_own_way(sim: ss.Simulation) -> None:
    """What friction holds, 4.9 N, stays; the servo reaches its place; a limit stops it."""
    state = pushed(sim, 500)
    x = state.qpos[:, 0]
    assert 0.0 < x[0] < 0.01 and x[2] == pytest.approx(0.5 * (9.0 - 4.905) * 1.0**2, rel=0.05)
    np.testing.assert_allclose(state.qpos[:2, 7], [0.0, 0.05], atol=5e-3)
    assert 0.1 < state.qpos[2, 7] < 0.105
    np.testing.assert_allclose(state.time, 1.0, rtol=1e-5)
    contacts = sim.contacts()
    assert len(contacts) == NWORLD == sim.contact_count()
    np.testing.assert_array_equal(contacts.geom, [[1, 0]] * NWORLD)
    weight = np.einsum("nij,ni->nj", contacts.frame, contacts.force[:, :3])
    np.testing.assert_allclose(weight[:, 2], -9.81, rtol=1e-2)  # on the floor
    assert sim.health().ok and sim.health().ncon_peak == NWORLD


def test_a_step_is_taken_up_again(sim: ss.Simulation) -> None:
    """Many steps at once are as many one by one; a state that was set leads on as before; reset brings back."""
    first = pushed(sim)
    sim.step(20)
    want = sim.state
    sim.state = first
    for _ in range(20):
        sim.step()
    np.testing.assert_allclose(sim.state.qpos, want.qpos, atol=1e-6)
    sim.reset(np.array([True, False, False]))
    assert sim.state.time[0] == 0.0 and sim.state.time[1] > 0.0
    np.testing.assert_allclose(sim.state.qpos[0, :3], [0, 0, 0.0495], atol=1e-7)


def test_parameters_of_each_world(sim: ss.Simulation) -> None:
    friction = np.tile(sim.mjm.geom_friction, (NWORLD, 1, 1))
    friction[:, 1, 0] = friction[:, 0, 0] = [0.1, 0.5, 2.0]
    force = np.zeros((sim.mjm.nbody, 6))
    force[1, 0] = 6.0
    sim.reset()
    sim.xfrc_applied, sim.ctrl = force, np.zeros((NWORLD, 1))
    sim.set_model(geom_friction=friction)
    sim.step(200)
    sim.set_model(geom_friction=sim.mjm.geom_friction)
    x = sim.state.qpos[:, 0]
    assert x[0] > 3.0 * x[1] > 10.0 * abs(x[2])
    with pytest.raises(Unsupported, match="scm cannot change geom_pos once a model is put; it can: body_mass"):
        sim.set_model(geom_pos=sim.mjm.geom_pos)


SLIDER = """
<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="1 1 .1" friction=".5"/>
<body pos="0 0 .0495"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
<geom type="sphere" size=".05" mass="1" friction=".5"/></body></worldbody>
<actuator><motor joint="x"/></actuator></mujoco>"""


@pytest.fixture(scope="module")
def slider() -> ss.Simulation:
    """Balls that cannot turn, pushed along the floor for a while: by 2 N, which friction holds, and by 9 N."""
    pytest.importorskip("jax", reason="needs the extra `jax`")
    sim = ss.Simulation(SLIDER, ss.Scm(points=24), nworld=2, device="cpu")
    sim.ctrl = np.array([[2.0], [9.0]])
    sim.step(100)
    return sim


def test_the_jacobian_is_that_of_finite_differences(slider: ss.Simulation) -> None:
    """Of state and control; in single precision, so central differences are coarse."""
    sim, physics = slider, slider.physics
    assert isinstance(physics, ss.DifferentiablePhysics)
    state, ctrl = sim.state, sim.ctrl.numpy().copy()
    got = physics.jacobian(sim.m, sim.d, ("state", "ctrl", "friction", "body_mass", "stiffness"))
    shapes = {name: value.shape for name, value in got.items()}
    sizes = {"state": 4, "ctrl": 1, "friction": 2, "body_mass": 2, "stiffness": 1}
    assert shapes == {name: (2, 4, size) for name, size in sizes.items()}

    def after(k: int, h: float) -> np.ndarray:
        qpos, qvel = state.qpos.astype(float).copy(), state.qvel.astype(float).copy()
        if k < 4:
            (qpos if k < 2 else qvel)[:, k % 2] += h
        sim.state = ss.State(state.time, qpos, qvel, state.act)
        sim.ctrl = ctrl + (h if k == 4 else 0.0)
        sim.step()
        return np.concatenate([sim.state.qpos, sim.state.qvel], axis=1).astype(float)

    steps = [1e-3, 1e-5, 1e-3, 1e-3, 1e-2]
    for k, h in enumerate(steps):
        slope = (after(k, h) - after(k, -h)) / (2 * h)
        exact = got["ctrl"][:, :, 0] if k == 4 else got["state"][:, :, k]
        np.testing.assert_allclose(exact, slope, rtol=0.03, atol=0.02)
    sim.state, sim.ctrl = state, ctrl
    # the ball that slides is held back by g dt for a unit of friction, of which each geom has half
    np.testing.assert_allclose(got["friction"][1, 2], -0.5 * 0.002 * 9.81, rtol=0.05)
    assert (got["stiffness"][:, 3, 0] > 0.0).all()


def test_the_hessian_is_symmetric_and_curves_upwards(slider: ss.Simulation) -> None:
    """Of the height after a step: the deeper, the harder contact pushes."""
    got = slider.physics.hessian(slider.m, slider.d, lambda state: state.qpos[1], ("state",))
    assert got.shape == (2, 4, 4) and np.isfinite(got).all()
    np.testing.assert_allclose(got, np.swapaxes(got, 1, 2), atol=1e-3 * np.abs(got).max())
    assert (got[:, 1, 1] > 0.0).all()


def test_a_rollout_is_the_steps(slider: ss.Simulation) -> None:
    sim = slider
    state, before = sim.state, sim.ctrl.numpy().copy()
    ctrl = np.linspace(-3.0, 9.0, 20).reshape(2, 10, 1)
    out = sim.physics.rollout(sim.m, sim.d, ctrl)
    assert out.qpos.shape == (2, 11, 2)
    np.testing.assert_allclose(out.qpos[:, 0], state.qpos, atol=1e-7)
    for k in range(10):
        sim.ctrl = ctrl[:, k]
        sim.step()
    np.testing.assert_allclose(out.qpos[:, -1], sim.state.qpos, atol=1e-5)
    sim.state, sim.ctrl = state, before
    with pytest.raises(InputError, match="ctrl has shape"):
        sim.physics.rollout(sim.m, sim.d, np.zeros((2, 4, 7)))
    for none in (np.zeros((2, 0, 1)), np.zeros((2, 1))):
        with pytest.raises(InputError, match=r"expected \(2, T, 1\) with T of 1 or more"):
            sim.physics.rollout(sim.m, sim.d, none)
    after = sim.rollout(ctrl).qpos  # of the simulation: the steps themselves, without the state at the start
    np.testing.assert_allclose(after, out.qpos[:, 1:], atol=1e-5)
    with pytest.raises(InputError, match="wrt is"):
        sim.physics.jacobian(sim.m, sim.d, ("weather",))


def last_x(states):
    return 1e3 * states.qpos[-1, 0]


def test_the_gradient_of_a_rollout_is_that_of_finite_differences(slider: ss.Simulation) -> None:
    """By the control of each step; each world has its own, and the simulation stays where it is."""
    sim = slider
    before = sim.state
    ctrl = np.linspace(5.0, 9.0, 20).reshape(2, 10, 1)
    value, slope = sim.gradient(ctrl, last_x)
    assert value.shape == (2,)
    assert slope.shape == ctrl.shape
    np.testing.assert_allclose(value, 1e3 * sim.rollout(ctrl).qpos[:, -1, 0], rtol=1e-5)
    for step in (0, 4, 9):
        h = np.zeros_like(ctrl)
        h[:, step] = 1.0
        up, down = (sim.rollout(ctrl + sign * h).qpos[:, -1, 0].astype(float) for sign in (1, -1))
        np.testing.assert_allclose(slope[:, step, 0], 1e3 * (up - down) / 2.0, rtol=5e-3)
    assert (np.diff(slope[1, :, 0]) < 0.0).all()  # what slides carries early pushes on for longer
    np.testing.assert_array_equal(sim.state.qpos, before.qpos)


@pytest.mark.parametrize(
    "parameters",
    [{"average": "planes"}, {"average": "forces"}, {"contact": "comfree"}],
    ids=["planes", "forces", "comfree"],
)
def test_bodies_far_apart_stay_finite(parameters: dict[str, str]) -> None:
    """By kilometres, in single precision, where weights of points are differences that rounding takes away."""
    pytest.importorskip("jax", reason="needs the extra `jax`")
    text = """<mujoco><option timestep="0.002"/><worldbody>
    <body><freejoint/><geom type="box" size=".1 .02 .02" mass="1"/></body>
    <body pos="0 0 1"><joint type="slide" axis="1 0 0"/><geom type="sphere" size=".02" mass="1"/></body>
    </worldbody></mujoco>"""
    sim = ss.Simulation(text, ss.Scm(points=13, integrator="euler", **parameters), nworld=4, device="cpu")  # type: ignore[arg-type]
    qpos = sim.qpos.numpy().copy()
    qpos[:, 2] = 30.0, 1e3, 1e4, 1e6
    qpos[:, 1] = 0.0, 300.0, 0.0, 1e6
    sim.qpos = qpos
    sim.step(10)
    np.testing.assert_allclose(sim.qvel.numpy()[:, 2], -9.81 * 0.02, rtol=1e-4)
    np.testing.assert_allclose(np.delete(sim.qvel.numpy(), 2, axis=1), 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"reach": 0.0}, "reach is 0.0: it must be a number above 0"),
        ({"blend": float("nan")}, "blend is nan"),
        ({"select": -1.0}, "select is -1.0"),
        ({"points": 3}, "points is 3: it must be a whole number from 6"),
        ({"average": "all"}, "average is 'all': it must be one of 'planes', 'forces'"),
        ({"integrator": "rk4", "contact": "comfree"}, "integrator is 'rk4'"),
        ({"stiffness": float("inf")}, "stiffness is inf"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ss.Scm(**parameters)  # type: ignore[arg-type]


def test_what_it_cannot_do_is_named() -> None:
    """Before anything is traced."""
    xml = """<mujoco><option density="1.2"/><worldbody><geom type="plane" size="1 1 1"/>
    <body name="a" pos="0 0 1"><joint name="b" type="ball" range="0 1" limited="true"/><geom size=".1"/></body>
    <body name="c" pos="1 0 1"><freejoint/><geom size=".1"/></body></worldbody>
    <equality><weld body1="a" body2="c"/></equality></mujoco>"""
    pytest.importorskip("jax", reason="needs the extra `jax`")
    with pytest.raises(Unsupported, match=r"(?s)equality constraints \(1\).*medium.*limit of the ball joint 'b'"):
        ss.Simulation(xml, ss.Scm(), device="cpu")


def test_what_is_too_large_is_told() -> None:
    """By the numbers, before anything is compiled; what is just not dense for MuJoCo Warp is taken."""
    body = '<body pos="{} 0 1"><freejoint/><geom size=".1" contype="{}" conaffinity="1"/></body>'
    pytest.importorskip("jax", reason="needs the extra `jax`")
    with pytest.raises(Unsupported, match=r"300 degrees of freedom \(750,.*2000 pairs of geoms .*\(8000,"):
        ss.Simulation("drop-test", ss.Scm(), device="cpu")
    many = "".join(body.format(x, 0) for x in range(12))  # 72 degrees of freedom; they touch the floor alone
    floor = '<geom type="plane" size="1 1 1" contype="1" conaffinity="0"/>'
    ss.Scm(points=6).check(mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{floor}{many}</worldbody></mujoco>"))


def test_an_open_mesh_is_refused_by_name() -> None:
    pytest.importorskip("jax", reason="needs the extra `jax`")
    from stickslip.physics.scm import cloud as clouds

    m = mujoco.MjModel.from_xml_string(
        """<mujoco><asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1" face="0 2 1 0 1 3 0 3 2 1 2 3"/></asset>
        <worldbody><body><freejoint/><geom name="tent" type="mesh" mesh="m"/></body></worldbody></mujoco>"""
    )
    clouds.check(clouds.cloud_of(m, 0, 100), "'tent'")
    m.mesh_face[3] = m.mesh_face[2]  # one side is there twice, another not at all
    with pytest.raises(InputError, match="'tent' cannot be used: the surface is open"):
        clouds.check(clouds.cloud_of(m, 0, 100), "'tent'")


def test_without_jax_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtra, match=r"scm needs jax.*pip install 'stickslip\[jax\]'"):
        ss.Simulation(XML, ss.Scm(points=151), device="cpu")


def test_thin_walls_are_noted() -> None:
    """In health, where a user looks; they do not make it bad."""
    pytest.importorskip("jax", reason="needs the extra `jax`")
    xml = """<mujoco><worldbody><geom type="plane" size="1 1 .1"/>
      <body><freejoint/><geom name="plate" type="box" size=".1 .1 .0025"/></body></worldbody></mujoco>"""
    health = ss.Simulation(xml, ss.Scm(), device="cpu").health()
    assert health.ok and any("'plate'" in note and "thinner than the spacing" in note for note in health.notes)
