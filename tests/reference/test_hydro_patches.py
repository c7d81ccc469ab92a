"""Patches of hydroelastic contact: symmetry, continuity, points ahead of touch, and where a polar patch starts."""

import numpy as np
import pytest

from tests.reference import hydro_exact, hydro_fields, hydro_polar
from tests.reference.hydro import contact
from tests.reference.hydro_cases import GEOMS, SOFT, E, X, Y, Z, slab, turn, up
from tests.reference.hydro_fields import Geom, Material, Pose, box, capsule, plane, pressure
from tests.reference.hydro_points import centre, force, moment

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
