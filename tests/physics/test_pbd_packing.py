"""Spheres packed into primitives: where they lie, that they are inside, apart or at the surface, how much they fill."""

import itertools
import math

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from stickslip.errors import InputError, Unsupported
from stickslip.physics.pbd import lattice, packing, seating, solids
from stickslip.physics.pbd.packing import Packing, pack
from tests.reference.packings import (
    BALL,
    COIN,
    DRUM,
    EGG,
    SIDES,
    SPINDLE,
    R,
    depth_in_ellipsoid,
    directions,
    excess,
    least_gap,
    model,
    packed,
    sampled_coverage,
    size_of,
    surface,
    turned,
)


@pytest.fixture
def nothing_kept():
    packing._kept.clear()
    yield
    packing._kept.clear()


# boxes and rods


def test_cube_is_a_grid_of_touching_spheres():
    found = packed('type="box" size="0.1 0.1 0.1"', 4)
    rows = np.array([-0.075, -0.025, 0.025, 0.075])
    expected = np.array(list(itertools.product(rows, repeat=3)))
    assert found.radius == pytest.approx(np.full(64, 0.025), abs=1e-15)
    assert found.centre == pytest.approx(expected, abs=1e-15)
    assert least_gap(found) == pytest.approx(0.0, abs=1e-12)
    assert found.coverage == pytest.approx(math.pi / 6.0, rel=1e-12)


def test_flat_box_has_the_resolution_along_its_shortest_side_and_touches_all_faces():
    found = packed('type="box" size="0.21 0.1 0.02"', 2)
    assert [len(np.unique(found.centre[:, axis].round(9))) for axis in range(3)] == [21, 10, 2]
    assert found.radius == pytest.approx(np.full(420, 0.01))
    assert found.centre.max(axis=0) + 0.01 == pytest.approx([0.21, 0.1, 0.02])
    assert found.centre.min(axis=0) - 0.01 == pytest.approx([-0.21, -0.1, -0.02])
    assert least_gap(found) >= -1e-9


def test_box_sides_are_rounded_to_whole_spheres_and_halves_to_fewer():
    def counts(size: str) -> list[int]:
        return [len(np.unique(row.round(9))) for row in packed(f'type="box" size="{size}"', 1).centre.T]

    assert counts("0.1 0.14 0.16") == [1, 1, 2]
    assert counts("0.1 0.15 0.25") == [1, 1, 2]


@pytest.mark.parametrize(
    ("geom", "half", "seated"),
    [
        ('type="box" size="0.1 0.16 0.17"', (0.1, 0.16, 0.17), False),  # overlap in two directions
        ('type="box" size="0.1 0.1 0.35"', (0.1, 0.1, 0.35), False),
        (EGG, (0.12, 0.1, 0.2), False),
        (EGG, (0.12, 0.1, 0.2), True),
        (COIN, (0.1, 0.1, 0.03), True),
    ],
)
def test_coverage_is_what_random_points_find(geom: str, half: tuple[float, float, float], seated: bool):
    found = packed(geom, 1 if "box" in geom else 3, seated=seated)
    assert found.coverage == pytest.approx(sampled_coverage(geom, found, half), abs=0.01)  # 4 standard deviations


def test_cylinder_as_a_rod_is_a_chain_that_touches_its_ends():
    found = packed('type="cylinder" size="0.1 0.37"', 7)
    assert found.radius == pytest.approx([0.1, 0.1, 0.1])
    assert found.centre == pytest.approx(np.array([[0.0, 0.0, -0.27], [0.0, 0.0, 0.0], [0.0, 0.0, 0.27]]))
    assert found.coverage == pytest.approx(3.0 * 4.0 / 3.0 * 0.1 / 0.74)


def test_whole_spheres_along_a_rod_are_not_lost_to_rounding():
    found = packed('type="cylinder" size="0.1 0.3"')
    assert found.centre[:, 2] == pytest.approx([-0.2, 0.0, 0.2])


def test_capsule_is_a_chain_between_its_caps():
    found = packed('type="capsule" size="0.1 0.25"')
    assert found.radius == pytest.approx([0.1, 0.1, 0.1])
    assert found.centre == pytest.approx(np.array([[0.0, 0.0, -0.25], [0.0, 0.0, 0.0], [0.0, 0.0, 0.25]]))


