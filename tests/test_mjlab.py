"""`stickslip.mjlab`: the physics in every place where mjlab calls MuJoCo Warp. mjlab itself is not needed here.

Most tests take `tests/stand_in`, a package with mjlab's layout. `tests/test_mjlab_itself.py` runs mjlab.
"""

import importlib
import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
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
import stickslip.mjlab
from stickslip import mjcf
from stickslip.errors import InputError, MissingExtra, Unsupported
from stickslip.mjlab import backend, versions
from stickslip.mjlab.capture import arrays_of
from tests import support

ROOT = Path(__file__).parents[1]
STAND_IN = Path(__file__).parent / "stand_in"
SIZES = {"nconmax": 48, "njmax": 192}
MODULES = {"cone-sweep": cs, "comfree": cf}
each_physics = pytest.mark.parametrize("name", list(MODULES))
CALLERS = ("sim.sim", "entity.variants", "envs.mdp.actions.differential_ik", "sensor.sensor_context")


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, version: str) -> None:
    """Let a package mjlab of a version be found, without importing it."""
    for name in [name for name in sys.modules if name.split(".")[0] == "mjlab"]:
        monkeypatch.delitem(sys.modules, name)
    info = folder / f"mjlab-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mjlab\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.syspath_prepend(str(STAND_IN))


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    """Tests that compare bits; those with a device take that one."""
    with wp.ScopedDevice("cpu"):
        yield


@pytest.fixture
def mjlab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The stand-in, not imported yet; the function imports one of its modules."""
    install(monkeypatch, tmp_path / "site", "1.6.0")
    yield lambda name: importlib.import_module(f"mjlab.{name}")
    stickslip.mjlab.restore()
    for name in [name for name in sys.modules if name.split(".")[0] == "mjlab"]:
        del sys.modules[name]


def python(code: str) -> str:
    """What a fresh process prints, with the kernels that other tests have built."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(STAND_IN)))}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_importing_it_imports_nothing_else() -> None:
    code = """
import sys
import stickslip
print("stickslip.mjlab" in sys.modules)
import stickslip.mjlab
print(*(name in sys.modules for name in ("mjlab", "torch", "warp", "mujoco_warp")))
"""
    assert python(code).split() == ["False"] * 5


# Places and choices.


@pytest.mark.parametrize("before", [True, False], ids=["mjlab imported before", "after"])
@each_physics
def test_every_place_is_replaced(mjlab: Any, name: str, before: bool, device: str) -> None:
    """Models of simulations and variants are the physics'; Jacobians and render contexts take them."""
    if before:
        for caller in CALLERS:
            mjlab(caller)
    stickslip.mjlab.use(name)
    assert all(mjlab(caller).mjwarp is backend.BACKEND for caller in CALLERS)
    mjm = mjcf.load("humanoid")
    sim = mjlab("sim.sim").Simulation(mjm, 2, graph=False, **SIZES)
    assert isinstance(sim.wp_model, MODULES[name].Model) and isinstance(sim.wp_data, MODULES[name].Data)
    assert isinstance(mjlab("entity.variants").build_variant_model(mjm), MODULES[name].Model)

    jacobians = [wp.zeros((2, 3, mjm.nv), dtype=float) for _ in range(2)]
    place = wp.zeros(2, dtype=wp.vec3), wp.full(2, mjm.nbody - 1, dtype=int)
    mjlab("envs.mdp.actions.differential_ik").jacobian(sim.wp_model, sim.wp_data, *jacobians, *place)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    mujoco.mj_forward(mjm, mjd)
    want = np.zeros((2, 3, mjm.nv))
    mujoco.mj_jac(mjm, mjd, want[0], want[1], np.zeros(3), mjm.nbody - 1)
    for got, true in zip(jacobians, want, strict=True):
        np.testing.assert_allclose(got.numpy()[1], true, atol=1e-5)
    assert isinstance(mjlab("sensor.sensor_context").context_of(mjm, 2), mjw.RenderContext)


def moved(sim: Any, steps: int = 60) -> np.ndarray:
    for _ in range(steps):
        sim.run("step")
    return sim.wp_data.qpos.numpy().copy()


def direct(module: ModuleType, steps: int = 60, **parameters: Any) -> np.ndarray:
    """The same without mjlab."""
    mjm = mjcf.load("scaling")
    mjd = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    mujoco.mj_forward(mjm, mjd)
    m, d = module.put_model(mjm, **parameters), module.put_data(mjm, mjd, nworld=2, **SIZES)
    for _ in range(steps):
        module.step(m, d)
    return d.qpos.numpy()


