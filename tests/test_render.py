"""Pictures: something is drawn, with or without OpenGL, and the caller's environment does not change."""

import os

import mujoco
import numpy as np
import pytest

from stickslip import outline, render
from stickslip.cli import recording

XML = """
<mujoco>
  <worldbody>
    <light pos="0 0 3"/>
    <geom type="plane" size="0 0 0.1"/>
    <body pos="0 0 0.1"><freejoint/><geom type="box" size="0.05 0.05 0.05" rgba="1 0 0 1"/></body>
    <body pos="0.2 0 0.1"><freejoint/><geom type="sphere" size="0.05" rgba="0 1 0 1"/></body>
    <body pos="0.4 0 0.1"><freejoint/><geom type="capsule" size="0.03 0.05" rgba="0 0 1 1"/></body>
    <body pos="0.6 0 0.1"><freejoint/><geom type="cylinder" size="0.05 0.05" rgba="1 1 0 1"/></body>
    <body pos="0.8 0 0.1"><freejoint/><geom type="ellipsoid" size="0.03 0.04 0.05" rgba="0 1 1 1"/></body>
  </worldbody>
</mujoco>
"""
COLOURS = ([255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [0, 255, 255])


@pytest.fixture
def mjm():
    return mujoco.MjModel.from_xml_string(XML)


def test_without_opengl_every_geom_is_drawn_in_its_colour(mjm, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "off")
    picture = render.image(mjm, mjm.qpos0, width=640, height=480)
    assert picture.backend == "matplotlib"
    assert "MUJOCO_GL=off" in picture.note
    assert picture.pixels.shape == (480, 640, 3)
    assert picture.pixels.dtype == np.uint8
    for colour in COLOURS:
        assert (picture.pixels == colour).all(axis=-1).sum() > 100


def test_a_broken_backend_falls_back(mjm, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "no-such-backend")
    picture = render.image(mjm, mjm.qpos0, width=320, height=240)
    assert picture.backend == "matplotlib"
    assert "no-such-backend" in picture.note


def test_the_environment_stays_and_the_picture_is_not_blank(mjm):
    before = dict(os.environ)
    pictures = render.images(mjm, [mjm.qpos0, mjm.qpos0 + 0.01], width=320, height=240)
    assert dict(os.environ) == before
    assert len(pictures) == 2
    for picture in pictures:
        assert picture.pixels.shape == (240, 320, 3)
        assert picture.pixels.std() > 5.0
        assert bool(picture.note) == (picture.backend == "matplotlib")


def test_a_state_that_is_not_finite_can_be_drawn(mjm):
    qpos = mjm.qpos0.copy()
    qpos[:3] = np.nan
    pixels = outline.draw(mjm, qpos, width=320, height=240)
    assert not (pixels == COLOURS[0]).all(axis=-1).any()
    assert (pixels == COLOURS[1]).all(axis=-1).any()


def test_convex_hull_of_a_square_with_points_inside():
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    inside = np.random.default_rng(0).uniform(0.1, 0.9, (50, 2))
    hull = outline.convex_hull(np.concatenate([inside, corners]))
    assert sorted(map(tuple, hull)) == sorted(map(tuple, corners))


def test_png_round_trip():
    from io import BytesIO

    from matplotlib import image

    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 3), dtype=np.uint8)
    read = image.imread(BytesIO(recording.png(pixels)))
    np.testing.assert_array_equal((read[..., :3] * 255).round().astype(np.uint8), pixels)
