"""Threads of the CPU that share the worlds: no result depends on how many there are."""

import dataclasses
import pathlib
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.errors import HealthWarning
from stickslip.physics.mjwarp import sizes
from tests import support
from tests.support import XML
from tests.test_simulation_buffers import HEAP

N = 5
THREADS = (1, 2, 3)
SOME = np.array([True, False, False, True, True])
"""Worlds of both threads of two, and of the first and last of three."""
NO_DELAY = re.sub(r'delay="[^"]*" nsample="[^"]*"', "", XML)
BALLS = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="5 5 .1" name="floor"/>
    <body pos="0 0 .12" name="trunk"><freejoint/><geom size=".1" name="ball"/></body>
    <body pos=".3 0 .3"><freejoint/><geom size=".1"/></body>
  </worldbody>
  <keyframe><key name="low" qpos="0 0 .1 1 0 0 0 .3 0 .2 1 0 0 0"/></keyframe>
</mujoco>
"""
SENSOR = '<sensor><framepos objtype="body" objname="trunk" name="where"/></sensor>'
KINDS = support.COMPILED_BY_WARP


def model_of(name: str) -> str:
    """A model that the physics takes."""
    if name in support.FREE_BODIES_ONLY:
        return BALLS
    xml = NO_DELAY if name in ("icf", "cenic") else XML
    return xml.replace("</mujoco>", SENSOR + "</mujoco>")


def simulation(name: str, threads: int, **options: Any) -> ss.Simulation:
    return ss.Simulation(model_of(name), ss.PHYSICS[name](), nworld=N, device="cpu", threads=threads, **options)


@pytest.fixture(scope="module", params=KINDS)
def shared(request: pytest.FixtureRequest) -> list[ss.Simulation]:
    return [simulation(request.param, threads) for threads in THREADS]


@pytest.fixture
def sims(shared: list[ss.Simulation]) -> list[ss.Simulation]:
    """Simulations that differ in nothing but their threads, in motion and in touch with the floor."""
    for sim in shared:
        sim.reset()
        sim.set_model(geom_friction=sim.mjm.geom_friction, body_mass=sim.mjm.body_mass)
        move(sim)
    return shared


def move(sim: ss.Simulation, n: int = 12, seed: int = 0) -> None:
    """Other inputs for each world, and some steps."""
    rng = np.random.default_rng(seed)
    sim.ctrl = rng.normal(0.0, 1.0, (N, sim.mjm.nu))
    sim.qvel = rng.normal(0.0, 0.3, (N, sim.mjm.nv))
    sim.qfrc_applied = rng.normal(0.0, 0.1, (N, sim.mjm.nv))
    sim.step(n)


def arrays(value: Any) -> dict[str, np.ndarray]:
    """All arrays of a dataclass, by name."""
    found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    memory = found.pop("memory", {})
    return {name: np.asarray(array) for name, array in {**found, **memory}.items() if isinstance(array, np.ndarray)}


def assert_equal(one: Any, two: Any) -> None:
    """Bit for bit."""
    first, second = arrays(one), arrays(two)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert support.same_bits(array, second[name]), name


def assert_alike(sims: list[ss.Simulation], read: Callable[[ss.Simulation], Any]) -> None:
    """What is read is the same in all simulations."""
    first, *others = (read(sim) for sim in sims)
    for other in others:
        if dataclasses.is_dataclass(first):
            assert_equal(first, other)
        else:
            assert support.same_bits(first, other)


def contacts(sim: ss.Simulation) -> Any:
    """Those of each world in their order; MuJoCo Warp finds pairs of one kind after another, over all worlds."""
    found = sim.contacts()
    order = np.argsort(found.world, kind="stable")
    return dataclasses.replace(found, **{name: array[order] for name, array in arrays(found).items()})


def parts(sim: ss.Simulation) -> ss.State:
    """The state without the memory, which may lie in memory in another order."""
    return dataclasses.replace(sim.state, memory={})


def all_alike(sims: list[ss.Simulation]) -> None:
    """The state, now and later, and so the memory."""
    assert_alike(sims, parts)
    for sim in sims:
        sim.step(6)
    assert_alike(sims, parts)


def test_steps(sims: list[ss.Simulation]) -> None:
    all_alike(sims)
    for sim in sims:
        for n in (1, 3, 0, 2):
            sim.step(n, check=n == 3)
    all_alike(sims)
    assert len(np.unique(sims[0].qpos.numpy(), axis=0)) == N


@pytest.mark.parametrize("on_device", [False, True])
def test_resets(sims: list[ss.Simulation], on_device: bool) -> None:
    for sim in sims:
        before = sim.state
        sim.reset(wp.array(SOME, dtype=bool, device="cpu") if on_device else SOME)
        assert_equal(sim.state[~SOME].without_memory(), before[~SOME].without_memory())
        assert (sim.state.time[SOME] == 0.0).all() and (sim.state.time[~SOME] > 0.0).all()
    all_alike(sims)
    for sim in sims:
        sim.reset(~SOME, keyframe="low")
    all_alike(sims)
    for sim in sims:
        sim.reset()
    all_alike(sims)


def test_fields_of_the_model(sims: list[ss.Simulation]) -> None:
    rng = np.random.default_rng(1)
    mass = sims[0].mjm.body_mass * rng.uniform(0.5, 2.0, (N, sims[0].mjm.nbody))
    friction = 0.5 * sims[0].mjm.geom_friction
    for sim in sims:
        sim.set_model(SOME, body_mass=mass)
        sim.set_model(geom_friction=wp.array(np.tile(friction, (N, 1, 1)), dtype=float, device="cpu"))
    all_alike(sims)
    for sim in sims:
        sim.set_model(wp.array(~SOME, dtype=bool, device="cpu"), body_mass=sim.mjm.body_mass, geom_friction=friction)
    all_alike(sims)


def test_random_fields(sims: list[ss.Simulation]) -> None:
    for mask in (None, SOME, ~SOME):
        for sim in sims:
            sim.randomize(mask, seed=2, body_mass=ss.Scale(0.5, 2.0), geom_friction=ss.Scale(0.5, 1.5))
        all_alike(sims)
    for sim in sims:
        sim.set_model(body_inertia=sim.mjm.body_inertia)


def test_unfit_fields_are_counted_alike(sims: list[ss.Simulation]) -> None:
    mass = np.tile(sims[0].mjm.body_mass, (N, 1))
    mass[1, 1], mass[4, 1] = np.nan, -1.0
    for sim in sims:
        sim.set_model(body_mass=wp.array(mass, dtype=float, device="cpu"))
        assert any("given 2 times" in message for message in sim.health().messages), sim.health()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        all_alike(sims)


def test_states_move_between_them(sims: list[ss.Simulation], tmp_path: pathlib.Path) -> None:
    """A state continues bit for bit with any number of threads, from memory and from a file, and back."""
    start = [sim.state for sim in sims]
    for sim in sims:
        sim.step(10)
    end = parts(sims[0])
    for source, state in enumerate(start):
        state.save(tmp_path / "state.npz")
        for target in sims:
            for given in (state, ss.State.load(tmp_path / "state.npz")):
                target.step(2)
                target.state = given
                target.step(4)
                back = target.state
                target.step()
                target.state = back
                target.step(6)
                assert_equal(parts(target), end)
            if target is sims[source]:
                target.reset(state=target.get_state(device=True))


def test_states_of_some_worlds(sims: list[ss.Simulation]) -> None:
    """They go to worlds of other threads, by number and by mask."""
    saved = sims[1].state
    for sim in sims:
        sim.step(3)
        sim.set_state(saved[[0, 3]], worlds=[4, 1])
    all_alike(sims)
    for sim in sims:
        sim.reset(SOME, state=saved)
    all_alike(sims)
    for sim in sims:
        sim.reset(SOME, state=saved[2])
    all_alike(sims)
    for sim in sims:
        one = sim.get_state(worlds=4)
        assert one.nworld == 1
        sim.state = one
        sim.step(3)
        qpos = sim.qpos.numpy()
        assert (qpos == qpos[4]).all()


def test_contacts_and_health(sims: list[ss.Simulation]) -> None:
    assert sims[0].contacts().world.size
    assert_alike(sims, contacts)
    assert len({sim.contact_count() for sim in sims}) == 1
    for sim in sims:
        assert sim.health().ok, sim.health()
    assert len({sim.health().nefc_peak for sim in sims}) == 1


def test_worlds_that_are_not_finite_have_their_numbers(sims: list[ss.Simulation]) -> None:
    for sim in sims:
        sim.qpos.numpy()[[1, 4], 0] = np.nan
        assert sim.health().nan_worlds == (1, 4)
        sim.reset(np.isin(np.arange(N), (1, 4)))
        assert sim.health().nan_worlds == ()
    all_alike(sims)


def test_a_checked_step_is_undone(sims: list[ss.Simulation]) -> None:
    for sim in sims:
        before = parts(sim)
        sim.qvel = wp.full((N, sim.mjm.nv), np.nan, dtype=float, device="cpu")
        with pytest.raises(ss.Diverged):
            sim.step(3, check=True)
        assert_equal(parts(sim), before)
    all_alike(sims)


def test_forward_and_views(sims: list[ss.Simulation]) -> None:
    """Views of what was computed, which are shown from when they are asked for."""
    for sim in sims:
        sim.body("trunk").xpos  # noqa: B018
    for sim in sims:
        move(sim, 3, seed=1)
    assert_alike(sims, lambda sim: sim.body("trunk").xpos.numpy())
    for sim in sims:
        qpos = sim.qpos.numpy().copy()
        qpos[:, 2] += np.arange(N)
        sim.qpos = qpos
        sim.forward()
        np.testing.assert_allclose(sim.body("trunk").xpos.numpy()[:, 2], qpos[:, 2], rtol=1e-5)
    assert_alike(sims, lambda sim: sim.body("trunk").xpos.numpy())
    if sims[0].mjm.nsensor:
        assert_alike(sims, lambda sim: sim.sensor("where").numpy())
        assert_alike(sims, lambda sim: sim.sensordata.numpy())
    assert_alike(sims, lambda sim: sim.time.numpy())
    all_alike(sims)


def test_writing_through_a_view(sims: list[ss.Simulation]) -> None:
    """The arrays of all worlds stay the same objects, and threads read what is written there."""
    for sim in sims:
        qpos, qvel = sim.qpos, sim.qvel.numpy()
        qvel[3, 0] += 0.5
        sim.step()
        assert sim.qpos is qpos
    all_alike(sims)


@pytest.mark.parametrize("scene", ["scaling", "humanoid"])
def test_mujoco_sums_in_one_order(scene: str) -> None:
    """MuJoCo Warp's sparse Newton solver orders a sum by the number of worlds, unless it is told not to."""
    physics = ss.PHYSICS["mujoco"]()
    runs = [support.perturbed_simulation(scene, physics, "cpu", n, threads=t) for n, t in ((5, 1), (5, 2), (1, 1))]
    for sim in runs:
        sim.step(55)
    assert_equal(parts(runs[1]), parts(runs[0]))
    assert_equal(parts(runs[2]), dataclasses.replace(runs[0].get_state(worlds=0), memory={}))


