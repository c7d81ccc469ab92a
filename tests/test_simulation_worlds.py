"""Worlds on the device: setters, masks, states, key frames, model fields in place, random fields."""

import dataclasses
import pathlib
from typing import Any

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from tests import support

XML = """
<mujoco>
  <option timestep="0.005"/>
  <default><geom condim="3"/></default>
  <worldbody>
    <geom type="plane" size="5 5 .1" name="floor"/>
    <body pos="0 0 .12" name="trunk">
      <freejoint/>
      <geom size=".1" name="ball"/>
      <body pos="0 0 .2" name="arm">
        <joint axis="0 1 0" name="hinge" damping=".1" range="-60 60"/>
        <geom type="box" size=".05 .05 .1" pos="0 0 .1"/>
      </body>
    </body>
    <body name="hand" mocap="true" pos="1 0 .1"><geom type="box" size=".1 .1 .1"/></body>
  </worldbody>
  <actuator>
    <general joint="hinge" dyntype="filter" dynprm=".05" gainprm="2" delay=".02" nsample="8" name="servo"/>
  </actuator>
  <keyframe>
    <key name="low" qpos="0 0 .1 1 0 0 0 .3" ctrl=".1" act=".2"/>
    <key name="high" qpos="0 0 2 1 0 0 0 0" qvel="1 0 0 0 0 0 0"/>
  </keyframe>
</mujoco>
"""
N = 5
SIGNATURES = [s for s in mujoco.mjtState.__members__ if s.startswith("mjSTATE") and s != "mjSTATE_PLUGIN"]
SOME = np.array([False, True, False, True, True])


@pytest.fixture(scope="module")
def shared() -> dict[str, ss.Simulation]:
    return {}


@pytest.fixture
def sim(shared: dict[str, ss.Simulation], device: str) -> ss.Simulation:
    """A simulation of five worlds that have moved in different ways and touch the floor."""
    if device not in shared:
        shared[device] = ss.Simulation(XML, nworld=N, device=device)
    sim = shared[device]
    sim.reset()
    rng = np.random.default_rng(0)
    sim.ctrl = rng.normal(0.0, 1.0, (N, 1))
    sim.qvel = rng.normal(0.0, 0.3, (N, sim.mjm.nv))
    sim.step(12)
    return sim


def parts(state: ss.State) -> dict[str, np.ndarray]:
    return {**state.parts, **{f"memory {name}": value for name, value in state.memory.items()}}


def assert_equal(a: ss.State, b: ss.State, worlds: Any = slice(None)) -> None:
    """Bit for bit, memory included."""
    for (name, one), two in zip(parts(a[worlds]).items(), parts(b[worlds]).values(), strict=True):
        assert one.tobytes() == two.tobytes(), name


# Setters


LIBRARIES = ["numpy", "list", "warp", "torch", "jax", "interface"]


class Interface:
    """An array that has nothing but the interface of CUDA arrays, or on the host that of DLPack."""

    def __init__(self, array: wp.array) -> None:
        self._array = array
        if array.device.is_cuda:
            self.__cuda_array_interface__ = array.__cuda_array_interface__
        else:
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__
            self.__array__ = lambda dtype=None, copy=None: array.numpy()


def made(library: str, value: np.ndarray, device: str) -> Any:
    """The same numbers in an array of a library, on the device."""
    if library == "numpy":
        return value
    if library == "list":
        return value.tolist()
    if library == "warp":
        return wp.array(value, device=device)
    if library == "torch":
        torch = pytest.importorskip("torch")
        return torch.tensor(value, device=device)
    if library == "jax":
        jax = pytest.importorskip("jax")
        kind = "gpu" if device.startswith("cuda") else "cpu"
        return jax.device_put(value, jax.devices(kind)[0])
    return Interface(wp.array(value, device=device))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_setters_take_every_library(sim: ss.Simulation, device: str, library: str, dtype: type) -> None:
    value = (np.arange(N * sim.mjm.nv).reshape(N, -1) % 7).astype(dtype)
    sim.qvel = made(library, value, device)
    np.testing.assert_array_equal(sim.qvel.numpy(), value)
    sim.ctrl = made(library, np.array([2], dtype=dtype), device)  # one for all
    assert sim.ctrl.numpy().tolist() == [[2.0]] * N
    pos = np.arange(3 * N).reshape(N, 1, 3).astype(dtype)
    sim.mocap_pos = made(library, pos, device)
    np.testing.assert_array_equal(sim.mocap_pos.numpy(), pos)


