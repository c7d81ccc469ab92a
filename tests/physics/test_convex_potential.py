"""Potentials of the convex step: minus their gradient is the impulse, and its slope is their curvature."""

import numpy as np
import pytest
import warp as wp

from stickslip.physics.convex.step.laws import tangential
from stickslip.physics.convex.step.layout import vec6
from stickslip.physics.convex.step.potential import (
    clamped_impulse,
    dry_impulse,
    friction_impulse,
    normal_impulse,
    real,
    sigmoid,
    slip,
    static_share,
    vec5,
)
from tests.reference import convex

wp.set_module_options({"enable_backward": True})

N = 4000
STEP = 1e-6
"""Of central differences, relative to the size of what is varied."""


# The potentials themselves.


@wp.func
def normal_edge(elastic: real, stiffness: real, dissipation: real, dt: real) -> real:
    """Normal velocity from which on there is no force: the contact opens, or it opens too fast for the material."""
    edge = elastic / (dt * stiffness)
    if dissipation > real(0.0):
        edge = wp.min(edge, real(1.0) / dissipation)
    return edge


@wp.func
def normal_cost(v: real, elastic: real, stiffness: real, dissipation: real, dt: real) -> real:
    """The potential of (13): the impulse summed from v to where it ends."""
    edge = normal_edge(elastic, stiffness, dissipation, dt)
    if v >= edge:
        return real(0.0)
    # with w = edge - v the two factors are linear in w
    w = edge - v
    a0 = wp.max(elastic - dt * stiffness * edge, real(0.0))
    b0 = wp.max(real(1.0) - dissipation * edge, real(0.0))
    a1 = dt * stiffness
    b1 = dissipation
    return dt * w * (a0 * b0 + w * (real(0.5) * (a0 * b1 + a1 * b0) + w * a1 * b1 / real(3.0)))


@wp.func
def clamped_cost(s: real, bias: real, gain: real, low: real, high: real) -> real:
    """The potential of a clamped linear impulse: (20), continuous where it is clamped."""
    y = bias - gain * s
    if gain <= real(0.0):
        return -wp.clamp(bias, low, high) * s
    if y <= low:
        return low * (y - real(0.5) * low) / gain
    if y >= high:
        return high * (y - real(0.5) * high) / gain
    return real(0.5) * y * y / gain


# What is held against them.


@wp.kernel
def _normal(
    v: wp.array[real],
    elastic: wp.array[real],
    stiffness: wp.array[real],
    dissipation: wp.array[real],
    dt: wp.array[real],
    cost: wp.array[real],
    impulse: wp.array[real],
    slope: wp.array[real],
    edge: wp.array[real],
):
    i = wp.tid()
    cost[i] = normal_cost(v[i], elastic[i], stiffness[i], dissipation[i], dt[i])
    a, b = normal_impulse(v[i], elastic[i], stiffness[i], dissipation[i], dt[i])
    impulse[i] = a
    slope[i] = b
    edge[i] = normal_edge(elastic[i], stiffness[i], dissipation[i], dt[i])


@wp.kernel
def _friction(
    v: wp.array[vec5],
    musq: wp.array[vec5],
    lagged: wp.array[real],
    eps: wp.array[real],
    cost: wp.array[real],
    impulse: wp.array[vec5],
):
    i = wp.tid()
    s = slip(v[i], musq[i], eps[i])
    cost[i] = lagged[i] * s
    impulse[i] = friction_impulse(v[i], musq[i], lagged[i], s)


@wp.kernel
def _clamped(
    s: wp.array[real],
    bias: wp.array[real],
    gain: wp.array[real],
    low: wp.array[real],
    high: wp.array[real],
    cost: wp.array[real],
    impulse: wp.array[real],
    slope: wp.array[real],
):
    i = wp.tid()
    cost[i] = clamped_cost(s[i], bias[i], gain[i], low[i], high[i])
    a, b = clamped_impulse(s[i], bias[i], gain[i], low[i], high[i])
    impulse[i] = a
    slope[i] = b


