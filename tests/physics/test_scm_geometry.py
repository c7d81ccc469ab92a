"""Worlds with different surfaces under one vmap: sizes of primitives, and clouds that are given."""

import dataclasses
import logging

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.errors import InputError, Unsupported
from stickslip.physics.scm import cloud as clouds
from stickslip.physics.scm.cloud import Cloud, examine
from stickslip.physics.scm.geometry import resized
from stickslip.physics.scm.grids import areas
from tests.physics.test_scm_clouds import SHAPES, horseshoe, model

BOXES = """
<mujoco><option timestep="0.002"/><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
<body pos="0 0 .05"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia=".002 .002 .002"/>
<geom name="box" type="box" size=".05 .04 .05"/></body></worldbody></mujoco>"""
HEIGHTS = (0.04, 0.05, 0.06)  # whose grids are the same by themselves


# -- sizes, without JAX


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cloud_at_another_size_is_that_of_the_size(shape: str) -> None:
    """Closed, with the volume and the normals of the shape; at its own size, and in proportion, the very same cloud."""
    m = model(SHAPES[shape][0])
    cloud, old = clouds.cloud_of(m, 0, 300), m.geom_size[0].copy()
    new = np.stack([old, 2.0 * old, old * [0.5, 1.5, 0.8]])
    got = resized(cloud, shape, old, new)
    np.testing.assert_allclose(got.place[0], cloud.quads.point, atol=1e-15)
    np.testing.assert_allclose(got.normal[0], cloud.quads.normal, atol=1e-15)
    np.testing.assert_allclose(got.spacing[:2], [cloud.spacing, 2.0 * cloud.spacing])
    m.geom_size[0] = new[1]
    np.testing.assert_allclose(got.place[1], clouds.cloud_of(m, 0, 300).quads.point, atol=1e-14)
    faces = cloud.quads.faces
    quads = dataclasses.replace(
        cloud.quads,
        point=got.place[2],
        normal=got.normal[2],
        vertices=got.corner[2],
        area=areas(got.corner[2], faces),
    )
    report = examine(Cloud(quads, float(got.spacing[2])))
    assert report.problems == [] and report.gap < 1e-3
    a, b, c = new[2]
    ball = 4 / 3 * np.pi
    volume = {
        "box": 8 * a * b * c,
        "sphere": ball * a**3,
        "ellipsoid": ball * a * b * c,
        "cylinder": 2 * np.pi * a**2 * b,
        "capsule": 2 * np.pi * a**2 * b + ball * a**3,
    }
    assert report.volume == pytest.approx(volume[shape], rel=0.02)
    if shape == "ellipsoid":
        gradient = got.place[2] / new[2] ** 2
        np.testing.assert_allclose(
            got.normal[2], gradient / np.linalg.norm(gradient, axis=1, keepdims=True), atol=1e-12
        )


def test_a_gathered_cloud_has_exactly_its_number_of_points() -> None:
    vertices, triangles = horseshoe()
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    if np.sum(a * np.cross(b, c)) < 0.0:
        triangles = triangles[:, ::-1]
    volume = abs(float(np.sum(a * np.cross(b, c)) / 6.0))
    for points in (60, 233, 700):
        cloud = clouds.gathered(vertices, triangles, points)
        assert len(cloud.quads.point) == len(cloud.quads.vertices) == points
        clouds.check(cloud, "'shoe'")
        if points > 200:
            assert examine(cloud).volume == pytest.approx(volume, rel=0.05)
    with pytest.raises(InputError, match="points is 5: it must be a whole number from 6"):
        clouds.gathered(vertices, triangles, 5)
    with pytest.raises(InputError, match="of vertices 0 to 51"):
        clouds.gathered(vertices, triangles + 1, 50)


# -- through Simulation


@pytest.fixture(scope="module")
def boxes() -> ss.Simulation:
    """Three boxes of different heights, each on the floor for a while."""
    pytest.importorskip("jax", reason="needs the extra `jax`")
    sim = ss.Simulation(BOXES, ss.Scm(points=24), nworld=3, device="cpu")
    sim.set_model(geom_size=sizes(sim))
    start(sim)
    sim.step(300)
    return sim


def sizes(sim: ss.Simulation) -> np.ndarray:
    out = np.repeat(sim.mjm.geom_size[None], 3, axis=0)
    out[:, 1, 2] = HEIGHTS
    return out


