"""Many worlds: none influences another, and each may have a model of its own."""

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest

import stickslip as ss
from stickslip import mjcf
from tests import support


@pytest.mark.parametrize("scene", support.SCENES)
def test_worlds_do_not_influence_each_other(physics: ss.Physics, scene: str, device: str) -> None:
    """World 0 is thrown about; the others do not notice."""
    calm, disturbed = (support.perturbed_simulation(scene, physics, device, 4) for _ in range(2))
    state = disturbed.state
    state.qvel[0] += np.random.default_rng(1).normal(0.0, 1.0, calm.mjm.nv).astype(np.float32)
    disturbed.state = state
    force = np.zeros((4, calm.mjm.nv))
    force[0] = 0.1
    disturbed.qfrc_applied = force
    for sim in (calm, disturbed):
        sim.step(support.STEPS)
    assert np.abs(calm.state.qpos[0] - disturbed.state.qpos[0]).max() > 1e-3
    for w in (1, 2, 3):
        support.assert_same(support.world(disturbed.state, w), support.world(calm.state, w), device)


def test_a_world_that_breaks_does_not_break_the_others(physics: ss.Physics, device: str) -> None:
    """World 0 leaves the finite numbers; the others go on, and health names the one."""
    calm, broken = (support.perturbed_simulation("scaling", physics, device, 3) for _ in range(2))
    velocity = broken.qvel.numpy().copy()
    velocity[0, 0] = np.nan
    broken.qvel.assign(velocity)  # not through the property, which lets no such number in
    for sim in (calm, broken):
        sim.step(10)
    assert broken.health().nan_worlds == (0,)
    for w in (1, 2):
        for name in ("qpos", "qvel"):
            got, want = getattr(broken, name).numpy()[w], getattr(calm, name).numpy()[w]
            np.testing.assert_allclose(got, want, atol=0.0 if device == "cpu" else 1e-5)


@pytest.mark.parametrize("scene", support.SCENES)
def test_trajectory_does_not_depend_on_the_number_of_worlds(physics: ss.Physics, scene: str, device: str) -> None:
    """World w of seven goes where a simulation of that world alone goes: bit for bit on a CPU.

    On CUDA up to the order in which float32 is summed. Worlds are commanded, and one of them is reset, on the way.
    """
    many = support.perturbed_simulation(scene, physics, device, 7)
    start = many.state
    ctrl = np.random.default_rng(5).normal(0.0, 0.2, (7, many.mjm.nu))
    reset = np.arange(7) == 3
    for sim, w in [(many, slice(None)), *((ss.Simulation(scene, physics, device=device), w) for w in (0, 3, 6))]:
        alone = isinstance(w, int)
        if alone:
            sim.state = support.world(start, w)
        sim.step(support.STEPS // 2)
        sim.ctrl = ctrl[w]
        sim.reset(reset[[w]] if alone else reset)
        sim.step(support.STEPS // 2)
        if not alone:
            continue
        got, want = sim.state, many.state
        if device == "cpu":
            support.assert_same(got, support.world(want, w), device)
        np.testing.assert_allclose(want.qpos[w], got.qpos[0], atol=2e-5, rtol=1e-5)
        np.testing.assert_allclose(want.qvel[w], got.qvel[0], atol=2e-3, rtol=1e-4)


def alone_with(scene: str, physics: ss.Physics, device: str, **fields: np.ndarray) -> ss.Simulation:
    """A simulation of one world of a model compiled with these fields, what MuJoCo derives from them included."""
    mjm = mjcf.load(scene)
    for name, value in fields.items():
        getattr(mjm, name)[:] = value
    mujoco.mj_setConst(mjm, mujoco.MjData(mjm))
    return ss.Simulation(mjm, physics, device=device)


def test_friction_of_every_world(physics: ss.Physics, device: str) -> None:
    """Cubes thrown over floors of different friction: each as in a model of its own, and rougher stops shorter."""
    mjm = mjcf.load("sliding-cube")
    frictions = np.array([0.1, 0.3, 0.8])
    values = np.tile(mjm.geom_friction, (3, 1, 1))
    values[:, :, 0] = frictions[:, None]
    sim = ss.Simulation("sliding-cube", physics, nworld=3, device=device)
    sim.set_model(geom_friction=values)
    sim.step(150)
    state = sim.state
    for w in range(3):
        alone = alone_with("sliding-cube", physics, device, geom_friction=values[w])
        alone.step(150)
        np.testing.assert_allclose(state.qpos[w], alone.state.qpos[0], atol=1e-4)
    assert (np.diff(state.qpos[:, 0]) < -0.02).all()  # 0.3 s in, the rougher cube lags behind by centimetres


def test_mass_of_every_world(physics: ss.Physics, device: str) -> None:
    """A heavier fingertip, a heavier cube: what MuJoCo derives from masses follows, in every world."""
    mjm = mjcf.load("hand")
    factors = np.array([0.5, 1.0, 3.0])
    values = factors[:, None] * mjm.body_mass
    sim = support.simulate("hand", physics, nworld=3, device=device)
    sim.set_model(body_mass=values)
    sim.step(60)
    state = sim.state
    for w in range(3):
        alone = alone_with("hand", physics, device, body_mass=values[w])
        alone.step(60)
        np.testing.assert_allclose(state.qpos[w], alone.state.qpos[0], atol=1e-4)
        if not isinstance(sim.m, mjw.Model):
            continue
        # where a body only turns about its centre of mass C MuJoCo has 0, and MuJoCo Warp's set_const has not
        got, want = sim.m.body_invweight0.numpy()[w], alone.mjm.body_invweight0
        np.testing.assert_allclose(got[want > 0], want[want > 0], rtol=1e-4)
    assert np.abs(state.qpos[0] - state.qpos[2]).max() > 1e-3


def test_timestep_of_every_world(physics: ss.Physics, device: str) -> None:
    """Time advances by each world's own step, and each world moves as a simulation with that step."""
    timesteps = np.array([0.001, 0.002, 0.004])
    sim = ss.Simulation("scaling", physics, nworld=3, device=device)
    sim.step(2)
    sim.set_model(timestep=timesteps)
    sim.reset()
    sim.step(60)
    state = sim.state
    np.testing.assert_allclose(state.time, 60 * timesteps, rtol=1e-5)
    for w, timestep in enumerate(timesteps):
        alone = ss.Simulation("scaling", physics, device=device, timestep=timestep)
        alone.step(60)
        np.testing.assert_allclose(state.qpos[w], alone.state.qpos[0], atol=2e-5)


def test_one_value_for_all_worlds(physics: ss.Physics, device: str) -> None:
    """A field without a world axis holds for every world."""
    sim = ss.Simulation("scaling", physics, nworld=2, device=device)
    sim.set_model(timestep=0.001, gravity=np.array([0.0, 0.0, -1.62]))
    sim.step(100)
    assert sim.contact_count() == 0
    np.testing.assert_allclose(sim.state.time, 0.1, rtol=1e-5)
    np.testing.assert_allclose(sim.state.qvel[:, 2::6], -0.162, rtol=0.0, atol=physics.promises.velocity_error)