@wp.kernel
def _dry(s: wp.array[real], loss: wp.array[real], eps: wp.array[real], impulse: wp.array[real], slope: wp.array[real]):
    i = wp.tid()
    a, b = dry_impulse(s[i], loss[i], eps[i])
    impulse[i] = a
    slope[i] = b


@wp.kernel
def _static(s: wp.array[real], share: wp.array[real], soft: wp.array[real]):
    i = wp.tid()
    share[i] = static_share(s[i])
    soft[i] = sigmoid(s[i])


@wp.kernel
def _split(v: wp.array[vec6], out: wp.array[vec5]):
    i = wp.tid()
    out[i] = tangential(v[i])


def launch(kernel, inputs, outputs, grad=False):
    """Run a kernel on float64 arrays; (n, 5) become vectors. Returns the outputs, or all arrays and the tape."""
    n = len(inputs[0])

    def put(x):
        x = np.asarray(x, dtype=float)
        return wp.array(x, dtype=real if x.ndim == 1 else vec5, requires_grad=grad)

    arrays = [put(x) for x in inputs]
    results = [wp.zeros(n, dtype=kind, requires_grad=grad) for kind in outputs]
    if not grad:
        wp.launch(kernel, dim=n, inputs=[*arrays, *results])
        return [result.numpy() for result in results]
    tape = wp.Tape()
    with tape:
        wp.launch(kernel, dim=n, inputs=arrays, outputs=results)
    return arrays, results, tape


def normal(v, *law):
    """Cost, impulse, slope and edge of the normal potential."""
    return launch(_normal, [v, *law], [real] * 4)


def friction(v, *law):
    """Cost and impulse of friction."""
    return launch(_friction, [v, *law], [real, vec5])


def clamped(s, *law):
    """Cost, impulse and slope of a clamped row."""
    return launch(_clamped, [s, *law], [real] * 3)


def spread(random, low, high, size=N):
    """Numbers over decades, from 10^low to 10^high."""
    return 10.0 ** random.uniform(low, high, size)


def normal_laws(random):
    """Contacts apart and together, soft and hard, with and without dissipation, and velocities on both sides of both
    edges."""
    dt, stiffness = spread(random, -5, 0), spread(random, 2, 7)
    elastic = stiffness * random.choice([-1.0, 1.0], N) * spread(random, -6, -2)
    dissipation = np.where(random.random(N) < 0.2, 0.0, spread(random, -1, 2))
    with np.errstate(divide="ignore"):
        edges = np.stack([elastic / (dt * stiffness), np.where(dissipation > 0.0, 1.0 / dissipation, 1.0)])
    v = edges[random.integers(2, size=N), np.arange(N)] + random.normal(size=N) * spread(random, -3, 1)
    return v, elastic, stiffness, dissipation, dt


def friction_laws(random):
    """Slip below, about and far above what sticks, with different coefficients, also zero, in all directions."""
    musq = random.uniform(0.0, 1.5, (N, 5)) ** 2 * (random.random((N, 5)) < 0.8)
    eps = spread(random, -6, -2)
    v = random.normal(size=(N, 5)) * (eps * spread(random, -2, 4))[:, None]
    return v, musq, spread(random, -3, 3), eps


def clamped_laws(random):
    """Rows with two bounds, one or none, some without a gain, below, between and above their bounds."""
    bias, gain = random.normal(size=N), np.where(random.random(N) < 0.15, 0.0, spread(random, -2, 3))
    width = spread(random, -1, 1)
    low = np.where(random.random(N) < 0.3, -1e300, -width * random.random(N))
    high = np.where(random.random(N) < 0.3, 1e300, width * random.random(N))
    target = random.normal(size=N) * 2.0 * width  # the impulse that would be, without bounds
    s = np.where(gain > 0.0, (bias - target) / np.where(gain > 0.0, gain, 1.0), random.normal(size=N))
    return s, bias, gain, low, high


