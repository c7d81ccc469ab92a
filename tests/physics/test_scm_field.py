"""Soft signed distance: how it nears the exact one, and that its derivatives are right and finite everywhere."""

from collections.abc import Iterator

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="needs the extra `jax`")
jnp = pytest.importorskip("jax.numpy")

from stickslip.physics.scm import grids  # noqa: E402
from stickslip.physics.scm.field import (  # noqa: E402
    Points,
    force_of_plane,
    force_of_planes,
    half,
    signed_distance,
    soft_plane,
)
from stickslip.physics.scm.law import Law, dissipate, softplus  # noqa: E402


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def points_of(quads: grids.Quads) -> Points:
    scale = np.mean(quads.area)
    return Points(*(jnp.asarray(x) for x in (quads.point, quads.normal, scale, quads.vertices)))


def torus(n: int) -> Points:
    """6 n by n points of a torus of radii 10 and 4 cm."""
    u, v = np.meshgrid(np.arange(6 * n) * 2 * np.pi / (6 * n), np.arange(2 * n) * np.pi / n, indexing="ij")
    out = np.stack([np.cos(u) * np.cos(v), np.sin(u) * np.cos(v), np.sin(v)], axis=-1).reshape(-1, 3)
    ring = np.stack([np.cos(u), np.sin(u), 0 * u], axis=-1).reshape(-1, 3)
    area = 4 * np.pi**2 * 0.1 * 0.04 / len(out)
    return Points(jnp.asarray(0.1 * ring + 0.04 * out), jnp.asarray(out), jnp.asarray(area), jnp.zeros((0, 3)))


def exact(shape: str, x: np.ndarray) -> np.ndarray:
    if shape == "sphere":
        return np.linalg.norm(x, axis=1) - 0.1
    if shape == "capsule":
        axis = np.column_stack([np.zeros((len(x), 2)), np.clip(x[:, 2], -0.1, 0.1)])
        return np.linalg.norm(x - axis, axis=1) - 0.1
    if shape == "torus":
        return np.hypot(np.hypot(x[:, 0], x[:, 1]) - 0.1, x[:, 2]) - 0.04
    q = np.abs(x) - 0.1
    return np.linalg.norm(np.maximum(q, 0.0), axis=1) + np.minimum(q.max(axis=1), 0.0)


def surface(shape: str, n: int) -> Points:
    if shape == "torus":
        return torus(n)
    if shape == "box":
        return points_of(grids.box(np.full(3, 0.1), 0.2 / n))
    if shape == "sphere":
        return points_of(grids.sphere(0.1, 0.05 * np.pi / n))
    return points_of(grids.capsule(0.1, 0.1, 0.05 * np.pi / n))


