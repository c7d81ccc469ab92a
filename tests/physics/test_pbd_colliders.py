"""Distances and normals of colliders: against MuJoCo in C, closed forms, and every triangle in turn."""

import mujoco
import numpy as np
import pytest
import warp as wp

from stickslip.physics.pbd.colliders import Colliders, make_colliders, nearest, unsupported
from tests.reference.triangles import distance_to_triangles, mesh_asset, torus, winding_number

wp.set_module_options({"enable_backward": False})

RADIUS = 1e-3  # of the sphere that MuJoCo measures from [m]


@wp.kernel
def _nearest(
    colliders: Colliders,
    collider: int,
    point: wp.array[wp.vec3d],
    reach: wp.float64,
    dist_out: wp.array[wp.float64],
    normal_out: wp.array[wp.vec3d],
):
    i = wp.tid()
    found = nearest(colliders, collider, point[i], reach)
    dist_out[i] = found.dist
    normal_out[i] = found.normal


def measure(mjm: mujoco.MjModel, points: np.ndarray, reach: float = 10.0) -> tuple[np.ndarray, np.ndarray]:
    """Distances (n,) and normals (n, 3) of points (n, 3) to the geom called "it", which is not the first collider."""
    colliders, keep = make_colliders(mjm, [mjm.geom("probe").id, mjm.geom("it").id])
    dist, normal = wp.zeros(len(points), dtype=wp.float64), wp.zeros(len(points), dtype=wp.vec3d)
    point = wp.array(points, dtype=wp.vec3d)
    wp.launch(_nearest, dim=len(points), inputs=[colliders, 1, point, reach], outputs=[dist, normal])
    out = dist.numpy(), normal.numpy()
    del keep
    return out


def model(geom: str, asset: str = "") -> mujoco.MjModel:
    """The geom in a pose that is not the world's, and a sphere to measure from."""
    return mujoco.MjModel.from_xml_string(f"""<mujoco>
      <option ccd_tolerance="1e-12" ccd_iterations="500"/>
      <asset>{asset}</asset>
      <worldbody>
        <geom name="it" pos="0.3 -0.2 0.1" euler="30 50 -70" {geom}/>
        <body mocap="true"><geom name="probe" size="{RADIUS}"/></body>
      </worldbody>
    </mujoco>""")


CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) * [0.3, 0.2, 0.1]
CUBE_FACES = np.array(
    [0, 1, 3, 0, 3, 2, 4, 6, 7, 4, 7, 5, 0, 4, 5, 0, 5, 1, 2, 3, 7, 2, 7, 6, 0, 2, 6, 0, 6, 4, 1, 5, 7, 1, 7, 3]
).reshape(-1, 3)
ROCK = np.random.default_rng(3).normal(size=(14, 3)) * [0.1, 0.15, 0.2]
HILLS = np.random.default_rng(4).random((7, 9))
CONVEX = {
    "plane": ('type="plane" size="0.1 0.1 1"', ""),
    "sphere": ('type="sphere" size="0.2"', ""),
    "capsule": ('type="capsule" size="0.1 0.2"', ""),
    "cylinder": ('type="cylinder" size="0.15 0.2"', ""),
    "disk": ('type="cylinder" size="0.3 0.05"', ""),
    "box": ('type="box" size="0.3 0.1 0.2"', ""),
    "ellipsoid": ('type="ellipsoid" size="0.3 0.1 0.2"', ""),
    "lens": ('type="ellipsoid" size="0.3 0.3 0.01"', ""),
    "brick": ('type="mesh" mesh="mesh"', mesh_asset(CUBE, CUBE_FACES)),
    "rock": ('type="mesh" mesh="mesh"', f'<mesh name="mesh" vertex="{" ".join(map(str, ROCK.ravel()))}"/>'),
}
MESHES = {
    "brick": CONVEX["brick"],
    "rock": CONVEX["rock"],
    "torus": ('type="mesh" mesh="mesh"', mesh_asset(*torus())),
}
HFIELD = (
    'type="hfield" hfield="hills"',
    f'<hfield name="hills" nrow="7" ncol="9" size="0.4 0.6 0.15 0.1" elevation="{" ".join(map(str, HILLS.ravel()))}"/>',
)
EVERY = CONVEX | {"torus": MESHES["torus"], "hills": HFIELD}


