"""`stickslip run --patches`: the pressure on contact patches as a picture."""

import io
import json
from pathlib import Path

import mujoco
import numpy as np
import pytest
from PIL import Image

from stickslip.cli import main as cli
from stickslip.cli import patches
from stickslip.cli.status import OK, USAGE
from stickslip.readout import Patches

MODEL = """
<mujoco><option timestep="0.005"/><size nuser_geom="5"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body pos="0 0 0.03"><freejoint/>
      <geom name="block" type="box" size="0.05 0.04 0.03" mass="2" user="0 0 0 {modulus} 0"/></body>
  </worldbody></mujoco>"""


def run(tmp_path: Path, modulus: float) -> int:
    model = tmp_path / "block.xml"
    model.write_text(MODEL.format(modulus=modulus))
    options = ["--physics", "icf", "--device", "cpu", "--steps", "40", "--patches", "--out", str(tmp_path / "out")]
    return cli.main(["run", str(model), *options])


def test_patches_are_drawn_and_told(tmp_path):
    assert run(tmp_path, 1e6) == OK
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    (row,) = summary["patches"]
    assert row["geoms"] == ["floor", "block"]
    np.testing.assert_allclose(row["force_n"], [0.0, 0.0, 2.0 * 9.81], atol=0.02)
    assert row["area_m2"] == pytest.approx(0.08 * 0.1, rel=0.01)
    assert row["largest_pressure_pa"] == pytest.approx(2.0 * 9.81 / 0.008, rel=0.02)
    depth = 2.0 * 9.81 * 0.03 / (1e6 * 0.008)  # F H / (E a b)
    assert summary["metrics"]["deepest_penetration_m"] == pytest.approx(depth, rel=0.02)
    with Image.open(tmp_path / "out" / "patches.png") as image:
        assert image.width > 400 and len(np.unique(np.asarray(image.convert("L")))) > 20


def test_without_patches_there_is_a_note_and_no_picture(tmp_path, capsys):
    assert run(tmp_path, 0.0) == OK
    assert "No patch is under load" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "out" / "patches.png").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--physics", "cone-sweep", "--out", "out"], ["cone-sweep has no contact patches", "icf and cenic"]),
        (["--physics", "icf"], ["--patches draws a picture", "--out"]),
    ],
)
def test_what_cannot_be_drawn_is_refused_first(tmp_path, capsys, options, told, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("block.xml").write_text(MODEL.format(modulus=1e6))
    assert cli.main(["run", "block.xml", "--device", "cpu", "--patches", *options]) == USAGE
    message = " ".join(capsys.readouterr().err.split())
    assert all(words in message for words in told), message
    assert [path.name for path in tmp_path.iterdir()] == ["block.xml"]


def test_a_picture_shows_the_largest_of_many_patches():
    """Eleven patches of three points, on a slope."""
    n, turn = 11, np.array([[0.8, 0.0, 0.6], [0.0, 1.0, 0.0], [-0.6, 0.0, 0.8]])
    corners = np.tile([[0.0, 0.0, 0.0], [1e-3, 0.0, 0.0], [0.0, 1e-3, 0.0]], (n, 1)) @ turn.T
    many = Patches(
        world=np.zeros(n, dtype=int),
        geom=np.tile([0, 1], (n, 1)),
        force=np.outer(np.arange(n), turn[:, 2]),
        centre=np.tile(corners[:3].mean(axis=0), (n, 1)),
        area=np.full(n, 3e-6),
        depth=np.full(n, 1e-5),
        patch=np.repeat(np.arange(n), 3),
        pos=corners,
        normal=np.tile(turn[:, 2], (3 * n, 1)),
        weight=np.full(3 * n, 1e-6),
        pressure=np.repeat(np.arange(n), 3) * 1e6 / 3.0,
    )
    mjm = mujoco.MjModel.from_xml_string(MODEL.format(modulus=0.0))
    shown = patches.rows(mjm, many)
    assert [row["patch"] for row in shown] == list(range(10, -1, -1))
    with Image.open(io.BytesIO(patches.png(many, shown, "eleven"))) as image:
        assert image.height > image.width
