"""`stickslip.comfree` and `stickslip.conesweep` in the place of `mujoco_warp`: names, signatures, a usual script."""

import dataclasses
import inspect
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest
import warp as wp

import stickslip as ss
import stickslip.comfree as cf
import stickslip.conesweep as cs
from stickslip import mjcf
from stickslip.errors import InputError, Unsupported
from tests import support

PUBLIC = sorted(name for name in dir(mjw) if not name.startswith("_"))
FUNCTIONS = [name for name in PUBLIC if inspect.isroutine(getattr(mjw, name))]
SIZES = {"nconmax": 48, "njmax": 192}
PHYSICS: dict[ModuleType, Any] = {cf: ss.ComFree(), cs: ss.ConeSweep()}
ADDED = {module: [field.name for field in dataclasses.fields(physics)] for module, physics in PHYSICS.items()}

each_module = pytest.mark.parametrize("module", list(PHYSICS), ids=[physics.name for physics in PHYSICS.values()])


@each_module
@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(module: ModuleType, name: str) -> None:
    assert hasattr(module, name)
    if inspect.isclass(getattr(mjw, name)):
        assert issubclass(getattr(module, name), getattr(mjw, name))  # the same class, or one that stands in for it


@each_module
def test_no_name_is_added(module: ModuleType) -> None:
    """Besides those of mujoco_warp nothing is public, so that `from ... import *` brings no surprise."""
    assert sorted(name for name in dir(module) if not name.startswith("_")) == PUBLIC
    assert module.__version__ == mjw.__version__


@each_module
@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_are_the_same(module: ModuleType, name: str) -> None:
    """Names, kinds and defaults of the parameters; put_model has those of the physics too, by keyword only."""
    got = list(inspect.signature(getattr(module, name)).parameters.values())
    want = list(inspect.signature(getattr(mjw, name)).parameters.values())
    if name == "put_model":
        added = got[len(want) :]
        assert [p.name for p in added] == ADDED[module]
        assert all(p.kind is p.KEYWORD_ONLY and p.default == getattr(PHYSICS[module], p.name) for p in added)
        got = got[: len(want)]
    assert [(p.name, p.kind, p.default) for p in got] == [(p.name, p.kind, p.default) for p in want]


def script(
    module: ModuleType, mjm: mujoco.MjModel, steps: int, nworld: int, *, put: bool
) -> tuple[mujoco.MjData, np.ndarray]:
    """The usual program: put a model and data, capture one step, replay it, get the data back."""
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    mujoco.mj_forward(mjm, mjd)
    m = module.put_model(mjm)
    if put:
        d = module.put_data(mjm, mjd, nworld=nworld, **SIZES)
    else:
        d = module.make_data(mjm, nworld=nworld, **SIZES)
        module.reset_data_keyframe(m, d, 0)
    module.step(m, d)
    with wp.ScopedCapture() as capture:  # records the step without running it
        module.step(m, d)
    for _ in range(steps - 1):
        wp.capture_launch(capture.graph)
    result = mujoco.MjData(mjm)
    module.get_data_into(result, mjm, d, world_id=nworld - 1)
    return result, d.qpos.numpy()


@each_module
@pytest.mark.parametrize("put", [True, False], ids=["put_data", "make_data"])
@pytest.mark.parametrize("scene", ["scaling", "humanoid", "hand"])
def test_usual_script_runs_with_its_import_changed(module: ModuleType, scene: str, put: bool, device: str) -> None:
    """The same program with either module; with a drop-in it goes where ss.Simulation goes with its physics."""
    mjm = mjcf.load(scene)
    steps, nworld = 60, 2
    stock, _ = script(mjw, mjm, steps, nworld, put=put)
    mjd, qpos = script(module, mjm, steps, nworld, put=put)
    assert mjd.ncon > 0 and mjd.nefc > 0
    np.testing.assert_allclose(mjd.time, stock.time, rtol=1e-6)
    assert np.abs(mjd.qpos - stock.qpos).max() > 1e-6  # it did not just run MuJoCo's solver
    np.testing.assert_allclose(mjd.qpos, stock.qpos, atol=0.1)

    sim = ss.Simulation(scene, PHYSICS[module], nworld=nworld, device=device)
    sim.step(steps)
    np.testing.assert_allclose(sim.state.time, mjd.time, rtol=1e-5)
    np.testing.assert_allclose(qpos, sim.state.qpos, atol=2e-5)
    np.testing.assert_allclose(mjd.qpos, sim.state.qpos[nworld - 1], atol=2e-5)
    np.testing.assert_allclose(mjd.qvel, sim.state.qvel[nworld - 1], atol=2e-3)


