"""The reference of hydroelastic contact against closed forms, dense integrals and Drake."""

import functools
import json
import pathlib
from typing import Any

import numpy as np
import pytest

from tests.reference import hydro_cells, hydro_exact, hydro_fields, hydro_polar
from tests.reference.hydro import contact
from tests.reference.hydro_fields import (
    Geom,
    Material,
    Pose,
    box,
    capsule,
    cylinder,
    ellipsoid,
    hull,
    plane,
    pressure,
    sphere,
)
from tests.reference.hydro_points import Points, centre, force, moment, rocking, torsion

E = 1e7
SOFT = Material(E)
X, Y, Z = np.eye(3)
LYING = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
DRAKE = json.loads((pathlib.Path(__file__).parent / "hydro_drake.json").read_text())


def turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rotation about a unit vector."""
    cross = np.cross(np.eye(3), axis)
    return np.eye(3) - np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


def up(z: float, rot: np.ndarray | None = None, x: float = 0.0, y: float = 0.0) -> Pose:
    return Pose(np.eye(3) if rot is None else rot, np.array([x, y, z]))


def slab(depth: float = 0.02) -> Geom:
    return plane(Material(E, depth))


def corners() -> np.ndarray:
    """Of a box of half sizes 50, 40, 30 mm."""
    signs = np.array([[i, j, k] for i in (-1, 1) for j in (-1, 1) for k in (-1, 1)])
    return signs * np.array([0.05, 0.04, 0.03])


GEOMS = {
    "sphere": sphere(0.05, SOFT),
    "capsule": capsule(0.03, 0.04, SOFT),
    "ellipsoid": ellipsoid(0.05, 0.03, 0.04, SOFT),
    "cylinder": cylinder(0.04, 0.03, SOFT),
    "box": box(0.05, 0.04, 0.03, SOFT),
    "hull": hull(corners(), SOFT),
}


# fields


@pytest.mark.parametrize("name", sorted(GEOMS))
def test_field(name: str) -> None:
    """1 innermost, 0 on the surface, concave; gradients and curvatures are the derivatives."""
    geom = GEOMS[name]
    rng = np.random.default_rng(0)
    inner, _ = hydro_fields.extent(geom, np.zeros((1, 3)))
    np.testing.assert_allclose(inner, 1.0, atol=1e-9)
    way = rng.normal(size=(50, 3))
    low, high = np.zeros((50, 1)), np.full((50, 1), 10.0)
    for _ in range(60):  # The surface along a way.
        middle = 0.5 * (low + high)
        inside = hydro_fields.extent(geom, middle * way)[0][:, None] > 0.0
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    surface = low * way
    if geom.shape == "ellipsoid":
        np.testing.assert_allclose(((surface / np.array(geom.size)) ** 2).sum(axis=1), 1.0, rtol=1e-9)
    a, b = rng.normal(0.0, 0.05, size=(2, 200, 3))
    between = hydro_fields.extent(geom, 0.3 * a + 0.7 * b)[0]
    assert np.all(between >= 0.3 * hydro_fields.extent(geom, a)[0] + 0.7 * hydro_fields.extent(geom, b)[0] - 1e-12)
    values, slopes = hydro_fields.pieces(geom, a)
    h = 1e-6
    for i in range(3):
        ahead, behind = hydro_fields.pieces(geom, a + h * np.eye(3)[i]), hydro_fields.pieces(geom, a - h * np.eye(3)[i])
        np.testing.assert_allclose((ahead[0] - behind[0]) / (2.0 * h), slopes[..., i], atol=2e-4)
        for k in range(5):
            curve = hydro_fields.curvatures(geom, a[k])[..., i]
            found = (ahead[1][k] - behind[1][k]) / (2.0 * h)
            np.testing.assert_allclose(found, curve, atol=1e-2 + 1e-6 * abs(curve).max())
    assert values.shape[-1] == {"cylinder": 3, "box": 6, "hull": 6}.get(name, 1)


def test_hull_depth_is_the_inradius() -> None:
    """Of a box by its corners, and of a regular tetrahedron of edge 1: sqrt(6)/12."""
    assert GEOMS["hull"].depth == pytest.approx(0.03, rel=1e-9)
    tetrahedron = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(8.0)
    assert hull(tetrahedron, SOFT).depth == pytest.approx(np.sqrt(6.0) / 12.0, rel=1e-9)


def test_thin_box() -> None:
    """A stiff field against a rigid geom is still a contact; it ends where the middle passes the plane."""
    thin = box(0.05, 0.05, 0.001, SOFT)
    x = 5e-4
    found = contact(plane(), Pose(), thin, up(0.001 - x))
    assert force(found)[2] == pytest.approx(hydro_exact.box_on_plane(E / 0.001, 0.1, 0.1, x), rel=1e-9)
    past = contact(plane(), Pose(), thin, up(0.001 - 1.1e-3))
    assert force(past)[2] < 0.05 * force(found)[2]


def test_errors() -> None:
    with pytest.raises(ValueError, match="name its depth"):
        plane(SOFT)
    with pytest.raises(ValueError, match="one compliant"):
        contact(plane(), Pose(), box(1.0, 1.0, 1.0), up(0.9))
    with pytest.raises(ValueError, match="one compliant"):
        contact(plane(), Pose(), sphere(1.0), up(0.9))


# closed forms


@pytest.mark.parametrize("x", [1e-5, 5e-4, 2e-3])
def test_sphere_on_plane(x: float) -> None:
    """Force, sum of A g = dF/dx, rocking about the middle, torsion."""
    R = 0.05
    found = contact(plane(), Pose(), sphere(R, SOFT), up(R - x, x=0.1, y=0.2))
    expected = hydro_exact.sphere_on_plane(E, R, x)
    np.testing.assert_allclose(force(found), expected * Z, rtol=1e-6, atol=1e-9 * expected)
    np.testing.assert_allclose(found.k.sum(), hydro_exact.sphere_on_plane_stiffness(E, R, x), rtol=1e-6)
    radius = np.sqrt(2.0 * R * x - x * x)
    middle = np.array([0.1, 0.2, 0.0])
    assert len(found) == 16
    assert torsion(found, Z, middle) == pytest.approx(hydro_exact.sphere_torque(radius) * expected, rel=0.035)
    # g = (E/R) h/sqrt(h^2 + r^2) is E/R to leading order: second moment of a disc
    assert rocking(found, X, middle) == pytest.approx(E / R * np.pi * radius**4 / 4.0, rel=2.0 * x / R + 1e-9)
    fine = contact(plane(), Pose(), sphere(R, SOFT), up(R - x, x=0.1, y=0.2), polar=(16, 3))
    assert torsion(fine, Z, middle) == pytest.approx(hydro_exact.sphere_torque(radius) * expected, rel=0.011)


@pytest.mark.parametrize("x", [1e-5, 2e-3])
def test_rigid_sphere_on_slab(x: float) -> None:
    """And sum of A g is the slope of the slab times the shadow of the patch, dF/dx."""
    R, H = 0.05, 0.02
    found = contact(slab(H), Pose(), sphere(R), up(R - x))
    np.testing.assert_allclose(force(found)[2], hydro_exact.rigid_sphere_on_slab(E / H, R, x), rtol=1e-6)
    np.testing.assert_allclose(found.k.sum(), np.pi * E / H * (2.0 * R * x - x * x), rtol=1e-5)
    np.testing.assert_allclose(moment(found, np.array([0.0, 0.0, R - x])), 0.0, atol=1e-10)


def test_energy_of_a_sphere() -> None:
    """The integral of the force over the depth is the closed form."""
    R, x = 0.05, 2e-3
    nodes, weights = np.polynomial.legendre.leggauss(3)  # The force is a cubic.
    forces = [force(contact(plane(), Pose(), sphere(R, SOFT), up(R - d)))[2] for d in 0.5 * x * (nodes + 1.0)]
    assert 0.5 * x * weights @ forces == pytest.approx(hydro_exact.sphere_on_plane_energy(E, R, x), rel=1e-6)


def test_two_spheres() -> None:
    """Against a dense integral; the leading order is 1.2 % off at 1 mm."""
    a, b, x = sphere(0.05, SOFT), sphere(0.03, Material(3e6)), 1e-3
    found = contact(a, Pose(), b, up(0.08 - x, x=0.0))
    dense = hydro_exact.two_spheres(E, 0.05, 3e6, 0.03, x)
    assert force(found)[2] == pytest.approx(dense, rel=1e-6)
    leading = hydro_exact.two_spheres_leading(E, 0.05, 3e6, 0.03, x)
    assert 0.005 < abs(leading / dense - 1.0) < 0.02
    shallow = (E, 0.05, 3e6, 0.03, 1e-6)
    assert hydro_exact.two_spheres(*shallow) == pytest.approx(hydro_exact.two_spheres_leading(*shallow), rel=2e-5)


def test_ellipsoid_on_plane() -> None:
    a, b, c, x = 0.05, 0.03, 0.04, 1e-3
    found = contact(plane(), Pose(), ellipsoid(a, b, c, SOFT), up(c - x, turn(Z, 0.4)))
    assert force(found)[2] == pytest.approx(hydro_exact.ellipsoid_on_plane(E, a, b, c, x), rel=1e-6)


@pytest.mark.parametrize("x", [1e-5, 1e-3, 5e-3])
@pytest.mark.parametrize("name", ["box", "hull"])
def test_box_on_plane(name: str, x: float) -> None:
    """Exact, and uniform pressure inside; small cells are merged without loss of force."""
    a, b, H = 0.1, 0.08, 0.03
    pose = up(H - x, turn(Z, 0.3), x=0.1)
    expected = hydro_exact.box_on_plane(E / H, a, b, x)
    for rule in hydro_cells.RULES:
        found = contact(plane(), Pose(), GEOMS[name], pose, cells=rule)
        np.testing.assert_allclose(force(found), expected * Z, rtol=1e-9, atol=1e-9 * expected)
        np.testing.assert_allclose(centre(found)[:2], [0.1, 0.0], atol=1e-9)
    cells = hydro_cells.cells(plane(), Pose(), GEOMS[name], pose, merge=False)
    assert len(cells) == 5
    inside = max(cells, key=lambda cell: cell.area)
    np.testing.assert_allclose(inside.pressure(inside.polygon), E / H * x, rtol=1e-9)
    # sum of A g is dF/dx: the ramps at the sides stand along the plane's normal, so they have none
    slope = E / H * (a - 2.0 * x) * (b - 2.0 * x)
    assert contact(plane(), Pose(), GEOMS[name], pose).k.sum() == pytest.approx(slope, rel=2.0 * max(x / b, 1e-3))


@pytest.mark.parametrize("x", [1e-4, 2e-3])
def test_cylinder_on_plane(x: float) -> None:
    """On its cap and on its flank; the ramps at the edges are narrow and cost up to 1 %."""
    R, half = 0.04, 0.03
    middle = np.zeros(3)
    found = contact(plane(), Pose(), cylinder(R, half, SOFT), up(half - x))
    cap = hydro_exact.cylinder_cap(E / half, R, x)
    assert force(found)[2] == pytest.approx(cap, rel=0.01)
    assert torsion(found, Z, middle) == pytest.approx(hydro_exact.disc_torque(R) * cap, rel=0.021)
    r, L = 0.006, 0.2
    lying = contact(plane(), Pose(), cylinder(r, L / 2, SOFT), up(r - x, LYING))
    assert len(found) == len(lying) == 16
    assert force(lying)[2] == pytest.approx(hydro_exact.cylinder_flank(E / r, r, L, x), rel=x / L + 1e-3)


@pytest.mark.parametrize("x", [1e-4, 2e-3])
def test_capsule_on_plane(x: float) -> None:
    found = contact(plane(), Pose(), GEOMS["capsule"], up(0.03 - x, LYING))
    assert len(found) == 16
    assert force(found)[2] == pytest.approx(hydro_exact.capsule_on_plane(E, 0.03, 0.08, x), rel=2e-3)
    fine = contact(plane(), Pose(), GEOMS["capsule"], up(0.03 - x, LYING), polar=(64, 16))
    for axis in (X, Y):
        assert rocking(found, axis, np.zeros(3)) == pytest.approx(rocking(fine, axis, np.zeros(3)), rel=0.03)
    assert torsion(found, Z, np.zeros(3)) == pytest.approx(torsion(fine, Z, np.zeros(3)), rel=0.03)


# what a patch can do and a point cannot


def test_rocking_of_a_square() -> None:
    """The second moment: exact with three points of a triangle, and with three points in all; -1/3 with centroids."""
    H, a = 0.02, 0.1
    exact = E / H * a**4 / 12.0
    middle = np.array([0.0, 0.0, -1e-4])
    cells = hydro_cells.cells(slab(H), Pose(), box(a / 2, a / 2, a / 2), up(a / 2 - 1e-4))
    bottom = [cell for cell in cells if cell.normal[2] < -0.9]
    assert len(bottom) == 1
    for rule, error, count in (("fan", 0.0, 12), ("three", 0.0, 3), ("centroids", -1.0 / 3.0, 4)):
        weight, pos = hydro_cells.RULES[rule](bottom[0])
        assert len(weight) == count
        assert E / H * weight @ (pos - middle)[:, 1] ** 2 == pytest.approx((1.0 + error) * exact, rel=1e-9)


@functools.cache
def disc_on_slab() -> Points:
    """A rigid cap of radius 40 mm: uniform pressure."""
    return contact(slab(), Pose(), cylinder(0.04, 0.03), up(0.03 - 1e-6), polar=(16, 2))


def test_spin() -> None:
    """Torque of sliding friction: disc, square and rectangle."""
    x, H = 1e-6, 0.02
    disc = disc_on_slab()
    assert torsion(disc, Z, np.zeros(3)) == pytest.approx(hydro_exact.disc_torque(0.04) * force(disc)[2], rel=0.012)
    assert hydro_exact.rectangle_torque(1.0, 1.0) == pytest.approx(0.38260, abs=5e-6)
    for a, b in ((0.1, 0.1), (0.1, 0.02)):
        for rule, rel in (("mixed", 0.01), ("three", 0.08)):
            found = contact(slab(H), Pose(), box(a / 2, b / 2, 0.05), up(0.05 - x), cells=rule)
            torque = torsion(found, Z, np.zeros(3))
            assert torque == pytest.approx(hydro_exact.rectangle_torque(a, b) * force(found)[2], rel=rel)


def test_slide_and_spin() -> None:
    """A uniform disc stops sliding and spinning at once, with v/(R omega) = 0.653.

    The centre of rotation is inside the disc, so few points see it coarsely: 0.52 with 16 x 2, 0.70 with 16 x 3.
    """
    R = 0.04
    radius, angle = R * np.sqrt((np.arange(40) + 0.5) / 40), 2.0 * np.pi * (np.arange(80) + 0.5) / 80
    dense = np.stack([np.outer(radius, np.cos(angle)), np.outer(radius, np.sin(angle))], axis=-1).reshape(-1, 2)
    found = disc_on_slab()
    for weight, xy, tolerance in (
        (np.full(len(dense), 1.0 / len(dense)), dense, 1e-3),
        (found.f0 / found.f0.sum(), found.pos[:, :2], 0.14),
    ):
        for ratio in (0.2, 2.0):
            assert hydro_exact.stopping_ratio(weight, xy, R, ratio) == pytest.approx(0.653, abs=tolerance)


def test_kern() -> None:
    """A rigid box pushed off its middle: tilt within the kern, pressed length beyond it."""
    a, b, H = 0.08, 0.1, 0.02
    body = box(b / 2, a / 2, 0.05)

    def pushed(tilt: float, depth: float) -> tuple[float, float, float]:
        """Turned about the middle of its bottom, which is at -depth: force, its arm, length that is pressed."""
        rot = turn(Y, tilt)
        middle = np.array([0.0, 0.0, -depth])
        pose = Pose(rot, middle + 0.05 * rot[:, 2])
        found = contact(slab(H), Pose(), body, pose)
        pressed = np.concatenate([cell.polygon for cell in hydro_cells.cells(slab(H), Pose(), body, pose)])
        normal = float(force(found)[2])
        return normal, abs(moment(found, middle)[1] / normal), float(np.ptp(pressed[:, 0]))

    depth = 1e-4
    normal, arm, _ = pushed(1e-6, depth)  # The walls are pressed as well; their moment is of the order of the depth.
    assert hydro_exact.tilt(E / H, a, b, arm * normal) == pytest.approx(1e-6, rel=2e-3)
    assert pushed(2.0 * depth / b, depth)[1] == pytest.approx(b / 6.0, rel=1e-3)
    for length in (0.7 * b, 0.2 * b):
        _, arm, pressed = pushed(depth / b, depth / b * (length - b / 2))
        assert hydro_exact.pressed_length(b, arm) == pytest.approx(length, rel=2e-3)
        assert pressed == pytest.approx(length, rel=2e-3)
    assert hydro_exact.pressed_length(b, 0.51 * b) == 0.0


# the same whoever looks


PAIRS = {
    "box box": (GEOMS["box"], box(0.1, 0.08, 0.05, Material(3e6, dissipation=2.0)), 0.079, 0.02),
    "hull rigid box": (GEOMS["hull"], box(0.1, 0.08, 0.05), 0.079, 0.02),
    "cylinder box": (GEOMS["cylinder"], box(0.1, 0.08, 0.05, Material(3e6)), 0.0925, 0.5),
    "sphere hull": (GEOMS["sphere"], GEOMS["hull"], 0.079, 0.02),
    "rigid capsule cylinder": (capsule(0.03, 0.04), GEOMS["cylinder"], 0.099, 0.02),
}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_swap_and_common_motion(name: str) -> None:
    """The force turns over when the geoms are swapped, and moves with both."""
    a, b, height, tilt = PAIRS[name]
    pose_a, pose_b = Pose(turn(X, tilt), np.array([0.01, 0.02, height])), Pose()
    one = contact(a, pose_a, b, pose_b)
    other = contact(b, pose_b, a, pose_a)
    total = float(np.linalg.norm(force(one)))
    assert total > 1.0
    np.testing.assert_allclose(force(one), -force(other), atol=2e-9 * total)
    np.testing.assert_allclose(moment(one), -moment(other), atol=2e-10 * total)
    away = Pose(turn(np.array([0.6, 0.0, 0.8]), 1.1), np.array([0.3, -2.0, 1.0]))
    far = contact(a, away @ pose_a, b, away @ pose_b)
    np.testing.assert_allclose(force(far), away.rot @ force(one), atol=2e-9 * total)
    np.testing.assert_allclose(centre(far), away.rot @ centre(one) + away.pos, atol=1e-9)
    assert np.all(one.weight > 0.0) and np.all(one.gradient > 0.0) and np.all(one.p0 > 0.0)
    np.testing.assert_allclose(one.f0, -one.k * one.dist)
    assert np.all((one.dissipation >= 0.0) & (one.dissipation <= 2.0))


def test_point_in_series() -> None:
    """Gradients and dissipation of two slabs of material in series; the normal points from geom 0 to geom 1."""
    a, b = plane(Material(E, 0.02, 1.0)), box(0.05, 0.05, 0.05, Material(3e6, dissipation=4.0))
    found = contact(a, Pose(), b, up(0.05 - 1e-3))
    inner = np.abs(found.pos[:, :2]).max(axis=1) < 0.045
    ga, gb = E / 0.02, 3e6 / 0.05
    np.testing.assert_allclose(found.normal[inner], np.tile(Z, (inner.sum(), 1)), atol=1e-12)
    np.testing.assert_allclose(found.gradient[inner], 1.0 / (1.0 / ga + 1.0 / gb))
    np.testing.assert_allclose(found.dist[inner], -1e-3)
    np.testing.assert_allclose(found.dissipation[inner], (1.0 / ga + 4.0 / gb) / (1.0 / ga + 1.0 / gb))


# continuity


def test_box_slid_off_a_table() -> None:
    """Total force on the way, in steps of 1.6 mm: no jump, and none at the end."""
    table, small = box(0.2, 0.2, 0.05, Material(3e6)), box(0.02, 0.02, 0.02, SOFT)
    rot = turn(Z, 0.2)
    places = np.arange(0.17, 0.226, 1.6e-3)
    forces = np.array([force(contact(table, up(-0.05), small, up(0.0195, rot, x=x), cells="one")) for x in places])
    full, jumps = forces[0, 2], np.abs(np.diff(forces, axis=0)).max()
    assert full > 10.0 and np.all(forces[-1] == 0.0)
    assert jumps < 1.5 * full * 1.6e-3 / 0.04


def test_box_turned_on_a_table() -> None:
    """By 90 degrees about the vertical: the same force all the way, for cells and for a cylinder's cap."""
    table = box(0.2, 0.2, 0.05, Material(3e6))
    for geom, z, rel in ((GEOMS["box"], 0.029, 1e-9), (GEOMS["cylinder"], 0.029, 1e-6)):
        forces = [force(contact(table, up(-0.05), geom, up(z, turn(Z, t))))[2] for t in np.linspace(0.0, np.pi / 2, 4)]
        np.testing.assert_allclose(forces, forces[0], rtol=rel)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_force_is_continuous(name: str) -> None:
    """A turn by 1e-6 changes force and moment in proportion: cells are merged and patches recentred without jumps."""
    a, b, height, tilt = PAIRS[name]
    for angle in (tilt, tilt + 0.05):
        forces = []
        for small in (0.0, 1e-6):
            rot = turn(np.array([0.6, 0.8, 0.0]), angle + small)
            forces.append(force(contact(a, Pose(rot, np.array([0.01, 0.02, height])), b, Pose())))
        assert np.linalg.norm(forces[1] - forces[0]) < 5e-4 * np.linalg.norm(forces[0]) + 1e-9