def test_short_capsule_keeps_both_caps_and_counts_their_overlap_once():
    radius, half = 0.1, 0.05
    found = packed(f'type="capsule" size="{radius} {half}"')
    assert found.centre[:, 2] == pytest.approx([-half, half])
    lens = 2.0 * math.pi * (radius - half) ** 2 * (2.0 * radius + half) / 3.0
    filled = 8.0 / 3.0 * math.pi * radius**3 - lens
    assert found.coverage == pytest.approx(filled / (math.pi * radius**2 * (2.0 * half + 4.0 / 3.0 * radius)), rel=1e-4)


# lattices


@pytest.mark.parametrize("resolution", [1, 2, 3, 5])
@pytest.mark.parametrize("geom", [BALL, EGG, COIN, DRUM])
def test_spheres_are_equal_inside_and_apart(geom: str, resolution: int):
    found = packed(geom, resolution)
    smallest = min(float(x) for x in geom.split('"')[3].split())
    assert found.radius == pytest.approx(np.full(len(found.centre), smallest / resolution))
    assert excess(geom, surface(found)) <= 1e-6
    assert least_gap(found) >= -1e-9


def test_a_sphere_in_an_ellipsoid_fits_if_its_centre_is_as_deep_as_its_radius():
    axes, radius = np.array([0.12, 0.1, 0.2]), 0.03
    centre = np.random.default_rng(1).uniform(-1.0, 1.0, (300, 3)) * axes
    centre[:150:2, 1] = 0.0  # where the nearest point is not unique
    centre[1:100:3, 0] = 0.0
    shell = directions(40_000) * axes
    depth = np.array([np.linalg.norm(shell - c, axis=1).min() for c in centre])
    depth[np.linalg.norm(centre / axes, axis=1) >= 1.0] *= -1.0
    clear = np.abs(depth - radius) > 1e-4  # of the distance to the nearest of the points
    fits = solids.Ellipsoid("it", axes).fits(centre, radius)
    assert fits[clear].tolist() == (depth >= radius)[clear].tolist()
    assert 20 < fits.sum() < 200


@pytest.mark.parametrize("geom", [BALL, EGG, COIN, DRUM])
def test_more_resolution_fills_more(geom: str):
    coverage = [packed(geom, n).coverage for n in (2, 4, 16)]
    assert coverage == sorted(coverage)
    assert coverage[-1] > 0.6


@pytest.mark.parametrize("resolution", [4, 8, 12])
def test_ball_is_filled_better_than_by_a_cubic_grid(resolution: int):
    radius = R / resolution
    rows = np.arange(-resolution, resolution + 1)
    grids = []
    for shift in (0.0, 0.5):
        points = np.array(list(itertools.product(2.0 * radius * (rows + shift), repeat=3)))
        grids.append(int(np.sum(np.linalg.norm(points, axis=1) <= R - radius + 1e-9)))
    assert len(packed(BALL, resolution).radius) > max(grids)


def test_spheres_touch_the_faces_of_what_is_flat():
    found = packed(DRUM, 8)
    assert found.centre[:, 2].max() + found.radius[0] == pytest.approx(0.1, abs=1e-9)
    assert found.centre[:, 2].min() - found.radius[0] == pytest.approx(-0.1, abs=1e-9)


@pytest.mark.parametrize("geom", [BALL, DRUM])
@pytest.mark.usefixtures("nothing_kept")
def test_of_lattices_nearly_as_dense_the_one_nearest_to_the_bounding_box_is_taken(
    geom: str, monkeypatch: pytest.MonkeyPatch
):
    def widest_gap(found: Packing) -> float:
        """From the sides of the bounding box [m]."""
        return R - found.radius[0] - float(np.minimum(found.centre.max(axis=0), -found.centre.min(axis=0)).min())

    found = packed(geom, 6)
    monkeypatch.setattr(lattice, "_NEAR", 1.0)
    packing._kept.clear()
    densest = packed(geom, 6)
    assert 0.98 * len(densest.radius) <= len(found.radius) < len(densest.radius)
    assert widest_gap(found) < 0.7 * widest_gap(densest)


