"""Fields of the model per world: written in place, what is derived from them, random ones."""

import copy
from typing import Any

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.physics.mjwarp.derive import DERIVED
from tests import support
from tests.support import XML

N = 5
SOME = np.array([False, True, False, True, True])


@pytest.fixture(scope="module")
def shared() -> dict[str, ss.Simulation]:
    return {}


@pytest.fixture
def sim(shared: dict[str, ss.Simulation], device: str) -> ss.Simulation:
    """A simulation of five worlds that touch the floor."""
    if device not in shared:
        shared[device] = ss.Simulation(XML, nworld=N, device=device)
    sim = shared[device]
    sim.reset()
    sim.step(12)
    return sim


def test_fields_are_written_in_place_after_the_first_time(sim: ss.Simulation, device: str) -> None:
    friction = np.tile(sim.mjm.geom_friction, (N, 1, 1))
    sim.set_model(geom_friction=friction)
    sim.compile()
    graph, array = sim._graph, sim.m.geom_friction
    sim.set_model(wp.array(SOME, device=device), geom_friction=wp.array(0.5 * friction, dtype=float, device=device))
    assert sim._graph is graph and sim.m.geom_friction is array
    expected = np.where(SOME[:, None, None], 0.5 * friction, friction)
    np.testing.assert_allclose(array.numpy(), expected, rtol=1e-6)


def test_what_mujoco_derives_follows_for_the_worlds_of_the_mask(sim: ss.Simulation, device: str) -> None:
    """Against mj_setConst of MuJoCo in C, one world at a time; the others keep every bit, and so does the data."""
    rng = np.random.default_rng(3)
    mass = sim.mjm.body_mass * rng.uniform(0.5, 2.0, (N, sim.mjm.nbody))
    size = sim.mjm.geom_size * rng.uniform(0.8, 1.2, (N, sim.mjm.ngeom, 1))
    armature = np.full((N, sim.mjm.nv), 0.01)
    sim.set_model(body_mass=mass, geom_size=size, dof_armature=armature)
    state, results = sim.state, {k: v.numpy().copy() for k, v in sim.physics.results(sim.m, sim.d).items()}
    more = np.where(SOME[:, None], 2.0 * mass, mass)
    names = ("body_subtreemass", "body_invweight0", "dof_invweight0", "actuator_acc0", "geom_rbound")
    old = {name: getattr(sim.m, name).numpy().copy() for name in names}
    sim.set_model(SOME, body_mass=2.0 * mass)
    for world in range(N):
        mjm = mujoco.MjModel.from_xml_string(XML)
        mjm.body_mass[:], mjm.geom_size[:], mjm.dof_armature[:] = more[world], size[world], armature[world]
        mujoco.mj_setConst(mjm, mujoco.MjData(mjm))
        for name in names[:4]:
            found = getattr(sim.m, name).numpy()[world]
            np.testing.assert_allclose(found, getattr(mjm, name).reshape(found.shape), rtol=2e-4, err_msg=name)
    np.testing.assert_allclose(sim.m.geom_rbound.numpy()[:, 1], size[:, 1, 0], rtol=1e-6)
    for name in names:
        assert getattr(sim.m, name).numpy()[~SOME].tobytes() == old[name][~SOME].tobytes(), name
    for name, value in sim.state.parts.items():
        assert support.same_bits(value, getattr(state, name)), name
    for name, value in sim.physics.results(sim.m, sim.d).items():
        np.testing.assert_array_equal(value.numpy(), results[name], err_msg=name)
    sim.set_model(body_mass=sim.mjm.body_mass, geom_size=sim.mjm.geom_size, dof_armature=sim.mjm.dof_armature)