def around(mjm: mujoco.MjModel, n: int = 400, seed: int = 0) -> np.ndarray:
    """Random points in a box that is larger than the geom, by half and by a bit for thin ones."""
    geom = mjm.geom("it").id
    if mjm.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE:
        return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, 3))
    middle, half = mjm.geom_aabb[geom, :3], mjm.geom_aabb[geom, 3:]
    return middle + np.random.default_rng(seed).uniform(-1.0, 1.0, (n, 3)) * (1.5 * half + 0.03)


def triangles(mjm: mujoco.MjModel) -> np.ndarray:
    """Corners (n, 3, 3) of the triangles of the geom, a mesh or a height field."""
    if mjm.nmesh:
        return mjm.mesh_vert[mjm.mesh_face].astype(np.float64)
    (nrow,), (ncol,), size = mjm.hfield_nrow, mjm.hfield_ncol, mjm.hfield_size[0]
    z = size[2] * mjm.hfield_data.reshape(nrow, ncol).astype(np.float64)
    y, x = np.meshgrid(np.linspace(-size[1], size[1], nrow), np.linspace(-size[0], size[0], ncol), indexing="ij")
    v = np.stack([x, y, z], axis=-1)
    a, b, c, d = (p.reshape(-1, 3) for p in (v[:-1, :-1], v[:-1, 1:], v[1:, 1:], v[1:, :-1]))
    return np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])


def tolerance(mjm: mujoco.MjModel) -> tuple[float, float]:
    """Of distances [m] and normals: the triangle of a mesh is found in single precision, the rest is double."""
    return (1e-7, 2e-3) if mjm.nmesh else (1e-12, 1e-8)


@pytest.mark.parametrize("kind", CONVEX)
def test_outside_it_is_mujocos_distance(device, kind):
    """Distance and normal are those of mj_geomDistance from a small sphere; for ellipsoids that is an iteration."""
    mjm = model(*CONVEX[kind])
    mjd = mujoco.MjData(mjm)
    mujoco.mj_forward(mjm, mjd)
    it, probe = mjm.geom("it").id, mjm.geom("probe").id
    pos, mat = mjd.geom_xpos[it].copy(), mjd.geom_xmat[it].reshape(3, 3).copy()
    atol = (1e-8, 1e-3) if mjm.geom_type[it] == mujoco.mjtGeom.mjGEOM_ELLIPSOID else tolerance(mjm)
    points = around(mjm)
    dist, normal = measure(mjm, points)
    outside = dist > 2 * RADIUS
    assert 100 < outside.sum() < 400
    for point, d, n in zip(points[outside], dist[outside], normal[outside], strict=True):
        mjd.mocap_pos[0] = pos + mat @ point
        mujoco.mj_kinematics(mjm, mjd)
        fromto = np.zeros(6)
        wanted = mujoco.mj_geomDistance(mjm, mjd, it, probe, 10.0, fromto) + RADIUS
        way = mat.T @ (fromto[3:] - fromto[:3])
        np.testing.assert_allclose(d, wanted, rtol=0, atol=atol[0])
        np.testing.assert_allclose(n, way / np.linalg.norm(way), rtol=0, atol=atol[1])


def depth(kind: str, size: np.ndarray, p: np.ndarray) -> np.ndarray:
    """How deep points (n, 3) are inside a geom [m]."""
    if kind == "plane":
        return -p[:, 2]
    if kind == "box":
        return (size - np.abs(p)).min(axis=1)
    half = 0.0 if kind == "sphere" else size[1]
    if kind in ("sphere", "capsule"):
        return size[0] - np.hypot(np.hypot(p[:, 0], p[:, 1]), np.maximum(np.abs(p[:, 2]) - half, 0.0))
    if kind in ("cylinder", "disk"):
        return np.minimum(size[0] - np.hypot(p[:, 0], p[:, 1]), half - np.abs(p[:, 2]))
    # ellipsoid: the Lagrange multiplier of the nearest point, by halving
    low, high = np.full(len(p), -(size.min() ** 2)), np.zeros(len(p))
    for _ in range(200):
        middle = 0.5 * (low + high)
        beyond = np.sum((size * p / (middle[:, None] + size**2)) ** 2, axis=1) > 1.0
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    x = size**2 * p / (low[:, None] + size**2)
    return np.linalg.norm(p - x, axis=1)


