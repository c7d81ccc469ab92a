"""The scenes of hydroelastic contact, stepped by MuJoCo in C, which has points in place of patches."""

import math

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.scenes import bar_pinch, edge_grip, patch_spin

SCENES = {
    "patch-spin": {"body": (1e6, 0.02)},
    "patch-spin:shape=disc,modulus=3e6": {"body": (3e6, 0.02)},
    "patch-spin:shape=sphere": {"body": (1e6, 0.05)},
    "eccentric-box": {"box": (1e7, 0.05)},
    "bar-pinch": {"left": (5e6, 0.005), "right": (5e6, 0.005), "bar": (0.0, 0.0)},
    "bar-pinch:pads=round": {"left": (5e6, 0.02), "right": (5e6, 0.02)},
    "edge-grip": {"left": (2e6, 0.015), "right": (2e6, 0.015), "plate": (0.0, 0.0)},
    "cylinder:modulus=1e7": {"cylinder": (1e7, 0.0)},
    "gripper": {"peg": (0.0, 0.0)},
    "gripper:modulus=2e9": {"peg": (2e9, 0.0), "left": (2e9, 0.0), "post": (2e9, 0.0)},
}
"""Modulus and depth of geoms."""


def start(scene: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mjcf.load(scene)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return model, data


@pytest.mark.parametrize("scene", SCENES)
def test_geoms_name_modulus_and_depth(scene):
    model = mjcf.load(scene)
    assert model.nuser_geom == 5
    for name, values in SCENES[scene].items():
        assert tuple(model.geom(name).user[3:5]) == pytest.approx(values)


@pytest.mark.parametrize("shape", patch_spin.SHAPES)
def test_a_spinning_body_has_the_inertia_of_its_shape_and_just_touches(shape):
    model, data = start(f"patch-spin:shape={shape},mass=2,length=0.2,width=0.1,speed=1")
    solid = mujoco.MjSpec.from_string("<mujoco/>")
    geom = solid.worldbody.add_body(pos=[0, 0, 1]).add_geom(type=model.geom("body").type[0], mass=2.0)
    geom.size = model.geom("body").size
    assert np.sort(model.body_inertia[1]) == pytest.approx(np.sort(solid.compile().body_inertia[1]), rel=1e-5)
    half = 0.1 if shape == "sphere" else patch_spin.HALF
    assert data.geom("body").xpos[2] == pytest.approx(half)
    assert model.body_ipos[1, 2] == (0.0 if shape == "sphere" else -half)
    assert list(data.qvel) == [1.0, 0.0, 0.0, 0.0, 0.0, 10.0]


def test_a_box_with_its_load_off_the_middle_stands_or_tips():
    for share, tips in ((0.4, False), (0.6, True)):
        model, data = start(f"eccentric-box:eccentricity={share * 0.1}")
        for _ in range(500):
            mujoco.mj_step(model, data)
        assert (data.xmat[1, 8] < 0.9) == tips


@pytest.mark.parametrize("pads, contacts", [("square", 8), ("round", 2)])
def test_pads_touch_the_bar_where_they_should(pads, contacts):
    model, data = start(f"bar-pinch:pads={pads},offset=0.08")
    for _ in range(3):
        mujoco.mj_step(model, data)
    assert data.ncon == contacts
    assert np.abs(data.contact.pos[:, [0, 2]]).max() <= 0.5 * bar_pinch.SIDE + 1e-4
    assert data.xpos[3, 0] == pytest.approx(0.08, abs=1e-4)


def test_a_plate_held_by_points_at_its_edge_swings_down():
    model, data = start("edge-grip")
    assert data.xpos[model.body("plate").id, 0] == edge_grip.OFFSET
    assert model.body("plate").mass[0] == edge_grip.MASS
    assert model.geom("left").size[0] == edge_grip.RADIUS
    for _ in range(50):
        mujoco.mj_step(model, data)
    assert 2.0 * math.asin(data.qpos[-2]) > math.radians(20.0)