# ahead of touch


def test_ahead_of_touch() -> None:
    """Points with p0 < 0 within the margin, none beyond; those of a box have its area and the right distance."""
    margin = 1e-4
    for geom, low in ((GEOMS["box"], 0.03), (GEOMS["sphere"], 0.05)):
        assert len(contact(slab(), Pose(), geom, up(low + 1.1 * margin), margin)) == 0
        assert len(contact(slab(), Pose(), geom, up(low + 0.5 * margin))) == 0
        found = contact(slab(), Pose(), geom, up(low + 0.5 * margin), margin)
        assert len(found) > 0 and np.all(found.p0 < 0.0)
        assert found.dist.min() == pytest.approx(0.5 * margin, rel=0.5) and found.k.sum() > 0.0
        deep = contact(slab(), Pose(), geom, up(low - 2.0 * margin), margin)
        np.testing.assert_allclose(force(deep), force(contact(slab(), Pose(), geom, up(low - 2.0 * margin))), atol=1e-9)
        assert np.all(deep.p0 > 0.0)
    flat = contact(slab(), Pose(), box(0.05, 0.04, 0.03), up(0.03 + 0.5 * margin), margin)
    np.testing.assert_allclose(flat.dist, 0.5 * margin)
    np.testing.assert_allclose(flat.k.sum(), E / 0.02 * 0.1 * 0.08)