@pytest.mark.parametrize("library", LIBRARIES)
def test_masks_of_every_library(sim: ss.Simulation, device: str, library: str) -> None:
    before = sim.state
    sim.reset(made(library, SOME, device))
    assert_equal(sim.state, before, ~SOME)
    assert sim.get_state(worlds=SOME).time.tolist() == [0.0] * 3


def test_a_value_on_the_device_that_is_not_finite_is_refused(sim: ss.Simulation, device: str) -> None:
    before = sim.qvel.numpy().copy()
    value = np.ones_like(before)
    value[2, 1] = np.nan
    sim.qvel = wp.array(value, device=device)
    assert (sim.qvel.numpy()[[0, 1, 3, 4]] == 1.0).all()
    np.testing.assert_array_equal(sim.qvel.numpy()[2], before[2])
    assert any("given 1 times" in message for message in sim.health().messages)
    state = sim.state
    with pytest.raises(ss.Diverged, match="given 1 times"):
        sim.step(check=True)
    assert_equal(sim.state, state)
    sim.step(check=True)  # it was told


def test_bad_setters_leave_everything(sim: ss.Simulation, device: str) -> None:
    before = sim.state
    for value, words in (
        (wp.zeros((N, 3), device=device), ["qvel", f"({N}, 3)", f"({N}, 7)"]),
        (np.zeros((N + 1, 7)), ["qvel", f"({N + 1}, 7)"]),
        (wp.zeros((N, 7), dtype=bool, device=device), ["bool"]),
        (np.full((N, 7), np.inf), ["inf", "finite"]),
    ):
        with pytest.raises(ss.InputError) as error:
            sim.qvel = value
        assert all(word in str(error.value) for word in words), error.value
    assert_equal(sim.state, before)


def test_an_array_of_another_device_is_an_error(cuda: str) -> None:
    sim = ss.Simulation(XML, nworld=N, device="cpu")
    with pytest.raises(ss.InputError, match=r"qvel is on cuda:0, the simulation on cpu"):
        sim.qvel = wp.zeros((N, 7), device=cuda)
    with pytest.raises(ss.InputError, match=r"mask is on cuda:0"):
        sim.reset(wp.zeros(N, dtype=bool, device=cuda))


# Resets


def test_reset_to_the_start_by_mask(sim: ss.Simulation, device: str) -> None:
    before = sim.state
    sim.reset(wp.array(SOME, device=device))
    after, fresh = sim.state, ss.Simulation(XML, nworld=1, device=device).state
    assert_equal(after, before, ~SOME)
    for name, value in fresh.parts.items():
        for world in np.flatnonzero(SOME):
            np.testing.assert_array_equal(getattr(after, name)[world], value[0], err_msg=name)


@pytest.mark.parametrize("key", ["high", 1])
def test_reset_to_a_key_frame(sim: ss.Simulation, key: int | str) -> None:
    before = sim.state
    sim.reset(SOME, keyframe=key)
    after = sim.state
    assert_equal(after, before, ~SOME)
    np.testing.assert_array_equal(after.qpos[SOME], np.tile(sim.mjm.key_qpos[1], (3, 1)))
    assert (after.qvel[SOME, 0] == 1.0).all() and (after.ctrl[SOME] == 0.0).all()


@pytest.mark.parametrize("on_device", [False, True])
def test_reset_to_a_state(sim: ss.Simulation, on_device: bool) -> None:
    """Worlds of the mask continue from the state as they did from there, the others as they would have."""
    saved = sim.get_state(device=on_device)
    sim.step(7)
    later = sim.state
    sim.step(7)
    end = sim.state
    sim.set_state(later)
    sim.reset(SOME, state=saved)
    sim.step(7)
    mixed = sim.state
    assert_same_motion(mixed, later, SOME)
    assert_same_motion(mixed, end, ~SOME)