def start(sim: ss.Simulation, heights: tuple[float, ...] = HEIGHTS) -> None:
    qpos = np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (len(heights), 1))
    qpos[:, 2] = heights
    sim.reset()
    sim.qpos = qpos


def test_boxes_rest_at_their_own_heights(boxes: ss.Simulation) -> None:
    """On their faces, as deep as each other; the one axis of worlds is that of the boxes' points."""
    state = boxes.state
    depth = np.array(HEIGHTS) - state.qpos[:, 2]
    assert (depth > 0.0).all() and (depth < 2e-3).all()
    np.testing.assert_allclose(depth, depth[1], rtol=0.05)
    np.testing.assert_allclose(state.qvel, 0.0, atol=1e-3)
    contacts = boxes.contacts()
    assert contacts.world.tolist() == [0, 1, 2]
    np.testing.assert_allclose(np.linalg.norm(contacts.force[:, :3], axis=1), 9.81, rtol=1e-2)
    assert [value.place.shape[:2] for value in boxes.m.points.values()] == [(3, 1)]
    np.testing.assert_array_equal(boxes.m.body_mass.numpy()[..., 1], 1.0)  # mass is told by itself


def test_worlds_are_as_models_of_those_sizes(boxes: ss.Simulation) -> None:
    """Three models, built at their sizes, each in a world of its own."""
    import jax

    from stickslip.physics.scm.build import build, start_of

    went = None
    for world, height in enumerate(HEIGHTS):
        mjm = mujoco.MjModel.from_xml_string(BOXES.replace(".05 .04 .05", f".05 .04 {height}"))
        system, params = build(ss.Scm(points=24), mjm)
        state, inputs = start_of(mjm)
        if went is None:  # the functions of all three are the same
            went = jax.jit(lambda p, x, s=system, u=inputs: jax.lax.fori_loop(0, 300, lambda _, x: s.step(p, x, u), x))
        out = went(params, state._replace(qpos=state.qpos.at[2].set(height)))
        np.testing.assert_allclose(out.qpos, boxes.state.qpos[world], atol=5e-6)


def test_the_size_of_the_model_takes_no_memory(boxes: ss.Simulation) -> None:
    """Neither do sizes that all worlds share."""
    own = ss.Simulation(boxes.mjm, boxes.physics, nworld=3, device="cpu")
    size = own.mjm.geom_size.copy()
    size[1, 2] = 0.08
    own.set_model(geom_size=size)
    place = next(iter(own.m.points.values())).place
    assert place.shape == (1, 1, 24, 3)
    np.testing.assert_allclose(np.abs(place[0, 0]).max(axis=0), [0.05, 0.04, 0.08], rtol=1e-6)
    own.set_model(geom_size=np.repeat(own.mjm.geom_size[None], 3, axis=0))
    assert own.m.points == {} and own.m.surfaces == {}


def test_bad_sizes_are_told_and_change_nothing(boxes: ss.Simulation) -> None:
    before, points, now = boxes.state, boxes.m.points, boxes.m.geom_size.numpy().copy()
    bad = sizes(boxes)
    bad[2, 1, 0] = -0.1
    for value, words in (
        (bad, r"geom_size\[0\] of the box 'box' is -0.1 in world 2: it must be from 1e-06"),
        (np.where(np.arange(3) == 1, np.nan, sizes(boxes)), r"geom_size\[0, 0, 1\] is nan"),
        (np.ones((2, 3, 3)), r"geom_size has shape \(2, 3, 3\), expected \(3, 2, 3\)"),
        ("large", "geom_size must be numbers"),
    ):
        with pytest.raises(InputError, match=words):
            boxes.set_model(geom_size=value)
    with pytest.raises(InputError, match="body_mass has shape"):
        boxes.set_model(geom_size=boxes.mjm.geom_size, body_mass=[1.0])
    assert boxes.m.points is points
    np.testing.assert_array_equal(boxes.m.geom_size.numpy(), now)
    np.testing.assert_array_equal(boxes.state.qpos, before.qpos)
    with pytest.raises(Unsupported, match="scm cannot change geom_pos once a model is put; it can: .*geom_size"):
        boxes.set_model(geom_pos=boxes.mjm.geom_pos)