def test_margin_keeps_the_force_of_cells() -> None:
    """A tilted box is cut at p = 0: its force does not change, and points wait on the side that is up."""
    pose = Pose(turn(Y, 1e-3), np.array([0.0, 0.0, 0.03 + 2e-5]))
    plain = contact(plane(), Pose(), GEOMS["box"], pose)
    ahead = contact(plane(), Pose(), GEOMS["box"], pose, 1e-4)
    assert len(ahead) > len(plain) > 0 and np.any(ahead.p0 < 0.0)
    np.testing.assert_allclose(force(ahead), force(plain), rtol=1e-9, atol=1e-9)


def test_margin_of_a_shallow_sphere() -> None:
    """Shallower than the margin, the force is a sum over part of the points: off by up to 0.22 margin in depth."""
    margin = 1e-4
    for x in (1e-5, 2e-5, 5e-5, 8e-5, 1e-4):
        found = force(contact(plane(), Pose(), GEOMS["sphere"], up(0.05 - x), margin))[2]
        low, high = (hydro_exact.sphere_on_plane(E, 0.05, max(x + e * margin, 0.0)) for e in (-0.22, 0.22))
        assert low <= found <= high


# start of a polar patch


@pytest.mark.parametrize("first", ["capsule", "cylinder", "ellipsoid", "sphere"])
def test_start_is_inside(first: str) -> None:
    """For random poses: no place nearby is deeper, and the pressures along the normal are those of a contact."""
    rng = np.random.default_rng(3)
    for second in ("box", "hull", "cylinder"):
        a, b = GEOMS[first], GEOMS[second]
        axis = rng.normal(size=3)
        pose = Pose(turn(axis / np.linalg.norm(axis), rng.uniform(0.0, 3.0)), rng.normal(0.0, 0.03, size=3))
        pair = hydro_polar.Pair(a, Pose(), b, pose, 2.0 * min(a.radius, b.radius))
        x, n = hydro_polar.start(pair)

        def depth(y: np.ndarray, a: Geom = a, b: Geom = b, pose: Pose = pose) -> np.ndarray:
            (ea, _), (eb, _) = hydro_fields.at(a, Pose(), y), hydro_fields.at(b, pose, y)
            return np.minimum(a.depth * ea, b.depth * eb)

        for size in (1e-2, 1e-3, 1e-4):
            assert depth(x + size * rng.normal(size=(500, 3))).max() < depth(x) + 1e-7
        assert np.linalg.norm(n) == pytest.approx(1.0)
        top = hydro_polar.surface(pair, x[None], n, np.zeros(1))
        both = np.array([pressure(a, Pose(), top.pos)[0], pressure(b, pose, top.pos)[0]])
        assert both.min() >= min(pressure(a, Pose(), x)[0], pressure(b, pose, x)[0]) - 1e-6 * E


