"""What bodies are made of: number, volume and inertia of spheres, against closed forms."""

import math

import numpy as np
import pytest

import stickslip as ss
from stickslip.bench.references import spheres
from stickslip.errors import Unsupported


def test_spheres_of_a_body_and_how_much_they_fill():
    box = spheres.of(ss.PbdR(resolution=3), '<geom type="box" size="0.1 0.1 0.1"/>')
    assert box.centre.shape == (27, 3)
    assert box.volume == pytest.approx(0.008)
    assert box.coverage == pytest.approx(math.pi / 6, rel=0.01)
    ball = spheres.of(ss.PbdR(), '<geom type="sphere" size="0.1"/>')
    assert len(ball.radius) == 1
    assert ball.coverage == pytest.approx(1.0, rel=0.01)
    np.testing.assert_allclose(box.inertia, 0.2**2 / 6.0 * np.eye(3), atol=1e-12)
    np.testing.assert_allclose(box.points_inertia, (1.0 - 1.0 / 9.0) * box.inertia, atol=1e-12)
    slab = spheres.of(ss.PbdR(), '<geom type="box" size="0.1 0.2 0.3" quat="1 1 0 0"/>')  # z and y change places
    np.testing.assert_allclose(np.diag(slab.inertia), [0.13 / 3, 0.05 / 3, 0.1 / 3], rtol=1e-6)
    assert slab.points_inertia[2, 2] == pytest.approx(slab.inertia[2, 2], rel=0.1)
    with pytest.raises(Unsupported, match="mujoco makes no bodies of spheres"):
        spheres.of(ss.MuJoCo(), '<geom type="sphere" size="0.1"/>')


def test_volume_is_counted_once_where_spheres_overlap():
    one = 4.0 / 3.0 * math.pi
    lens = math.pi * (4.0 + 1.0) * (2.0 - 1.0) ** 2 / 12.0  # of unit spheres, a radius apart
    two = spheres.Spheres(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), np.ones(2), 10.0, np.eye(3))
    assert two.filled == pytest.approx(2.0 * one - lens, rel=0.01)
    apart = spheres.Spheres(np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 1.0]]), np.ones(2), 10.0, np.eye(3))
    assert apart.filled == pytest.approx(2.0 * one, rel=0.01)
    assert apart.coverage == pytest.approx(0.2 * one, rel=0.01)
