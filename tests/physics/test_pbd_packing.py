"""Spheres packed into geoms: where they lie, that they stay inside, and apart or at the surface, how much they fill."""

import itertools
import math

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from stickslip import mjcf
from stickslip.errors import InputError, Unsupported
from stickslip.physics.pbd import lattice, packing, seating, solids
from stickslip.physics.pbd.packing import Packing, pack
from stickslip.scenes.mesh import Mesh

R = 0.1
BALL = f'type="sphere" size="{R}"'
EGG = 'type="ellipsoid" size="0.12 0.1 0.2"'
SPINDLE = 'type="ellipsoid" size="0.05 0.06 0.2"'  # more pointed than its spheres
COIN = 'type="cylinder" size="0.1 0.03"'
DRUM = 'type="cylinder" size="0.1 0.1"'


SIDES = np.concatenate([-np.eye(3), np.eye(3)])


@pytest.fixture
def nothing_kept():
    packing._kept.clear()
    yield
    packing._kept.clear()


def model(geom: str, asset: str = "", body: str = "<freejoint/>") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(
        f"<mujoco><asset>{asset}</asset><worldbody><body>{body}<geom name='it' {geom}/></body></worldbody></mujoco>"
    )


def packed(geom: str, resolution: int = 4, *, seated: bool = False) -> Packing:
    return pack(model(geom), 0, resolution, 2, seated=seated)


def turned(half: tuple[float, float, float], angle: float = 0.0) -> Mesh:
    """A box as a mesh, turned about its diagonal, away from the origin, with corners that no faces share."""
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3))) * half
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    faces = np.array([[q[0], q[i], q[i + 1]] for q in quads for i in (1, 2)])
    quat, matrix = np.zeros(4), np.zeros(9)
    mujoco.mju_axisAngle2Quat(quat, np.ones(3) / math.sqrt(3.0), angle)
    mujoco.mju_quat2Mat(matrix, quat)
    vertices = corners[faces].reshape(-1, 3) @ matrix.reshape(3, 3).T + [0.3, 0.2, -0.1]
    return Mesh(vertices, np.arange(len(vertices)).reshape(-1, 3))


def mesh_model(mesh: Mesh, inertia: str = "exact") -> mujoco.MjModel:
    return model('type="mesh" mesh="m"', mesh.asset("m").replace("exact", inertia))


def octahedron(half: tuple[float, float, float]) -> Mesh:
    """With corners on the axes, this far out."""
    corners = np.concatenate([np.diag(half), -np.diag(half)])
    faces = [[x, y, z] if (x + y + z) // 3 % 2 else [x, z, y] for x in (0, 3) for y in (1, 4) for z in (2, 5)]
    return Mesh(corners, np.array(faces))


def least_gap(found: Packing) -> float:
    """Between the surfaces of any two spheres [m]."""
    gap = math.inf
    for i in range(len(found.radius) - 1):
        apart = np.linalg.norm(found.centre[i + 1 :] - found.centre[i], axis=1)
        gap = min(gap, float((apart - found.radius[i + 1 :] - found.radius[i]).min()))
    return gap


def directions(count: int) -> NDArray[np.float64]:
    """Unit vectors spread over the sphere (count, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    turn = np.arange(count) * math.pi * (3.0 - math.sqrt(5.0))
    across = np.sqrt(1.0 - z**2)
    return np.stack([across * np.cos(turn), across * np.sin(turn), z], axis=1)


def surface(found: Packing) -> NDArray[np.float64]:
    """Points on the spheres (k, 3) [m]."""
    return (found.centre[:, None] + found.radius[:, None, None] * directions(1000)).reshape(-1, 3)


def size_of(geom: str) -> NDArray[np.float64]:
    return np.array(geom.split('"')[3].split(), dtype=float)


def levels(geom: str, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of a primitive at points: at most 1 inside."""
    size = size_of(geom)
    if "cylinder" in geom:
        return np.maximum(np.hypot(points[:, 0], points[:, 1]) / size[0], np.abs(points[:, 2]) / size[1])
    return np.linalg.norm(points / size, axis=1)


def excess(geom: str, points: NDArray[np.float64]) -> float:
    """The level of a primitive above its surface, at the outermost of points: at most 0 if all are inside."""
    return float(levels(geom, points).max()) - 1.0


def depth_in_ellipsoid(axes: NDArray[np.float64], point: NDArray[np.float64]) -> float:
    """Distance of a point inside from the surface: to points on it, around the nearest so far ever more closely."""
    away = directions(4000)
    near, spread = away[np.argmin(np.linalg.norm(away * axes - point, axis=1))], 0.1
    while spread > 1e-9:
        tried = np.concatenate([near[None], near + spread * directions(200)])
        tried /= np.linalg.norm(tried, axis=1)[:, None]
        near, spread = tried[np.argmin(np.linalg.norm(tried * axes - point, axis=1))], 0.7 * spread
    return float(np.linalg.norm(near * axes - point))


def to_segments(p: NDArray, a: NDArray, b: NDArray) -> NDArray:
    along = np.clip(np.sum((p - a) * (b - a), axis=1) / np.sum((b - a) ** 2, axis=1), 0.0, 1.0)
    return np.linalg.norm(p - a - along[:, None] * (b - a), axis=1)


def depth_in_triangles(p: NDArray, corners: NDArray) -> float:
    """Distance of a point from a closed surface, negative outside; the sign from the solid angles of its triangles."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    distance = np.min([to_segments(p, *edge) for edge in ((a, b), (b, c), (c, a))])
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    ahead = [np.sum(np.cross(normal, v - u) * (p - u), axis=1) >= 0.0 for u, v in ((a, b), (b, c), (c, a))]
    distance = min(distance, np.abs(np.sum(normal * (p - a), axis=1))[np.all(ahead, axis=0)].min(initial=math.inf))
    a, b, c = a - p, b - p, c - p
    x, y, z = (np.linalg.norm(v, axis=1) for v in (a, b, c))
    below = x * y * z + np.sum(a * b, axis=1) * z + np.sum(b * c, axis=1) * x + np.sum(c * a, axis=1) * y
    winding = np.sum(np.arctan2(np.sum(a * np.cross(b, c), axis=1), below)) / (2.0 * math.pi)
    return float(distance if winding > 0.5 else -distance)


def sampled_coverage(geom: str, found: Packing, half: tuple[float, float, float]) -> float:
    """Share of a primitive's volume inside any sphere, by 40,000 random points in the box around it."""
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (40_000, 3)) * half
    if "box" not in geom:
        points = points[levels(geom, points) <= 1.0]
    within = np.zeros(len(points), dtype=bool)
    for centre, radius in zip(found.centre, found.radius, strict=True):
        within |= np.sum((points - centre) ** 2, axis=1) <= radius**2
    return float(within.mean())


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


