"""What every physics promises through `Simulation`: one suite, run for each of them."""

import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip import mjcf
from stickslip.physics.pbd.find import GENTLE
from tests import support

ROOT = Path(__file__).parents[2]
SCENES = ["scaling", "humanoid", "hand"]
STEPS = 60  # the bodies of "scaling" land after 30


@pytest.fixture(params=support.EVERY)
def physics(request: pytest.FixtureRequest) -> ss.Physics:
    """Every physics there is, at its defaults."""
    return ss.PHYSICS[request.param]()


def simulation(scene: str, physics: ss.Physics, device: str, nworld: int, **options: object) -> ss.Simulation:
    """A simulation whose worlds start with different velocities."""
    sim = support.simulate(scene, physics, nworld=nworld, device=device, **options)
    sim.state = support.perturbed(sim.mjm, nworld)
    return sim


@pytest.mark.parametrize("scene", SCENES)
def test_replay_equals_eager_stepping(physics: ss.Physics, scene: str, device: str) -> None:
    """A captured step, replayed, does what calling the physics does; contact included."""
    if not physics.capturable:
        pytest.skip(f"{physics.name} is not captured")
    sim, eager = (simulation(scene, physics, device, 3) for _ in range(2))
    sim.step(STEPS)
    assert sim._graph is not None
    for _ in range(STEPS):
        eager.d = physics.step(eager.m, eager.d)
    assert eager._graph is None
    support.assert_same(sim.state, eager.state, device)
    assert sim.health().ncon_peak > 0
    np.testing.assert_allclose(sim.state.time, STEPS * sim.mjm.opt.timestep, rtol=1e-5)


@pytest.mark.parametrize("scene", SCENES)
def test_the_most_contacts_are_remembered(physics: ss.Physics, scene: str, device: str) -> None:
    """Whatever is seen after a step counts, and nothing is forgotten when the worlds are reset."""
    sim = simulation(scene, physics, device, 2)
    most = 0
    for _ in range(STEPS):
        sim.step()
        most = max(most, sim.contact_count())
    assert 0 < most <= sim.health().ncon_peak
    sim.reset()
    assert sim.health().ncon_peak >= most


@pytest.mark.parametrize("scene", SCENES)
def test_compile_leaves_everything_alone(physics: ss.Physics, scene: str, device: str) -> None:
    """State and inputs are the same bits before and after; a second call does nothing."""
    sim = simulation(scene, physics, device, 2)
    rng = np.random.default_rng(0)
    names = ("qpos", "qvel", "ctrl", "qfrc_applied", "xfrc_applied")
    for name in names[2:]:
        setattr(sim, name, rng.normal(0.0, 0.1, np.shape(getattr(sim, name).numpy())))
    before, inputs = sim.state, {name: getattr(sim, name).numpy().copy() for name in names}
    sim.compile()
    sim.compile()
    after = sim.state
    for name in support.FIELDS:
        assert support.same_bits(getattr(after, name), getattr(before, name)), name
    for name in names:
        assert support.same_bits(getattr(sim, name).numpy(), inputs[name]), name


@pytest.mark.parametrize("scene", SCENES)
def test_state_round_trips(physics: ss.Physics, scene: str, device: str) -> None:
    """What is read can be set and read again, bit for bit; it is a copy; stepping from it repeats the trajectory."""
    sim = simulation(scene, physics, device, 2)
    sim.step(40)
    saved = sim.state
    sim.state = saved
    for name in support.FIELDS:
        assert support.same_bits(getattr(sim.state, name), getattr(saved, name)), name

    kept = saved.qpos.copy()
    sim.step(20)
    first = sim.state
    assert support.same_bits(saved.qpos, kept)  # stepping did not write into the copy
    assert not support.same_bits(first.qpos, saved.qpos)
    sim.state = saved
    sim.step(20)
    support.assert_same(sim.state, first, device)


def test_state_moves_to_another_simulation(physics: ss.Physics, device: str) -> None:
    """A state is all that a physics remembers: another simulation put into it goes the same way."""
    sim, other = simulation("scaling", physics, device, 2), simulation("scaling", physics, device, 2)
    sim.step(45)
    other.step(7)
    sim.state = other.state = sim.state
    sim.step(10)
    other.step(10)
    support.assert_same(other.state, sim.state, device)