@pytest.mark.parametrize("geom", [BALL, EGG, COIN])
def test_same_geom_same_spheres(geom: str):
    first = packed(geom, 5)
    packing._kept.clear()
    second = packed(geom, 5)
    assert first.centre.tobytes() == second.centre.tobytes()
    assert first.coverage == second.coverage


# seats


def test_seated_sphere_stands_for_itself():
    found = packed(BALL, 4, seated=True)
    assert found.centre.tolist() == [[0.0, 0.0, 0.0]]
    assert found.radius.tolist() == [R]
    assert found.coverage == 1.0
    assert len(packed(BALL, 4).radius) > 1


@pytest.mark.parametrize("resolution", [1, 3])
@pytest.mark.parametrize("geom", [EGG, SPINDLE, COIN, DRUM])
def test_seated_spheres_near_the_surface_touch_it_from_inside(geom: str, resolution: int):
    found, size = packed(geom, resolution, seated=True), size_of(geom)
    if "cylinder" in geom:
        across, along = np.hypot(found.centre[:, 0], found.centre[:, 1]), np.abs(found.centre[:, 2])
        depth = np.minimum(size[0] - across, size[1] - along)
    else:
        depth = np.array([depth_in_ellipsoid(size, centre) for centre in found.centre])
    radius = size[:2].min() / resolution if "cylinder" in geom else size.min() / resolution
    assert found.radius == pytest.approx(np.full(len(depth), radius))
    assert excess(geom, surface(found)) <= 1e-6
    near = depth < 3.0 * radius
    assert near.sum() >= (1 if resolution == 1 else 15)
    assert depth[near] == pytest.approx(np.full(near.sum(), radius), abs=1e-6 * size.max())


def test_more_of_a_seated_body_is_at_its_surface():
    """What one rests on, in any direction: by how much it would sink below its true surface, in radii."""
    away, size = directions(500), size_of(EGG)

    def sunk(found: Packing) -> NDArray[np.float64]:
        return (np.linalg.norm(away * size, axis=1) - (found.centre @ away.T).max(axis=0)) / found.radius[0] - 1.0

    loose, seated = sunk(packed(EGG)), sunk(packed(EGG, seated=True))
    assert seated.min() >= -1e-9
    assert seated.mean() < 0.3 * loose.mean()
    assert seated.max() < 0.6 < 1.0 < loose.max()


@pytest.mark.parametrize(
    ("geom", "resolution"), [(COIN, 1), (COIN, 4), (DRUM, 4), ('type="cylinder" size="0.11 0.1"', 1)]
)
def test_rims_of_a_seated_cylinder_are_lined_all_around(geom: str, resolution: int):
    found, (wide, half) = packed(geom, resolution, seated=True), size_of(geom)
    radius = found.radius[0]
    turn = np.linspace(0.0, 2.0 * math.pi, 1001)
    for side in (-1.0, 1.0):
        rim = found.centre[np.abs(found.centre[:, 2] - side * (half - radius)) < 1e-9]
        ring = rim[np.abs(np.hypot(rim[:, 0], rim[:, 1]) - (wide - radius)) < 1e-9]
        at = np.sort(np.arctan2(ring[:, 1], ring[:, 0]))
        steps = np.diff(np.append(at, at[0] + 2.0 * math.pi))
        assert 2.0 * (wide - radius) * np.sin(0.5 * steps.max()) <= 2.0 * radius * (1.0 + 1e-9)
        # over which it tips, in any direction: short of the edge by less than a radius and a half
        edge = (rim[:, :2] @ np.array([np.cos(turn), np.sin(turn)])).max(axis=0)
        assert edge.min() > wide - 1.5 * radius
        assert edge[::250] == pytest.approx(np.full(5, wide - radius))


def test_ends_of_a_seated_ellipsoid_are_touched():
    for found in (packed(EGG, 4, seated=True), packed(EGG, 2, seated=True)):
        reach = (found.centre @ SIDES.T).max(axis=0) + found.radius[0]
        assert reach == pytest.approx(np.tile(size_of(EGG), 2), abs=1e-9)


