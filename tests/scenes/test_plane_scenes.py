"""The scenes of one body on an infinite plane, and of the rod, stepped by MuJoCo in C."""

import math

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.scenes import rod_push


def start(scene: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mjcf.load(scene, timestep=0.001)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return model, data


@pytest.mark.parametrize("scene", ["pushed-box", "bunny:mesh=0"])
@pytest.mark.parametrize("angle", [0.0, 0.3])
def test_body_just_touches_the_plane(scene, angle):
    joiner = "," if ":" in scene else ":"
    model, data = start(f"{scene}{joiner}angle={angle}")
    normal = np.array([math.sin(angle), 0.0, math.cos(angle)])
    geom = model.geom(1)
    if geom.type[0] == mujoco.mjtGeom.mjGEOM_MESH:
        points = model.mesh_vert @ data.geom_xmat[1].reshape(3, 3).T + data.geom_xpos[1]
    else:
        corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        points = corners * geom.size @ data.geom_xmat[1].reshape(3, 3).T + data.geom_xpos[1]
    assert np.min(points @ normal) == pytest.approx(0.0, abs=1e-7)


def test_contacts_without_friction():
    model, data = start("pushed-box:mu=0")
    data.xfrc_applied[1, 5] = 0.01
    for _ in range(1000):
        mujoco.mj_step(model, data)
    assert set(data.contact.dim.tolist()) == {1}
    assert data.qvel[5] == pytest.approx(0.01 / (4.0 * 0.04 / 6.0), rel=1e-6)


@pytest.mark.parametrize("cone", [mujoco.mjtCone.mjCONE_PYRAMIDAL, mujoco.mjtCone.mjCONE_ELLIPTIC])
def test_rod_follows_its_path_while_pushing(cone):
    model, data = start("rod-push:offset=0.01")
    model.opt.cone = cone
    a, worst = 0.05, 0.0
    for step in range(3000):
        now = step * 0.001
        data.ctrl[0] = rod_push.command(0.5 * a * now**2, a * now, a)
        mujoco.mj_step(model, data)
        worst = max(worst, abs(data.qpos[7] - 0.5 * a * data.time**2))
    assert data.qpos[0] > 0.15  # it did push
    assert worst < 2e-5


def test_rod_touches_only_the_box():
    model, data = start("rod-push:distance=0.1299")
    touching = {frozenset((model.geom(int(a)).name, model.geom(int(b)).name)) for a, b in data.contact.geom}
    assert frozenset(("rod", "box")) in touching
    assert frozenset(("rod", "plane")) not in touching