# meshes


def test_a_sphere_fits_into_a_mesh_if_its_centre_is_as_deep_as_its_radius():
    mjm = mjcf.load("bunny:mesh=0")
    vertices, faces = solids.closed("it", mjm.mesh_vert.astype(float), mjm.mesh_face)
    solid, radius = solids.Polyhedron("it", vertices, faces), 0.01
    centre = np.random.default_rng(3).uniform(solid.low, solid.high, (400, 3))
    corners = mjm.mesh_vert[mjm.mesh_face].astype(float)
    depth = np.array([depth_in_triangles(each, corners) for each in centre])
    clear = np.abs(depth - radius) > 1e-6
    for each in (radius, 0.1 * radius):
        assert solid.fits(centre, each)[clear].tolist() == (depth >= each)[clear].tolist()
    inside = depth > 0.0
    found, normal = solid.nearest(centre)
    assert found[inside] == pytest.approx(depth[inside], abs=1e-6)
    onto = [depth_in_triangles(at, corners) for at in (centre + found[:, None] * normal)[inside]]
    assert np.abs(onto).max() <= 1e-6


def test_seated_spheres_in_a_mesh_touch_it_and_the_sides_of_its_box():
    mjm = mjcf.load("bunny:mesh=0")
    loose, found = (pack(mjm, 1, 1, 5, seated=seated) for seated in (False, True))
    radius = found.radius[0]
    corners = mjm.mesh_vert[mjm.mesh_face].astype(float)
    size = float(np.ptp(mjm.mesh_vert, axis=0).max())
    depth = np.array([depth_in_triangles(centre, corners) for centre in found.centre])
    near = depth < 3.0 * radius
    assert depth[near] == pytest.approx(np.full(near.sum(), radius), abs=1e-6 * size)
    assert near.sum() > 50
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, mjm.mesh_quat[0])
    sides = SIDES @ turn.reshape(3, 3)  # of the file's axes

    def gaps(spheres: Packing) -> NDArray[np.float64]:
        return (corners.reshape(-1, 3) @ sides.T).max(axis=0) - (spheres.centre @ sides.T).max(axis=0) - radius

    assert -1e-6 * size <= gaps(found).min() <= gaps(found).max() <= 0.1 * radius
    assert np.sort(gaps(loose))[3] > 0.2 * radius  # of three sides at least


