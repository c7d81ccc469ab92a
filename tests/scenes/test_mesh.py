"""Meshes: mass properties against closed forms and MuJoCo's, and resting poses."""

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.errors import MissingExtra
from stickslip.scenes import bunny, mesh

needs_bunny = pytest.mark.skipif(mesh.missing_bunny() is not None, reason=f"no bunny: {mesh.missing_bunny()}")
BOTH = [pytest.param(bunny.STAND_IN, id="stand-in"), pytest.param(bunny.BUNNY, id="bunny", marks=needs_bunny)]


def brick(x: float, y: float, z: float) -> mesh.Mesh:
    """A brick with one corner at the origin."""
    vertices = np.array([[i, j, k] for i in (0, x) for j in (0, y) for k in (0, z)], dtype=float)
    quads = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    return mesh.Mesh(vertices, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]))


def test_moments_of_a_brick():
    body = brick(0.2, 0.4, 0.6)
    assert body.watertight()
    assert body.moments()[0] == pytest.approx(0.048)
    np.testing.assert_allclose(body.centre(), [0.1, 0.2, 0.3])
    expected = 3.0 / 12.0 * np.diag([0.4**2 + 0.6**2, 0.2**2 + 0.6**2, 0.2**2 + 0.4**2])
    np.testing.assert_allclose(body.inertia(3.0), expected, atol=1e-12)


def test_a_mesh_with_a_hole_or_a_flipped_face_is_not_watertight():
    body = brick(1.0, 1.0, 1.0)
    assert not mesh.Mesh(body.vertices, body.faces[1:]).watertight()
    flipped = np.concatenate([body.faces[:1, ::-1], body.faces[1:]])
    assert not mesh.Mesh(body.vertices, flipped).watertight()


def test_a_tilted_brick_comes_to_rest_on_its_nearest_face():
    upright, angle = brick(0.2, 0.4, 0.6), 0.3
    turn = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
    rest = mesh.Mesh(upright.vertices @ turn.T, upright.faces).at_rest()
    np.testing.assert_allclose(rest.vertices, upright.vertices - [0.1, 0.2, 0.3], atol=1e-7)


@pytest.mark.parametrize("which", BOTH)
def test_meshes_are_closed_asymmetric_and_stand(which):
    body = bunny.shape(which)
    assert body.watertight()
    assert body.moments()[0] == pytest.approx(mesh.VOLUME)
    np.testing.assert_allclose(body.centre(), 0.0, atol=1e-12)
    size = np.ptp(body.vertices, axis=0)
    assert (size > 0.1).all() and (size < 0.25).all()
    inertia = body.inertia(bunny.MASS)
    off = np.abs(inertia[np.triu_indices(3, 1)])
    assert (off > 1e-3 * np.trace(inertia)).all()  # no plane of symmetry along the axes
    moments = np.linalg.eigvalsh(inertia)
    assert (np.diff(moments) > 0.02 * moments[0]).all()  # three different moments: no axis of symmetry
    bottom = body.vertices[:, 2] < body.vertices[:, 2].min() + 1e-6
    assert bottom.sum() >= 3


@pytest.mark.parametrize("which", BOTH)
def test_mujoco_finds_the_same_mass_properties_and_the_body_stays(which):
    model = mjcf.load(f"bunny:mesh={which}")
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.body_iquat[1])
    turn = turn.reshape(3, 3)
    assert model.body_mass[1] == pytest.approx(bunny.MASS)
    np.testing.assert_allclose(model.body_ipos[1], 0.0, atol=1e-7)
    expected = bunny.shape(which).inertia(bunny.MASS)
    np.testing.assert_allclose(turn @ np.diag(model.body_inertia[1]) @ turn.T, expected, atol=1e-8)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    begin = data.qpos.copy()
    for _ in range(500):
        mujoco.mj_step(model, data)
    assert np.abs(data.qpos - begin).max() < 2e-3


@needs_bunny
def test_bunny_is_the_known_one():
    body = mesh.bunny()
    assert body.vertices.shape == (6102, 3)
    assert body.inertia(bunny.MASS)[2, 2] == pytest.approx(0.0072755, rel=1e-3)


def test_without_usd_the_stand_in_is_used_with_a_warning(monkeypatch):
    monkeypatch.setattr(mesh, "missing_bunny", lambda: "no usd-core")
    mesh.bunny.cache_clear()
    with pytest.warns(UserWarning, match="stands in for the bunny: no usd-core"):
        assert bunny.shape(bunny.EITHER) is mesh.stand_in()
    with pytest.raises(MissingExtra, match="no usd-core"):
        bunny.shape(bunny.BUNNY)
