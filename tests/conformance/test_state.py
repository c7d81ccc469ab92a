"""The state: what is read can be set; a reset concerns the worlds of its mask alone."""

import pathlib

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest

import stickslip as ss
from tests import support


@pytest.mark.parametrize("scene", support.SCENES)
def test_state_round_trips(physics: ss.Physics, scene: str, device: str) -> None:
    """What is read can be set and read again, bit for bit; it is a copy; stepping from it repeats the trajectory."""
    sim = support.perturbed_simulation(scene, physics, device, 2)
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
    """Another simulation that is put into the same state moves in the same way."""
    sim, other = (support.perturbed_simulation("scaling", physics, device, 2) for _ in range(2))
    sim.step(45)
    other.step(7)
    sim.state = other.state = sim.state
    sim.step(10)
    other.step(10)
    support.assert_same(other.state, sim.state, device)


@pytest.mark.parametrize("scene", support.SCENES)
def test_reset_touches_only_the_masked_worlds(physics: ss.Physics, scene: str, device: str) -> None:
    """Masked worlds are at the keyframe with its inputs; of the others not a bit of any array has changed."""
    nworld = 5
    sim = support.perturbed_simulation(scene, physics, device, nworld)
    start = mujoco.MjData(sim.mjm)
    mujoco.mj_resetDataKeyframe(sim.mjm, start, 0)
    sim.qfrc_applied = np.full(sim.mjm.nv, 0.01)
    sim.xfrc_applied = np.full((sim.mjm.nbody, 6), 0.01)
    if sim.mjm.nu:
        sim.ctrl = start.ctrl + 0.01
    sim.step(40)
    mask = np.array([False, True, False, True, True])
    before = support.arrays_of(sim)
    sim.reset(mask)
    after = support.arrays_of(sim)
    compared = 0
    for name, old in before.items():
        if name.startswith("contact.") or old.shape[0] != nworld:
            assert support.same_bits(after[name], old), name
        else:
            compared += 1
            assert support.same_bits(after[name][~mask], old[~mask]), name
    assert compared > (20 if isinstance(sim.d, mjw.Data) else 5)
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
    sim = support.perturbed_simulation("scaling", physics, device, 3)
    sim.step(50)
    sim.reset(np.array([False, True, False]))
    fresh = ss.Simulation("scaling", physics, nworld=3, device=device)
    sim.step(50)
    fresh.step(50)
    support.assert_same(support.world(sim.state, 1), support.world(fresh.state, 1), device)
    sim.reset()
    assert (sim.state.time == 0.0).all()


def test_some_worlds_are_reset_to_a_given_state(physics: ss.Physics, device: str) -> None:
    """`reset(mask)` and then `qpos = q`: the others continue bit for bit, and the reset one starts from q."""
    sim, plain = (support.perturbed_simulation("scaling", physics, device, 3) for _ in range(2))
    for one in (sim, plain):
        one.step(40)
    mask = np.array([False, True, False])
    sim.reset(mask)
    qpos = sim.qpos.numpy().copy()
    qpos[mask, 2::7] += 0.5
    sim.qpos = qpos
    for one in (sim, plain):
        one.step(20)
    for w in (0, 2):
        support.assert_same(support.world(sim.state, w), support.world(plain.state, w), device)
    fallen = qpos[1, 2::7] - sim.state.qpos[1, 2::7]
    assert (fallen > 0.0).all() and (fallen < 0.1).all()


def test_masked_worlds_continue_from_a_state(physics: ss.Physics, device: str) -> None:
    """With the memory of the physics: worlds of the mask as they went on from there, the others as they would have."""
    sim = support.perturbed_simulation("scaling", physics, device, 5)
    sim.step(40)
    saved = sim.state
    sim.step(10)
    later = sim.state
    sim.step(10)
    end = sim.state
    mask = np.array([True, False, False, True, True])
    sim.state = later
    sim.reset(mask, state=saved)
    others, kept = sim.state[~mask], later[~mask]
    for name, part in {**kept.parts, **kept.memory}.items():
        assert support.same_bits({**others.parts, **others.memory}[name], part), name
    sim.step(10)
    mixed = sim.state
    support.assert_same(mixed[mask], later[mask], device)
    support.assert_same(mixed[~mask], end[~mask], device)

    sim.reset(mask, state=saved[2])  # one stands for all
    sim.step(10)
    for world in np.flatnonzero(mask):
        support.assert_same(sim.get_state(worlds=world), later[2], device)


@pytest.mark.parametrize("scene", support.SCENES)
def test_a_state_in_a_file_continues(physics: ss.Physics, scene: str, device: str, tmp_path: pathlib.Path) -> None:
    """A file has every part and the memory; from it, this and another simulation go on as the first one did."""
    sim = support.perturbed_simulation(scene, physics, device, 2)
    sim.step(40)
    saved = sim.state
    saved.save(tmp_path / "state.npz")
    loaded = ss.State.load(tmp_path / "state.npz")
    assert loaded.parts.keys() == saved.parts.keys() and loaded.memory.keys() == saved.memory.keys()
    for name, part in {**saved.parts, **saved.memory}.items():
        assert support.same_bits({**loaded.parts, **loaded.memory}[name], part), name
    assert (loaded.physics, loaded.model) == (saved.physics, saved.model)
    sim.step(15)
    end = sim.state
    other = support.perturbed_simulation(scene, physics, device, 2)
    for one in (sim, other):
        one.step(3)
        one.state = loaded
        one.step(15)
        support.assert_same(one.state, end, device)


def test_worlds_of_a_state_go_into_others(physics: ss.Physics, device: str) -> None:
    """Slices of worlds, also of a slice and of a simulation with another number of worlds, move there as they did."""
    sim = support.perturbed_simulation("scaling", physics, device, 5)
    sim.step(40)
    saved = sim.state
    sim.step(15)
    end = sim.state
    sim.state = saved
    sim.set_state(sim.get_state(worlds=[1, 3]), worlds=[4, 0])
    sim.step(15)
    for here, there in enumerate((3, 1, 2, 3, 1)):
        support.assert_same(sim.get_state(worlds=here), end[there], device)

    small = support.perturbed_simulation("scaling", physics, device, 2)
    small.step(7)
    small.state = saved[1:4][[2, 0]]
    small.step(15)
    for here, there in enumerate((3, 1)):
        support.assert_same(small.get_state(worlds=here), end[there], device)

    sim.state = saved
    sim.set_state(saved[4], worlds=[0, 2])  # one stands for both
    sim.step(15)
    for here, there in enumerate((4, 1, 4, 3, 4)):
        support.assert_same(sim.get_state(worlds=here), end[there], device)