@pytest.mark.parametrize("kind", [kind for kind in CONVEX if kind not in MESHES])
def test_inside_it_is_the_depth(device, kind):
    mjm = model(*CONVEX[kind])
    size = mjm.geom_size[mjm.geom("it").id]
    points = around(mjm, 3000)
    dist, _ = measure(mjm, points, reach=0.0)
    if kind in ("ellipsoid", "lens"):
        wanted = np.linalg.norm(points / size, axis=1) < 1.0
    else:
        wanted = depth(kind, size, points) > 0.0
    np.testing.assert_array_equal(dist < 0.0, wanted)
    assert wanted.sum() > 30
    np.testing.assert_allclose(-dist[wanted], depth(kind, size, points[wanted]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", MESHES)
def test_mesh_is_its_triangles(device, kind):
    """Not its convex hull: the distance to the nearest triangle, the sign of the winding number; close to it, too."""
    mjm = model(*MESHES[kind])
    corners, random = triangles(mjm), np.random.default_rng(1)
    weight = random.dirichlet([0.5] * 3, 400)
    on = np.einsum("ni,nij->nj", weight, corners[random.integers(len(corners), size=400)])
    scatter = random.normal(size=(400, 3)) * 10.0 ** random.uniform(-5, -2, (400, 1))
    for points in (around(mjm), on + scatter):
        sign = np.where(winding_number(points, corners) > 0.5, -1.0, 1.0)
        assert 10 < np.count_nonzero(sign < 0.0) < 300
        dist, _ = measure(mjm, points)
        np.testing.assert_allclose(dist, sign * distance_to_triangles(points, corners), rtol=0, atol=1e-7)
    dist, normal = measure(mjm, on)
    np.testing.assert_allclose(dist, 0.0, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1.0, atol=1e-12)
    assert (measure(mjm, on + 1e-4 * normal)[0] > 0.0).all()  # outward even where the distance has no direction
    if kind == "torus":
        hole, _ = measure(mjm, np.zeros((1, 3)))
        np.testing.assert_allclose(hole, 0.13 * np.cos(np.pi / 24), atol=1e-6)


@pytest.mark.parametrize("kind", EVERY)
def test_normal_is_the_slope_of_the_distance(device, kind):
    """By differences to both sides, where those agree; it leads back to the surface; and its length is 1."""
    mjm = model(*EVERY[kind])
    points, h = around(mjm), 1e-6
    if kind == "hills":  # not beside it, where there is nothing
        points = points[(np.abs(points) < [0.39, 0.59, 1.0]).all(axis=1) & (points[:, 2] > -0.09)]
    dist, normal = measure(mjm, points)
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1.0, atol=1e-12)
    there, back = (np.stack([measure(mjm, points + s * h * e)[0] for e in np.eye(3)], axis=1) for s in (1.0, -1.0))
    smooth = np.abs(there + back - 2.0 * dist[:, None]).max(axis=1) < 1e-3 * h
    assert smooth.mean() > 0.9 and (dist[smooth] < 0.0).sum() > 10
    slope = (there - back) / (2.0 * h)
    np.testing.assert_allclose(normal[smooth], slope[smooth], rtol=0, atol=2e-3)
    foot, _ = measure(mjm, points - dist[:, None] * normal)
    np.testing.assert_allclose(foot, 0.0, atol=1e-7)


@pytest.mark.parametrize("kind", EVERY)
def test_points_without_a_direction_have_a_normal(device, kind):
    """The middle, the axes, the corners of the box around it: finite, of length 1, and the same every time."""
    mjm = model(*EVERY[kind])
    half = mjm.geom_aabb[mjm.geom("it").id, 3:]
    steps = np.array([-1.0, -0.5, -1e-9, -1e-17, -1e-200, 0.0, 1e-300, 1e-17, 1e-9, 0.5, 1.0])
    points = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    points = points * np.where(half > 0.0, half, 1.0)
    first, again = measure(mjm, points), measure(mjm, points)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.isfinite(first[0]).all()
    np.testing.assert_allclose(np.linalg.norm(first[1], axis=1), 1.0, atol=1e-12)


def test_the_middle_of_an_ellipsoid_is_nearest_along_its_shortest_axis(device):
    dist, normal = measure(model(*CONVEX["ellipsoid"]), np.array([[0.0, 0.0, 0.0], [0.05, 0.0, 0.0]]))
    np.testing.assert_allclose(dist, [-0.1, -0.1 * np.sqrt(1 - 0.05**2 / 0.08)], atol=1e-12)
    np.testing.assert_allclose(normal[0], [0.0, 1.0, 0.0], atol=1e-9)


def on_hills(mjm: mujoco.MjModel, n: int, seed: int) -> np.ndarray:
    """Random points (n, 3) over, in and below the hills, but not beside them."""
    size = mjm.hfield_size[0]
    return np.random.default_rng(seed).uniform([-1, -1, -1], [1, 1, 2], (n, 3)) * [size[0], size[1], size[3]]


def test_height_field_is_its_triangles(device):
    mjm = model(*HFIELD)
    points = on_hills(mjm, 1000, 0)
    dist, _ = measure(mjm, points)
    assert 300 < (dist < 0.0).sum() < 700
    np.testing.assert_allclose(np.abs(dist), distance_to_triangles(points, triangles(mjm)), rtol=0, atol=1e-12)


def test_height_field_is_as_high_as_mujocos(device):
    """A ray of MuJoCo from above ends where the distance is zero, and below that is the inside."""
    mjm = model(*HFIELD)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_forward(mjm, mjd)
    it = mjm.geom("it").id
    pos, mat = mjd.geom_xpos[it], mjd.geom_xmat[it].reshape(3, 3)
    points = on_hills(mjm, 500, 1)
    for point in points:
        start = pos + mat @ [point[0], point[1], 1.0]
        point[2] = 1.0 - mujoco.mj_rayHfield(mjm, mjd, it, start, -mat[:, 2], None)
    above, on, below = (measure(mjm, points + [0.0, 0.0, dz])[0] for dz in (1e-5, 0.0, -1e-5))
    np.testing.assert_allclose(on, 0.0, atol=1e-12)
    assert (above > 1e-6).all() and (above <= 1e-5 + 1e-12).all()
    assert (below < -1e-6).all() and (below >= -1e-5 - 1e-12).all()


def test_height_field_touches_as_mujocos(device):
    """The contact of a sphere that reaches into it: its depth and normal are those of the sphere's middle."""
    radius = 0.02
    mjm = mujoco.MjModel.from_xml_string(f"""<mujoco>
      <option ccd_tolerance="1e-12" ccd_iterations="500"/>
      <asset>{HFIELD[1]}</asset>
      <worldbody>
        <geom name="it" {HFIELD[0]}/>
        <body><freejoint/><geom name="probe" size="{radius}"/></body>
      </worldbody>
    </mujoco>""")
    mjd = mujoco.MjData(mjm)
    points = on_hills(mjm, 4000, 2) * [0.9, 0.9, 1.0]  # the sides of it are not for us
    dist, normal = measure(mjm, points)
    touch = (dist > 0.1 * radius) & (dist < 0.95 * radius)
    assert touch.sum() > 200
    for point, d, n in zip(points[touch], dist[touch], normal[touch], strict=True):
        mjd.qpos[:3] = point
        mujoco.mj_kinematics(mjm, mjd)
        mujoco.mj_collision(mjm, mjd)
        deepest = np.argmin(mjd.contact.dist)
        np.testing.assert_allclose(mjd.contact.dist[deepest] + radius, d, rtol=0, atol=1e-8)
        np.testing.assert_allclose(mjd.contact.frame[deepest, :3], n, rtol=0, atol=1e-4)


def test_beside_and_below_a_height_field_is_nothing(device):
    mjm = model(*HFIELD)
    points = np.array([[0.41, 0.0, 0.05], [-0.41, 0.0, 0.05], [0.0, 0.61, 0.05], [0.0, -0.61, 0.05], [0.0, 0.0, -0.11]])
    assert (measure(mjm, points, reach=1.0)[0] > 1.0).all()
    assert (measure(mjm, points * [0.95, 0.95, 0.8], reach=1.0)[0] < 0.2).all()


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("reach", [0.0, 1e-3, 0.03])
def test_reach_does_not_change_what_is_within_it(device, kind, reach):
    """What is farther is told to be; the inside is as deep as it is."""
    mjm = model(*EVERY[kind])
    points = on_hills(mjm, 400, 0) if kind == "hills" else around(mjm)
    (dist, normal), (near, near_normal) = measure(mjm, points, 1e3), measure(mjm, points, reach)
    within = dist <= reach
    assert (near[~within] > reach).all() and within.sum() > 10
    np.testing.assert_array_equal(near[within], dist[within])
    np.testing.assert_array_equal(near_normal[within], normal[within])


def test_colliders_may_share_meshes_and_stand_in_any_order(device):
    mjm = mujoco.MjModel.from_xml_string(f"""<mujoco>
      <asset>{HFIELD[1]}{MESHES["torus"][1]}</asset>
      <worldbody>
        <geom {MESHES["torus"][0]}/><geom {HFIELD[0]}/><geom {CONVEX["box"][0]}/><geom {MESHES["torus"][0]}/>
      </worldbody>
    </mujoco>""")
    colliders, keep = make_colliders(mjm, [3, 2, 0, 1])
    ids = colliders.mesh.numpy()
    assert len(keep) == 1 and ids[0] == ids[2] == keep[0].id and ids[1] == ids[3] == 0
    point = wp.zeros(1, dtype=wp.vec3d)
    dist, normal = wp.zeros(4, dtype=wp.float64), wp.zeros(1, dtype=wp.vec3d)
    for i in range(4):
        wp.launch(_nearest, dim=1, inputs=[colliders, i, point, 1.0], outputs=[dist[i : i + 1], normal])
    ring, box, same, hills = dist.numpy()
    assert (
        ring == same == pytest.approx(0.13 * np.cos(np.pi / 24)) and box == pytest.approx(-0.1) and -0.15 < hills < 0.0
    )


def test_what_cannot_be_a_collider_is_named():
    assert unsupported(model(*HFIELD), [0, 1]) == []
    for kind in CONVEX:
        assert unsupported(model(*CONVEX[kind]), [0, 1]) == []

    strange = model(*CONVEX["box"])
    strange.geom_type[strange.geom("it").id] = mujoco.mjtGeom.mjGEOM_SDF
    (why,) = unsupported(strange, [0, 1])
    assert "(it)" in why and "mjGEOM_SDF" in why

    geom, shell = 'type="mesh" mesh="mesh"', 'inertia="shell"'
    (why,) = unsupported(model(geom, mesh_asset(CUBE, CUBE_FACES[:-1], shell)), [0, 1])
    assert "(it)" in why and "open edges (3)" in why
    turned = CUBE_FACES.copy()
    turned[0] = turned[0, ::-1]
    (why,) = unsupported(model(geom, mesh_asset(CUBE, turned, shell)), [0, 1])
    assert "open edges (3)" in why
    (why,) = unsupported(model(geom, mesh_asset(CUBE, CUBE_FACES[:, ::-1], shell)), [0, 1])
    assert "inward" in why


def test_corners_at_the_same_place_are_one():
    """A cube whose triangles share no corner is closed."""
    soup = model('type="mesh" mesh="mesh"', mesh_asset(CUBE[CUBE_FACES].reshape(-1, 3), np.arange(36)))
    assert soup.mesh_vertnum[0] == 36
    assert unsupported(soup, [0]) == []