DISC = """
<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="1 1 .1" friction=".5"/>
<body pos="0 0 .0495"><joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
<geom name="ball" type="sphere" size=".05" mass="1" friction=".5"/></body></worldbody>
<actuator><motor joint="x"/></actuator></mujoco>"""


def lens(height: float, points: int = 24) -> Cloud:
    """A ball's cloud, pressed flat."""
    m = mujoco.MjModel.from_xml_string(
        DISC.replace('type="sphere" size=".05"', f'type="ellipsoid" size=".05 .05 {height}"')
    )
    return clouds.cloud_of(m, 1, points)


@pytest.fixture(scope="module")
def lenses() -> ss.Simulation:
    pytest.importorskip("jax", reason="needs the extra `jax`")
    sim = ss.Simulation(DISC, ss.Scm(points=24), nworld=2, device="cpu")
    compiled = sim.m.worlds
    assert isinstance(sim.physics, ss.Scm)
    sim.m = sim.physics.set_clouds(sim.m, sim.d, {"ball": [lens(0.05), lens(0.04)]})
    assert sim.m.worlds is compiled  # as many points as before
    sim.qpos = np.array([[0.0, 0.0], [0.0, -0.01]])
    sim.ctrl = np.array([[2.0], [9.0]])
    sim.step(100)
    return sim


def test_given_clouds_carry(lenses: ss.Simulation) -> None:
    """The flat one lies lower by as much as it is flatter."""
    z = lenses.state.qpos[:, 1]
    assert z[0] - z[1] == pytest.approx(0.01, abs=2e-4)
    out = lenses.rollout(np.full((2, 5, 1), 2.0))
    assert out.qpos.shape == (2, 5, 2)
    np.testing.assert_allclose(out.qpos[:, -1, 1], z, atol=1e-4)


