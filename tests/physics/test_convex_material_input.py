"""Contact parameters per world, with the convex step: bad values, writing in place, random ones, launches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from tests import support
from tests.physics.test_convex_material import BOTH, NAMES, SOFT, materials, scene_of


def values(sim: ss.Simulation) -> dict[str, np.ndarray]:
    names = (*NAMES, "stiction")
    return {name: sim.physics.model_field(sim.m, name).numpy().copy() for name in names}


BAD = {
    "a shape": ({"geom_stiffness": [1.0, 2.0]}, ["geom_stiffness", "(2,)", "(3, 4)", "(4,)"]),
    "one number": ({"geom_dissipation": 3.0}, ["geom_dissipation", "()", "(4,)"]),
    "not a number": ({"geom_static_friction": [0.0, np.nan, 0.0, 0.0]}, ["geom_static_friction[1]", "nan", "finite"]),
    "below 0": ({"geom_stiffness": [0.0, 1.0, -3.0, 1.0]}, ["geom_stiffness[2] is -3", "from 0 to 1e+15", "solref"]),
    "of a world": ({"geom_dissipation": [[1.0] * 4, [1.0, -0.5, 1.0, 1.0], [1.0] * 4]}, ["[1, 1] is -0.5", "or -1"]),
    "too much": ({"geom_dissipation": [0.0, 2e6, 0.0, 0.0]}, ["geom_dissipation[1] is 2e+06", "from 0 to 1e+06"]),
    "friction": ({"geom_static_friction": [0.0, -0.1, 0.0, 0.0]}, ["geom_static_friction[1] is -0.1", "from 0"]),
    "stiction": ({"stiction": [1e-3, 0.0, 1e-3]}, ["stiction[1] is 0", "above 0 up to 1"]),
    "soft to rigid": ({"geom_hydroelastic": [0.0, 0.0, 1e6, 0.0]}, ["geom_hydroelastic[1] is 0", "above 0", "build"]),
    "rigid to soft": ({"geom_hydroelastic": [1e6, 1e6, 1e6, 0.0]}, ["geom_hydroelastic[0] is 1e+06", "must be 0;"]),
    "a name": ({"geom_stifness": [1.0] * 4}, ["geom_stifness", "geom_stiffness"]),
    "of the physics": ({"stiffness": 1e4}, ["stiffness", "geom_stiffness"]),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", BAD)
def test_bad_values_leave_everything(case: str, threads: int) -> None:
    """Also a good value that is given together with a bad one."""
    fields, words = BAD[case]
    sim = ss.Simulation(scene_of(None, True), ss.Icf(), nworld=3, device="cpu", threads=threads)
    sim.step(3)
    before, state, captured = values(sim), sim.state, sim.physics.captured(sim._m)
    with pytest.raises(ss.InputError) as error:
        sim.set_model(geom_friction=2.0 * sim.mjm.geom_friction, **fields)
    assert all(word in str(error.value) for word in words), error.value
    assert sim.physics.captured(sim._m) == captured
    for name, value in values(sim).items():
        assert support.same_bits(value, before[name]), name
    support.assert_same(sim.state, state, "cpu")


def test_a_modulus_needs_patches(device: str) -> None:
    sim = ss.Simulation(scene_of(None, False), ss.Icf(), device=device)
    with pytest.raises(ss.InputError, match="geom_hydroelastic: no two geoms touch in patches; .* modulus"):
        sim.set_model(geom_hydroelastic=SOFT)


UNFIT: dict[str, Callable[[np.ndarray], None]] = {
    "geom_stiffness": lambda v: v.__setitem__((1, 2), -1.0),  # which only a dissipation may be
    "geom_dissipation": lambda v: v.__setitem__((1, 2), -0.5),
    "geom_static_friction": lambda v: v.__setitem__((1, 2), np.nan),
    "geom_hydroelastic": lambda v: v.__setitem__((1, 0), 1e6),
    "stiction": lambda v: v.__setitem__(1, 0.0),
}


@pytest.mark.parametrize("library", ["warp", "torch"])
@pytest.mark.parametrize("name", UNFIT)
def test_a_world_with_an_unfit_value_on_the_device_keeps_its_own(name: str, library: str, device: str) -> None:
    if library == "torch" and device == "cpu":
        pytest.skip("on the CPU, arrays of other libraries are on the host")
    sim = ss.Simulation(scene_of(None, True), ss.Icf(), nworld=3, device=device)
    before, given = values(sim), materials(True)
    UNFIT[name](given[name])
    on_device = {key: support.made(library, value.astype(np.float32), device) for key, value in given.items()}
    sim.set_model(**on_device)
    for key, found in values(sim).items():
        np.testing.assert_array_equal(found[[0, 2]], given[key][[0, 2]].astype(np.float32), err_msg=key)
        np.testing.assert_array_equal(found[1], before[key][0], err_msg=key)
    assert any("given 1 times" in message for message in sim.health().messages)


@BOTH
def test_values_are_written_in_place(physics: type[ss.Icf] | type[ss.Cenic], device: str) -> None:
    """A captured step goes on with them, only worlds of the mask change, and a graph of the caller's can write them."""
    given = materials(True)
    sims = [ss.Simulation(scene_of(None, True), physics(), nworld=3, device=device) for _ in range(2)]
    sim, other = sims
    for each in sims:
        each.set_model(**{name: wp.array(value, dtype=float, device=device) for name, value in given.items()})
        each.step(20)
    captured, arrays = sim.physics.captured(sim._m), [sim.physics.model_field(sim._m, name) for name in given]
    new = {name: wp.array(value[::-1].copy(), dtype=float, device=device) for name, value in given.items()}
    mask = wp.array([True, False, False], dtype=bool, device=device)
    with wp.ScopedDevice(device), wp.ScopedCapture(device) as graph:
        sim.set_model(mask, **new)
    wp.capture_launch(graph.graph)
    for each, fields in ((sim, {}), (other, {name: value[::-1] for name, value in given.items()})):
        if fields:
            each.set_model(np.array([True, False, False]), **fields)
        each.step(40)
    assert sim.physics.captured(sim._m) == captured
    assert all(sim.physics.model_field(sim._m, name) is array for name, array in zip(given, arrays, strict=True))
    support.assert_same(sim.state, other.state, device)
    same = run_on(scene_of(None, True), physics(), given, device)
    for world in (1, 2):
        support.assert_same(sim.get_state(worlds=[world]), same.get_state(worlds=[world]), device)
    assert not np.allclose(sim.state.qpos[0], same.state.qpos[0], atol=1e-5)