def started(module: ModuleType, mjm: mujoco.MjModel) -> tuple[Any, Any]:
    """Model and data, two worlds in motion and in contact."""
    m = module.put_model(mjm)
    d = module.make_data(mjm, nworld=2, **SIZES)
    module.reset_data_keyframe(m, d, 0)
    d.qvel.assign(support.perturbed(mjm, 2, scale=0.3).qvel)
    return m, d


@each_module
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
@pytest.mark.parametrize("scene", ["scaling", "humanoid", "hand"])
def test_step_is_the_sum_of_its_parts(module: ModuleType, scene: str, integrator: str, device: str) -> None:
    """step = step1 + step2, and for ComFree forward + euler (or implicit), to single precision, sensors included."""
    mjm = mjcf.load(scene)
    mjm.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    whole, halves, parts = (started(module, mjm) for _ in range(3))
    integrate = module.euler if integrator == "Euler" else module.implicit
    for _ in range(25):  # contacts come in any order on CUDA: rounding grows with every impact
        module.step(*whole)
        module.step1(*halves)
        module.step2(*halves)
        module.forward(*parts)
        integrate(*parts)
    assert whole[1].nacon.numpy()[0] > 0
    for other in (halves[1], parts[1]) if module is cf else (halves[1],):
        for name, atol in (("time", 1e-6), ("qpos", 2e-5), ("qvel", 2e-3), ("act", 1e-6)):
            got, want = getattr(other, name).numpy(), getattr(whole[1], name).numpy()
            np.testing.assert_allclose(got, want, atol=atol, rtol=1e-4, err_msg=name)
        if mjm.nsensordata:
            want = whole[1].sensordata.numpy()
            np.testing.assert_allclose(other.sensordata.numpy(), want, atol=1e-2 * (1 + np.abs(want).max()))


def test_step_is_mujocos_stages_with_comfrees_solve(device: str) -> None:
    """fwd_position, fwd_velocity, fwd_actuation, fwd_acceleration, solve and euler, called one by one."""
    mjm = mjcf.load("scaling")
    (m, d), (m2, d2) = started(cf, mjm), started(cf, mjm)
    for _ in range(40):
        cf.step(m, d)
        cf.fwd_position(m2, d2)
        cf.fwd_velocity(m2, d2)
        cf.fwd_actuation(m2, d2)
        cf.fwd_acceleration(m2, d2)
        cf.solve(m2, d2)
        cf.euler(m2, d2)
    np.testing.assert_allclose(d2.qpos.numpy(), d.qpos.numpy(), atol=2e-5)
    np.testing.assert_allclose(d2.qvel.numpy(), d.qvel.numpy(), atol=2e-3)