def test_sharp_corners_of_a_mesh_are_neared_as_far_as_a_sphere_fits():
    half = np.array([0.1, 0.12, 0.15])
    mjm = mesh_model(octahedron((0.1, 0.12, 0.15)))
    found = pack(mjm, 0, 1, 4, seated=True)
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, mjm.geom_quat[0])
    placed = found.centre @ matrix.reshape(3, 3).T + mjm.geom_pos[0]
    reach = half * (1.0 - found.radius[0] * np.linalg.norm(1.0 / half))  # where it touches four faces
    assert (placed @ SIDES.T).max(axis=0) == pytest.approx(np.tile(reach, 2), abs=0.02 * found.radius[0])


def test_seated_box_as_a_mesh_needs_no_more_spheres():
    mjm = mesh_model(turned((0.1, 0.2, 0.3)))
    assert len(pack(mjm, 0, 1, 2, seated=True).radius) == len(pack(mjm, 0, 1, 2, seated=False).radius)


def test_spheres_in_a_mesh_are_inside_and_apart():
    mjm = mjcf.load("bunny:mesh=0")
    found = pack(mjm, 1, 1, 5, seated=False)
    corners = mjm.mesh_vert[mjm.mesh_face].astype(float)
    depths = [depth_in_triangles(centre, corners) for centre in found.centre]
    size = float(np.ptp(mjm.mesh_vert, axis=0).max())
    assert min(depths) >= found.radius[0] - 1e-6 * size
    assert least_gap(found) >= -1e-9
    volume = float(np.linalg.det(corners).sum()) / 6.0
    assert found.coverage == pytest.approx(len(depths) * 4.0 / 3.0 * math.pi * found.radius[0] ** 3 / volume)
    packing._kept.clear()
    again = pack(mjm, 1, 1, 5, seated=False)
    assert found.centre.tobytes() == again.centre.tobytes()


def test_more_resolution_fills_more_of_a_mesh():
    mjm = mjcf.load("bunny:mesh=0")
    coverage = [pack(mjm, 1, 1, n, seated=False).coverage for n in (2, 4, 8)]
    assert coverage == sorted(coverage)
    assert coverage[-1] > 0.5


def test_mesh_is_packed_along_the_axes_of_its_file():
    half = np.array([0.1, 0.2, 0.3])
    mjm = mesh_model(turned((0.1, 0.2, 0.3)))
    found = pack(mjm, 0, 1, 2, seated=False)
    assert found.radius == pytest.approx(np.full(len(found.radius), 0.05), rel=1e-6)
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, mjm.geom_quat[0])
    placed = found.centre @ matrix.reshape(3, 3).T + mjm.geom_pos[0] - [0.3, 0.2, -0.1]  # in the frame of the body
    assert placed.max(axis=0) + 0.05 == pytest.approx(half, abs=1e-6)
    assert placed.min(axis=0) - 0.05 == pytest.approx(-half, abs=1e-6)
    assert len(found.radius) >= 2 * 4 * 6


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


def test_open_mesh_is_refused_with_its_open_edges():
    mesh = turned((0.1, 0.2, 0.3))
    whole = mesh_model(mesh)
    assert len(pack(whole, 0, 1, 2, seated=False).radius)
    with pytest.raises(InputError, match=r"geom 'it' \(mesh 'm'\) is not watertight: 3 of its 18 edges"):
        pack(mesh_model(Mesh(mesh.vertices, mesh.faces[1:]), "convex"), 0, 1, 2, seated=False)


def test_one_face_the_wrong_way_around_is_not_watertight():
    mjm = mesh_model(turned((0.1, 0.2, 0.3)))
    mjm.mesh_face[0] = mjm.mesh_face[0, ::-1]
    with pytest.raises(InputError, match="not watertight: 3 of its 18 edges"):
        pack(mjm, 0, 1, 2, seated=False)


def test_mesh_inside_out_encloses_nothing():
    mjm = mesh_model(turned((0.1, 0.2, 0.3)))
    mjm.mesh_face[:] = mjm.mesh_face[:, ::-1].copy()
    with pytest.raises(InputError, match=r"encloses -0.048 m\^3.*turn its faces around"):
        pack(mjm, 0, 1, 2, seated=False)


def test_flat_mesh_encloses_nothing():
    mjm = mesh_model(turned((0.1, 0.2, 0.3)))
    mjm.mesh_vert[:, 2] *= 1e-13
    with pytest.raises(InputError, match="must be above 1e-12 of its longest side cubed: give it thickness"):
        pack(mjm, 0, 1, 2, seated=False)


def test_too_thin_for_its_spheres():
    mjm = mesh_model(turned((0.1, 0.1, 0.002), 0.8))
    with pytest.raises(
        InputError, match="no sphere of radius .* fits into geom 'it' .*: raise mesh_resolution, which is 4"
    ):
        pack(mjm, 0, 1, 4, seated=False)
    with pytest.raises(InputError, match="spheres of radius .* would go into its bounding box.*lower mesh_resolution"):
        pack(mjm, 0, 1, 300, seated=False)
