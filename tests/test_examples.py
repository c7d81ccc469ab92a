"""The examples: those of `Scm` in a small form, with their claims about gradients and parameters."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import stickslip as ss
from stickslip.errors import MissingExtra

EXAMPLES = Path(__file__).parent.parent / "examples"
POINTS = 10


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


push, identify = example("push_t_gradient"), example("identify")
GUESS = np.tile(push.START, (push.WAYPOINTS, 1))


@pytest.fixture
def jax() -> ModuleType:
    pytest.importorskip("mujoco.mjx", reason="needs the extra `jax`")
    return pytest.importorskip("jax", reason="needs the extra `jax`")


@pytest.mark.parametrize("where", ["c", "comfree"])
def test_finite_differences_are_zero_unless_there_is_contact(where: str) -> None:
    """Exactly zero, so that descent stays; a finger that runs into the T has a gradient, and descent moves it."""
    steps = 120
    gradient = push.by_differences(push.in_c(steps) if where == "c" else push.in_worlds(ss.ComFree(), steps))
    value, slope = gradient(GUESS, 0.0)
    assert value == pytest.approx(0.145**2, rel=0.01) and not slope.any()
    path, costs = push.descend(gradient, GUESS, 3, where)
    np.testing.assert_array_equal(path, [GUESS] * 3)
    np.testing.assert_array_equal(costs, value)
    into = np.linspace(push.START, (0.1, -0.1), push.WAYPOINTS + 1)[1:]
    path, costs = push.descend(gradient, into, 3, where)
    assert (path[1] != into).any() and costs[2] < costs[0] < value


def test_scm_has_a_gradient_without_contact(jax: ModuleType) -> None:
    """It points at the T, is the slope of the cost, and fades with `reach`."""
    gradient = push.by_scm(steps=30, points=POINTS)
    _, slope = gradient(GUESS, 0.0)
    assert (slope[:, 0] < 0.0).all()  # the T lies along +x: to go there lowers the cost
    ahead, behind = (gradient(GUESS + h * np.array([1.0, 0.0]), 0.0)[0] for h in (0.01, -0.01))
    assert slope[:, 0].sum() == pytest.approx((ahead - behind) / 0.02, rel=0.1)
    last = gradient(GUESS, 1.0)[1]
    assert 0.0 < np.abs(last).max() < 1e-6 * np.abs(slope).max()


def test_friction_and_mass_are_recovered(jax: ModuleType) -> None:
    """From data without noise, and from a guess that is wrong by a factor of two in each."""
    scm = identify.model(steps=120, points=POINTS)
    data = scm(np.log(identify.TRUE))[0]
    found, rms, _ = identify.fit(scm, data, identify.GUESS)
    np.testing.assert_allclose(found[0], identify.GUESS)
    np.testing.assert_allclose(found[-1], identify.TRUE, rtol=0.01)
    assert rms[-1] < 2e-5 < 2e-3 < rms[0]


@pytest.mark.parametrize("make", [push.by_scm, identify.model])
def test_without_jax_an_example_says_what_to_install(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtra, match=r"pip install 'stickslip\[jax\]'"):
        make()


@pytest.mark.parametrize("name", ["push_t_gradient", "identify"])
def test_without_jax_an_example_ends_with_one_line(name: str, tmp_path: Path) -> None:
    """No traceback, and no empty folder."""
    blocked = "import runpy, sys; sys.modules['jax'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", blocked, str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Warp ")]  # of a machine without a GPU
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert len(lines) == 1 and "pip install 'stickslip[jax]'" in lines[0]
    assert not list(tmp_path.iterdir())