def assert_slopes(minus_slope, values, at, h, scale, skip=None):
    """Central differences of `values` over 2 h are minus `minus_slope`, to 1e-6 of `scale`."""
    differences = (values(at + h) - values(at - h)) / (2.0 * h)
    off = np.abs(differences + minus_slope) / scale
    if skip is not None:
        off = off[~skip]
        assert (~skip).mean() > 0.9
    assert off.max() < 1e-6, f"off by {off.max():.1e}"


def test_normal_impulse_is_minus_the_gradient_of_its_cost(device):
    """Finite differences; and the slope is that of the impulse."""
    v, *law = normal_laws(np.random.default_rng(0))
    cost, impulse, slope, edge = normal(v, *law)
    elastic, stiffness, dissipation, dt = law
    assert (impulse > 0.0).mean() > 0.3 and (impulse == 0.0).mean() > 0.3
    depth = np.abs(v) + np.abs(edge) + 1e-3
    h = STEP * depth
    near = np.abs(v - edge) < 2.0 * h  # a kink of the impulse lies between the two points
    bend = dt * (
        dt * stiffness * (1.0 + dissipation * depth) + dissipation * (np.abs(elastic) + dt * stiffness * depth)
    )
    assert_slopes(impulse, lambda x: normal(x, *law)[0], v, h, bend * depth, near)
    assert_slopes(slope, lambda x: normal(x, *law)[1], v, h, bend, near)


def test_normal_impulse_is_equation_13(device):
    """Also for contacts that do not touch yet; the cost is (13) summed up, and the reference's."""
    v, *law = normal_laws(np.random.default_rng(1))
    elastic, stiffness, dissipation, dt = law
    cost, impulse, slope, edge = normal(v, *law)
    expected = dt * np.maximum(elastic - dt * stiffness * v, 0.0) * np.maximum(1.0 - dissipation * v, 0.0)
    largest = dt * (np.abs(elastic) + dt * stiffness * np.abs(v)) * (1.0 + np.abs(dissipation * v))
    rounding = 0.0 if device == "cpu" else 1e-15 * largest  # of differences: a GPU multiplies and adds at once
    assert (np.abs(impulse - expected) <= 1e-12 * expected + rounding).all()
    np.testing.assert_allclose(slope, convex.normal_curvature(v, *law), rtol=1e-12)
    apart = elastic < 0.0
    assert (impulse[apart] > 0.0).any() and (edge[apart] < 0.0).all()
    assert (impulse[v >= edge] == 0.0).all() and (cost[v >= edge] == 0.0).all() and (slope[v >= edge] == 0.0).all()
    assert (impulse[v < edge] > 0.0).all() and (cost[v < edge] > 0.0).all()
    # Gauss and Legendre's rule with three points integrates a polynomial of second order exactly
    nodes, weights = np.polynomial.legendre.leggauss(3)
    start = np.minimum(v, edge)
    middle, half = 0.5 * (start + edge), 0.5 * (edge - start)
    points = middle[:, None] + half[:, None] * nodes
    summed = half * (convex.normal_impulse(points, *(x[:, None] for x in law)) @ weights)
    np.testing.assert_allclose(cost, summed, rtol=1e-9, atol=1e-300)
    inner = (v < edge) & (np.abs(v - edge) > 1e-3 * np.abs(edge))  # nearer to the edge the reference loses digits
    np.testing.assert_allclose(convex.normal_potential(v, *law)[inner], cost[inner], rtol=1e-5)