def assert_same_motion(a: ss.State, b: ss.State, worlds: Any) -> None:
    for name in ("time", "qpos", "qvel", "act", "history"):
        assert getattr(a, name)[worlds].tobytes() == getattr(b, name)[worlds].tobytes(), name


def test_one_state_for_all_worlds(sim: ss.Simulation) -> None:
    one = sim.get_state(worlds=3)
    sim.reset(state=one)
    sim.step(6)
    qpos = sim.state.qpos
    assert (qpos == qpos[0]).all()


def test_bad_resets_leave_everything(sim: ss.Simulation, device: str) -> None:
    before = sim.state
    broken = dataclasses.replace(before, qpos=np.where(np.arange(8) == 3, np.nan, before.qpos))
    for call, words in (
        (lambda: sim.reset(np.ones(N + 1, dtype=bool)), ["mask", f"({N},)", f"({N + 1},)"]),
        (lambda: sim.reset(wp.zeros(N - 1, dtype=bool, device=device)), ["mask", f"({N - 1},)"]),
        (lambda: sim.reset(np.ones(N)), ["mask", "bool", "float64"]),
        (lambda: sim.reset(keyframe="hihg"), ["hihg", "high"]),
        (lambda: sim.reset(keyframe=2), ["2", "counted from 0"]),
        (lambda: sim.reset(keyframe=0, state=before), ["not both"]),
        (lambda: sim.reset(state=broken), ["state.qpos[0, 3]", "nan"]),
        (lambda: sim.reset(state=before[[0, 1]]), ["state.time", "(2,)", f"({N},)"]),
        (lambda: sim.set_state(before, worlds=[0, 9]), ["worlds", "9"]),
        (lambda: sim.set_state(before[[0, 1]], worlds=[0, 1, 2]), ["2 worlds", "3"]),
        (lambda: sim.get_state(int(mujoco.mjtState.mjSTATE_PLUGIN)), ["8192", "no part"]),
        (lambda: sim.get_state(1 << 20), ["1048576", "mjtState"]),
    ):
        with pytest.raises(ss.InputError) as error:
            call()
        assert all(word in str(error.value) for word in words), error.value
        assert_equal(sim.state, before)


def test_a_state_on_the_device_that_is_not_finite_is_refused(sim: ss.Simulation, device: str) -> None:
    before = sim.state
    qpos = before.qpos.copy()
    qpos[1, 0] = np.inf
    state = dataclasses.replace(before.without_memory(), qpos=wp.array(qpos, dtype=float, device=device))
    sim.reset(wp.array(SOME, device=device), state=state)
    assert_equal(sim.state, before, [0, 1, 2])
    assert any("given 1 times" in message for message in sim.health().messages)
    sim.reset()
    assert sim.health().ok


def test_a_captured_step_with_resets(sim: ss.Simulation, device: str) -> None:
    """One graph of a step and a masked reset, replayed with other masks, against calls one by one."""
    start = sim.state
    masks = np.random.default_rng(1).random((6, N)) < 0.4
    mask = wp.zeros(N, dtype=bool, device=device)
    with wp.ScopedDevice(device), wp.ScopedCapture(device) as captured:
        sim.step()
        sim.reset(mask)
    for chosen in masks:
        mask.assign(chosen)
        wp.capture_launch(captured.graph)
    together = sim.state
    sim.state = start
    for chosen in masks:
        sim.step()
        sim.reset(chosen)
    support.assert_same(together, sim.state, device)


# States


def test_continuation_is_bit_for_bit(sim: ss.Simulation, tmp_path: pathlib.Path) -> None:
    """From a state in memory and from one in a file, in the same simulation and in another one."""
    saved = sim.state
    saved.save(tmp_path / "state.npz")
    sim.step(15)
    end = sim.state
    other = ss.Simulation(XML, nworld=N, device=str(sim.device))
    for simulation, state in ((sim, saved), (sim, ss.State.load(tmp_path / "state.npz")), (other, saved)):
        simulation.state = state
        simulation.step(15)
        support.assert_same(simulation.state, end, str(sim.device))


