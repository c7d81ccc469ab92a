"""The advance of the state in one launch, against MuJoCo Warp's own, bit for bit."""

import dataclasses

import mujoco
import numpy as np
import pytest
import warp as wp

from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.advance import advance
from stickslip.physics.mjwarp.data import Data, record_peak
from stickslip.physics.mjwarp.model import Model, make_data, put_model
from stickslip.physics.mjwarp.smooth.smooth import is_fused

NWORLD = 3
MODEL = """<mujoco><option timestep=".004"/><worldbody>
  <body><freejoint/><geom size=".1"/><body><joint name="ball" type="ball"/><geom size=".1"/></body></body>
  <body><joint name="slide" type="slide"/><joint name="hinge"/><geom size=".1" pos="0 .1 0"/></body></worldbody>
  <actuator><motor joint="hinge"/>
    <intvelocity joint="hinge" kp="15" actrange="-.5 .5"/>
    <general joint="slide" dyntype="filter" dynprm=".1"/>
    <general joint="hinge" dyntype="filterexact" dynprm=".05" actlimited="true" actrange="-.3 .3"/>
    <general joint="ball" gear="1 2 0" dyntype="filterexact" dynprm=".05" biastype="affine" gainprm="3"
      biasprm="0 -3 0"/>
  </actuator></mujoco>"""


def worlds(mjm: mujoco.MjModel) -> Data:
    """Worlds in random states; the numbers of contacts and rows are such that all overflow in the last one."""
    rng = np.random.default_rng(0)
    d = Data.extend(make_data(mjm, NWORLD, njmax=8, nconmax=4), mjm)
    for name in ("time", "qpos", "qvel", "act", "act_dot", "actuator_length", "qacc", "qacc_warmstart"):
        array = getattr(d, name)
        array.assign((3.0 * rng.normal(size=array.shape)).astype(np.float32))
    d.nefc.assign([2, 8, 11])
    d.nacon.assign([13])
    d.ncollision.assign([5])
    d.peak.assign([1, 7, 2])
    return d


@pytest.mark.parametrize("own_velocity", [False, True])
def test_advance(own_velocity: bool) -> None:
    with wp.ScopedDevice("cpu"):
        mjm = mujoco.MjModel.from_xml_string(MODEL)
        m: Model = put_model(mjm, None)
        m.opt.warn_overflow = False
        assert is_fused(m)
        got, want = worlds(mjm), worlds(mjm)
        rng = np.random.default_rng(1)
        qacc, velocity = (wp.array(rng.normal(size=(NWORLD, mjm.nv)), dtype=float) for _ in range(2))
        moved_by = velocity if own_velocity else None
        advance(m, got, qacc, moved_by)
        private.advance(m, want, qacc, moved_by)
        record_peak(want)
        for field in dataclasses.fields(got):
            value = getattr(got, field.name)
            if isinstance(value, wp.array) and value.size:
                np.testing.assert_array_equal(value.numpy(), getattr(want, field.name).numpy(), err_msg=field.name)
        assert got.overflow.numpy()[2] != got.overflow.numpy()[0] != 0