def test_friction_is_minus_the_gradient_of_its_cost(device):
    """Finite differences in each of the five directions, and the reference's gradient."""
    v, *law = friction_laws(np.random.default_rng(2))
    musq, lagged, eps = law
    cost, impulse = friction(v, *law)
    size = eps + np.abs(v).max(axis=1)
    for i in range(5):
        h = STEP * size

        def along(x, i=i):
            return friction(np.where(np.arange(5) == i, x[:, None], v), *law)[0]

        mu = np.sqrt(musq[:, i])
        rounding = 1e-16 * cost / h / 1e-6
        assert_slopes(impulse[:, i], along, v[:, i], h, lagged * mu + rounding + 1e-9 * lagged)
    np.testing.assert_allclose(impulse, -lagged[:, None] * convex.slip_gradient(v, musq, eps), rtol=1e-12, atol=1e-15)


def test_friction_stays_in_its_cone_and_opposes_slip(device):
    """sum (f_i / mu_i)^2 < gamma^2, up to it when sliding, in proportion to slip when sticking."""
    v, *law = friction_laws(np.random.default_rng(3))
    musq, lagged, eps = law
    _, impulse = friction(v, *law)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.sqrt(np.where(musq > 0.0, impulse**2 / musq, 0.0).sum(axis=1)) / lagged
    moved = np.sqrt((musq * v**2).sum(axis=1)) / eps
    np.testing.assert_allclose(share, moved / np.sqrt(moved**2 + 1.0), rtol=1e-9)
    assert share.max() <= 1.0 and (share[moved > 1e3] > 0.999999).all() and (share[moved < 1e-2] < 1.001e-2).all()
    assert ((impulse * v).sum(axis=1) <= 0.0).all()


def test_clamped_impulse_is_minus_the_gradient_of_its_cost(device):
    """Finite differences, with and without a gain; cost, impulse and slope are the reference's."""
    s, *law = clamped_laws(np.random.default_rng(4))
    bias, gain, low, high = law
    cost, impulse, slope = clamped(s, *law)
    for part in (impulse == low, impulse == high, (impulse > low) & (impulse < high), gain == 0.0):
        assert part.mean() > 0.05
    h = STEP / np.maximum(gain, 1.0)
    free = bias - gain * s
    near = (np.abs(free - low) < 2.0 * gain * h) | (np.abs(free - high) < 2.0 * gain * h)
    scale = 1.0 + np.abs(impulse) + 1e-10 * np.abs(cost) / h
    assert_slopes(impulse, lambda x: clamped(x, *law)[0], s, h, scale, near)
    assert_slopes(slope, lambda x: clamped(x, *law)[1], s, h, np.maximum(gain, 1.0) * (1.0 + np.abs(free)), near)
    np.testing.assert_allclose(impulse, convex.clamped_impulse(s, *law), rtol=1e-12)
    np.testing.assert_allclose(slope, convex.clamped_curvature(s, *law), rtol=1e-12)
    np.testing.assert_allclose(cost, convex.clamped_potential(s, *law), rtol=1e-10, atol=1e-13)


def test_clamped_cost_is_continuous_where_it_is_clamped(device):
    """As printed, (20) jumps there; the cost just below and just above a bound is the same to first order."""
    random = np.random.default_rng(5)
    bias, gain = random.normal(size=N), spread(random, -2, 3)
    low = -spread(random, -2, 2) * random.choice([-0.5, 1.0], N)
    high = low + spread(random, -2, 2)
    for bound in (low, high):
        s = (bias - bound) / gain
        h = 1e-9 * (1.0 + np.abs(s))
        below, above = (clamped(s + sign * h, bias, gain, low, high)[0] for sign in (-1.0, 1.0))
        rounding = 1e-14 * np.abs(bound) * (np.abs(bias) + gain * np.abs(s) + np.abs(bound)) / gain
        jump = np.abs(above - below + 2.0 * h * bound)
        assert (jump <= 4.0 * gain * h**2 + rounding + 1e-16).all()


