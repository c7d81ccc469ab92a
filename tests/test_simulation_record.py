"""Recorders: every sample, in a ring buffer that wraps; the last ones; files; several at once; errors."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from tests.test_simulation_rollout import XML, N, assert_equal, controls, cramped, lies, made_simulation

FORMATS = [
    "npz",
    pytest.param("zarr", marks=pytest.mark.skipif(not importlib.util.find_spec("zarr"), reason="no zarr")),
]


@pytest.fixture(scope="module")
def shared() -> dict[str, ss.Simulation]:
    return {}


@pytest.fixture
def sim(shared: dict[str, ss.Simulation], device: str) -> ss.Simulation:
    if device not in shared:
        shared[device] = made_simulation("cone-sweep", device)
    shared[device].reset()
    shared[device].qvel = np.random.default_rng(0).normal(0.0, 0.3, (N, shared[device].mjm.nv))
    return shared[device]


def watched(sim: ss.Simulation, pieces: list[int], names: tuple[str, ...] = ("time", "qpos")) -> dict[str, np.ndarray]:
    """Take steps in pieces; the arrays after every step, by a second simulation that takes them one by one."""
    other = ss.Simulation(XML, nworld=N, device=str(sim.device))
    other.state = sim.state
    found: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for piece in pieces:
        sim.step(piece)
    for _ in range(sum(pieces)):
        other.step()
        for name in names:
            found[name].append(other._array(name).numpy().copy())
    return {name: np.stack(values, axis=1) for name, values in found.items()}


@pytest.mark.parametrize("name", ["cone-sweep", "cenic", "pbd-r", "qp"])
def test_every_step_is_recorded(name: str, device: str) -> None:
    sim, other = made_simulation(name, device), made_simulation(name, device)
    want = []
    for _ in range(10):
        other.step()
        want.append(other.qpos.numpy().copy())
    with sim.record(every=2) as recorder:
        for piece in (1, 4, 5):
            sim.step(piece)
    got = recorder.trajectory
    assert_equal(got.qpos, np.stack(want, axis=1)[:, 1::2], sim)
    assert got.every == 2 and got.nworld == N and got.nsample == 5
    assert not sim._recorders and not recorder.is_open


@pytest.mark.parametrize("buffer", [1, 3, 20, None])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("last", [None, 1, 4, 100])
def test_rings_of_any_size(sim: ss.Simulation, buffer: int | None, every: int, last: int | None) -> None:
    """They wrap, are emptied, and keep the last ones only, whatever the calls of step()."""
    with sim.record(every=every, last=last, buffer=buffer) as recorder:
        want = watched(sim, [1, 7, 2, 0, 9, 4])
    got = recorder.trajectory
    for name in ("time", "qpos"):
        kept = want[name][:, every - 1 :: every]
        assert_equal(got[name], kept if last is None else kept[:, -last:], sim, name)


def test_several_at_once(sim: ss.Simulation) -> None:
    with (
        sim.record(outputs=("qvel",), every=2) as coarse,
        sim.record(outputs=("xpos", "act"), worlds=[4, 1]) as some,
        sim.record(outputs=(), worlds=2, last=3) as one,
    ):
        sim.step(5)
        assert coarse.trajectory.qvel.shape == (N, 2, 7)  # it can be looked at while it records
        want = watched(sim, [3, 2], ("time", "qvel", "act"))
    assert_equal(coarse.trajectory.qvel[:, 2:], want["qvel"][:, [0, 2, 4]], sim)
    assert_equal(some.trajectory.act[:, 5:], want["act"][[4, 1]], sim)
    assert some.trajectory.xpos.shape == (2, 10, 4, 3) and some.trajectory.worlds == (4, 1)
    assert list(one.trajectory) == ["time"]
    assert_equal(one.trajectory.time, want["time"][[2], -3:], sim)


@pytest.mark.parametrize("suffix", FORMATS)
def test_files(sim: ss.Simulation, suffix: str, tmp_path: Path) -> None:
    """They have everything, and know where it is from; a second one replaces the first."""
    path = tmp_path / "deep" / f"run.{suffix}"
    names = ("qpos", "eq_active", "xpos")
    for worlds in (None, [1, 3]):
        with sim.record(path, names, every=2, worlds=worlds) as recorder:
            sim.step(9)
    got, want = ss.Trajectory.load(path), recorder.trajectory
    assert list(got) == ["time", *names] and got.keys() == list(want)
    for name in want:
        assert got[name].tobytes() == want[name].tobytes() and got[name].shape == want[name].shape, name
        assert got[name].dtype == want[name].dtype
    assert (got.every, got.worlds, got.timestep, got.physics) == (2, (1, 3), 0.005, "cone-sweep")
    assert (got.model, got.version) == (sim.state.model, ss.__version__)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    if suffix == "npz":
        with np.load(path, allow_pickle=False) as file:
            np.testing.assert_array_equal(file["qpos"], want.qpos)


def test_what_a_trajectory_knows(device: str) -> None:
    sim = ss.Simulation(XML, ss.ComFree(stiffness=[0.1, 0.2], damping=0.002), nworld=2, device=device)
    sim.set_model(timestep=[0.004, 0.002])
    got = sim.rollout(3)
    assert got.physics == "comfree:stiffness=0.1,0.2,damping=0.002"
    np.testing.assert_allclose(got.timestep, [0.004, 0.002])
    with sim.record(worlds=1) as recorder:
        sim.step()
    assert recorder.trajectory.timestep == pytest.approx(0.002)
    assert "qpos (2, 3, 8)" in repr(got) and "qpos" in dir(got) and "qpos" in got and len(got) == 3
    assert dict(**got).keys() == {"time", "qpos", "qvel"}
    with pytest.raises(AttributeError, match="qpo.*did you mean 'qpos'"):
        got.qpo  # noqa: B018
    with pytest.raises(ss.InputError, match="no output named"):
        got["xpos"]
    with pytest.raises(AttributeError):
        got.every = 3  # type: ignore[misc]


def test_an_exception_keeps_what_was_recorded(sim: ss.Simulation, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), sim.record(tmp_path / "run.npz", last=4):
        sim.step(6)
        1 / 0  # noqa: B018
    assert ss.Trajectory.load(tmp_path / "run.npz").nsample == 4
    assert not sim._recorders


@pytest.mark.parametrize("buffer", [None, 2])
@pytest.mark.parametrize("last", [None, 5])
def test_steps_that_are_undone_are_not_recorded(
    sim: ss.Simulation, last: int | None, buffer: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there were: of the last samples none is lost."""
    with sim.record(last=last, buffer=buffer, every=2) as recorder:
        want = watched(sim, [7, 6])
        broken = ss.Health((), (), (0,), 0, 0)
        with monkeypatch.context() as patch:
            patch.setattr(type(sim.physics), "health", lambda *_: broken)
            with pytest.raises(ss.Diverged):
                sim.step(90, check=True)
        more = watched(sim, [8])
    kept = np.concatenate([want["qpos"], more["qpos"]], axis=1)[:, 1::2]
    assert_equal(recorder.trajectory.qpos, kept if last is None else kept[:, -last:], sim)