# Drake


@pytest.mark.parametrize("case", DRAKE["boxes"], ids=lambda case: case["name"])
@pytest.mark.parametrize("kind", ["compliant", "rigid_b"])
def test_boxes_of_drake(case: dict[str, Any], kind: str) -> None:
    """Force, moment and area of the contact surface of two boxes."""
    (ax, ay, az), (bx, by, bz) = DRAKE["half_a"], DRAKE["half_b"]
    a = box(ax, ay, az, Material(DRAKE["modulus_a"]))
    b = box(bx, by, bz, Material(DRAKE["modulus_b"]) if kind == "compliant" else Material())
    pose_a = Pose(np.array(case["rot_a"]), np.array(case["pos_a"]))
    pose_b = Pose(np.array(case["rot_b"]), np.array(case["pos_b"]))
    cells = hydro_cells.cells(a, pose_a, b, pose_b, merge=False)
    total = float(np.linalg.norm(case[kind]["force_on_a"]))
    np.testing.assert_allclose(sum(c.force * c.normal for c in cells), case[kind]["force_on_a"], atol=1e-11 * total)
    assert sum(cell.area for cell in cells) == pytest.approx(case[kind]["area"], rel=1e-11)
    assert max(len(cell.polygon) for cell in cells) <= hydro_cells.CORNERS
    found = contact(a, pose_a, b, pose_b)  # Merged: the force keeps its size, the direction is that of the large cells.
    np.testing.assert_allclose(-force(found), case[kind]["force_on_a"], atol=1e-4 * total)
    np.testing.assert_allclose(-moment(found), case[kind]["moment_on_a"], atol=1e-5 * total)
    few = contact(a, pose_a, b, pose_b, cells="mixed")
    np.testing.assert_allclose(force(few), force(found), atol=1e-10 * total)
    np.testing.assert_allclose(moment(few), moment(found), atol=1e-4 * total)
    assert len(few) < 32 and np.all(few.p0 >= 0.0)