def test_ends_of_a_pointed_ellipsoid_are_neared_as_far_as_a_sphere_fits():
    found, size = packed(SPINDLE, 3, seated=True), size_of(SPINDLE)
    radius = found.radius[0]
    for side in (-1.0, 1.0):
        end = found.centre[np.argmax(side * found.centre[:, 2])]
        assert np.abs(end[:2]).max() <= 1e-12
        assert abs(end[2]) + radius < 0.2 - 0.01 * radius
        assert depth_in_ellipsoid(size, end) == pytest.approx(radius, abs=1e-7)
        assert depth_in_ellipsoid(size, end + [0.0, 0.0, 0.01 * side * radius]) < radius - 1e-6


@pytest.mark.parametrize("geom", [EGG, SPINDLE])
def test_seated_spheres_do_not_crowd(geom: str):
    loose, found = packed(geom), packed(geom, seated=True)
    assert least_gap(found) >= -1.5 * found.radius[0]
    assert len(loose.radius) <= len(found.radius) <= len(loose.radius) + 6


def test_of_crowded_spheres_the_first_is_kept():
    row = np.array([[0.0, 0.0, 0.0], [0.4, 0.0, 0.0], [0.8, 0.0, 0.0], [5.0, 0.0, 0.0], [5.2, 0.3, 0.3], [-0.45, 0, 0]])
    assert seating._spread(row, 0.5).tolist() == [True, False, True, True, False, False]


def test_pairs_are_those_that_are_closer_than_the_reach():
    rng = np.random.default_rng(2)
    a, b, reach = rng.uniform(-1.0, 1.0, (200, 3)), rng.uniform(-0.5, 2.0, (300, 3)), 0.3
    i, j = seating._pairs(a, b, reach)
    expected = np.argwhere(np.linalg.norm(a[:, None] - b, axis=2) < reach)
    assert len(expected) > 100
    assert sorted(map(list, zip(i.tolist(), j.tolist(), strict=True))) == expected.tolist()


def test_volume_of_two_spheres_that_overlap():
    for apart in (0.3, 1.0, 1.9, 2.5):
        lens = math.pi * (2.0 - apart) ** 2 * (4.0 + apart) / 12.0 if apart < 2.0 else 0.0
        found = seating.union(np.array([[0.0, 0.0, 0.0], [0.0, apart, 0.0]]), 1.0)
        assert found == pytest.approx(8.0 / 3.0 * math.pi - lens, rel=2e-3)


# what is packed once


def two_of(geom: str, other: str, asset: str = "") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(
        f"<mujoco><asset>{asset}</asset><worldbody><body><freejoint/><geom name='first' {geom}/></body>"
        f"<body><freejoint/><geom name='second' {other}/></body></worldbody></mujoco>"
    )


@pytest.mark.usefixtures("nothing_kept")
def test_equal_geoms_are_packed_once(monkeypatch: pytest.MonkeyPatch):
    sizes = []

    def best(solid: solids.Solid, *args: object) -> NDArray[np.float64]:
        sizes.append(float(solid.high[2]))
        return np.zeros((1, 3))

    monkeypatch.setattr(lattice, "best", best)
    mjm = two_of(EGG, EGG)
    found = pack(mjm, 0, 3, 2, seated=False)
    assert pack(mjm, 1, 3, 2, seated=False) is found
    assert pack(model(EGG), 0, 3, 9, seated=False) is found  # a mesh's resolution, which it does not use
    assert sizes == [0.2]
    for other in (
        pack(mjm, 0, 4, 2, seated=False),
        pack(mjm, 0, 3, 2, seated=True),
        packed('type="ellipsoid" size="0.12 0.1 0.21"', 3),
        packed('type="cylinder" size="0.12 0.1"', 3),
    ):
        assert other is not found
    assert sizes == [0.2, 0.2, 0.2, 0.21, 0.1]
    assert packed('type="capsule" size="0.12 0.1"', 3) is not packed('type="cylinder" size="0.12 0.1"', 3)


