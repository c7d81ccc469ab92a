"""Rollouts: the steps one by one, for every physics; the simulation stays where it is; chunks, outputs, errors."""

import importlib.util
import warnings
from typing import Any

import mujoco
import mujoco.rollout
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.bench.methods import resolve
from stickslip.simulation.growth import Growth
from tests import support
from tests.support import XML, made

N, T = 5, 12
PLAIN = XML.replace('delay=".02" nsample="8"', "")  # without delays, which some physics lack
FREE = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body pos="0 0 .1"><freejoint/><geom size=".1"/></body>
  </worldbody>
</mujoco>
"""
CART = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body pos="0 0 .1"><joint type="slide" axis="1 0 0" name="x"/><joint type="slide" axis="0 0 1"/>
      <geom size=".1" condim="3"/></body>
  </worldbody>
  <actuator><motor joint="x"/></actuator>
</mujoco>
"""
SCENES = {
    "icf": PLAIN,
    "cenic": PLAIN,
    "pbd-r": FREE,
    "pbd": FREE,
    "pbd-r-paper": FREE,
    "scm": CART,
    "qp": FREE,
    "mjx": CART,
}
NEEDS = {"scm": "mujoco.mjx", "mjx": "mujoco.mjx", "qp": "osqp"}
METHODS = [*ss.PHYSICS, "pbd", "pbd-r-paper", "qp", "mjx", "mujoco-c"]


def made_simulation(name: str, device: str, nworld: int = N, threads: int = 1) -> ss.Simulation:
    """Worlds with velocities of their own, that touch the floor."""
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"needs {NEEDS[name]}")
    physics = ss.Scm(points=12) if name == "scm" else resolve([name])[name].subject
    sim = ss.Simulation(SCENES.get(name, XML), physics, nworld=nworld, device=device, threads=threads)
    rng = np.random.default_rng(0)
    sim.qvel = rng.normal(0.0, 0.3, (nworld, sim.mjm.nv))
    sim.ctrl = rng.normal(0.0, 1.0, (nworld, sim.mjm.nu))
    sim.step(4)
    return sim


def controls(sim: ss.Simulation, steps: int = T, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, 1.0, (sim.nworld, steps, sim.mjm.nu)).astype(np.float32)