@pytest.mark.parametrize("case", DRAKE["rounds"], ids=lambda case: case["name"])
def test_round_shapes_of_drake(case: dict[str, Any]) -> None:
    """Drake's forces as the mesh gets finer, order 2, extrapolated; edges across the patch cost up to 1 %."""
    a, b = (
        getattr(hydro_fields, shape)(*size, Material(modulus) if modulus else Material())
        for (shape, size), modulus in zip(case["geoms"], case["moduli"], strict=True)
    )
    found = contact(a, Pose(np.array(case["rot_a"]), np.array(case["pos_a"])), b, Pose(pos=np.array(case["pos_b"])))
    coarse, middle, fine = (np.array(f["force_on_a"]) for f in case["forces"])
    limit = fine + (fine - middle) / 3.0
    total = float(np.linalg.norm(limit))
    assert np.linalg.norm(middle - coarse) / np.linalg.norm(fine - middle) == pytest.approx(4.0, abs=0.8)
    smooth = case["name"] in ("sphere on rigid box", "two spheres", "sphere on compliant box", "ellipsoid on a box")
    np.testing.assert_allclose(-force(found), limit, atol=(1e-4 if smooth else 1e-2) * total)
    middle, fine = (np.array(f["moment_on_a"]) for f in case["forces"][1:])
    np.testing.assert_allclose(-moment(found), fine + (fine - middle) / 3.0, atol=(1e-5 if smooth else 6e-4) * total)
