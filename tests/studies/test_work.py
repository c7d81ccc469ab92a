"""Identifications and scores of policies as cells: what they give, against what is known."""

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from stickslip import studies
from stickslip.identification import Trial
from tests.studies.scripted import serial, study

ARM = """
<mujoco>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body name="arm"><joint name="j" axis="0 1 0"/><geom type="box" size=".1 .1 .1" mass="1"/></body>
  </worldbody>
  <actuator><motor joint="j"/></actuator>
</mujoco>
"""


def test_an_identification_gives_parameters_with_intervals(tmp_path):
    """A constant torque on a box: the angle is torque t^2 / 2 I, which tells the mass."""
    pytest.importorskip("cmaes")
    (tmp_path / "arm.xml").write_text(ARM)
    mass, torque = 1.7, 0.02
    inertia = mass * (0.2**2 + 0.2**2) / 12.0
    rng = np.random.default_rng(0)
    for name, sign in (("fit", 1.0), ("test", -1.0)):
        time = np.arange(41) * 0.01
        angle = sign * torque / inertia * time * (time + 0.01) / 2.0  # semi-implicit Euler
        noisy = angle[:, None] + rng.normal(0.0, 1e-4, (41, 1))
        Trial(time, noisy, 1e-4, ctrl=np.full((40, 1), sign * torque), name=name).save(tmp_path / f"{name}.npz")
    fixed = {
        "scene": str(tmp_path / "arm.xml"),
        "physics": "mujoco",
        "data": [str(tmp_path / "fit.npz")],
        "held_out": [str(tmp_path / "test.npz")],
        "parameters": ["mass:arm=0.2:5"],
        "nworld": 8,
    }
    _, progress, _ = serial(tmp_path / "out", study("identify", fixed=fixed), tries=1)
    table = studies.table(tmp_path / "out")
    assert progress.complete, table["error"].to_pylist()
    row = {name: table[name].to_pylist()[0] for name in table.column_names}
    assert row["mass of arm, low"] < mass < row["mass of arm, high"]
    assert row["mass of arm"] == pytest.approx(mass, rel=0.01)
    assert row["mass of arm, identified"] == 1.0 and row["explains"] == 1.0
    assert 0.6 < row["residual"] < 1.4 and 0.6 < row["held_out_residual"] < 1.4
    assert row["files"] == [f"{row['cell']}-fit.png"]


def test_a_score_gives_success_and_return(tmp_path):
    pytest.importorskip("torch")
    fixed = {"policy": "push-t", "episodes": 4}
    definition = study("score", fixed=fixed, grid={"physics": ["cone-sweep", "mujoco-c"]})
    _, progress, _ = serial(tmp_path / "out", definition, tries=1)
    table = studies.table(tmp_path / "out")
    assert progress.complete, table["error"].to_pylist()
    assert table["diverged"].to_pylist() == [0.0, 0.0]
    for success, total in zip(table["success"].to_pylist(), table["return"].to_pylist(), strict=True):
        assert success in (0.0, 0.25, 0.5, 0.75, 1.0) and 0.0 < total < 60.0
