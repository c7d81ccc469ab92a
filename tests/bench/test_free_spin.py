"""`free-spin`: its metrics against MuJoCo in C, and what Euler's rule and the cone sweep are known for."""

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.bench import runner
from stickslip.bench.experiments.free_bodies.free_spin import AXIS, PLATE, FreeSpin, momenta
from stickslip.bench.result import load

CASE = "15 rad/s"


def test_energy_and_momentum_are_mujocos():
    mjm = mjcf.load(PLATE)
    mjd = mujoco.MjData(mjm)
    mjd.qpos[3:] = np.array([0.5, -0.1, 0.7, 0.3]) / np.linalg.norm([0.5, -0.1, 0.7, 0.3])
    mjd.qvel[3:] = [3.0, -2.0, 5.0]
    mujoco.mj_forward(mjm, mjd)
    mujoco.mj_energyVel(mjm, mjd)
    mujoco.mj_subtreeVel(mjm, mjd)
    energy, momentum = momenta(mjm, mjd.qpos[None], mjd.qvel[None])
    assert energy[0] == pytest.approx(mjd.energy[1])
    np.testing.assert_allclose(momentum[0], mjd.subtree_angmom[1], rtol=1e-9)


def test_eulers_rule_gains_what_it_must(tmp_path):
    """A step adds dw' I dw / 2, with dw = dt I^-1 (L x w); for five steps that is a good estimate."""
    settings = {"speeds": (15.0,), "duration": 0.01}
    methods = ["mujoco", "cone-sweep"]
    path = runner.run(FreeSpin(), device="cpu", out=tmp_path, methods=methods, settings=settings, picture=False)
    result = load(path)
    mjm, w = mjcf.load(PLATE), 15.0 * AXIS
    mat = np.zeros(9)
    mujoco.mju_quat2Mat(mat, mjm.body_iquat[1])
    inertia = mat.reshape(3, 3) @ np.diag(mjm.body_inertia[1]) @ mat.reshape(3, 3).T
    change = 0.002 * np.linalg.solve(inertia, np.cross(inertia @ w, w))
    gain = 100.0 * 5 * (change @ inertia @ change) / (w @ inertia @ w)
    assert result.metric("mujoco", CASE, "energy_error_percent") == pytest.approx(gain, rel=0.1)
    assert result.metric("cone-sweep", CASE, "energy_error_percent") < 1e-3
    assert result.metric("cone-sweep", CASE, "momentum_error_percent") < 1e-3