def test_integrator_of_mujoco_warp_gives_the_sweeps_velocity(device: str) -> None:
    """forward + euler end a step at its velocity; they carry no forces on, and positions follow the velocity alone.

    Bodies turn by Euler's rule then, which differs from that of the step by a term of second order.
    """
    mjm = mjcf.load("scaling")
    m, d = started(cs, mjm)
    for _ in range(60):
        cs.step(m, d)
    assert cs_memory(d).min() > 0
    d.memory.clear()
    m2, d2 = started(cs, mjm)
    for name in ("time", "qpos", "qvel", "qacc_warmstart"):
        wp.copy(getattr(d2, name), getattr(d, name))
    start = d.qpos.numpy().copy()
    cs.step(m, d)
    cs.forward(m2, d2)
    cs.euler(m2, d2)
    assert d.nacon.numpy()[0] > 0
    assert cs_memory(d).min() > 0 and not cs_memory(d2).any()
    ours, eulers = (array.numpy().reshape(2, -1, 6) for array in (d.qvel, d2.qvel))
    second_order = mjm.opt.timestep**2 * np.linalg.norm(ours[:, :, 3:], axis=2, keepdims=True) ** 3
    np.testing.assert_allclose(eulers[:, :, :3], ours[:, :, :3], atol=1e-4)
    assert (np.abs(eulers - ours)[:, :, 3:] < 1e-4 + second_order).all()
    place, velocity = (array.numpy().reshape(2, -1, n)[:, :, :3] for array, n in ((d2.qpos, 7), (d2.qvel, 6)))
    np.testing.assert_allclose(place, start.reshape(2, -1, 7)[:, :, :3] + mjm.opt.timestep * velocity, atol=1e-6)


def cs_memory(d: cs.Data) -> np.ndarray:
    """How many contacts each world carries on to the next step."""
    return d.workspace.previous.num.numpy()