def test_a_rollout_that_stays_at_its_end_is_recorded(sim: ss.Simulation) -> None:
    ctrl = controls(sim)
    with sim.record(every=5, buffer=1) as recorder:
        sim.rollout(ctrl)
        got = sim.rollout(ctrl, advance=True)
    assert_equal(recorder.trajectory.qpos, got.qpos[:, 4::5], sim)


@pytest.mark.parametrize("last", [None, 4])
def test_buffers_that_grow(device: str, last: int | None) -> None:
    """Steps that are repeated with larger buffers are recorded once."""
    roomy = ss.Simulation(XML, nworld=2, device=device, nconmax=64, njmax=256)
    sim = ss.Simulation(XML, nworld=2, device=device, njmax=256)
    sim._growth, sim.d = cramped(sim)
    roomy.state = sim.state = lies(device)
    with roomy.record() as want, sim.record(last=last, buffer=7) as got:
        roomy.step(30)
        with pytest.warns(ss.HealthWarning, match="nconmax from 1 to"):
            sim.step(30)
    whole = want.trajectory.qpos
    assert_equal(got.trajectory.qpos, whole if last is None else whole[:, -last:], sim)


def test_other_data(sim: ss.Simulation) -> None:
    """A simulation may be given other data: the recorder looks its arrays up again."""
    other = ss.Simulation(XML, nworld=N, device=str(sim.device))
    with other.record() as recorder:
        other.step(2)
        other.d = sim.physics.make_data(sim.mjm, N)
        other._graph = None
        other.step(1)
    assert_equal(recorder.trajectory.qpos[:, -1], other.qpos.numpy(), sim)


def test_errors(sim: ss.Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.zarr").mkdir()
    (tmp_path / "folder.npz").mkdir()
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"path": "run.csv"}, ["run.csv", ".npz", ".zarr"]),
        ({"path": tmp_path / "folder.npz"}, ["is a folder"]),
        ({"outputs": ("qpos", "sensrdata")}, ["sensrdata"]),
        ({"every": 0}, ["every is 0"]),
        ({"last": 0}, ["last is 0"]),
        ({"buffer": 1.5}, ["buffer is 1.5"]),
        ({"worlds": [5]}, ["worlds is [5]"]),
        ({"worlds": []}, ["worlds is []"]),
    ]
    if importlib.util.find_spec("zarr"):
        cases.append(({"path": tmp_path / "folder.zarr"}, ["not of Zarr"]))
    for options, words in cases:
        with pytest.raises(ss.InputError) as error:
            sim.record(**options)
        assert all(word in str(error.value) for word in words), error.value
    monkeypatch.setitem(__import__("sys").modules, "zarr", None)
    with pytest.raises(ss.MissingExtra, match=r"stickslip\[zarr\]"):
        sim.record(tmp_path / "run.zarr")
    assert not sim._recorders


def test_files_that_are_no_trajectories(sim: ss.Simulation, tmp_path: Path) -> None:
    sim.state.save(tmp_path / "state.npz")
    (tmp_path / "text.npz").write_text("hello")
    sim.rollout(2).save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "new.npz", **{**arrays, "trajectory/version": np.array("99")})
    for name, words in (
        ("missing.npz", ["no file"]),
        ("state.npz", ["not a saved trajectory"]),
        ("text.npz", ["not a saved trajectory"]),
        ("new.npz", ["version 99", "update"]),
    ):
        with pytest.raises(ss.InputError) as error:
            ss.Trajectory.load(tmp_path / name)
        assert all(word in str(error.value) for word in words), error.value


def test_inside_a_graph_of_the_callers(sim: ss.Simulation) -> None:
    with sim.record() as recorder:
        sim.step(2)
        with pytest.raises(ss.Unsupported, match="close the recorder"), wp.ScopedCapture(device=sim.device):
            sim.step()
        sim.step()
    assert recorder.trajectory.nsample == 3
    with pytest.raises(ss.Unsupported, match="open it before"), wp.ScopedCapture(device=sim.device):
        sim.record()