def run_on(scene: str, physics: ss.Physics, fields: dict[str, np.ndarray], device: str) -> ss.Simulation:
    """The same steps without a change on the way."""
    sim = ss.Simulation(scene, physics, nworld=3, device=device)
    sim.set_model(**fields)
    sim.step(60)
    return sim


def test_random_materials(device: str) -> None:
    """Between the bounds; without a value of its own a geom stays as it is when that is scaled."""
    sim = ss.Simulation(scene_of(0, True), ss.Icf(), nworld=50, device=device)
    before = values(sim)
    sim.randomize(
        geom_stiffness=ss.Scale(0.5, 2.0), stiction=ss.Uniform(1e-5, 1e-3), geom_hydroelastic=ss.Scale(0.1, 9)
    )
    for name, low, high in (("geom_stiffness", 0.5, 2.0), ("geom_hydroelastic", 0.1, 9.0)):
        own, drawn = before[name][0], values(sim)[name]
        assert (drawn >= 0.999 * low * own).all() and (drawn <= 1.001 * high * own).all()
        assert len(np.unique(drawn[:, 1])) > 40 and (drawn[:, own == 0.0] == 0.0).all()
    stiction = values(sim)["stiction"]
    assert stiction.min() >= 1e-5 and stiction.max() <= 1e-3 and np.ptp(stiction) > 5e-4
    with pytest.raises(ss.InputError, match=r"geom_dissipation\[0\] is -2.*change low or high"):
        sim.randomize(geom_dissipation=ss.Scale(0.5, 2.0))  # of -1, which stands for none


# What a step launches


def launches(sim: ss.Simulation, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels of a step, in order."""
    names: list[str] = []
    launch = wp.launch

    def noted(*args: Any, **kwargs: Any) -> Any:
        names.append((args[0] if args else kwargs["kernel"]).key)
        return launch(*args, **kwargs)

    with monkeypatch.context() as patch, wp.ScopedDevice(sim.device):
        patch.setattr(wp, "launch", noted)
        sim.physics.step(sim._m, sim.d)
    return names


@pytest.mark.parametrize("patches", [False, True], ids=["points", "patches"])
def test_a_step_launches_the_same_kernels(patches: bool, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = ss.Simulation(scene_of(0, patches), ss.Icf(), nworld=3, device=device)
    sim.step()
    before = launches(sim, monkeypatch)
    sim.set_model(**materials(patches))
    sim.step()
    assert len(before) > 20 and launches(sim, monkeypatch) == before
