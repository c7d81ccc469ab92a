"""The reference of hydroelastic contact against closed forms."""

import functools

import numpy as np
import pytest

from tests.reference import hydro_cells, hydro_exact, hydro_fields
from tests.reference.hydro import contact
from tests.reference.hydro_cases import GEOMS, LYING, SOFT, E, X, Y, Z, slab, turn, up
from tests.reference.hydro_fields import Material, Pose, box, cylinder, ellipsoid, hull, plane, sphere
from tests.reference.hydro_points import Points, centre, force, moment, rocking, torsion

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


def test_hull_on_plane() -> None:
    """A hull of 24 random points, 44 faces: against a dense sum over the plane."""
    vert = np.random.default_rng(0).normal(size=(24, 3))
    vert *= 0.05 / np.linalg.norm(vert, axis=1, keepdims=True)
    rot = turn(X, 0.4)
    pose = up(-(vert @ rot.T)[:, 2].min() - 4e-3, rot)
    geom = hull(vert, SOFT)
    side = np.linspace(-0.05, 0.05, 401)
    places = np.stack([*np.meshgrid(side, side), np.zeros((401, 401))], axis=-1)
    dense = np.maximum(hydro_fields.pressure(geom, pose, places)[0], 0.0).sum() * (side[1] - side[0]) ** 2
    cells = hydro_cells.cells(plane(), Pose(), geom, pose, merge=False)
    assert len(cells) == 13 and max(len(cell.polygon) for cell in cells) == 8
    assert sum(cell.force for cell in cells) == pytest.approx(dense, rel=1e-4)
    assert force(contact(plane(), Pose(), geom, pose))[2] == pytest.approx(dense, rel=1e-4)


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