def test_equal_meshes_are_packed_once_whatever_their_names():
    one, other = turned((0.1, 0.2, 0.3)), turned((0.1, 0.2, 0.31))
    asset = one.asset("m") + one.asset("n") + other.asset("o")
    mjm = two_of('type="mesh" mesh="m"', 'type="mesh" mesh="n"', asset)
    found = pack(mjm, 0, 1, 2, seated=False)
    assert pack(mjm, 1, 1, 2, seated=False) is found
    assert pack(mjm, 1, 1, 3, seated=False) is not found
    assert pack(two_of('type="mesh" mesh="m"', 'type="mesh" mesh="o"', asset), 1, 1, 2, seated=False) is not found
    mjm.mesh_quat[0] = [math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0]  # other axes in the file
    assert pack(mjm, 0, 1, 2, seated=False) is not found
    mjm.mesh_face[: mjm.mesh_facenum[0]] = mjm.mesh_face[: mjm.mesh_facenum[0], [1, 2, 0]]
    mjm.mesh_quat[0] = mjm.mesh_quat[1]
    assert pack(mjm, 0, 1, 2, seated=False) is not found


def test_packings_that_others_have_too_cannot_be_written_to():
    for found in (packed(BALL, 2), packed(BALL, 2, seated=True), packed('type="box" size="0.1 0.1 0.1"', 2)):
        with pytest.raises(ValueError, match="read-only"):
            found.centre[0, 0] = 1.0
        with pytest.raises(ValueError, match="read-only"):
            found.radius[0] = 1.0


@pytest.mark.usefixtures("nothing_kept")
def test_only_so_many_packings_are_kept(monkeypatch: pytest.MonkeyPatch):
    box = 'type="box" size="0.1 0.1 0.1"'
    monkeypatch.setattr(packing, "_MOST_KEPT", 2)
    first, second = packed(box, 1), packed(box, 2)
    assert packed(box, 1) is first
    packed(box, 3)
    assert len(packing._kept) == 2
    assert packed(box, 2) is second
    assert packed(box, 1) is not first
    assert [len(each.radius) for each in packing._kept.values()] == [27, 1]
    monkeypatch.setattr(packing, "_MOST_KEPT", 9)
    monkeypatch.setattr(packing, "MOST_SPHERES", 30)
    packed(box, 2)
    assert [len(each.radius) for each in packing._kept.values()] == [1, 8]


def test_errors_name_the_geom_that_was_asked_for():
    thin = turned((0.1, 0.1, 0.002), 0.8)
    mjm = two_of('type="mesh" mesh="m"', 'type="mesh" mesh="n"', thin.asset("m") + thin.asset("n"))
    for geom, name in ((0, r"'first' \(mesh 'm'\)"), (1, r"'second' \(mesh 'n'\)"), (0, "'first'")):
        with pytest.raises(InputError, match=f"fits into geom {name}"):
            pack(mjm, geom, 1, 4, seated=False)


# errors


@pytest.mark.parametrize(
    ("resolution", "mesh_resolution", "message"),
    [
        (0, 2, "resolution is 0: it must be a whole number, at least 1"),
        (2.5, 2, "resolution is 2.5: it must be a whole number"),
        (1, 1, "mesh_resolution is 1: it must be a whole number, at least 2"),
    ],
)
def test_resolution_out_of_range(resolution: int, mesh_resolution: int, message: str):
    with pytest.raises(InputError, match=message):
        pack(model(BALL), 0, resolution, mesh_resolution, seated=False)


@pytest.mark.parametrize(
    ("geom", "message"),
    [
        (
            'type="box" size="0.1 0.1 0.1"',
            "geom 'it' would take 8,000,000 spheres of radius 0.0005 m, and at most 5,000",
        ),
        (BALL, "geom 'it': about 5,923,843 spheres .* at most 5,000,000 are allowed: lower resolution, which is 200"),
    ],
)
def test_too_many_spheres(geom: str, message: str):
    with pytest.raises(InputError, match=message):
        packed(geom, 200)


def test_plane_has_no_inside():
    with pytest.raises(Unsupported, match="geom 'it' is of type plane"):
        pack(model('type="plane" size="1 1 1"', body=""), 0, 4, 2, seated=False)
