"""`stickslip.comfree` in the place of `mujoco_warp`: names, signatures, and a usual script."""

import inspect

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest
import warp as wp

import stickslip as ss
import stickslip.comfree as cf
from stickslip import mjcf
from stickslip.errors import Unsupported
from tests import support

PUBLIC = sorted(name for name in dir(mjw) if not name.startswith("_"))
FUNCTIONS = [name for name in PUBLIC if inspect.isroutine(getattr(mjw, name))]
SIZES = {"nconmax": 48, "njmax": 192}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name: str) -> None:
    assert hasattr(cf, name)
    if inspect.isclass(getattr(mjw, name)):
        assert issubclass(getattr(cf, name), getattr(mjw, name))  # the same class, or one that stands in for it


def test_no_name_is_added() -> None:
    """Besides those of mujoco_warp nothing is public, so that `from ... import *` brings no surprise."""
    assert sorted(name for name in dir(cf) if not name.startswith("_")) == PUBLIC
    assert cf.__version__ == mjw.__version__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_are_the_same(name: str) -> None:
    """Names, kinds and defaults of the parameters; put_model has two more, by keyword only and optional."""
    got = list(inspect.signature(getattr(cf, name)).parameters.values())
    want = list(inspect.signature(getattr(mjw, name)).parameters.values())
    if name == "put_model":
        added = got[len(want) :]
        assert [p.name for p in added] == ["stiffness", "damping"]
        assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in added)
        got = got[: len(want)]
    assert [(p.name, p.kind, p.default) for p in got] == [(p.name, p.kind, p.default) for p in want]


def script(module, mjm: mujoco.MjModel, steps: int, nworld: int, *, put: bool) -> tuple[mujoco.MjData, np.ndarray]:
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


@pytest.mark.parametrize("put", [True, False], ids=["put_data", "make_data"])
@pytest.mark.parametrize("scene", ["scaling", "humanoid", "hand"])
def test_usual_script_runs_with_its_import_changed(scene: str, put: bool, device: str) -> None:
    """The same program with either module; with ComFree's it goes where ss.Simulation goes."""
    mjm = mjcf.load(scene)
    steps, nworld = 60, 2
    stock, _ = script(mjw, mjm, steps, nworld, put=put)
    mjd, qpos = script(cf, mjm, steps, nworld, put=put)
    assert mjd.ncon > 0 and mjd.nefc > 0
    np.testing.assert_allclose(mjd.time, stock.time, rtol=1e-6)
    assert np.abs(mjd.qpos - stock.qpos).max() > 1e-6  # it did not just run MuJoCo's solver
    np.testing.assert_allclose(mjd.qpos, stock.qpos, atol=0.1)

    sim = ss.Simulation(scene, ss.ComFree(), nworld=nworld, device=device)
    sim.step(steps)
    np.testing.assert_allclose(sim.state.time, mjd.time, rtol=1e-5)
    np.testing.assert_allclose(qpos, sim.state.qpos, atol=2e-5)
    np.testing.assert_allclose(mjd.qpos, sim.state.qpos[nworld - 1], atol=2e-5)
    np.testing.assert_allclose(mjd.qvel, sim.state.qvel[nworld - 1], atol=2e-3)


def started(mjm: mujoco.MjModel) -> tuple[cf.Model, cf.Data]:
    """Model and data, two worlds in motion and in contact."""
    m = cf.put_model(mjm)
    d = cf.make_data(mjm, nworld=2, **SIZES)
    cf.reset_data_keyframe(m, d, 0)
    d.qvel.assign(support.perturbed(mjm, 2, scale=0.3).qvel)
    return m, d


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
@pytest.mark.parametrize("scene", ["scaling", "humanoid", "hand"])
def test_step_is_the_sum_of_its_parts(scene: str, integrator: str, device: str) -> None:
    """step = step1 + step2 = forward + euler (or implicit), to single precision, sensors included."""
    mjm = mjcf.load(scene)
    mjm.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    whole, halves, parts = started(mjm), started(mjm), started(mjm)
    integrate = cf.euler if integrator == "Euler" else cf.implicit
    for _ in range(40):
        cf.step(*whole)
        cf.step1(*halves)
        cf.step2(*halves)
        cf.forward(*parts)
        integrate(*parts)
    assert whole[1].nacon.numpy()[0] > 0
    for other in (halves[1], parts[1]):
        for name, atol in (("time", 1e-6), ("qpos", 2e-5), ("qvel", 2e-3), ("act", 1e-6)):
            got, want = getattr(other, name).numpy(), getattr(whole[1], name).numpy()
            np.testing.assert_allclose(got, want, atol=atol, rtol=1e-4, err_msg=name)
        if mjm.nsensordata:
            want = whole[1].sensordata.numpy()
            np.testing.assert_allclose(other.sensordata.numpy(), want, atol=1e-2 * (1 + np.abs(want).max()))


def test_step_is_mujocos_stages_with_comfrees_solve(device: str) -> None:
    """fwd_position, fwd_velocity, fwd_actuation, fwd_acceleration, solve and euler, called one by one."""
    mjm = mjcf.load("scaling")
    (m, d), (m2, d2) = started(mjm), started(mjm)
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


def test_put_model_takes_gains(device: str) -> None:
    """One number or one a world; a stiffer contact sinks in less, and the default is ss.ComFree's."""
    mjm = mjcf.load("scaling")
    assert inspect.signature(cf.put_model).parameters["stiffness"].default == ss.ComFree().stiffness
    assert inspect.signature(cf.put_model).parameters["damping"].default == ss.ComFree().damping
    m = cf.put_model(mjm, stiffness=[0.05, 0.5], damping=0.003)
    d = cf.make_data(mjm, nworld=2, **SIZES)
    for _ in range(200):
        cf.step(m, d)
    nacon = int(d.nacon.numpy()[0])
    worlds, dist = d.contact.worldid.numpy()[:nacon], d.contact.dist.numpy()[:nacon]
    assert -dist[worlds == 0].min() > 2 * -dist[worlds == 1].min() > 0


@pytest.mark.parametrize("name", ["rungekutta4", "inverse", "island", "discrete"])
def test_functions_that_cannot_be_honoured(name: str, device: str) -> None:
    """They raise Unsupported, say which function and what to do, and change nothing."""
    m, d = started(mjcf.load("scaling"))
    before = support.device_arrays(d)
    with pytest.raises(Unsupported, match=f"(?s)comfree does not support.*{name}.*(use|call) "):
        getattr(cf, name)(m, d)
    for field, value in support.device_arrays(d).items():
        assert support.same_bits(value, before[field]), field


@pytest.mark.parametrize("function", ["step", "step1", "forward", "solve"])
@pytest.mark.parametrize(
    "option, value, word",
    [
        ("integrator", mjw.IntegratorType.RK4, "RK4"),
        ("enableflags", mjw.EnableBit.SLEEP, "sleep"),
        ("deterministic", mjw.DeterminismType.ATOMICS, "ATOMICS"),
    ],
)
def test_options_set_later_are_refused(function: str, option: str, value: int, word: str, device: str) -> None:
    """An option that ComFree cannot honour is not silently ignored, wherever it is set."""
    m, d = started(mjcf.load("scaling"))
    setattr(m.opt, option, value)
    before = d.qpos.numpy().copy()
    with pytest.raises(Unsupported, match=word):
        getattr(cf, function)(m, d)
    assert support.same_bits(d.qpos.numpy(), before)