@pytest.mark.parametrize("scene", SCENES)
def test_reset_touches_only_the_masked_worlds(physics: ss.Physics, scene: str, device: str) -> None:
    """Masked worlds are at the keyframe with its inputs; of the others not a bit of any array has changed."""
    nworld = 5
    sim = simulation(scene, physics, device, nworld)
    start = mujoco.MjData(sim.mjm)
    mujoco.mj_resetDataKeyframe(sim.mjm, start, 0)
    sim.qfrc_applied = np.full(sim.mjm.nv, 0.01)
    sim.xfrc_applied = np.full((sim.mjm.nbody, 6), 0.01)
    if sim.mjm.nu:
        sim.ctrl = start.ctrl + 0.01
    sim.step(40)
    mask = np.array([False, True, False, True, True])
    before = support.device_arrays(sim.d)
    sim.reset(mask)
    after = support.device_arrays(sim.d)
    compared = 0
    for name, old in before.items():
        if name.startswith("contact.") or old.shape[0] != nworld:
            assert support.same_bits(after[name], old), name
        else:
            compared += 1
            assert support.same_bits(after[name][~mask], old[~mask]), name
    assert compared > 20
    state = sim.state
    for name in ("qpos", "qvel", "act"):
        want = np.tile(np.asarray(getattr(start, name), dtype=np.float32), (mask.sum(), 1))
        assert support.same_bits(getattr(state, name)[mask], want), name
    assert (state.time[mask] == 0.0).all() and (state.time[~mask] > 0.0).all()
    assert not sim.qfrc_applied.numpy()[mask].any() and sim.qfrc_applied.numpy()[~mask].all()
    assert not sim.xfrc_applied.numpy()[mask].any()
    np.testing.assert_array_equal(sim.ctrl.numpy()[mask], np.tile(start.ctrl, (mask.sum(), 1)).astype(np.float32))


def test_reset_worlds_move_as_fresh_ones(physics: ss.Physics, device: str) -> None:
    """A world that was reset goes where a new simulation goes."""
    sim = simulation("scaling", physics, device, 3)
    sim.step(50)
    sim.reset(np.array([False, True, False]))
    fresh = ss.Simulation("scaling", physics, nworld=3, device=device)
    sim.step(50)
    fresh.step(50)
    support.assert_same(support.world(sim.state, 1), support.world(fresh.state, 1), device)
    sim.reset()
    assert (sim.state.time == 0.0).all()


@pytest.mark.parametrize("scene", SCENES)
def test_worlds_do_not_influence_each_other(physics: ss.Physics, scene: str, device: str) -> None:
    """World 0 is thrown about; the others do not notice."""
    calm, disturbed = (simulation(scene, physics, device, 4) for _ in range(2))
    state = disturbed.state
    state.qvel[0] += np.random.default_rng(1).normal(0.0, 1.0, calm.mjm.nv).astype(np.float32)
    disturbed.state = state
    force = np.zeros((4, calm.mjm.nv))
    force[0] = 0.1
    disturbed.qfrc_applied = force
    for sim in (calm, disturbed):
        sim.step(STEPS)
    assert np.abs(calm.state.qpos[0] - disturbed.state.qpos[0]).max() > 1e-3
    for w in (1, 2, 3):
        support.assert_same(support.world(disturbed.state, w), support.world(calm.state, w), device)


def test_a_world_that_breaks_does_not_break_the_others(physics: ss.Physics, device: str) -> None:
    """World 0 leaves the finite numbers; the others go on, and health names the one."""
    calm, broken = (simulation("scaling", physics, device, 3) for _ in range(2))
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


@pytest.mark.parametrize("scene", SCENES)
def test_trajectory_does_not_depend_on_the_number_of_worlds(physics: ss.Physics, scene: str, device: str) -> None:
    """World w of seven goes where a simulation of that world alone goes, up to the order of float32 sums."""
    many = simulation(scene, physics, device, 7)
    start = many.state
    many.step(STEPS)
    for w in (0, 3, 6):
        alone = ss.Simulation(scene, physics, device=device)
        alone.state = support.world(start, w)
        alone.step(STEPS)
        np.testing.assert_allclose(many.state.qpos[w], alone.state.qpos[0], atol=2e-5, rtol=1e-5)
        np.testing.assert_allclose(many.state.qvel[w], alone.state.qvel[0], atol=2e-3, rtol=1e-4)


