"""Points of surfaces: where they are, what they enclose, and what is found wrong with bad ones. Needs no JAX."""

import dataclasses
import math

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.physics.scm import cloud as clouds
from stickslip.physics.scm import grids, remesh
from stickslip.physics.scm.cloud import Cloud, examine

SHAPES = {
    "box": ('type="box" size=".1 .2 .3"', 8 * 0.006, 0.88),
    "sphere": ('type="sphere" size=".1"', 4 / 3 * math.pi * 1e-3, 4 * math.pi * 0.01),
    "cylinder": ('type="cylinder" size=".1 .2"', math.pi * 0.01 * 0.4, 2 * math.pi * 0.1 * 0.5),
    "capsule": ('type="capsule" size=".1 .2"', math.pi * 0.01 * 0.4 + 4 / 3 * math.pi * 1e-3, 4 * math.pi * 0.1 * 0.3),
    "ellipsoid": ('type="ellipsoid" size=".1 .15 .2"', 4 / 3 * math.pi * 0.003, None),
}


def model(geom: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody><body><freejoint/><geom {geom} mass='1'/></body></worldbody></mujoco>"
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_a_surface_is_closed_and_encloses_its_volume(shape: str) -> None:
    """Area and volume are as far off as the area of a face."""
    geom, volume, area = SHAPES[shape]
    errors = []
    for points in (100, 400, 1000):
        cloud = clouds.cloud_of(model(geom), 0, points)
        report = examine(cloud)
        assert report.problems == []
        assert report.edges == 0 and report.flipped == 0 and report.gap < 1e-9
        assert 0.5 * points < report.points < 2.0 * points
        assert report.unevenness < 4.0
        errors.append(report.points * abs(report.volume / volume - 1.0))
        if area is not None:
            assert report.points * abs(report.area / area - 1.0) < 5.0
    assert max(errors) < (1e-9 if shape == "box" else 5.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_points_lie_on_the_surface_with_its_normal(shape: str) -> None:
    q = clouds.cloud_of(model(SHAPES[shape][0]), 0, 300).quads
    x, n = q.point, q.normal
    np.testing.assert_allclose(np.linalg.norm(n, axis=1), 1.0, atol=1e-12)
    if shape == "sphere":
        np.testing.assert_allclose(x, 0.1 * n, atol=1e-12)
    elif shape == "box":
        np.testing.assert_allclose(np.sum(np.abs(n) * np.abs(x), axis=1), np.abs(n) @ [0.1, 0.2, 0.3], atol=1e-12)
    elif shape == "ellipsoid":
        radii = np.array([0.1, 0.15, 0.2])
        np.testing.assert_allclose(np.sum((x / radii) ** 2, axis=1), 1.0, atol=1e-12)
        gradient = x / radii**2
        np.testing.assert_allclose(n, gradient / np.linalg.norm(gradient, axis=1, keepdims=True), atol=1e-12)
    elif shape == "capsule":
        axis = np.column_stack([np.zeros((len(x), 2)), np.clip(x[:, 2], -0.2, 0.2)])
        np.testing.assert_allclose(x - axis, 0.1 * n, atol=1e-12)
    else:
        wall = np.abs(n[:, 2]) < 0.5
        np.testing.assert_allclose(np.hypot(x[wall, 0], x[wall, 1]), 0.1, atol=1e-12)
        np.testing.assert_allclose(x[~wall, 2], 0.2 * n[~wall, 2], atol=1e-12)
        assert wall.any() and (~wall).any()


def test_a_plane_is_one_point() -> None:
    cloud = clouds.cloud_of(model('type="box" size="1 1 1"'), 0, 100)
    assert not cloud.open
    m = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom type='plane' size='1 1 1'/></worldbody></mujoco>")
    cloud = clouds.cloud_of(m, 0, 100)
    assert cloud.open and len(cloud.quads.point) == 1 and examine(cloud).problems == []


def changed(cloud: Cloud, **fields: np.ndarray) -> Cloud:
    return dataclasses.replace(cloud, quads=dataclasses.replace(cloud.quads, **fields))


def test_bad_clouds_are_told() -> None:
    good = clouds.cloud_of(model(SHAPES["capsule"][0]), 0, 200)
    q = good.quads
    turned = q.normal.copy()
    turned[7] *= -1.0
    assert examine(changed(good, normal=turned)).flipped == 1
    assert "1 of" in examine(changed(good, normal=turned)).problems[0]
    assert "all normals look inwards" in examine(changed(good, normal=-q.normal)).problems[0]
    keep = np.arange(len(q.point)) != 5
    lacking = changed(good, point=q.point[keep], normal=q.normal[keep], area=q.area[keep], faces=q.faces[keep])
    assert examine(lacking).edges == 4
    with pytest.raises(InputError, match="geom 'thing' cannot be used: the surface is open: 4 edges"):
        clouds.check(lacking, "'thing'")
    none = changed(good, point=q.point[:0], normal=q.normal[:0], area=q.area[:0], faces=q.faces[:0])
    with pytest.raises(InputError, match="no points"):
        clouds.check(none, "'thing'")
    broken = q.point.copy()
    broken[0] = np.nan
    with pytest.raises(InputError, match="not finite"):
        clouds.check(changed(good, point=broken), "'thing'")


def horseshoe() -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of half a ring with a square section, 20 cm across."""
    turn = np.linspace(0.0, np.pi, 13)
    ring = np.stack([np.cos(turn), np.zeros_like(turn), np.sin(turn)], axis=1)
    corners = [(0.08, -0.02), (0.12, -0.02), (0.12, 0.02), (0.08, 0.02)]
    vertices = np.stack([r * ring + [0.0, y, 0.0] for r, y in corners], axis=1).reshape(-1, 3)
    faces = []
    for k in range(len(turn) - 1):
        for c in range(4):
            a, b = 4 * k + c, 4 * k + (c + 1) % 4
            faces += [[a, b, b + 4], [a, b + 4, a + 4]]
    end = 4 * (len(turn) - 1)
    faces += [[0, 2, 1], [0, 3, 2], [end, end + 1, end + 2], [end, end + 2, end + 3]]
    return vertices, np.array(faces)


@pytest.mark.parametrize("points", [100, 400, 2000])
def test_a_mesh_that_is_not_convex_keeps_its_volume(points: int) -> None:
    """By faces alone, whatever packages are installed: divided where they are large, merged where they are small."""
    vertices, triangles = horseshoe()
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    volume = float(np.sum(a * np.cross(b, c)) / 6.0)
    if volume < 0.0:
        triangles = triangles[:, ::-1]
    quads = remesh.by_faces(vertices, triangles, points)
    report = examine(Cloud(quads, float(np.sqrt(quads.area.mean()))))
    assert report.problems == []
    assert abs(report.volume / abs(volume) - 1.0) < 0.05
    assert 0.4 * points < report.points < 4.0 * points


def test_an_open_mesh_is_refused() -> None:
    vertices, triangles = horseshoe()
    quads = remesh.by_faces(vertices, triangles[:-2], 400)
    assert any("open" in problem for problem in examine(Cloud(quads, 0.01)).problems)


def test_areas_of_primitives() -> None:
    assert grids.area_of("box", np.array([1.0, 2.0, 3.0])) == pytest.approx(88.0)
    assert grids.area_of("capsule", np.array([1.0, 2.0, 0.0])) == pytest.approx(4 * math.pi * 3)
