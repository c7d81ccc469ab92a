"""Spheres packed into meshes: that they stay inside, and apart or at the surface, and which meshes have no inside."""

import math

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from stickslip import mjcf
from stickslip.errors import InputError
from stickslip.physics.pbd import packing, solids
from stickslip.physics.pbd.packing import Packing, pack
from stickslip.scenes.mesh import Mesh
from tests.reference.packings import (
    SIDES,
    depth_in_triangles,
    least_gap,
    mesh_model,
    octahedron,
    turned,
)


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