@pytest.mark.parametrize("scene", SCENES)
def test_cuda_agrees_with_the_cpu(physics: ss.Physics, scene: str, cuda: str) -> None:
    """Both devices go the same way, up to the order of float32 sums."""
    here, there = simulation(scene, physics, "cpu", 3), simulation(scene, physics, cuda, 3)
    for sim in (here, there):
        sim.step(40)
    np.testing.assert_allclose(there.state.qpos, here.state.qpos, atol=1e-4)
    np.testing.assert_allclose(there.state.qvel, here.state.qvel, atol=1e-2, rtol=1e-3)


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
        # where a body only turns about its centre of mass C MuJoCo has 0, and MuJoCo Warp's set_const has not
        got, want = sim.m.body_invweight0.numpy()[w], alone.mjm.body_invweight0
        np.testing.assert_allclose(got[want > 0], want[want > 0], rtol=1e-4)
    assert np.abs(state.qpos[0] - state.qpos[2]).max() > 1e-3


def test_timestep_of_every_world(physics: ss.Physics, device: str) -> None:
    """Time advances by each world's own step, and each world moves as a simulation with that step."""
    if isinstance(physics, ss.ConeSweep):
        physics = ss.ConeSweep(substeps=8)  # by default as many as the longest timestep of any world asks for
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
    # there velocities are differences of positions, with an ulp of 3e-8 m: 3e-5 m/s in each step of 1 ms
    rounding = 5e-3 if physics.name == "pbd" else 2e-6
    np.testing.assert_allclose(sim.state.qvel[:, 2::6], -0.162, rtol=0.0, atol=rounding)


def test_comfree_gains_of_every_world(device: str) -> None:
    """stiffness and damping may differ between worlds: each world as a simulation with its own."""
    stiffness, damping = (0.1, 0.4), (0.001, 0.004)
    sim = ss.Simulation("scaling", ss.ComFree(stiffness, damping), nworld=2, device=device)
    sim.step(STEPS)
    for w in range(2):
        alone = ss.Simulation("scaling", ss.ComFree(stiffness[w], damping[w]), device=device)
        alone.step(STEPS)
        np.testing.assert_allclose(sim.state.qpos[w], alone.state.qpos[0], atol=2e-5)
    assert np.abs(sim.state.qpos[0] - sim.state.qpos[1]).max() > 1e-4


def test_inputs_act(physics: ss.Physics, device: str) -> None:
    """ctrl, qfrc_applied and xfrc_applied of a world reach that world."""
    reference = support.simulate("hand", physics, nworld=2, device=device)
    reference.step(20)
    mjm = reference.mjm
    cube = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_BODY, "cube")
    push = np.zeros((2, mjm.nbody, 6))
    push[1, cube, 2] = 5.0
    bend = np.zeros((2, mjm.nv))
    bend[1, 0] = 0.05
    target = np.tile(mjm.key_ctrl[0], (2, 1))
    target[1, 5] += 0.3
    for name, value in (("xfrc_applied", push), ("qfrc_applied", bend), ("ctrl", target)):
        sim = support.simulate("hand", physics, nworld=2, device=device)
        setattr(sim, name, value)
        sim.step(20)
        moved = np.abs(sim.state.qpos - reference.state.qpos).max(axis=1)
        assert moved[0] < 1e-5 < 1e-4 < moved[1], name