def test_a_saved_state_is_what_it_was(sim: ss.Simulation, tmp_path: pathlib.Path) -> None:
    saved = sim.state
    saved.save(tmp_path / "state.npz")
    loaded = ss.State.load(tmp_path / "state.npz")
    assert_equal(loaded, saved)
    assert (loaded.physics, loaded.model, loaded.signature) == (saved.physics, saved.model, saved.signature)


def test_files_that_are_no_state(sim: ss.Simulation, tmp_path: pathlib.Path) -> None:
    (tmp_path / "text.npz").write_text("nothing")
    np.savez(tmp_path / "other.npz", qpos=np.zeros(3))
    sim.state.save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "new.npz", **{**arrays, "state/version": np.array(99)})
    for name, words in (
        ("missing.npz", ["no file", "missing.npz"]),
        ("text.npz", ["not a saved state"]),
        ("other.npz", ["not a saved state"]),
        ("new.npz", ["version 99", "update"]),
    ):
        with pytest.raises(ss.InputError) as error:
            ss.State.load(tmp_path / name)
        assert all(word in str(error.value) for word in words), error.value


def test_a_state_of_another_model(sim: ss.Simulation) -> None:
    other = ss.Simulation(XML.replace('name="ball"', 'name="bowl"'), nworld=N, device=str(sim.device))
    with pytest.raises(ss.InputError, match="another model"):
        other.state = sim.state
    other.state = sim.state.without_memory()
    np.testing.assert_array_equal(other.qpos.numpy(), sim.qpos.numpy())


def test_a_state_for_another_physics(sim: ss.Simulation) -> None:
    """It takes everything but the memory."""
    other = ss.Simulation(XML, ss.ComFree(), nworld=N, device=str(sim.device))
    other.state = sim.state
    np.testing.assert_array_equal(other.qpos.numpy(), sim.qpos.numpy())
    np.testing.assert_array_equal(other.ctrl.numpy(), sim.ctrl.numpy())


@pytest.mark.parametrize("signature", SIGNATURES)
def test_signatures_are_those_of_mujoco(sim: ss.Simulation, signature: str) -> None:
    """The same numbers in the same order as mj_getState."""
    bits = int(getattr(mujoco.mjtState, signature))
    state = sim.get_state(bits, worlds=2)
    mjd = mujoco.MjData(sim.mjm)
    everything = sim.get_state(worlds=2)
    for name, value in everything.parts.items():
        setattr(mjd, name, float(value[0])) if name == "time" else getattr(mjd, name).__setitem__(slice(None), value[0])
    expected = np.zeros(mujoco.mj_stateSize(sim.mjm, bits))
    mujoco.mj_getState(sim.mjm, mjd, expected, bits)
    assert state.signature == bits & ~int(mujoco.mjtState.mjSTATE_PLUGIN)
    if expected.size:
        np.testing.assert_array_equal(state.vector()[0], expected)
    if bits & 15 == 15:
        back = ss.State.from_vector(sim.mjm, state.vector(), bits)
        for name, value in state.parts.items():
            np.testing.assert_array_equal(getattr(back, name), value)


def test_worlds_of_a_state_go_to_other_worlds(sim: ss.Simulation) -> None:
    """They move there as they would have moved."""
    saved = sim.state
    sim.step(9)
    end = sim.state
    sim.state = saved
    sim.set_state(sim.get_state(worlds=[1, 3]), worlds=[4, 0])
    sim.step(9)
    now = sim.state
    for here, there in ((4, 1), (0, 3), (2, 2), (1, 1), (3, 3)):
        assert now.qpos[here].tobytes() == end.qpos[there].tobytes()
        assert now.qvel[here].tobytes() == end.qvel[there].tobytes()


# Fields of the model


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
    assert_equal(sim.state, state)
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
