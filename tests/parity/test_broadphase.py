"""The search for pairs of geoms on the CPU, against MuJoCo Warp's own."""

from collections.abc import Iterator

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest
import warp as wp

from stickslip.physics.mjwarp import broadphase, private

NWORLD = 3
GEOMS = ("sphere", "box", "capsule", "cylinder", "ellipsoid")
BODY = """<body name="{n}"><freejoint/><geom name="{n}" type="{kind}" size=".1 .15 .05" margin=".0{n}"/></body>"""
MODEL = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><geom type="plane" size="1 1 1" euler="80 0 0"/>
  {}</worldbody>
  <contact><pair geom1="1" geom2="2" margin=".4"/><pair geom1="1" geom2="3" gap=".01"/></contact></mujoco>"""


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    with wp.ScopedDevice("cpu"):
        yield


@pytest.mark.parametrize("filters", [0, 1, 2, 3, 11, 15])
def test_pairs_are_those_of_mujoco_warp(filters: int) -> None:
    bodies = "".join(BODY.format(n=n, kind=GEOMS[n % len(GEOMS)]) for n in range(10))
    mjm = mujoco.MjModel.from_xml_string(MODEL.format(bodies))
    m, d = mjw.put_model(mjm), mjw.make_data(mjm, NWORLD, nconmax=100)
    m.opt.broadphase_filter = mjw.BroadphaseFilter(filters)
    rng = np.random.default_rng(0)
    qpos = rng.normal(size=(NWORLD, mjm.nbody - 1, 7))
    qpos[:, :, :3] *= 0.2
    d.qpos.assign(qpos.reshape(NWORLD, -1).astype(np.float32))
    m.geom_rbound = wp.array(np.repeat(m.geom_rbound.numpy(), 2, axis=0) * [[1.0], [1.2]], dtype=float)
    mjw.kinematics(m, d)
    found = []
    for search in (private.nxn_broadphase, broadphase.find_pairs):
        d.ncollision.zero_()
        context = private.collision_context(d.naconmax)
        search(m, d, context)
        n = d.ncollision.numpy()[0]
        fields = (context.collision_worldid, context.collision_pair, context.collision_pairid)
        found.append([field.numpy()[:n] for field in fields])
    assert 20 < len(found[0][0]) < d.naconmax
    for expected, got in zip(*found, strict=True):
        np.testing.assert_array_equal(got, expected)