def test_motion_is_that_of_the_physics_and_its_parameters(mjlab: Any) -> None:
    """As the drop-in module moves it, bit for bit on a CPU; other parameters move it otherwise."""
    mjm = mjcf.load("scaling")
    make = mjlab("sim.sim").Simulation
    found = {}
    for given, module, parameters in (
        ("mujoco", mjw, {}),
        ("comfree", cf, {}),
        ("comfree:impedance=exact", cf, {"impedance": "exact"}),
        ("cone-sweep", cs, {}),
        ("cone-sweep:sweeps=3,restitution=0.5", cs, {"sweeps": 3, "restitution": 0.5}),
    ):
        stickslip.mjlab.use(given)
        assert stickslip.mjlab.current() == given
        found[given] = moved(make(mjm, 2, **SIZES))
        np.testing.assert_array_equal(found[given], direct(module, **parameters), err_msg=given)
    values = list(found.values())
    for i, one in enumerate(values):
        assert all(np.abs(one - other).max() > 1e-6 for other in values[i + 1 :])


def test_three_ways_to_give_parameters(mjlab: Any) -> None:
    mjm = mjcf.load("scaling")
    for physics, given in (
        ("cone-sweep", {"substeps": 4, "slop": 1e-4}),
        ("cone-sweep:substeps=4", {"slop": 1e-4}),
        (ss.ConeSweep(substeps=4, slop=1e-4), {}),
    ):
        used = stickslip.mjlab.use(physics, **given)
        assert used.physics == stickslip.mjlab.current() == "cone-sweep:substeps=4,slop=0.0001"
        settings = mjlab("entity.variants").build_variant_model(mjm).sweep.settings
        assert settings.substeps == 4 and settings.slop == pytest.approx(1e-4)


def test_a_simulation_keeps_its_physics(mjlab: Any) -> None:
    """When another physics is chosen, and after `restore`."""
    mjm = mjcf.load("scaling")
    make = mjlab("sim.sim").Simulation
    sims = {}
    with stickslip.mjlab.use("cone-sweep") as used:
        assert used.physics == "cone-sweep"
        sims[cs] = make(mjm, 2, graph=False, **SIZES)
        with stickslip.mjlab.use("comfree"):
            sims[cf] = make(mjm, 2, graph=False, **SIZES)
        assert stickslip.mjlab.current() == "cone-sweep"
    stickslip.mjlab.use("comfree")
    stickslip.mjlab.restore()
    assert stickslip.mjlab.current() == "mujoco"
    sims[mjw] = make(mjm, 2, graph=False, **SIZES)
    assert type(sims[mjw].wp_model) is mjw.Model and type(sims[mjw].wp_data) is mjw.Data
    for module, sim in sims.items():
        np.testing.assert_array_equal(moved(sim), direct(module))


def test_model_and_data_of_two_physics_are_refused(mjlab: Any) -> None:
    mjm = mjcf.load("scaling")
    stickslip.mjlab.use("cone-sweep")
    m = mjlab("sim.sim").mjwarp.put_model(mjm)
    stickslip.mjlab.use("mujoco")
    d = mjlab("sim.sim").mjwarp.make_data(mjm, nworld=1, **SIZES)
    for function in ("step", "forward", "reset_data"):
        with pytest.raises(InputError, match="model was made with stickslip.conesweep and data with mujoco_warp"):
            getattr(backend.BACKEND, function)(m, d)


@pytest.mark.parametrize(
    "physics, given, error, message",
    [
        ("icf", {}, Unsupported, "icf cannot be mjlab's backend: .* cone-sweep, comfree, mujoco"),
        ("pbd-r", {}, Unsupported, "pbd-r cannot be mjlab's backend"),
        ("conesweep", {}, InputError, "no physics named 'conesweep'; did you mean 'cone-sweep'"),
        ("cone-sweep", {"substep": 3}, InputError, "no parameter of cone-sweep named 'substep'; did you mean"),
        ("cone-sweep", {"substeps": 0}, InputError, "substeps is 0: it must be a whole number from 1 to 1000"),
        ("cone-sweep:substeps=3", {"substeps": 4}, InputError, "'substeps' is given twice"),
        (ss.ConeSweep(), {"substeps": 4}, InputError, r"substeps: .* give them to ConeSweep\(...\)"),
        (ss.Icf(), {}, Unsupported, "icf cannot be mjlab's backend"),
        ("mujoco:anti_creep=true", {}, Unsupported, "cone = 'elliptic' and cfg.sim.mujoco.impratio = 100"),
        (cs, {}, InputError, "physics is a module: give a name, cone-sweep, comfree, mujoco"),
    ],
)
def test_what_cannot_be_used(mjlab: Any, physics: Any, given: dict[str, Any], error: type, message: str) -> None:
    """The message says why and what works; what was in use stays in use."""
    stickslip.mjlab.use("comfree")
    with pytest.raises(error, match=message):
        stickslip.mjlab.use(physics, **given)
    assert stickslip.mjlab.current() == "comfree"


