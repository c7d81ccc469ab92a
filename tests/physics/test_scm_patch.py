"""Points of contact, selected softly, and impulses at them."""

from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="needs the extra `jax`")
jnp = pytest.importorskip("jax.numpy")
pytest.importorskip("mujoco.mjx", reason="needs the extra `jax`")

import stickslip as ss  # noqa: E402
from stickslip.physics.scm import grids  # noqa: E402
from stickslip.physics.scm.build import build, start_of  # noqa: E402
from stickslip.physics.scm.patch import CORNERS, ends, soft_top_k, vertex_weights  # noqa: E402


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_weights_of_faces_go_to_their_vertices() -> None:
    """(12) by hand: a quad and a triangle that share an edge."""
    faces = np.array([[0, 1, 2, 3], [2, 1, 4, 4]])
    got = vertex_weights(jnp.asarray([0.25, 0.75]), faces, 6)
    np.testing.assert_allclose(got, [0.25, 1.0, 1.0, 0.25, 0.75, 0.0])


def test_soft_top_k_nears_the_largest() -> None:
    """(13): rows pick one entry each, in order, as the temperature falls; every row sums to 1; equal entries share."""
    z = np.array([0.1, 0.5, 0.05, 0.3, 0.2])
    rows = np.asarray(soft_top_k(jnp.asarray(z), 3, 0.02))
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(rows.argmax(axis=1), [1, 3, 4])
    assert rows.max(axis=1).min() > 0.999
    soft = np.asarray(soft_top_k(jnp.asarray(z), 3, 1.0))
    assert soft.max() < 0.6
    flat = np.asarray(soft_top_k(jnp.full(4, 0.25), 2, 0.02))
    np.testing.assert_allclose(flat, 0.25, atol=1e-9)
    hessian = jax.jit(jax.hessian(lambda z: jnp.sum(soft_top_k(z, 3, 0.1)[2] * jnp.arange(5.0))))(jnp.asarray(z))
    assert np.isfinite(hessian).all()


def test_the_ends_of_a_face_are_its_corners() -> None:
    """A box that lies flat: four corners, each from two directions; one that stands on a corner: that corner alone."""
    corner = grids.box(np.full(3, 0.05), 0.02).vertices
    got = np.asarray(ends(jnp.asarray(corner), CORNERS, corner[:, 2] + 0.05, 1e-3, 0.0025))
    want = np.column_stack([0.05 * np.sign(CORNERS[:, :2]), np.full(8, -0.05)])
    np.testing.assert_allclose(got, want, atol=2e-3)
    height = corner @ np.array([-1.0, -1.0, -1.0]) / np.sqrt(3.0)
    got = np.asarray(ends(jnp.asarray(corner), CORNERS, height - height.min(), 1e-4, 0.01))
    np.testing.assert_allclose(got, 0.05, atol=1e-3)


SLOPE = """<mujoco><option timestep="0.002" gravity="{gx} 0 -9.81"/><worldbody>
<geom type="plane" size="1 1 .1" friction=".5"/>
<body pos="0 0 .05"><freejoint/><geom type="box" size=".05 .05 .05" mass="{mass}" friction=".5"/></body></worldbody>
</mujoco>"""


def went(mass: float, gx: float, seconds: float) -> tuple[Any, np.ndarray, np.ndarray]:
    mjm = mujoco.MjModel.from_xml_string(SLOPE.format(mass=mass, gx=gx))
    system, params = build(ss.Scm(contact="comfree", reach=1e-4), mjm)
    state, inputs = start_of(mjm)

    def one(x: Any, _: Any) -> Any:
        x = system.step(params, x, inputs)
        return x, (x.qpos, x.qvel)

    steps = int(seconds / 0.002)
    _, (qpos, qvel) = jax.jit(lambda x: jax.lax.scan(one, x, None, length=steps))(state)
    return params, np.asarray(qpos), np.asarray(qvel)


def test_impulses_know_the_mass() -> None:
    """A box of a gram and one of a ton sink in by the same depth, which a spring of one stiffness could not do."""
    depths = []
    for mass in (1e-3, 1e3):
        _, qpos, qvel = went(mass, 0.0, 1.0)
        assert np.abs(qvel[-1]).max() < 1e-4
        np.testing.assert_allclose(qpos[-1, 3:], [1, 0, 0, 0], atol=1e-4)
        depths.append(0.05 - qpos[-1, 2])
    assert depths[0] == pytest.approx(depths[1], rel=1e-3)
    assert 0.0 < depths[0] < 5e-3


def test_impulses_slide_as_comfree_does() -> None:
    """Beyond the cone a box slides; against ComFree itself, whose facets and depth differ a little."""
    _, qpos, _ = went(1.0, 8.0, 0.5)
    xml = SLOPE.format(mass=1.0, gx=8.0)
    sim = ss.Simulation(xml, ss.ComFree(stiffness=0.2, damping=0.001), device="cpu")
    sim.step(250)
    want = float(sim.qpos.numpy()[0, 0])
    assert want > 0.3
    assert qpos[-1, 0] == pytest.approx(want, rel=0.15)