def test_contacts_name_their_world(physics: ss.Physics, device: str) -> None:
    """A world in the air has none; the others have theirs."""
    if physics.name == "pbd":
        pytest.skip("what overlaps is shot apart by pbd, and has no contact at the end of the step")
    each = 16 if physics.name == "pbd-r" else 4  # one for each particle of a face, or for each corner
    sim = ss.Simulation("sliding-cube", physics, nworld=3, device=device)
    qpos = sim.qpos.numpy().copy()
    qpos[:, 2] = (0.0499, 1.0, 0.0499)
    sim.qpos = qpos
    sim.qvel = np.zeros(6)
    assert sim.contact_count() == 0
    sim.step()
    contacts = sim.contacts()
    assert len(contacts) == sim.contact_count() == 2 * each
    assert np.bincount(contacts.world, minlength=3).tolist() == [each, 0, each]
    # pbd-r tells how deep contacts are after the step, which has undone some of it, at 20 mm/s
    undone = float(GENTLE) * sim.mjm.opt.timestep if physics.name == "pbd-r" else 0.0
    np.testing.assert_allclose(contacts.dist, undone - 1e-4, rtol=0.0, atol=2e-8 if undone else 2e-6)
    np.testing.assert_allclose(np.abs(contacts.frame[:, 0, 2]), 1.0, atol=1e-5)
    assert (contacts.force[:, 0] > 0).all()


def test_numpy_is_a_view_on_the_cpu(physics: ss.Physics) -> None:
    """Reading copies nothing, and writing through the view moves the simulation."""
    sim = ss.Simulation("sliding-cube", physics, nworld=2, device="cpu")
    view = sim.qpos.numpy()
    assert view.__array_interface__["data"][0] == sim.qpos.ptr
    before = view[0, 0]
    sim.step(5)
    assert view[0, 0] != before
    view[1, 2] = 7.0
    assert sim.state.qpos[1, 2] == 7.0


def test_torch_shares_memory(physics: ss.Physics, device: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    sim = ss.Simulation("sliding-cube", physics, nworld=2, device=device)
    tensor = wp.to_torch(sim.qpos)
    assert tensor.data_ptr() == sim.qpos.ptr and tensor.shape == (2, 7)
    sim.step(5)
    np.testing.assert_array_equal(tensor.cpu().numpy(), sim.state.qpos)
    tensor[1, 2] = 7.0
    assert isinstance(tensor, torch.Tensor) and sim.state.qpos[1, 2] == 7.0


def test_jax_shares_memory(physics: ss.Physics, device: str) -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    sim = ss.Simulation("sliding-cube", physics, nworld=2, device=device)
    array = wp.to_jax(sim.qpos)
    assert array.unsafe_buffer_pointer() == sim.qpos.ptr and array.shape == (2, 7)


def test_import_is_light() -> None:
    """`import stickslip` loads nothing heavy."""
    heavy = "{'warp', 'mujoco', 'mujoco_warp', 'numpy', 'jax', 'torch'}"
    code = f"import sys, stickslip; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


CONTACT_SENSORS = """
<mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
  <body pos="0 0 .06"><freejoint/><geom name="a" type="box" size=".05 .05 .05"/></body>
  <body pos="0.01 0 .17"><freejoint/><geom name="b" type="box" size=".05 .05 .05"/></body>
</worldbody>
<sensor><contact geom1="a" geom2="floor" num="4" data="found dist pos normal"/>
  <contact geom1="a" geom2="b" num="4" reduce="mindist" data="found dist"/></sensor></mujoco>
"""


def test_position_stage_contact_sensors_see_this_step(physics: ss.Physics, device: str) -> None:
    """Contact sensors without forces read the contacts of the step they are in, whatever runs beside it on a GPU."""
    sim = simulation(CONTACT_SENSORS, physics, device, 64)
    rng = np.random.default_rng(0)
    sim.qvel = rng.normal(0.0, 0.3, (64, sim.mjm.nv))
    for _ in range(40):
        sim.step()
        contacts, found = sim.contacts(), sim.d.sensordata.numpy()
        floor = mujoco.mj_name2id(sim.mjm, mujoco.mjtObj.mjOBJ_GEOM, "floor")
        a = mujoco.mj_name2id(sim.mjm, mujoco.mjtObj.mjOBJ_GEOM, "a")
        for world in range(64):
            mine = (contacts.world == world) & (np.sort(contacts.geom, axis=1) == sorted((floor, a))).all(axis=1)
            assert found[world, 0] == mine.sum(), world
            if mine.any():
                assert np.isclose(contacts.dist[mine], found[world, 1], atol=1e-7).any(), world
