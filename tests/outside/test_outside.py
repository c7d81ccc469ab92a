"""A physics of another package: what it takes to add one, and that commands, bench and conformance suite take it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import stickslip as ss
from stickslip.errors import InputError
from stickslip.physics import registry

ROOT = Path(__file__).parents[2]
PACKAGE = Path(__file__).parent / "stickslip-example"
PAGE = ROOT / "docs" / "adding-a-physics.md"
GRAVITY = 9.81
sys.path.insert(0, str(PACKAGE))

from stickslip_example.physics import Penalty  # noqa: E402

BALL = """<mujoco>
  <option timestep="0.001"/>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body pos="0 0 0.1"><freejoint/><geom type="sphere" size="0.1" mass="{mass}"/></body>
  </worldbody>
</mujoco>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as an installer leaves it: modules, and the metadata that pyproject.toml declares."""
    target = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    shutil.copytree(PACKAGE / "stickslip_example", target / "stickslip_example")
    info = target / f"stickslip_example-{project['version']}.dist-info"
    info.mkdir()
    name = f"Name: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{name}")
    groups = project["entry-points"].items()
    lines = [line for group, points in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in points.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return target


def python(site: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Python where the package is installed; the test fails if it does."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(site)))}
    done = subprocess.run([sys.executable, *args], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_physics_is_found_without_importing_it(site: Path) -> None:
    code = """
import sys
from stickslip.physics import registry
assert registry.find("example").colour == "#555555"
assert "example" in registry.names("production")
print("stickslip_example.physics" in sys.modules, "warp" in sys.modules)
import stickslip as ss
print(ss.PHYSICS["example"].__module__)
from stickslip.bench import methods
print("example" in methods.names(), methods.resolve(["example:stiffness=5000"]))
"""
    lines = python(site, "-c", code).stdout.splitlines()
    assert lines[0] == "False False"
    assert lines[1] == "stickslip_example.physics"
    assert lines[2].startswith("True") and "stiffness=5000" in lines[2]


def test_commands_and_experiments_take_it(site: Path, tmp_path: Path) -> None:
    """In one process, with kernels that other tests have built."""
    run = ["run", "sliding-cube", "--steps", "20", "--physics", "example:timeconst=0.03,stiffness=none"]
    commands = [
        ["physics", "example"],
        [*run, "--device", "cpu", "--out", str(tmp_path)],
        ["bench", "run", "stick", "--quick", "--device", "cpu", "--out", str(tmp_path), "--physics", "example"],
    ]
    code = f"""
import tests.conftest
from stickslip.cli.main import main
for command in {commands!r}:
    assert main(command) == 0
"""
    out = python(site, "-c", code).stdout
    assert "timeconst" in out
    settings = json.loads((tmp_path / "summary.json").read_text())["settings"]
    assert settings["physics"] == "example" and settings["parameters"]["timeconst"] == 0.03
    assert "example" in (tmp_path / "stick.json").read_text()
    assert "example" in python(site, "-m", "stickslip", "run", "--help").stdout


def test_the_conformance_suite_takes_it(site: Path) -> None:
    """A part of the suite, to save time: `pytest tests/conformance -k example` runs all of it."""
    chosen = "example and scaling or example and reset"
    out = python(
        site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "tests/conformance", "-k", chosen
    ).stdout
    found = re.search(r"(\d+) passed", out)
    assert found and int(found[1]) >= 4, out


@pytest.mark.parametrize("mass, stiffness", [(2.0, 5000.0), (0.5, 1000.0)])
def test_a_ball_at_rest_sinks_in_by_its_weight_over_the_stiffness(mass: float, stiffness: float, device: str) -> None:
    sim = ss.Simulation(BALL.format(mass=mass), Penalty(stiffness=stiffness), nworld=2, device=device)
    sim.step(3000)
    np.testing.assert_allclose(0.1 - sim.state.qpos[:, 2], mass * GRAVITY / stiffness, rtol=1e-3)
    contacts = sim.contacts()
    np.testing.assert_allclose(contacts.force[:, 0], mass * GRAVITY, rtol=1e-4)
    np.testing.assert_allclose(contacts.force[:, 1:], 0.0, atol=1e-4)


def test_a_cube_slides_as_far_as_coulomb_says(device: str) -> None:
    """v^2 / (2 mu g), from v = 2 m/s, on a soft floor: within three percent."""
    sim = ss.Simulation("sliding-cube", Penalty(), device=device)
    start, speed = sim.state.qpos[0, 0], sim.state.qvel[0, 0]
    mu = sim.mjm.geom_friction[:, 0].max()
    sim.step(600)
    distance = sim.state.qpos[0, 0] - start
    assert distance == pytest.approx(speed**2 / (2.0 * mu * GRAVITY), rel=0.03)


def test_its_parameters_are_checked() -> None:
    with pytest.raises(InputError, match=r"stiffness is 0.0: it must be a number above 0, or None"):
        Penalty(stiffness=0.0)
    with pytest.raises(ss.Unsupported, match="example does not support: flex"):
        ss.Simulation(
            '<mujoco><worldbody><flexcomp name="f" type="grid" count="3 3 1" dim="2" mass="1"/></worldbody></mujoco>',
            Penalty(),
            device="cpu",
        )


@pytest.mark.parametrize(
    "points, message",
    [
        ("other = no_such_module:ENTRY", "No module named 'no_such_module'"),
        ("other = stickslip_example:ENTRY", "has the name 'example'"),
        ("example = stickslip_example.physics:Penalty", "must be a stickslip.physics.registry.Entry"),
        ("mujoco = stickslip_mujoco:ENTRY", "there is another physics of that name"),
    ],
)
def test_an_entry_that_cannot_be_used_is_a_warning(
    points: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other physics stay usable, and the warning names the package."""
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{points}\n")
    entry = 'from stickslip.physics.registry import Entry\nENTRY = Entry("mujoco", "a:B", "", "", "", "#000000")\n'
    (tmp_path / "stickslip_mujoco.py").write_text(entry)
    monkeypatch.syspath_prepend(tmp_path)
    registry._registered.cache_clear()
    try:
        with pytest.warns(UserWarning, match=f"of the package 'broken' cannot be used: .*{re.escape(message)}"):
            names = registry.names()
        assert names == [entry.name for entry in registry._BUILT_IN]
        assert registry.find("mujoco").where == "stickslip.physics.mujoco:MuJoCo"
    finally:
        registry._registered.cache_clear()


def test_the_page_shows_the_package_as_it_is() -> None:
    """Every file of the package stands in the page, to the letter."""
    blocks = re.findall(r"^```\w+ title=\"([^\"]+)\"\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shown = {name: text for name, text in blocks}
    paths = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".toml")]
    assert shown == {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in paths}