def test_unfit_fields_on_the_device_are_refused(sim: ss.Simulation, device: str) -> None:
    sim.set_model(body_mass=sim.mjm.body_mass, geom_friction=sim.mjm.geom_friction)
    mass = np.tile(sim.mjm.body_mass, (N, 1))
    friction = np.tile(sim.mjm.geom_friction, (N, 1, 1))
    mass[0, 1], mass[1, 2], friction[2, 0, 0] = np.nan, 0.0, -1.0
    sim.set_model(
        body_mass=wp.array(2.0 * mass, dtype=float, device=device),
        geom_friction=wp.array(friction, dtype=float, device=device),
    )
    np.testing.assert_allclose(sim.m.body_mass.numpy()[:3], np.tile(sim.mjm.body_mass, (3, 1)), rtol=1e-6)
    np.testing.assert_allclose(sim.m.body_mass.numpy()[3:], 2.0 * mass[3:], rtol=1e-6)
    assert any("given 3 times" in message for message in sim.health().messages)
    sim.set_model(body_mass=sim.mjm.body_mass)


def test_parameters_of_a_physics_per_world(device: str) -> None:
    sim = ss.Simulation(XML, ss.ComFree(), nworld=2, device=device)
    sim.set_model(stiffness=np.array([0.1, 0.4]))
    other = ss.Simulation(XML, ss.ComFree(stiffness=(0.1, 0.4)), nworld=2, device=device)
    for simulation in (sim, other):
        simulation.step(30)
    support.assert_same(sim.state, other.state, device)
    assert not np.array_equal(*sim.qpos.numpy())
    with pytest.raises(ss.InputError, match="stiffnes.*stiffness"):
        sim.set_model(stiffnes=1.0)


# Random fields


def test_random_fields(sim: ss.Simulation, device: str) -> None:
    """Between the bounds; the others keep theirs; inertia follows mass; the same seed draws the same numbers."""
    nominal = sim.mjm.body_mass
    sim.set_model(body_mass=nominal, body_inertia=sim.mjm.body_inertia)
    sim.randomize(wp.array(SOME, device=device), seed=3, body_mass=ss.Scale(0.5, 2.0))
    scale = sim.m.body_mass.numpy()[:, 1:3] / nominal[1:3]
    assert np.allclose(scale[~SOME], 1.0, rtol=1e-6) and ((scale[SOME] >= 0.5) & (scale[SOME] <= 2.0)).all()
    assert len(np.unique(scale[SOME])) == 6
    turned = sim.m.body_inertia.numpy()[:, 1:3] / sim.mjm.body_inertia[1:3]
    np.testing.assert_allclose(turned, np.repeat(scale[..., None], 3, axis=2), rtol=1e-5)
    sim.randomize(SOME, seed=3, body_mass=ss.Scale(0.5, 2.0))
    assert not np.isin(sim.m.body_mass.numpy()[SOME, 1:3], nominal[1:3] * scale[SOME]).any()  # other numbers
    again = ss.Simulation(XML, nworld=N, device=device)
    again.randomize(seed=3, body_mass=ss.Scale(0.5, 2.0))
    np.testing.assert_allclose(again.m.body_mass.numpy()[SOME, 1:3], nominal[1:3] * scale[SOME], rtol=1e-6)
    sim.set_model(body_mass=nominal, body_inertia=sim.mjm.body_inertia)


def test_random_numbers_are_uniform(device: str) -> None:
    sim = ss.Simulation(XML, nworld=2000, device=device)
    sim.randomize(
        geom_friction=ss.Uniform([0.4, 0.005, 1e-4], [1.0, 0.005, 1e-4]), dof_damping=ss.Offset(0.0, 1.0, True)
    )
    slide = np.sort((sim.m.geom_friction.numpy()[:, 1, 0] - 0.4) / 0.6)
    assert np.abs(slide - np.linspace(0.0, 1.0, 2000)).max() < 1.63 / np.sqrt(2000)  # Kolmogorov-Smirnov, 1 %
    other = sim.m.geom_friction.numpy()[:, 2, 0]
    assert abs(np.corrcoef(sim.m.geom_friction.numpy()[:, 1, 0], other)[0, 1]) < 0.08
    damping = sim.m.dof_damping.numpy() - sim.mjm.dof_damping
    np.testing.assert_allclose(damping, damping[:, :1] * np.ones(sim.mjm.nv), atol=1e-6)  # shared