def stepped(sim: ss.Simulation, ctrl: np.ndarray, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The same by steps one by one; the simulation stays at the end."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for k in range(ctrl.shape[1]):
        sim.ctrl = ctrl[:, k]
        sim.step()
        own = {**sim.physics.results(sim.m, sim.d), **sim.physics.arrays(sim.m, sim.d)}
        for name in names:
            found[name].append(own[name].numpy().copy())
    return {name: np.stack(values, axis=1) for name, values in found.items()}


def assert_equal(a: Any, b: Any, sim: ss.Simulation, name: str = "") -> None:
    """Bit for bit on the CPU; on CUDA, where atomics add in any order, nearly."""
    assert a.shape == b.shape and a.dtype == b.dtype, name
    if sim.device.is_cuda:
        np.testing.assert_allclose(a, b, atol=1e-3, rtol=1e-3, err_msg=name)
    else:
        assert a.tobytes() == b.tobytes(), name


@pytest.fixture(scope="module")
def shared() -> dict[str, ss.Simulation]:
    return {}


@pytest.fixture
def sim(shared: dict[str, ss.Simulation], device: str) -> ss.Simulation:
    if device not in shared:
        shared[device] = made_simulation("cone-sweep", device)
    shared[device].reset()
    shared[device].step(4)
    return shared[device]


@pytest.mark.parametrize("name", METHODS)
def test_a_rollout_is_the_steps_and_leaves_everything_as_it_was(name: str, device: str) -> None:
    """State, memory and results, bit for bit; the steps after it are those without it."""
    sim = made_simulation(name, device)
    other = made_simulation(name, device)
    ctrl, before = controls(sim), support.arrays_of(sim)
    count, health = sim.contact_count(), sim.health()
    got = sim.rollout(ctrl, outputs=("qpos", "qvel", "act", "ctrl"))
    after = support.arrays_of(sim)
    assert before.keys() == after.keys()
    for field, value in before.items():
        assert value.tobytes() == after[field].tobytes(), field
    assert sim.contact_count() == count and sim.health() == health
    want = stepped(other, ctrl, ("time", "qpos", "qvel", "act", "ctrl"))
    assert list(got) == ["time", "qpos", "qvel", "act", "ctrl"]
    for field in got:
        assert_equal(got[field], want[field], sim, field)
    again = stepped(sim, ctrl, ("qpos",))
    assert_equal(again["qpos"], want["qpos"], sim)


@pytest.mark.parametrize("name", ["cone-sweep", "cenic"])
def test_chunks_and_samples(name: str, device: str) -> None:
    """However many steps go between two copies to the host; a rest of steps has no sample."""
    sim = made_simulation(name, device)
    ctrl = controls(sim)
    whole = sim.rollout(ctrl)
    for every in (1, 3, 5):
        for chunk in (None, 1, 4, 5, 100):
            part = sim.rollout(ctrl, every=every, chunk=chunk)
            assert part.every == every and part.nsample == T // every
            for field in part:
                assert_equal(part[field], whole[field][:, every - 1 :: every], sim, field)
    sim.ctrl = [0.5]
    held = np.full_like(ctrl, 0.5)
    for every in (1, 5):
        same, number = sim.rollout(held, every=every), sim.rollout(T, every=every)
        assert_equal(number.qpos, same.qpos, sim)
    one = sim.rollout(ctrl[0])
    all_alike = sim.rollout(np.tile(ctrl[:1], (N, 1, 1)))
    assert_equal(one.qpos, all_alike.qpos, sim)


@pytest.mark.parametrize("library", ["numpy", "list", "warp", "torch", "jax", "interface"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_controls_of_every_library(sim: ss.Simulation, device: str, library: str, dtype: type) -> None:
    ctrl = (np.arange(N * T).reshape(N, T, 1) % 5 - 2).astype(dtype)
    want = sim.rollout(ctrl.astype(np.float32), outputs=("ctrl",))
    got = sim.rollout(made(library, ctrl, device), outputs=("ctrl",))
    np.testing.assert_array_equal(got.ctrl, want.ctrl)
    np.testing.assert_array_equal(got.ctrl, ctrl.astype(np.float32))


def test_outputs_on_the_device(sim: ss.Simulation, device: str) -> None:
    ctrl = controls(sim)
    host = sim.rollout(ctrl, outputs=("qpos", "xpos", "eq_active"))
    there = sim.rollout(wp.array(ctrl, device=device), outputs=("qpos", "xpos", "eq_active"), device=True, chunk=5)
    assert isinstance(there.xpos, wp.array) and there.xpos.shape == (N, T, 4) and there.xpos.dtype == wp.vec3
    assert str(there.qpos.device) == device
    for field in host:
        assert_equal(there[field].numpy(), host[field], sim, field)
        assert_equal(there.numpy()[field], host[field], sim, field)


def test_any_result_of_a_step(sim: ss.Simulation) -> None:
    """Those of the positions at the beginning of each step, as after mj_step."""
    names = ("xpos", "xquat", "geom_xpos", "qfrc_constraint", "actuator_force", "cvel", "history", "nefc")
    ctrl = controls(sim)
    got = sim.rollout(ctrl, outputs=names)
    want = stepped(sim, ctrl, names)
    for name in names:
        assert_equal(got[name], want[name], sim, name)
    assert got.xpos.shape == (N, T, 4, 3) and got.nefc.shape == (N, T)


def test_from_a_state(sim: ss.Simulation) -> None:
    """Of all worlds, or of one that stands for all."""
    ctrl, start = controls(sim), sim.state
    want = sim.rollout(ctrl)
    sim.step(7)
    now = support.arrays_of(sim)
    got = sim.rollout(ctrl, state=start)
    assert_equal(got.qpos, want.qpos, sim)
    one = sim.rollout(ctrl, state=start[2])
    assert_equal(one.qpos[2], want.qpos[2], sim)
    assert (one.time == want.time[2]).all()
    for name, value in support.arrays_of(sim).items():
        assert value.tobytes() == now[name].tobytes(), name


def test_staying_at_the_end(sim: ss.Simulation) -> None:
    ctrl = controls(sim)
    want = sim.rollout(ctrl)
    got = sim.rollout(ctrl, advance=True)
    assert_equal(got.qpos, want.qpos, sim)
    np.testing.assert_array_equal(sim.qpos.numpy(), got.qpos[:, -1])
    np.testing.assert_array_equal(sim.ctrl.numpy(), ctrl[:, -1])


def test_a_model_that_changes(sim: ss.Simulation) -> None:
    """The graph is captured again with the step, and not otherwise."""
    ctrl = controls(sim)
    sim.rollout(ctrl)
    graph = sim._captured_rollout
    sim.rollout(ctrl[:, :5], outputs=("xpos",), every=2, device=True)
    assert sim._captured_rollout is graph
    sim.set_model(dof_damping=np.full((N, sim.mjm.nv), 0.3), gravity=np.linspace(-9.0, -5.0, N)[:, None] * [0, 0, 1])
    got = sim.rollout(ctrl)
    assert sim._captured_rollout is not graph
    want = stepped(sim, ctrl, ("qpos",))
    assert_equal(got.qpos, want["qpos"], sim)
    sim.set_model(dof_damping=sim.mjm.dof_damping, gravity=sim.mjm.opt.gravity)


def test_controls_on_the_device_that_are_not_finite(sim: ss.Simulation, device: str) -> None:
    """Their worlds keep the controls that they have, and health() counts them."""
    sim.ctrl = [0.25]
    ctrl = controls(sim)
    want = sim.rollout(ctrl)
    bad = ctrl.copy()
    bad[3, 7] = np.inf
    with pytest.warns(ss.HealthWarning, match="given 1 times"):
        got = sim.rollout(wp.array(bad, device=device), outputs=("qpos", "ctrl"))
    assert (got.ctrl[3] == 0.25).all()
    for world in (0, 1, 2, 4):
        assert_equal(got.qpos[world], want.qpos[world], sim)
    assert not sim.health().ok
    sim.reset()
    assert sim.health().ok


def test_errors_leave_the_state(sim: ss.Simulation, device: str) -> None:
    ctrl = controls(sim)
    broken = ctrl.copy()
    broken[1, 2] = np.nan
    before = support.arrays_of(sim)
    for given, options, words in (
        (ctrl[:3], {}, ["ctrl", "(3, 12, 1)", "(5, T, 1)", "(T, 1)"]),
        (ctrl[:, :0], {}, ["ctrl", "T of 1 or more"]),
        (ctrl[..., 0, 0], {}, ["ctrl", "(5,)"]),
        (wp.array(ctrl[:, :, [0, 0]], device=device), {}, ["ctrl", "(5, 12, 2)"]),
        (wp.zeros((N, T, 1), dtype=bool, device=device), {}, ["ctrl", "bool"]),
        (broken, {}, ["ctrl[1, 2, 0]", "nan", "finite"]),
        ("fast", {}, ["ctrl", "numbers"]),
        (0, {}, ["ctrl is 0", "at least 1"]),
        (True, {}, ["ctrl is True"]),
        (ctrl, {"outputs": ("qpso",)}, ["qpso", "did you mean 'qpos'"]),
        (ctrl, {"outputs": ("nacon",)}, ["no output named 'nacon'"]),
        (ctrl, {"every": 0}, ["every is 0", "at least 1"]),
        (ctrl, {"every": 13}, ["every is 13", "12 steps"]),
        (ctrl, {"chunk": 1.5}, ["chunk is 1.5"]),
        (ctrl, {"state": sim.qpos}, ["state", "array"]),
        (ctrl, {"state": ss.Simulation(FREE, device=device).state}, ["another model"]),
        (ctrl, {"state": sim.state[[0, 1, 2]]}, ["state", "(3,"]),
    ):
        with pytest.raises(ss.InputError) as error:
            sim.rollout(given, **options)
        assert all(word in str(error.value) for word in words), error.value
    for name, value in support.arrays_of(sim).items():
        assert value.tobytes() == before[name].tobytes(), name


def test_outputs_that_do_not_fit_into_memory(sim: ss.Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stickslip.capacity.free_memory", lambda device: 1000)
    before = support.arrays_of(sim)
    with pytest.raises(ss.InputError, match="outputs take .* GB .*every"):
        sim.rollout(controls(sim))
    for name, value in support.arrays_of(sim).items():
        assert value.tobytes() == before[name].tobytes(), name


def test_a_physics_whose_steps_leave_no_poses(device: str) -> None:
    sim = made_simulation("pbd-r", device, nworld=1)
    with pytest.raises(ss.InputError, match="no output named 'xpos'"):
        sim.rollout(3, outputs=("xpos",))


def test_dropped_contacts_are_told(device: str) -> None:
    """Also when the simulation goes back to where none were dropped."""
    sim = ss.Simulation(XML, nworld=2, device=device, nconmax=1, njmax=64)
    sim.reset(keyframe="high")
    with pytest.warns(ss.HealthWarning, match="nconmax"):
        sim.rollout(60, state=lies(device))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sim.state.qpos[0, 2] == 2.0 and sim.health().ok


def test_buffers_that_grow(device: str) -> None:
    """The steps of a chunk are repeated with larger buffers; the simulation goes back, and the graph serves on."""
    lying, ctrl = lies(device), np.zeros((2, 30, 1), dtype=np.float32)
    roomy = ss.Simulation(XML, nworld=2, device=device, nconmax=64, njmax=256)
    want = roomy.rollout(ctrl, state=lying)
    for chunk in (None, 7):
        sim = ss.Simulation(XML, nworld=2, device=device, njmax=256)
        sim._growth, sim.d = cramped(sim)
        before = sim.state
        with pytest.warns(ss.HealthWarning, match="nconmax from 1 to"):
            got = sim.rollout(ctrl, state=lying, chunk=chunk)
        assert_equal(got.qpos, want.qpos, sim)
        assert sim.d.naconmax > 2
        for name, value in sim.state.parts.items():
            assert value.tobytes() == getattr(before, name).tobytes(), name
        assert_equal(sim.rollout(ctrl, state=lying).qpos, want.qpos, sim)


def lies(device: str) -> ss.State:
    """Two worlds where ball and box touch the floor."""
    qpos = ss.Simulation(XML, nworld=2, device=device).state.qpos.copy()
    qpos[:, 2], qpos[:, 3:7], qpos[:, 7] = 0.1, np.sqrt(0.5) * np.array([1.0, 0.0, 1.0, 0.0]), 0.0
    return ss.State(np.zeros(2), qpos, np.zeros((2, 7)), np.zeros((2, 1)))


def cramped(sim: ss.Simulation) -> tuple[Any, Any]:
    """Buffers of a simulation that may grow, with room for one contact."""
    with sim._on_device():
        return Growth(sim.physics, contacts=True, rows=False), sim.physics.make_data(
            sim.mjm, sim.nworld, nconmax=1, njmax=256
        )


@pytest.mark.parametrize("name", ["cone-sweep", "cenic"])
def test_threads(name: str) -> None:
    """The same with worlds shared out over threads."""
    sim, other = made_simulation(name, "cpu"), made_simulation(name, "cpu", threads=2)
    ctrl = controls(sim)
    other.state = sim.state
    before, count = other.state, other.contact_count()
    outputs = ("qpos", "ctrl", "xpos")
    want, got = sim.rollout(ctrl, outputs=outputs), other.rollout(ctrl, outputs=outputs, chunk=5)
    for field in want:
        assert_equal(got[field], want[field], sim, field)
    assert (got.physics, got.timestep) == (want.physics, want.timestep)
    assert other.contact_count() == count
    for field, value in other.state.parts.items():
        assert value.tobytes() == getattr(before, field).tobytes(), field
    with sim.record() as one, other.record(every=1, last=3) as two:
        sim.step(9)
        other.step(9)
    assert_equal(two.trajectory.qpos, one.trajectory.qpos[:, -3:], sim)


def test_a_bar(sim: ss.Simulation, capfd: pytest.CaptureFixture[str]) -> None:
    ctrl = controls(sim)
    assert_equal(sim.rollout(ctrl, progress=True, chunk=5).qpos, sim.rollout(ctrl).qpos, sim)
    assert not capfd.readouterr().out
    time = sim.state.time
    sim.step(9, progress=True)
    np.testing.assert_allclose(sim.state.time - time, 9 * 0.005, rtol=1e-4)


def test_inside_a_graph_of_the_callers(sim: ss.Simulation) -> None:
    with (
        pytest.raises(ss.Unsupported, match="rollout cannot be captured"),
        wp.ScopedCapture(device=sim.device),
    ):
        sim.rollout(3)


def test_against_mujoco_rollout() -> None:
    """A double pendulum with two motors; the arguments correspond as docs/simulation.md has it."""
    xml = """<mujoco><option timestep="0.002" integrator="Euler"/><worldbody>
    <body><joint axis="0 1 0" name="a" damping=".1"/><geom size=".05" pos=".3 0 0" contype="0"/>
      <body pos=".3 0 0"><joint axis="0 1 0" name="b" damping=".1"/><geom size=".05" pos=".3 0 0" contype="0"/>
        <site name="tip" pos=".3 0 0"/></body></body></worldbody>
    <actuator><motor joint="a"/><motor joint="b"/></actuator>
    <sensor><framepos objtype="site" objname="tip"/><jointvel joint="b"/></sensor></mujoco>"""
    mjm = mujoco.MjModel.from_xml_string(xml)
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    rng = np.random.default_rng(0)
    start = np.zeros((3, mujoco.mj_stateSize(mjm, kind)))
    start[:, 1:] = rng.normal(0.0, 0.5, start[:, 1:].shape)
    control = rng.normal(0.0, 1.0, (3, 100, 2))
    state, sensordata = mujoco.rollout.rollout(mjm, mujoco.MjData(mjm), start, control)
    sim = ss.Simulation(mjm, ss.MuJoCo(), nworld=3, device="cpu")
    got = sim.rollout(
        control,
        state=ss.State.from_vector(mjm, start, kind),
        outputs=("qpos", "qvel", "sensordata"),
    )
    np.testing.assert_allclose(got.time, state[..., 0], atol=1e-5)
    np.testing.assert_allclose(got.qpos, state[..., 1:3], atol=1e-4)
    np.testing.assert_allclose(got.qvel, state[..., 3:5], atol=1e-3)
    np.testing.assert_allclose(got.sensordata, sensordata, atol=1e-3)