def test_dry_friction_is_minus_the_gradient_of_a_length(device):
    """Finite differences of loss sqrt(s^2 + eps^2); the impulse is bounded by the loss and odd."""
    random = np.random.default_rng(6)
    loss, eps = spread(random, -3, 3), spread(random, -6, -2)
    s = random.normal(size=N) * eps * spread(random, -2, 4)

    def of(x):
        return launch(_dry, [x, loss, eps], [real] * 2)

    impulse, slope = of(s)
    h = 1e-5 * np.hypot(s, eps)
    assert_slopes(impulse, lambda x: convex.dry_potential(x, loss, eps), s, h, loss)
    assert_slopes(slope, lambda x: of(x)[0], s, h, loss / np.hypot(s, eps))
    np.testing.assert_allclose(of(-s)[0], -impulse, rtol=1e-14)
    assert (np.abs(impulse) <= loss).all()
    np.testing.assert_allclose(impulse, convex.dry_impulse(s, loss, eps), rtol=1e-12)
    np.testing.assert_allclose(slope, convex.dry_curvature(s, loss, eps), rtol=1e-12)


def test_autodiff_of_costs_gives_the_impulses(device):
    """Warp's own reverse mode: the gradient of a cost is minus the impulse, that of an impulse minus its slope."""
    random = np.random.default_rng(7)
    for kernel, laws, nout in ((_normal, normal_laws, 4), (_clamped, clamped_laws, 3)):
        x, *law = laws(random)
        gradients = []
        for out in (0, 1):
            arrays, results, tape = launch(kernel, [x, *law], [real] * nout, grad=True)
            tape.backward(grads={results[out]: wp.array(np.ones(N), dtype=real)})
            gradients.append(arrays[0].grad.numpy())
        impulse, slope = results[1].numpy(), results[2].numpy()
        np.testing.assert_allclose(gradients[0], -impulse, rtol=1e-9, atol=1e-12 * np.abs(impulse).max())
        np.testing.assert_allclose(gradients[1], -slope, rtol=1e-9, atol=1e-12 * np.abs(slope).max())
    v, *law = friction_laws(random)
    arrays, results, tape = launch(_friction, [v, *law], [real, vec5], grad=True)
    tape.backward(grads={results[0]: wp.array(np.ones(N), dtype=real)})
    np.testing.assert_allclose(arrays[0].grad.numpy(), -results[1].numpy(), rtol=1e-9, atol=1e-12)


def test_autodiff_of_friction_gives_the_reference_hessian(device):
    """Column by column, from Warp's reverse mode of the impulse: the 5 x 5 block that the step assembles."""
    v, *law = friction_laws(np.random.default_rng(8))
    musq, lagged, eps = law
    found = np.zeros((N, 5, 5))
    for i in range(5):
        arrays, results, tape = launch(_friction, [v, *law], [real, vec5], grad=True)
        seed = np.tile(np.eye(5)[i], (N, 1))
        tape.backward(grads={results[1]: wp.array(seed, dtype=vec5)})
        found[:, i] = -arrays[0].grad.numpy()
    expected = lagged[:, None, None] * convex.slip_hessian(v, musq, eps)
    scale = (lagged * musq.max(axis=1) / convex.slip_length(v, musq, eps))[:, None, None] + 1e-300
    assert (np.abs(found - expected) / scale).max() < 1e-9


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_reference_derivatives(weight):
    """Of the reference itself, on random problems: gradient against cost, Hessian against gradient; blocks of contacts
    have no negative eigenvalue, the whole Hessian has positive ones only."""
    random = np.random.default_rng(9)
    for _ in range(20):
        p = random_problem(random, weight)
        v = random.normal(size=len(p.r))
        g, H = convex.gradient(p, v), convex.hessian(p, v)
        h = 1e-6
        for i in range(len(v)):
            e = h * np.eye(len(v))[i]
            np.testing.assert_allclose(
                (convex.cost(p, v + e) - convex.cost(p, v - e)) / (2.0 * h),
                g[i],
                rtol=1e-6,
                atol=1e-6 * np.abs(g).max(),
            )
            column = (convex.gradient(p, v + e) - convex.gradient(p, v - e)) / (2.0 * h)
            np.testing.assert_allclose(column, H[i], rtol=1e-4, atol=1e-5 * np.abs(H).max())
        blocks = np.linalg.eigvalsh(convex.contact_hessians(p, v))
        assert (blocks >= -1e-12 * np.abs(blocks).max(axis=1, keepdims=True)).all()
        assert (convex.row_curvatures(p, v) >= 0.0).all()
        assert np.linalg.eigvalsh(H)[0] >= np.linalg.eigvalsh(p.A)[0] * (1.0 - 1e-9) > 0.0