def test_bad_distributions(sim: ss.Simulation) -> None:
    before = sim.m.geom_friction.numpy().copy()
    for fields, words in (
        ({"geom_friction": ss.Uniform(1.0, 0.5)}, ["geom_friction", "1", "0.5"]),
        ({"geom_friction": ss.Uniform([1.0, 2.0], 3.0)}, ["geom_friction", "low", "3)"]),
        ({"geom_friction": ss.Uniform(0.0, np.inf)}, ["high", "finite"]),
        ({"geom_fricton": ss.Uniform(0.0, 1.0)}, ["geom_fricton", "geom_friction"]),
    ):
        with pytest.raises(ss.InputError) as error:
            sim.randomize(**fields)
        assert all(word in str(error.value) for word in words), error.value
    np.testing.assert_array_equal(sim.m.geom_friction.numpy(), before)


UNFIT = {
    "friction below zero": ({"geom_friction": ss.Offset(-2.0, 0.0)}, ["geom_friction", "-1", "negative"]),
    "a moving body without mass": ({"body_mass": ss.Scale(0.0, 1.0)}, ["body_mass of body 1", "0", "at least 1e-15"]),
    "a moving body without inertia": ({"body_inertia": ss.Uniform(0.0, 1.0)}, ["body_inertia of body 1", "0"]),
    "a timestep of zero": ({"timestep": ss.Uniform(0.0, 0.01)}, ["timestep", "0.0", "positive"]),
    "numbers that overflow": ({"gravity": ss.Scale(1.0, 1e38)}, ["gravity", "inf", "finite"]),
    "friction of a free joint": ({"dof_frictionloss": ss.Uniform(0.0, 0.1)}, ["dof 0", "0.1", "frictionloss"]),
    "one of two": ({"dof_damping": ss.Uniform(0.0, 1.0), "density": ss.Uniform(-1.0, 1.0)}, ["density", "-1"]),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", UNFIT)
def test_unfit_bounds_leave_everything(case: str, threads: int) -> None:
    """They are found before a number is drawn: the next draw is the first."""
    fields, words = UNFIT[case]
    sim, other = (ss.Simulation(XML, nworld=2, device="cpu", threads=threads) for _ in range(2))
    captured = sim.physics.captured(sim.m)
    with pytest.raises(ss.InputError) as error:
        sim.randomize(**fields)
    assert all(word in str(error.value) for word in (*words, "change low or high")), error.value
    assert sim.physics.captured(sim.m) == captured
    for simulation in (sim, other):
        simulation.randomize(body_mass=ss.Scale(0.5, 2.0))
    assert support.same_bits(masses(sim), masses(other))


def masses(sim: ss.Simulation) -> np.ndarray:
    return np.concatenate([part.body_mass.numpy() for part in getattr(sim.m, "parts", [sim.m])])


def test_arrays_beside_random_fields(sim: ss.Simulation, device: str) -> None:
    """They are written together, or not at all where one is unfit."""
    sim.set_model(body_mass=sim.mjm.body_mass, dof_damping=sim.mjm.dof_damping)
    damping = np.full((N, sim.mjm.nv), 0.5)
    damping[1, 2] = np.nan
    sim.randomize(SOME, body_mass=ss.Scale(2.0, 3.0), dof_damping=wp.array(damping, dtype=float, device=device))
    written = np.array([False, False, False, True, True])
    assert (sim.m.dof_damping.numpy()[written] == 0.5).all() and (sim.m.dof_damping.numpy()[~written] < 0.5).all()
    assert ((sim.m.body_mass.numpy()[:, 1] > 1.9 * sim.mjm.body_mass[1]) == written).all()
    sim.set_model(body_mass=sim.mjm.body_mass, body_inertia=sim.mjm.body_inertia, dof_damping=sim.mjm.dof_damping)


# What waits until somebody reads the model


WEIGHTS = ("body_invweight0", "dof_invweight0", "tendon_invweight0", "actuator_acc0")
SCENE = "humanoid"  # with tendons, and a light
RANDOM = {"body_mass": ss.Scale(0.5, 2.0), "geom_friction": ss.Scale(0.5, 1.5)}


def test_launches_that_allocate_do_not_mix_up_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Warp does on a GPU where sums keep an order: with it, masses of a gripper with a tendon could not be drawn."""
    original = wp.launch

    def launch(*args: Any, **kwargs: Any) -> Any:
        wp.empty(7, dtype=float)
        return original(*args, **kwargs)

    sim = ss.Simulation("hand", nworld=6, device="cpu")
    monkeypatch.setattr(wp, "launch", launch)
    sim.randomize(seed=1, body_mass=ss.Scale(0.5, 2.0))
    drawn = derived(sim.m)
    monkeypatch.undo()
    same = ss.Simulation("hand", nworld=6, device="cpu")
    same.randomize(seed=1, body_mass=ss.Scale(0.5, 2.0))
    for name, value in derived(same.m).items():
        np.testing.assert_array_equal(drawn[name], value, name)


def derived(m: object) -> dict[str, np.ndarray]:
    return {name: getattr(m, name).numpy().copy() for name in DERIVED}


def test_weights_wait_until_somebody_reads_the_model(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of the cone sweep reads none; when they are read, they are those that are found at once otherwise."""
    sims = []
    for at_once in (False, True):
        monkeypatch.setattr(ss.ConeSweep, "reads_weights", at_once)
        sim = ss.Simulation(SCENE, nworld=N, device=device)
        sim.set_model(dof_armature=sim.mjm.dof_armature + 0.01)
        before = derived(sim.m)
        sim.randomize(SOME, **RANDOM)
        sim.set_model(SOME, actuator_gear=2.0 * sim.mjm.actuator_gear)
        now = derived(sim._m)
        for name in WEIGHTS:
            assert support.same_bits(now[name], before[name]) is not (at_once and before[name].size > 0), name
        assert not support.same_bits(now["body_subtreemass"], before["body_subtreemass"])
        sims.append(sim)
        for name, value in derived(sim.m).items():
            assert support.same_bits(value[~SOME], before[name][~SOME]), name
    late, early = (derived(sim.m) for sim in sims)
    for name in DERIVED:
        np.testing.assert_allclose(late[name], early[name], rtol=0.0 if device == "cpu" else 1e-6, err_msg=name)
    for world in np.flatnonzero(SOME):
        mjm = copy.copy(sims[0].mjm)
        mjm.dof_armature[:] += 0.01
        for name in ("body_mass", "body_inertia", "actuator_gear"):
            getattr(mjm, name)[:] = getattr(sims[0].m, name).numpy()[world]
        mujoco.mj_setConst(mjm, mujoco.MjData(mjm))
        for name in (*WEIGHTS, "body_subtreemass", "light_poscom0"):
            expected = getattr(mjm, name)
            atol = 1e-5 * np.abs(expected).max(initial=0.0)
            found = late[name][world].reshape(expected.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=atol, err_msg=name)


def test_a_graph_that_randomizes(device: str) -> None:
    """Replayed with other masks, against calls one by one; the model is read at the end, and in a graph."""
    together, apart = (ss.Simulation(SCENE, nworld=N, device=device) for _ in range(2))
    masks = np.random.default_rng(1).random((6, N)) < 0.4
    for sim in (together, apart):
        sim.randomize(**RANDOM)
        sim.step()
    mask = wp.zeros(N, dtype=bool, device=device)
    with wp.ScopedDevice(device), wp.ScopedCapture(device) as captured:
        together.randomize(mask, **RANDOM)
        together.step()
    for chosen in masks:
        mask.assign(chosen)
        wp.capture_launch(captured.graph)
        apart.randomize(chosen, **RANDOM)
        apart.step()
    support.assert_same(together.state, apart.state, device)
    for name, value in derived(together.m).items():
        np.testing.assert_allclose(value, derived(apart.m)[name], rtol=1e-6, err_msg=name)
    weights = wp.zeros_like(together.m.body_invweight0)
    with wp.ScopedDevice(device), wp.ScopedCapture(device) as captured:
        together.randomize(mask, **RANDOM)
        wp.copy(weights, together.m.body_invweight0)
    for _ in range(2):
        wp.capture_launch(captured.graph)
        apart.randomize(masks[-1], **RANDOM)
        np.testing.assert_allclose(weights.numpy(), apart.m.body_invweight0.numpy(), rtol=1e-6)


def test_a_graph_that_reads_what_was_never_read(device: str) -> None:
    sim = ss.Simulation(XML, nworld=2, device=device)
    sim.randomize(body_mass=ss.Scale(0.5, 2.0))
    for call in (lambda: sim.m, lambda: sim.randomize(body_mass=ss.Scale(0.5, 1.0))):
        with wp.ScopedDevice(device), wp.ScopedCapture(device), pytest.raises(ss.InputError, match="once .*capture"):
            call()


def test_weights_that_are_given_stay(sim: ss.Simulation) -> None:
    sim.set_model(body_mass=2.0 * sim.mjm.body_mass)
    sim.set_model(body_invweight0=3.0 * sim.mjm.body_invweight0)
    np.testing.assert_allclose(sim.m.body_invweight0.numpy()[2], 3.0 * sim.mjm.body_invweight0, rtol=1e-6)
    sim.set_model(body_mass=sim.mjm.body_mass)


def test_what_waits_stays_when_buffers_grow(device: str) -> None:
    """Steps with larger buffers forget nothing that was left for later."""
    sim, other = (ss.Simulation(XML, nworld=2, device=device, **sizes) for sizes in ({}, {"nconmax": 64, "njmax": 256}))
    for simulation in (sim, other):
        simulation.randomize(body_mass=ss.Scale(0.5, 2.0))
    with wp.ScopedDevice(device):
        sim.d = sim.physics.adopt(sim._m, sim.d, sim.physics.make_data(sim.mjm, 2, nconmax=200, njmax=400))
    for name, value in derived(sim.m).items():
        assert support.same_bits(value, derived(other.m)[name]), name


READ = {
    "a muscle": ('<muscle joint="hinge" lengthrange="0 1"/>', "", "actuator_acc0"),
    "a camera": ("", '<camera mode="trackcom"/>', "cam_poscom0"),
    "a light": ("", '<light mode="trackcom"/>', "light_poscom0"),
}


@pytest.mark.parametrize("case", READ)
def test_what_a_step_reads_does_not_wait(case: str, device: str) -> None:
    actuator, part, name = READ[case]
    xml = XML.replace("</actuator>", f"{actuator}</actuator>").replace("<freejoint/>", f"<freejoint/>{part}")
    sim = ss.Simulation(xml, nworld=2, device=device)
    scale = np.arange(1, 1 + sim.mjm.nbody)
    sim.set_model(body_mass=scale * sim.mjm.body_mass, body_inertia=scale[:, None] * sim.mjm.body_inertia)
    mjm = copy.copy(sim.mjm)
    mjm.body_mass[:] *= scale
    mjm.body_inertia[:] *= scale[:, None]
    mujoco.mj_setConst(mjm, mujoco.MjData(mjm))
    assert not np.allclose(getattr(mjm, name), getattr(sim.mjm, name), rtol=1e-2)
    np.testing.assert_allclose(getattr(sim._m, name).numpy()[1], getattr(mjm, name), rtol=1e-4, atol=1e-6)