def test_a_model_that_the_physics_cannot_honour_is_refused(mjlab: Any) -> None:
    stickslip.mjlab.use("cone-sweep")
    mjm = mujoco.MjModel.from_xml_string(
        "<mujoco><option integrator='RK4'/><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    with pytest.raises(Unsupported, match="cone-sweep does not support: integrator RK4"):
        mjlab("sim.sim").Simulation(mjm, 1, **SIZES)


# Versions.


def test_without_mjlab_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.metadata.version

    def version(package: str) -> str:
        if package == "mjlab":
            raise importlib.metadata.PackageNotFoundError(package)
        return known(package)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(MissingExtra, match=r"pip install 'stickslip\[mjlab\]' && pip install --no-deps mjlab==1.6.0"):
        stickslip.mjlab.use()


def test_another_version_of_mjlab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An error that names what was tested; taken if asked for."""
    install(monkeypatch, tmp_path / "site", "1.17.2")
    with pytest.raises(Unsupported, match=r"mjlab is 1.17.2: tested are 1.6.*any_version=True"):
        stickslip.mjlab.use()
    stickslip.mjlab.use(any_version=True)
    assert stickslip.mjlab.current() == "cone-sweep"
    stickslip.mjlab.restore()


def test_another_version_of_mujoco_warp(mjlab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip leaves where mjlab was installed with its requirements; `any_version` is of mjlab alone."""
    known = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.11.0" if name == "mujoco-warp" else known(name))
    with pytest.raises(Unsupported, match="mujoco-warp is 3.11.0: stickslip needs 4.0.*--no-deps"):
        stickslip.mjlab.use(any_version=True)


@pytest.mark.parametrize(
    "module, attribute, message",
    [
        ("sensor.sensor_context", "mjwarp", "mjlab.sensor.sensor_context does not import mujoco_warp as a module"),
        ("sim.sim", "Simulation", "mjlab.sim.sim has no Simulation with a method create_graph"),
    ],
)
def test_an_mjlab_of_another_form_is_refused(mjlab: Any, module: str, attribute: str, message: str) -> None:
    delattr(mjlab(module), attribute)
    with pytest.raises(Unsupported, match=message):
        stickslip.mjlab.use(any_version=True)


def test_versions_agree_with_pyproject() -> None:
    assert f'"mujoco-warp=={versions.WARP}.*"' in (ROOT / "pyproject.toml").read_text()
    assert versions._short(versions.INSTALL.rpartition("==")[2]) in versions.TESTED


# Graphs without a first step: tests/test_mjlab_graphs.py has more.


@each_physics
def test_preparing_graphs_leaves_the_data_as_it_is(mjlab: Any, name: str, device: str) -> None:
    """Bit for bit, in motion and in contact; and the graphs step on as without any."""
    stickslip.mjlab.use(name)
    mjm = mjcf.load("hand")
    sims = [mjlab("sim.sim").Simulation(mjm, 2, graph=graph, **SIZES) for graph in (True, False)]
    for sim in sims:
        moved(sim, 20)
    before = {key: array.numpy().copy() for key, array in arrays_of(sims[0].wp_data).items()}
    assert len(before) > 80 and (name == "comfree" or any(key.startswith("memory.") for key in before))
    sims[0].create_graph()
    for key, array in arrays_of(sims[0].wp_data).items():
        assert support.same_bits(array.numpy(), before[key]), key
    atol = 0.0 if device == "cpu" else 2e-5
    np.testing.assert_allclose(moved(sims[0], 20), moved(sims[1], 20), rtol=0, atol=atol)


# What mjlab's randomization and sensors do to a model.


@each_physics
def test_friction_given_to_each_world_acts(mjlab: Any, name: str, device: str) -> None:
    """Dry friction from zero: the array is another one, and graphs are captured again. v = 5 - loss t / I."""
    stickslip.mjlab.use(name)
    mjm = mujoco.MjModel.from_xml_string(
        "<mujoco><option timestep='.002' gravity='0 0 0'/><worldbody><body><joint axis='0 1 0'/>"
        "<geom type='capsule' size='.02' fromto='0 0 0 .2 0 0' mass='.1'/></body></worldbody></mujoco>"
    )
    sim = mjlab("sim.sim").Simulation(mjm, 3, **SIZES)
    sim.replace("dof_frictionloss", 3).assign(np.array([[0.0], [0.02], [0.05]], dtype=np.float32))
    sim.wp_data.qvel.fill_(5.0)
    moved(sim, 1000)
    np.testing.assert_allclose(sim.wp_data.qvel.numpy()[:, 0], [5.0, 0.0, 0.0], atol=2e-3)


@pytest.mark.parametrize("name", ["mujoco", *MODULES])
def test_contact_sensors_count_what_touches(mjlab: Any, name: str, device: str) -> None:
    """A box 0.3 mm above the floor does not touch it, one that lies on it does; `found` of mjlab is this sensor."""
    stickslip.mjlab.use(name)
    mjm = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><geom type='plane' size='1 1 .1' name='floor'/><body pos='0 0 .1003'><freejoint/>"
        "<geom type='box' size='.1 .1 .1' name='box'/></body></worldbody>"
        "<sensor><contact geom1='box' geom2='floor' num='4' reduce='none' data='found force'/></sensor></mujoco>"
    )
    sim = mjlab("sim.sim").Simulation(mjm, 1, **SIZES)
    sim.run("forward")
    assert not sim.wp_data.sensordata.numpy().any()
    moved(sim, 500)
    found = sim.wp_data.sensordata.numpy()[0].reshape(4, 4)
    assert (found[:, 0] > 0).sum() == 4
    np.testing.assert_allclose(found[:, 1].sum(), mjm.body_mass[1] * 9.81, rtol=1e-2)


