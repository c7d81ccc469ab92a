"""Worlds on the device: setters, masks, states, key frames."""

import dataclasses
import pathlib
from typing import Any

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from tests import support
from tests.support import XML, made

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