@pytest.mark.parametrize("shape", ["sphere", "box", "capsule", "torus"])
def test_it_nears_the_exact_distance(shape: str) -> None:
    """Near the surface, with more points and less blending; at edges of the box it stays rounded by a spacing."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.16, 0.16, (6000, 3))
    x = x[np.abs(exact(shape, x)) < 0.02][:600]
    want, errors = exact(shape, x), []
    for n in (4, 8, 16):
        got = np.asarray(signed_distance(jnp.asarray(x), surface(shape, n), 0.5))
        errors.append(np.sqrt(np.mean((got - want) ** 2)))
    assert errors[2] < 0.6 * errors[1] < 0.6**2 * errors[0]
    assert errors[2] < 1.5e-3


def test_with_less_blending_it_is_the_distance_to_the_nearest_plane() -> None:
    """(7): the plane of the nearest point."""
    rng = np.random.default_rng(1)
    s = surface("sphere", 6)
    x = rng.uniform(-0.2, 0.2, (200, 3))
    place, normal = np.asarray(s.place), np.asarray(s.normal)
    away = x[:, None] - place
    square = np.sum(away**2, axis=2)
    order = np.sort(square, axis=1)
    clear = order[:, 1] - order[:, 0] > 30.0 * 1e-4 * float(s.scale)
    nearest = np.argmin(square, axis=1)
    want = np.sum(away[np.arange(len(x)), nearest] * normal[nearest], axis=1)
    got = np.asarray(signed_distance(jnp.asarray(x), s, 1e-4))
    assert clear.sum() > 150
    np.testing.assert_allclose(got[clear], want[clear], atol=1e-12)


def test_with_all_blending_it_is_the_mean_of_planes() -> None:
    """A weight that is the same for all points: planes of a closed surface average to -3 volumes by area."""
    s = surface("box", 4)
    x = jnp.asarray([[0.02, -0.03, 0.05], [0.4, 0.1, 0.0]])
    np.testing.assert_allclose(signed_distance(x, s, 1e9), -0.1, atol=1e-6)


def test_a_kernel_of_ones_own() -> None:
    """(10): the isotropic one by hand is the same, one that is narrow across the normal is another."""
    s = surface("capsule", 4)
    x = jnp.asarray(np.random.default_rng(2).uniform(-0.2, 0.2, (20, 3)))
    usual = signed_distance(x, s, 0.5)
    same = signed_distance(x, s, 0.5, lambda away, eps: -jnp.sum(away**2, axis=-1) / eps)
    np.testing.assert_allclose(same, usual, atol=1e-14)

    def flat(away: object, eps: object) -> object:
        along = jnp.sum(away * s.normal, axis=-1)
        return -(jnp.sum(away**2, axis=-1) - 0.5 * along**2) / eps

    other = signed_distance(x, s, 0.5, flat)
    assert np.isfinite(other).all() and np.abs(np.asarray(other - usual)).max() > 1e-4
    distance, _ = soft_plane(x, s, jnp.asarray(0.5))
    np.testing.assert_allclose(distance, usual, atol=1e-12)


WHERE = {
    "outside": [0.13, 0.02, 0.05],
    "touching": [0.1, 0.0, 0.0],
    "inside": [0.05, 0.03, -0.02],
    "concentric": [0.0, 0.0, 0.0],
    "far": [30.0, -20.0, 10.0],
}


@pytest.mark.parametrize("where", WHERE)
def test_gradient_and_hessian_are_those_of_finite_differences(where: str) -> None:
    """Central differences of the distance and of its gradient, in double precision."""
    s = surface("box", 4)
    x = jnp.asarray(WHERE[where])

    @jax.jit
    def distance(x: object) -> object:
        return signed_distance(x, s, 0.5)

    gradient = jax.jit(jax.grad(distance))
    h = 1e-6
    slopes = [(distance(x + h * e) - distance(x - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(gradient(x), slopes, atol=1e-6, rtol=1e-6)
    curves = [(gradient(x + h * e) - gradient(x - h * e)) / (2 * h) for e in np.eye(3)]
    hessian = jax.jit(jax.hessian(distance))(x)
    np.testing.assert_allclose(hessian, curves, atol=1e-4 * max(1.0, float(np.abs(hessian).max())))
    assert np.isfinite(hessian).all()


def law(**fields: float) -> Law:
    given = dict(stiffness=1e4, friction=0.5, dissipation=0.1, stiction=0.05, blend=0.5, select=1e-3, reach=1e-3)
    return Law(**{name: jnp.asarray(value) for name, value in {**given, **fields}.items()})


def test_the_force_of_a_plane_is_the_printed_one() -> None:
    """(14)-(20) by hand, on one plane: both ways to average agree with it."""
    n = np.array([0.0, 0.6, 0.8])
    plane = Points(jnp.asarray([[0.1, 0.2, 0.3]]), jnp.asarray([n]), jnp.asarray(1.0), jnp.zeros((0, 3)))
    rng = np.random.default_rng(3)
    for _ in range(5):
        x, v = plane.place[0] + 2e-3 * rng.normal(size=3), rng.normal(size=3) * 0.2
        distance = n @ (x - plane.place[0])
        leaving = n @ v
        c = 1e4 * 1e-3 * np.log1p(np.exp(-distance / 1e-3))
        s = leaving / 0.1
        d = 1.0 - s if s <= 0 else (s - 2.0) ** 2 / 4 if s <= 2 else 0.0
        slip = v - leaving * n
        want = c * d * (n - 0.5 * slip / np.sqrt(0.05**2 + slip @ slip))
        for force_law in (force_of_plane, force_of_planes):
            got = force_law(jnp.asarray(x)[None], jnp.asarray(v)[None], plane, law())
            np.testing.assert_allclose(got.force[0], want, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(got.distance[0], distance, atol=1e-14)


def test_dissipation_and_softplus() -> None:
    s = np.linspace(-3.0, 4.0, 701)
    got = np.asarray(dissipate(jnp.asarray(s)))
    assert (got >= 0.0).all() and (np.diff(got) <= 1e-15).all() and got[s >= 2.0].max() == 0.0
    slope = np.asarray(jax.vmap(jax.grad(dissipate))(jnp.asarray(s)))
    assert np.abs(np.diff(slope)).max() < 0.02  # no jump
    got = softplus(jnp.asarray([-1.0, 0.0, 1.0]), jnp.asarray(1e-3))
    np.testing.assert_allclose(got, [0, 1e-3 * np.log(2), 1], atol=1e-12)
    assert np.isfinite(jax.grad(jax.grad(softplus))(jnp.asarray(-40.0), jnp.asarray(1e-3)))


@pytest.mark.parametrize("force_law", [force_of_plane, force_of_planes])
def test_blocks_change_nothing(force_law: object) -> None:
    """Sums over a few points at a time are the sums over all, and so are their gradients."""
    s, x = surface("sphere", 3), surface("box", 4).place + jnp.asarray([0.0, 0.0, 0.195])
    twist = (jnp.asarray([0.1, 0.2, 0.3]), jnp.asarray([0.0, 0.1, -0.1]))

    def total(x: object, block: int) -> object:
        got = half(x, twist, s, law(), force_law, block)
        return jnp.sum(got.force) + jnp.sum(got.torque) + got.distance

    both = jax.jit(jax.value_and_grad(total), static_argnums=1)
    want, slope = both(x, 10_000)
    for block in (7, 32):
        got, gradient = both(x, block)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)


def test_memory_grows_with_points_and_not_with_their_square() -> None:
    """What XLA sets aside for a gradient, in blocks: four times the points on both sides take four times the memory."""

    def room(n: int) -> int:
        s, x = surface("sphere", n), surface("box", n).place
        twist = (jnp.zeros(3), jnp.zeros(3))

        def total(x: object) -> object:
            return jnp.sum(half(x, twist, s, law(), force_of_plane, 64).force)

        return jax.jit(jax.grad(total)).lower(x).compile().memory_analysis().temp_size_in_bytes

    assert room(16) < 6 * room(8)