@pytest.mark.parametrize("name", ["mujoco", "comfree", "cone-sweep", "cenic"])
def test_buffers_grow(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread enlarges its own; the motion is that of large buffers from the start."""
    monkeypatch.setattr(sizes, "default_sizes", lambda _mjm: (2, 4))
    small = [ss.Simulation(HEAP, ss.PHYSICS[name](), nworld=N, device="cpu", threads=threads) for threads in THREADS]
    roomy = ss.Simulation(HEAP, ss.PHYSICS[name](), nworld=N, device="cpu", threads=2, nconmax=400, njmax=2000)
    sims = [roomy, *small]
    velocity = np.random.default_rng(0).normal(0.0, 0.2, (N, roomy.mjm.nv))
    for sim in sims:
        sim.qvel = velocity
        view = sim.qpos
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HealthWarning)
            for n in (10, 30, 20):
                sim.step(n)
        assert sim.qpos is view and sim.health().ok
    assert_alike(sims, parts)
    assert_alike(sims, contacts)
    for sim in small:
        sim.reset(SOME, state=roomy.state)
    roomy.reset(SOME, state=roomy.state)
    all_alike(sims)


def test_growth_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "default_sizes", lambda _mjm: (2, 4))
    sim = ss.Simulation(HEAP, nworld=3, device="cpu", threads=2)
    with pytest.warns(HealthWarning, match="larger ones"):
        sim.step(60)


def test_more_threads_than_worlds() -> None:
    sim, one = (ss.Simulation(XML, nworld=2, device="cpu", threads=threads) for threads in (7, 1))
    for each in (sim, one):
        each.step(5)
    assert_equal(parts(sim), parts(one))


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2", None])
def test_numbers_of_threads_that_are_none(threads: Any) -> None:
    with pytest.raises(ss.InputError, match=r"threads is .*: it must be a whole number, at least 1"):
        ss.Simulation(XML, nworld=2, device="cpu", threads=threads)


def test_threads_are_of_the_cpu(cuda: str) -> None:
    with pytest.raises(ss.InputError, match=r"threads is 2: .*on cuda:0 leave it at 1"):
        ss.Simulation(XML, nworld=2, device=cuda, threads=2)


def test_a_physics_that_uses_all_cores() -> None:
    pytest.importorskip("jax")
    with pytest.raises(ss.Unsupported, match=r"scm .*leave threads at 1"):
        ss.Simulation("scaling", ss.PHYSICS["scm"](), nworld=2, device="cpu", threads=2)


def test_a_checked_step_tells_of_its_own_overflow() -> None:
    """What an earlier step dropped is not told of a later one, and not forgotten."""
    said = []
    for threads in (1, 2):
        sim = ss.Simulation(HEAP, nworld=4, device="cpu", threads=threads, nconmax=2, njmax=8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HealthWarning)
            sim.step(60)
            said.append(sim.health().overflow)
            qpos = sim.qpos.numpy().copy()
            qpos[:, 2::7] += 5.0 * np.arange(1, 5)  # all in the air
            sim.qpos = qpos
            sim.step(check=True)
            said.append(sim.health().overflow)
    assert all(one and one == said[0] for one in said), said


def test_bad_fields_leave_everything(sims: list[ss.Simulation]) -> None:
    """A value of a world of the last thread too: the first one has not written yet."""
    mass, friction = 2.0 * np.tile(sims[0].mjm.body_mass, (N, 1)), 2.0 * np.tile(sims[0].mjm.geom_friction, (N, 1, 1))
    friction[4, 0, 0] = np.nan
    negative = mass.copy()
    negative[4, 1] = -1.0
    for sim in sims:
        with pytest.raises(ss.InputError, match=r"geom_friction\[4, 0, 0\] is nan"):
            sim.set_model(body_mass=mass, geom_friction=friction)
        with pytest.raises(ss.InputError, match="body_mass"):
            sim.set_model(body_mass=negative)
        for fields, words in (
            ({"body_mass": np.ones((N + 1, 2))}, "body_mass has shape"),
            ({"body_mas": 1.0}, "body_mass"),
            ({"body_mass": np.full((N, sim.mjm.nbody), -1.0)}, "body_mass"),
        ):
            with pytest.raises(ss.InputError, match=words):
                sim.set_model(**fields)
    all_alike(sims)