@pytest.mark.parametrize("how", ["all", "bool", "int32", "keyframe", "keyframes"])
def test_reset_worlds_carry_no_forces(how: str, device: str) -> None:
    """A world that is reset repeats its first steps bit for bit; one that is not keeps what it carries."""
    mjm = mjcf.load("scaling")
    m, d = started(cs, mjm)
    start = d.qvel.numpy().copy()
    for _ in range(60):
        cs.step(m, d)
    first, carried = d.qpos.numpy().copy(), cs_memory(d).copy()
    assert carried.min() > 0
    if how == "all":
        cs.reset_data(m, d)
    elif how == "keyframe":
        cs.reset_data_keyframe(m, d, 0)
    elif how == "keyframes":
        cs.reset_data_keyframe(m, d, wp.array([0, m.nkey], dtype=int))
    else:
        cs.reset_data(m, d, wp.array([1, 0], dtype=wp.bool if how == "bool" else wp.int32))
    is_whole = how in ("all", "keyframe")
    assert cs_memory(d).tolist() == [0, 0 if is_whole else carried[1]]
    if how.startswith("keyframe"):
        velocity = d.qvel.numpy().copy()
        velocity[0] = start[0]
        d.qvel.assign(velocity)
        for _ in range(60):
            cs.step(m, d)
        assert support.same_bits(d.qpos.numpy()[0], first[0])


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"sweeps": 0}, "sweeps is 0.*1 to 1000"),
        ({"slop": -1.0}, "slop is -1.*0 to 1"),
        ({"substeps": 2.5}, "substeps"),
    ],
)
def test_put_model_checks_the_sweeps_parameters(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        cs.put_model(mjcf.load("scaling"), **parameters)


def test_put_model_takes_the_sweeps_parameters(device: str) -> None:
    """Depth up to the slop is left alone: with a large one, bodies stay as deep in the ground as they are put."""
    mjm = mjcf.load("scaling")
    depth = []
    for slop in (ss.ConeSweep().slop, 0.01):
        m = cs.put_model(mjm, slop=slop, correction=1.0)
        d = cs.make_data(mjm, nworld=1, **SIZES)
        for _ in range(200):
            cs.step(m, d)
        qpos = d.qpos.numpy().copy()
        qpos[:, 2::7] -= 0.002
        d.qpos.assign(qpos)
        for _ in range(10):
            cs.step(m, d)
        depth.append(-d.contact.dist.numpy()[: int(d.nacon.numpy()[0])].min())
    assert depth[0] < 5e-4 and depth[1] > 1.5e-3


def test_model_and_data_of_another_module_are_refused(device: str) -> None:
    """The message says what to make them with."""
    mjm = mjcf.load("scaling")
    model: Any = cf.put_model(mjm)
    data: Any = mjw.make_data(mjm, **SIZES)
    with pytest.raises(InputError, match="stickslip.conesweep.put_model"):
        cs.step(model, cs.make_data(mjm, **SIZES))
    with pytest.raises(InputError, match="stickslip.conesweep.make_data"):
        cs.step(cs.put_model(mjm), data)


def test_put_model_takes_gains(device: str) -> None:
    """One number, or one per world; a stiffer contact sinks in less."""
    mjm = mjcf.load("scaling")
    m = cf.put_model(mjm, stiffness=[0.05, 0.5], damping=0.003)
    d = cf.make_data(mjm, nworld=2, **SIZES)
    for _ in range(200):
        cf.step(m, d)
    nacon = int(d.nacon.numpy()[0])
    worlds, dist = d.contact.worldid.numpy()[:nacon], d.contact.dist.numpy()[:nacon]
    assert -dist[worlds == 0].min() > 2 * -dist[worlds == 1].min() > 0


@each_module
def test_functions_that_cannot_be_honoured(module: ModuleType, device: str) -> None:
    """They raise Unsupported, say which function and what to do, and change nothing."""
    m, d = started(module, mjcf.load("scaling"))
    before = support.device_arrays(d)
    for name in ("rungekutta4", "inverse", "island", "discrete"):
        with pytest.raises(Unsupported, match=f"(?s){PHYSICS[module].name} does not support.*{name}.*(use|call) "):
            getattr(module, name)(m, d)
        for field, value in support.device_arrays(d).items():
            assert support.same_bits(value, before[field]), field


@each_module
@pytest.mark.parametrize(
    "option, value, word",
    [
        ("integrator", mjw.IntegratorType.RK4, "RK4"),
        ("enableflags", mjw.EnableBit.SLEEP, "sleep"),
        ("deterministic", mjw.DeterminismType.ATOMICS, "ATOMICS"),
    ],
)
def test_options_set_later_are_refused(module: ModuleType, option: str, value: int, word: str, device: str) -> None:
    """An option that cannot be honoured is not silently ignored, wherever it is set."""
    m, d = started(module, mjcf.load("scaling"))
    setattr(m.opt, option, value)
    before = d.qpos.numpy().copy()
    for function in (module.step, module.step1, module.forward, module.solve):
        if option == "deterministic" and PHYSICS[module].name == "cone-sweep":  # it adds in a fixed order
            function(m, d)
            continue
        with pytest.raises(Unsupported, match=word):
            function(m, d)
        assert support.same_bits(d.qpos.numpy(), before)


@each_module
def test_health_tells_what_to_raise(module: ModuleType, device: str) -> None:
    """Contacts that are dropped, also in a captured step; with the number of the advice there is room."""
    mjm = mjcf.load("scaling")
    m, d = module.put_model(mjm), module.make_data(mjm, nworld=2, nconmax=4, njmax=192)
    m.opt.warn_overflow = 0
    assert d.health().ok and d.health().ncon_peak == 0
    module.step(m, d)
    with wp.ScopedCapture() as capture:
        module.step(m, d)
    for _ in range(60):
        wp.capture_launch(capture.graph)
    health = d.health()
    assert not health.ok and health.ncon_peak > 8 and health.nefc_peak > 0 and health.nan_worlds == ()
    module.reset_data(m, d, wp.array([True, False], dtype=bool))
    assert not d.health().ok  # of the other world
    module.reset_data(m, d)
    assert d.health().ok
    for _ in range(3):  # bodies that had no contacts were elsewhere, so that the first advice may be too little
        (nconmax,) = {int(n) for text in health.overflow for n in re.findall(r"raise nconmax .* at least (\d+)", text)}
        d = module.make_data(mjm, nworld=2, nconmax=nconmax, njmax=1024)
        for _ in range(60):
            module.step(m, d)
        health = d.health()
        if health.ok:
            break
    assert health.ok and not health.notes


@each_module
def test_health_names_broken_worlds_and_missing_rows(module: ModuleType, device: str) -> None:
    """Rows that do not fit are a note, since the motion is right; so do the two halves of a step record."""
    mjm = mjcf.load("scaling")
    m, d = module.put_model(mjm), module.make_data(mjm, nworld=2, nconmax=48, njmax=1)
    m.opt.warn_overflow = 0
    for _ in range(60):
        module.step1(m, d)
        module.step2(m, d)
    health = d.health()
    assert health.ok and health.nefc_peak > 1 and "raise njmax from 1 to" in health.notes[0]
    qpos = d.qpos.numpy()
    qpos[1, 0] = np.nan
    d.qpos.assign(qpos)
    assert d.health().nan_worlds == (1,) and not d.health().ok


CAPTURED = {
    "step": lambda module, m, d: module.step(m, d),
    "forward": lambda module, m, d: module.forward(m, d),
    "step1 and step2": lambda module, m, d: (module.step1(m, d), module.step2(m, d)),
    "reset_data": lambda module, m, d: module.reset_data(m, d),
    "reset_data by a bool mask": lambda module, m, d: module.reset_data(m, d, mask_of(d, wp.bool)),
    "reset_data by an int mask": lambda module, m, d: module.reset_data(m, d, mask_of(d, wp.int32)),
    "reset_data_keyframe": lambda module, m, d: module.reset_data_keyframe(m, d, 0),
}


def mask_of(d: Any, dtype: Any) -> wp.array:
    """The second world; the data keeps it, since a graph refers to it."""
    if not hasattr(d, "mask"):
        d.mask = wp.array([0, 1], dtype=dtype)
    return d.mask


@each_module
@pytest.mark.parametrize("name", list(CAPTURED))
@pytest.mark.parametrize("scene", ["scaling", "humanoid"])
def test_captured_without_a_first_call(module: ModuleType, scene: str, name: str, device: str) -> None:
    """With a model and data as they were made: nothing is left to a call that is not captured. Same bits on the CPU."""
    mjm, function = mjcf.load(scene), CAPTURED[name]
    results = []
    for captured in (True, False):
        m, d = module.put_model(mjm), module.make_data(mjm, nworld=2, **SIZES)
        d.qvel.assign(support.perturbed(mjm, 2, scale=0.3).qvel)
        mask_of(d, wp.int32 if "int" in name else wp.bool)
        if captured:
            with wp.ScopedCapture() as capture:
                function(module, m, d)
            for _ in range(3):
                wp.capture_launch(capture.graph)
        else:
            for _ in range(3):
                function(module, m, d)
        results.append({field: getattr(d, field).numpy() for field in ("time", "qpos", "qvel", "qacc", "sensordata")})
    for field, want in results[1].items():
        if device == "cpu":
            assert support.same_bits(results[0][field], want), field
        else:
            np.testing.assert_allclose(results[0][field], want, atol=1e-3, rtol=1e-3, err_msg=field)
    assert np.abs(results[0]["qvel"][0]).max() > 0.0 or name in ("reset_data", "reset_data_keyframe")


FIRST = """
import sys, warp as wp
from stickslip import mjcf
import {module} as module
mjm = mjcf.load({scene!r})
with wp.ScopedDevice("cuda:0"):
    m, d = module.put_model(mjm), module.make_data(mjm, nworld=2, nconmax=48, njmax=192)
    mask = wp.array([False, True], dtype=bool)
    with wp.ScopedCapture() as capture:
        {call}
    for _ in range(3):
        wp.capture_launch(capture.graph)
    wp.synchronize()
    assert all(map(lambda x: x == x, d.qpos.numpy().ravel()))
"""


@each_module
@pytest.mark.parametrize("call", ["step(m, d)", "forward(m, d)", "reset_data(m, d)", "reset_data(m, d, mask)"])
def test_captured_first_thing_in_a_process(module: ModuleType, call: str, cuda: str) -> None:
    """On CUDA, where kernels are loaded, streams made and memory taken while the first graph is captured."""
    program = FIRST.format(module=module.__name__, scene="humanoid", call=f"module.{call}")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