def test_the_jacobian_by_points_is_that_of_finite_differences(
    lenses: ss.Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    """Each world by the points it has; the log tells, to who listens, that it is compiled, and once."""
    import jax.numpy as jnp

    sim = lenses
    state, (name, points) = sim.state, next(iter(sim.m.points.items()))
    with caplog.at_level(logging.INFO, logger="stickslip"):
        sim.step(0)
        got = sim.jacobian(("points",))["points"]
        sim.jacobian(("points",))
    assert len(caplog.messages) == 1 and "JAX compiles the jacobian for cpu" in caplog.messages[0]
    shelf = int(name.split()[1])
    shelves = sim.m.worlds.params.points
    skip = sum(p.place.size + p.corner.size for p in shelves[:shelf])
    size = points.place[0].size
    assert got.shape == (2, 4, sum(p.place.size + p.corner.size for p in shelves))
    slope = got[:, 3, skip : skip + size].reshape(2, -1, 3)  # vertical velocity by place
    corner = got[:, 3, skip + size : skip + size + points.corner[0].size].reshape(2, -1, 3)
    assert np.abs(corner).max() > 0.1 and not np.allclose(corner[0], corner[1], rtol=0.01)
    lowest = np.abs(corner[:, :, 2]).argmax(axis=1)

    def after(h: float) -> np.ndarray:
        moved = np.array(points.corner)
        moved[np.arange(2), 0, lowest, 2] += h
        sim.m.points = {**sim.m.points, name: points._replace(corner=jnp.asarray(moved))}
        sim.state = state
        sim.step()
        return sim.state.qvel[:, 1].astype(float)

    want = (after(1e-4) - after(-1e-4)) / 2e-4
    sim.m.points, sim.state = {**sim.m.points, name: points}, state
    np.testing.assert_allclose(corner[np.arange(2), lowest, 2], want, rtol=0.03)
    assert np.abs(slope).max() < 1e-6  # the plane has no points that could feel those of the ball


def test_clouds_of_another_number_of_points() -> None:
    """A ball becomes a horseshoe in one world and one of half the size in the other; it stands as high as each is."""
    pytest.importorskip("jax", reason="needs the extra `jax`")
    vertices, triangles = horseshoe()
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    if np.sum(a * np.cross(b, c)) < 0.0:
        triangles = triangles[:, ::-1]
    shoe, half = clouds.gathered(vertices, triangles, 90), clouds.gathered(0.5 * vertices, triangles, 90)
    sim = ss.Simulation(DISC, ss.Scm(points=24), nworld=2, device="cpu")
    before = sim.m.worlds
    assert isinstance(sim.physics, ss.Scm)
    sim.m = sim.physics.set_clouds(sim.m, sim.d, {1: [shoe, half]})
    assert sim.m.worlds is not before
    sim.qpos = np.array([[0.0, -0.05], [0.0, -0.05]])
    sim.step(200)
    low = np.array([x.quads.vertices[:, 2].min() for x in (shoe, half)])
    depth = -(sim.state.qpos[:, 1] + 0.0495 + low)
    assert (np.abs(depth) < 2e-3).all()
    with pytest.raises(Unsupported, match="cannot change geom_size of geom 'ball': its cloud was given"):
        sim.set_model(geom_size=2.0 * sim.mjm.geom_size)
    sim.set_model(geom_size=sim.mjm.geom_size)  # as it was


def test_bad_clouds_are_told_and_change_nothing(lenses: ss.Simulation) -> None:
    sim, physics, m = lenses, lenses.physics, lenses.m
    assert isinstance(physics, ss.Scm)
    points, q = m.points, lens(0.05).quads
    turned = dataclasses.replace(lens(0.05), quads=dataclasses.replace(q, normal=-q.normal))
    long = dataclasses.replace(lens(0.05), quads=dataclasses.replace(q, normal=2.0 * q.normal))
    lost = dataclasses.replace(
        lens(0.05), quads=dataclasses.replace(q, point=np.where(q.point > 0.04, np.nan, q.point))
    )
    for value, words in (
        ({"bell": lens(0.05)}, "no geom 'bell'; did you mean 'ball'"),
        ({0: lens(0.05)}, "geom number 0 is a plane"),
        ({"ball": [lens(0.05)] * 3}, "'ball' is given 3 clouds: give 2, one per world, or one for all"),
        ({"ball": [lens(0.05), lens(0.05, 100)]}, "'ball' in world 1 has 9. points .* that of world 0 24"),
        ({"ball": [lens(0.05), turned]}, "'ball' in world 1 cannot be used: all normals look inwards"),
        ({"ball": long}, "normals of the cloud of geom 'ball' must have length 1, one has 2"),
        ({"ball": lost}, "point of the cloud of geom 'ball'.* is nan"),
        ({"ball": dataclasses.replace(lens(0.05), spacing=0.0)}, "spacing of the cloud of geom 'ball' is 0.0"),
        ({"ball": clouds.plane()}, "is a plane's"),
        ({"ball": [q, q]}, "is Quads: give a stickslip.physics.scm.cloud.Cloud"),
    ):
        with pytest.raises(InputError, match=words):
            physics.set_clouds(m, sim.d, value)  # type: ignore[arg-type]
    assert sim.m.points is points


def test_meshes_have_no_size() -> None:
    pytest.importorskip("jax", reason="needs the extra `jax`")
    xml = """<mujoco><asset><mesh name="m" vertex="0 0 0 .1 0 0 0 .1 0 0 0 .1" face="0 2 1 0 1 3 0 3 2 1 2 3"/></asset>
    <worldbody><geom type="plane" size="1 1 .1"/><body><freejoint/><geom name="tent" type="mesh" mesh="m"/></body>
    <body pos="1 0 0"><freejoint/><geom name="ball" size=".1"/></body></worldbody></mujoco>"""
    sim = ss.Simulation(xml, ss.Scm(points=24, mesh_points=24), nworld=2, device="cpu")
    size = sim.mjm.geom_size.copy()
    size[0] *= 3.0  # a plane ignores it
    size[2] *= 2.0
    sim.set_model(geom_size=size)
    assert sorted(sim.m.surfaces) == [2]
    size[1] *= 2.0
    with pytest.raises(Unsupported, match="cannot change geom_size of geom 'tent': it is a mesh; .*set_clouds"):
        sim.set_model(geom_size=size)


def test_a_physics_without_derivatives_says_so() -> None:
    sim = ss.Simulation(DISC, ss.ComFree(), device="cpu")
    for call in (
        sim.jacobian,
        lambda: sim.hessian(lambda state: state.qpos[0]),
        lambda: sim.gradient(np.zeros((1, 1, 1)), lambda states: states.qpos[-1, 0]),
    ):
        with pytest.raises(Unsupported, match=r"comfree has no derivatives; use stickslip.Scm\(\)"):
            call()