def test_reference_finds_the_minimum():
    """Of random problems: no gradient is left, and every way out of the solution costs more."""
    random = np.random.default_rng(10)
    for _ in range(20):
        p = random_problem(random, 1.0)
        v = convex.solve(p, np.zeros(len(p.r)))
        assert np.abs(convex.gradient(p, v)).max() < 1e-9 * np.abs(p.r).max()
        least = convex.cost(p, v)
        for size in (1e-3, 1e-1, 10.0):
            assert convex.cost(p, v + size * random.normal(size=len(v))) > least


def random_problem(random, weight):
    """Eight dofs, six contacts and nine rows of all laws; friction sticks within 0.1 m/s, so that differences work."""
    nv, ncon, nrow = 8, 6, 9
    root = np.tril(random.normal(size=(nv, nv))) + 3.0 * np.eye(nv)
    jac = random.normal(size=(ncon, 6, nv))
    dims = random.choice([1, 3, 4, 6], ncon)
    own = np.arange(6) < dims[:, None]
    contacts = convex.Contacts(
        jac=jac * own[:, :, None],
        given=0.1 * random.normal(size=(ncon, 6)) * own,
        elastic=100.0 * random.normal(size=ncon),
        stiffness=spread(random, 2, 4, ncon),
        dissipation=random.choice([0.0, 0.3], ncon),
        lagged=100.0 * random.random(ncon) * (dims > 1),
        musq=random.random((ncon, 5)) * own[:, 1:],
        eps=np.full(ncon, 0.1),
    )
    low = np.where(random.random(nrow) < 0.5, -np.inf, -random.random(nrow))
    rows = convex.Rows(
        jac=random.normal(size=(nrow, nv)),
        dry=np.arange(nrow) % 3 == 0,
        bias=np.abs(random.normal(size=nrow)),
        gain=spread(random, -1, 1, nrow) * (random.random(nrow) < 0.8),
        least=low,
        most=np.where(random.random(nrow) < 0.5, np.inf, random.random(nrow)),
        eps=0.1,
    )
    return convex.Problem(0.05, root @ root.T, 10.0 * random.normal(size=nv), contacts, rows, weight)


def test_static_share_falls_from_one_to_zero(device):
    """sigma of (8) is 1 at rest, about 1/2 at ten times the stiction velocity, 0 far above; it falls all the way."""
    s = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 2000)])
    share, soft = launch(_static, [s], [real] * 2)
    back, _ = launch(_static, [-s], [real] * 2)
    middle, _ = launch(_static, [np.array([10.0])], [real] * 2)
    assert share[0] == pytest.approx(1.0, abs=1e-12) and middle[0] == pytest.approx(0.5, abs=2e-3)
    assert share.min() >= 0.0 and share[-1] < 1e-9
    assert (np.diff(share[:1600]) < 0.0).all() and (np.diff(share) <= 0.0).all()
    np.testing.assert_array_equal(share, back)
    np.testing.assert_allclose(soft, s / np.hypot(s, 1.0), rtol=1e-12)


def test_tangential_part_of_a_contact_velocity(device):
    """All but the normal, in order."""
    v = np.random.default_rng(11).normal(size=(3, 6))
    out = wp.zeros(3, dtype=vec5)
    wp.launch(_split, dim=3, inputs=[wp.array(v, dtype=vec6), out])
    np.testing.assert_array_equal(out.numpy(), v[:, 1:])