# Meshes that differ between worlds.

CUBE = "-1 -1 -1 1 -1 -1 -1 1 -1 1 1 -1 -1 -1 1 1 -1 1 -1 1 1 1 1 1"
WEDGE = "-1 -1 -.4 1 -1 -.4 -1 1 -.4 1 1 -.4 -1 0 .8 1 0 .8"
MESHES = {"cube": CUBE, "wedge": WEDGE}
OF_MESH = (
    "geom_size geom_rbound geom_aabb geom_pos geom_quat body_mass body_subtreemass body_inertia body_invweight0 "
    "body_ipos body_iquat"
).split()
"""What depends on the mesh of a body."""


def with_mesh(name: str) -> mujoco.MjModel:
    """A body of one of the meshes that falls on a box on a slope; the model has them all."""
    assets = "".join(f"<mesh name='{key}' vertex='{v}' scale='.05 .04 .03'/>" for key, v in MESHES.items())
    return mujoco.MjModel.from_xml_string(
        f"<mujoco><option timestep='.004'/><asset>{assets}</asset><worldbody>"
        "<geom type='box' size='.5 .5 .05' euler='8 0 0' pos='0 0 -.05'/>"
        "<geom type='plane' size='2 2 .1' pos='0 0 -.2'/>"
        f"<body pos='0 0 .1' euler='10 5 0'><freejoint/><geom type='mesh' mesh='{name}' friction='.6'/></body>"
        "</worldbody></mujoco>"
    )


@pytest.mark.parametrize("name", ["mujoco", *MODULES])
def test_meshes_of_each_world(mjlab: Any, name: str, device: str) -> None:
    """World by world as a model that has this mesh alone; the last world has no mesh and falls through."""
    stickslip.mjlab.use(name)
    models = [with_mesh(mesh) for mesh in MESHES]
    alone = [mjlab("sim.sim").Simulation(mjm, 1, **SIZES) for mjm in models]
    sim = mjlab("sim.sim").Simulation(models[0], 3, graph=False, **SIZES)
    own = [models[0], models[1], models[0]]
    dataid = np.stack([mjm.geom_dataid for mjm in own])
    dataid[2, 2] = -1
    m = sim.wp_model
    m.geom_dataid = wp.array(dataid, dtype=int)
    for field in OF_MESH:
        like = getattr(m, field)
        values = np.stack([getattr(mjm, field) for mjm in own]).astype(np.float32)
        setattr(m, field, wp.array(values.reshape(3, *like.numpy().shape[1:]), dtype=like.dtype))
    start = np.stack([mujoco.MjData(mjm).qpos for mjm in own])
    for one, qpos in zip((sim, *alone), (start, start[:1], start[1:2]), strict=True):
        one.wp_data.qpos.assign(qpos.astype(np.float32))
    sim.use_cuda_graph = True
    sim.create_graph()
    got = moved(sim, 150)
    for world, one in enumerate(alone):
        np.testing.assert_allclose(got[world], moved(one, 150)[0], rtol=0, atol=1e-5 if device == "cpu" else 1e-3)
    assert np.abs(got[0] - got[1]).max() > 5e-3  # they differ
    assert (got[:2, 2] > 0.0).all() and got[2, 2] < -1.0
