"""Simulation: what it refuses, what it leaves alone, and what each world may have of its own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip import capacity
from stickslip.errors import InputError
from tests import support

ROOT = Path(__file__).parents[1]


def cube(physics: ss.Physics | None = None, **options: object) -> ss.Simulation:
    return ss.Simulation("sliding-cube", physics, device="cpu", **options)


@pytest.mark.parametrize("name, close", [("control", "ctrl"), ("q_pos", "qpos"), ("states", "state"), ("anything", "")])
def test_an_attribute_that_does_not_exist_cannot_be_assigned(name: str, close: str) -> None:
    """`sim.control = x` would change nothing; the error names what was meant."""
    sim = cube()
    with pytest.raises(AttributeError, match=f"no attribute of Simulation named {name!r}.*{close}"):
        setattr(sim, name, np.zeros(1))
    assert not hasattr(sim, name)
    sim.m = sim.m  # as set_clouds of scm asks for


@pytest.mark.parametrize("name", ["qpos", "qvel", "xfrc_applied"])
def test_complex_numbers_are_refused(name: str) -> None:
    sim = cube()
    before = getattr(sim, name).numpy().copy()
    with pytest.raises(InputError, match=f"{name} must be numbers.*complex"):
        setattr(sim, name, before.astype(complex))
    with pytest.raises(InputError, match="body_mass must be numbers.*complex"):
        sim.set_model(body_mass=sim.mjm.body_mass.astype(complex))
    np.testing.assert_array_equal(getattr(sim, name).numpy(), before)


@pytest.mark.parametrize("name", ["body_mass", "body_inertia"])
@pytest.mark.parametrize("value", [0.0, 1e-20])
def test_a_moving_body_without_mass_is_refused(name: str, value: float) -> None:
    """In one world of two; the message names body, value and limit, and the model stays. The world body has no mass."""
    sim = cube(nworld=2)
    before, body = getattr(sim.m, name), int(np.flatnonzero(sim.mjm.body_dofnum)[0])
    wrong = np.repeat(getattr(sim.mjm, name)[None], 2, axis=0)
    wrong[1, body] = value
    with pytest.raises(InputError, match=f"{name} of body {body} is {value:g}: a moving body needs at least 1e-15"):
        sim.set_model(**{name: wrong})
    assert getattr(sim.m, name) is before
    sim.set_model(**{name: 2.0 * getattr(sim.mjm, name)})
    assert getattr(sim.mjm, name)[0].sum() == 0.0


def test_a_body_may_have_its_mass_in_one_that_is_welded_to_it() -> None:
    """As in MuJoCo, where a frame without mass may carry a body that has some."""
    text = """<mujoco><worldbody><body name="frame"><freejoint/><body name="load" pos="0 0 .1">
      <geom size=".1"/></body></body></worldbody></mujoco>"""
    sim = ss.Simulation(text, ss.MuJoCo(), device="cpu")
    assert sim.mjm.body("frame").mass == 0.0
    sim.set_model(body_mass=2.0 * sim.mjm.body_mass)
    with pytest.raises(InputError, match="body_mass of body 1 is 0"):
        sim.set_model(body_mass=0.0 * sim.mjm.body_mass)


def test_more_worlds_than_fit_into_memory() -> None:
    """nworld, the memory and a number that fits; and that number is accepted."""
    with pytest.raises(InputError, match="nworld is 1000000000: .*enough for about [0-9]+ worlds.*smaller nworld"):
        cube(nworld=10**9)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Failed to allocate 256000000 bytes on device 'cpu'"),
        ValueError("Array shapes must not exceed the maximum"),
        MemoryError(),
    ],
)
def test_a_failed_allocation_names_nworld(error: Exception) -> None:
    def make(nworld: int) -> list[wp.array]:
        if nworld > 1:
            raise error
        return [wp.zeros(1000, dtype=float, device="cpu")]

    device = wp.get_device("cpu")
    with pytest.raises(InputError, match="nworld is 7: .*smaller nworld"):
        capacity.allocate(make, 7, device, least=1)
    with pytest.raises(InputError, match=r"a world takes 0.004 MB.*enough for about ([0-9]+) worlds.*smaller nworld"):
        capacity.allocate(make, 10**12, device, least=1)


def test_other_errors_of_an_allocation_are_left_alone() -> None:
    def make(nworld: int) -> None:
        raise ValueError("something else")

    with pytest.raises(ValueError, match="^something else$"):
        capacity.allocate(make, 7, wp.get_device("cpu"), least=1)


@pytest.mark.parametrize("name", support.COMPILED_BY_WARP)
def test_the_size_of_a_jacobian_that_is_not_there_is_not_computed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo Warp's default loops over all pairs of geoms in Python: 40 s for 1000 bodies."""
    from mujoco_warp._src import io

    def fail(*_args: object) -> int:
        raise AssertionError("njmax_nnz was computed")

    monkeypatch.setattr(io, "_default_njmax_nnz", fail)
    bodies = "".join(
        f'<body pos="{0.3 * i} 0 .2"><freejoint/><geom type="box" size=".1 .1 .1"/></body>' for i in range(12)
    )
    text = f'<mujoco><option jacobian="sparse"/><worldbody>{bodies}</worldbody></mujoco>'
    if name == "mujoco":
        with pytest.raises(AssertionError):  # it has a Jacobian
            ss.Simulation(text, ss.MuJoCo(), device="cpu")
    else:
        ss.Simulation(text, ss.PHYSICS[name](), device="cpu")


def test_reading_the_state_copies_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is finite is found on the device."""
    sim = cube(nworld=3)
    copied = []
    original = wp.array.numpy

    def numpy(array: wp.array) -> np.ndarray:
        copied.append(array.ptr)
        return original(array)

    monkeypatch.setattr(wp.array, "numpy", numpy)
    _ = sim.state
    for name in ("qpos", "qvel"):
        assert copied.count(getattr(sim, name).ptr) <= 1, name


def test_comfree_gains_of_every_world(device: str) -> None:
    """stiffness and damping may differ between worlds: each world as a simulation with its own."""
    stiffness, damping = (0.1, 0.4), (0.001, 0.004)
    sim = ss.Simulation("scaling", ss.ComFree(stiffness, damping), nworld=2, device=device)
    sim.step(60)
    for w in range(2):
        alone = ss.Simulation("scaling", ss.ComFree(stiffness[w], damping[w]), device=device)
        alone.step(60)
        np.testing.assert_allclose(sim.state.qpos[w], alone.state.qpos[0], atol=2e-5)
    assert np.abs(sim.state.qpos[0] - sim.state.qpos[1]).max() > 1e-4


def test_import_is_light() -> None:
    """`import stickslip` loads nothing heavy."""
    heavy = "{'warp', 'mujoco', 'mujoco_warp', 'numpy', 'jax', 'torch'}"
    code = f"import sys, stickslip; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
