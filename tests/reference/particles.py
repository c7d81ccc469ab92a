"""NumPy reference of rigid bodies made of particles: PBD and PBD-R, particle by particle.

Algorithm 1 and equations (1) to (4) of "PBD-R"; every particle has a place, a velocity and a mass of its own, and what
belongs together is known by shape matching alone. A substep:

1. semi-implicit Euler for every particle; a force is spread by mass, a torque is ``m (I^-1 torque) x r``;
2. contacts are found once, where Euler has put the particles, and their normals stay;
3. each iteration adds up the displacements of all contacts, matches the shape of each body, updates velocities by (1)
   or (2), and puts back the momentum of before the shape matching, (3) and (4).

A contact of a particle has the gap ``c = n . (x - p) - r``. Where that is not positive the particle goes by
``relaxation (-n c - t min(mu |c|, |v_t| dt))``, t the direction in which it slides; of two particles of different
bodies each goes its share by inverse mass. With `accumulate` it is the sum over iterations that is bounded, as in
`impulses`.

In single precision (see `make_body`) this drifts as the paper says; there is nothing here to prevent it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.reference.contacts import Around, Descent, Plane, answer, published, room_left


@dataclasses.dataclass(frozen=True)
class Law:
    """How a substep is made.

    Attributes:
        iterations: of contacts, shape matching and momentum.
        relaxation: of what contacts displace; None: as much as a body's contacts allow.
        incremental: velocities by (2), as PBD-R has them; else by (1), as PBD does.
        linear: whether linear momentum is put back, (3).
        angular: whether angular momentum is, (4).
        relative: whether friction between particles goes by the difference of their velocities; else by each one's own.
        rigid: whether a substep ends with rigid bodies: best fit of places, velocities by momentum.
        accumulate: whether what contacts displace is bounded over the whole substep; else in each iteration by itself.
        tolerance: if so, iterations end when none moves a contact farther than this share of ``weight dt^2``.
        weight: acceleration that this refers to, m/s^2.
        momentum: if so, most of its last step that a contact takes on.
        margin: how far ahead contacts are noticed, in radii.
        recovery: with `accumulate`, rate at which an overlap of the start is undone, 1/s.
        gentle: speed at which it is undone, if that is more, m/s.
    """

    iterations: int = 10
    relaxation: float | None = 0.9
    incremental: bool = True
    linear: bool = True
    angular: bool = True
    relative: bool = True
    rigid: bool = False
    accumulate: bool = False
    tolerance: float = 0.0
    weight: float = 9.81
    momentum: float = 0.65
    margin: float = 0.25
    recovery: float = 50.0
    gentle: float = 0.02


PBD = Law(incremental=False, linear=False, angular=False)
"""Before the paper."""


@dataclasses.dataclass
class Body:
    """Particles that keep their places to each other.

    Attributes:
        rest: their places about the centre of mass, m, (n, 3).
        mass: kg, (n,).
        radius: m, (n,).
        friction: coefficient; of two that touch, the larger counts.
        x: places, m, (n, 3).
        v: velocities, m/s, (n, 3).
    """

    rest: NDArray
    mass: NDArray
    radius: NDArray
    friction: float
    x: NDArray
    v: NDArray


@dataclasses.dataclass(frozen=True)
class _Contacts:
    """Of one particle each, with a plane or with a particle of another body; such two have a contact each.

    Attributes:
        particle: over all bodies, (ncon,).
        other: likewise; -1: a plane, (ncon,).
        point: of the plane, m, (ncon, 3).
        normal: towards the particle, (ncon, 3).
        reach: distance along the normal at which there is no gap, or as much overlap as is left for now, m, (ncon,).
        friction: (ncon,).
        share: of a displacement that the particle gets, (ncon,).
    """

    particle: NDArray[np.integer]
    other: NDArray[np.integer]
    point: NDArray
    normal: NDArray
    reach: NDArray
    friction: NDArray
    share: NDArray


def make_body(
    place: ArrayLike,
    radius: ArrayLike,
    mass: float,
    friction: float = 0.0,
    *,
    pos: ArrayLike = (0.0, 0.0, 0.0),
    mat: ArrayLike = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    vel: ArrayLike = (0.0, 0.0, 0.0),
    omega: ArrayLike = (0.0, 0.0, 0.0),
    dtype: Any = np.float64,
) -> Body:
    """A rigid body of particles of equal mass.

    Args:
        place: of the particles in the frame of the body, m, (n, 3).
        radius: of each, m, (n,).
        mass: of all, kg.
        friction: coefficient.
        pos: origin of the frame, m, (3,).
        mat: its axes are the columns, (3, 3).
        vel: velocity of the origin, m/s, (3,).
        omega: angular velocity in the world, rad/s, (3,).
        dtype: of everything from here on.
    """
    q = np.asarray(place, dtype=float)
    arm = q @ np.asarray(mat, dtype=float).T
    return Body(
        rest=(q - q.mean(axis=0)).astype(dtype),
        mass=np.full(len(q), mass / len(q), dtype=dtype),
        radius=np.asarray(radius, dtype=dtype),
        friction=friction,
        x=(pos + arm).astype(dtype),
        v=(vel + np.cross(np.asarray(omega, dtype=float), arm)).astype(dtype),
    )


# one body


def motion_of(body: Body) -> tuple[NDArray, NDArray]:
    """Places and velocities of its particles, m and m/s, (n, 3)."""
    return body.x, body.v


def centre_of(mass: NDArray, x: NDArray) -> NDArray:
    """Centre of mass, (3,)."""
    return mass @ x / mass.sum()


def momentum_of(mass: NDArray, x: NDArray, v: NDArray) -> tuple[NDArray, NDArray]:
    """P and L, the latter about the centre of mass."""
    return mass @ v, mass @ np.cross(x - centre_of(mass, x), v)


def inertia_of(mass: NDArray, x: NDArray) -> NDArray:
    """About the centre of mass, (3, 3)."""
    r = x - centre_of(mass, x)
    return np.einsum("n,nk,nk", mass, r, r) * np.eye(3, dtype=x.dtype) - np.einsum("n,ni,nj->ij", mass, r, r)


def polar_rotation(a: NDArray) -> NDArray:
    """The rotation R for which tr(R' a) is largest, by singular values."""
    u, _, vt = np.linalg.svd(a)
    u[:, 2] *= np.sign(np.linalg.det(u) * np.linalg.det(vt))
    return u @ vt


def rotation_of(body: Body) -> NDArray:
    """That best takes a body from rest to where its particles are, (3, 3)."""
    r = body.x - centre_of(body.mass, body.x)
    return polar_rotation(np.einsum("n,ni,nj->ij", body.mass, r, body.rest))


def _goals(body: Body) -> NDArray:
    """Where shape matching wants the particles."""
    return centre_of(body.mass, body.x) + body.rest @ rotation_of(body).T


def _predict(body: Body, force: NDArray, torque: NDArray, dt: float) -> None:
    """Lines 1 to 4 of Algorithm 1."""
    r = body.x - centre_of(body.mass, body.x)
    turning = np.linalg.solve(inertia_of(body.mass, body.x), torque)
    body.v = body.v + dt * (force / body.mass.sum() + np.cross(turning, r))
    body.x = body.x + dt * body.v


def _displace(body: Body, dx: NDArray, start: NDArray, dt: float, law: Law) -> None:
    """Move particles; velocities by (2) or (1)."""
    body.x = body.x + dx
    body.v = body.v + dx / dt if law.incremental else (body.x - start) / dt


def _keep_shape(body: Body, start: NDArray, dt: float, law: Law) -> None:
    """Line 9 of Algorithm 1, and line 12."""
    linear, angular = momentum_of(body.mass, body.x, body.v)
    _displace(body, _goals(body) - body.x, start, dt, law)
    linear_after, angular_after = momentum_of(body.mass, body.x, body.v)
    if law.linear:  # (3)
        dv = (linear - linear_after) / body.mass.sum()
        body.v = body.v + dv
        body.x = body.x + dt * dv
    if law.angular:  # (4)
        omega = np.linalg.solve(inertia_of(body.mass, body.x), angular_after - angular)
        dv = np.cross(omega, body.x - centre_of(body.mass, body.x))
        body.v = body.v - dv
        body.x = body.x - dt * dv


def _stiffen(body: Body) -> None:
    """Best fit of places, and the rigid velocities that have the same momentum."""
    linear, angular = momentum_of(body.mass, body.x, body.v)
    body.x = _goals(body)
    omega = np.linalg.solve(inertia_of(body.mass, body.x), angular)
    body.v = linear / body.mass.sum() + np.cross(omega, body.x - centre_of(body.mass, body.x))


# all bodies


def _joined(bodies: Sequence[Body], name: str) -> NDArray:
    return np.concatenate([getattr(body, name) for body in bodies])


def _find(bodies: Sequence[Body], start: Sequence[NDArray], planes: Sequence[Plane], dt: float, law: Law) -> _Contacts:
    """Every particle with the planes and with the particles of other bodies that are near; `start`: where all were."""
    x, radius, mass = (_joined(bodies, name) for name in ("x", "radius", "mass"))
    way = x - np.concatenate(start)
    count = [len(body.x) for body in bodies]
    owner = np.repeat(np.arange(len(bodies)), count)
    friction = np.repeat([body.friction for body in bodies], count).astype(x.dtype)

    away = x[:, None] - x
    length = np.linalg.norm(away, axis=2)
    gaps = length - radius[:, None] - radius
    near = (gaps < law.margin * np.minimum(radius[:, None], radius)) & (owner[:, None] != owner)
    i, j = np.nonzero(near)
    normal = away[i, j] / length[i, j, None]
    was = gaps[i, j] - np.einsum("nk,nk->n", normal, way[i] - way[j])
    reach = radius[i] + radius[j] + was - room_left(was, dt, law)
    found = [(i, j, x[j], normal, reach, np.maximum(friction[i], friction[j]), mass[j] / (mass[i] + mass[j]))]
    for plane in planes:
        point, normal = (np.asarray(a, dtype=x.dtype) for a in (plane.point, plane.normal))
        gaps = (x - point) @ normal - radius
        i = np.flatnonzero(gaps < law.margin * radius)
        was = gaps[i] - way[i] @ normal
        mu = np.maximum(friction[i], x.dtype.type(plane.friction))
        every = [np.tile(a, (len(i), 1)) for a in (point, normal)]
        reach = radius[i] + was - room_left(was, dt, law)
        found.append((i, np.full(len(i), -1), *every, reach, mu, np.ones_like(radius[i])))
    return _Contacts(*(np.concatenate(each) for each in zip(*found, strict=True)))


def _gains(bodies: Sequence[Body], start: Sequence[NDArray], contacts: _Contacts, law: Law) -> NDArray:
    """Share of what each contact would have to go that it goes in an iteration, (ncon,)."""
    if law.relaxation is not None:
        return np.full(len(contacts.particle), law.relaxation)
    count = [len(body.x) for body in bodies]
    owner = np.append(np.repeat(np.arange(len(bodies)), count), len(bodies))  # the last: of planes
    counted = contacts.share * _joined(bodies, "mass")[contacts.particle] * np.where(contacts.other < 0, 1.0, 2.0)
    gain = np.full(len(bodies) + 1, np.inf)
    for k, (body, x) in enumerate(zip(bodies, start, strict=True)):
        mine = owner[contacts.particle] == k
        if mine.any():
            lever = (x - centre_of(body.mass, x))[contacts.particle[mine] - sum(count[:k])]
            gain[k] = 1.0 / answer(body.mass.sum(), inertia_of(body.mass, x), lever, counted[mine])
    return np.minimum(gain[owner[contacts.particle]], gain[owner[contacts.other]])


def _apart(bodies: Sequence[Body], contacts: _Contacts, dt: float, law: Law) -> tuple[NDArray, NDArray]:
    """Gaps of contacts, m, (ncon,), and how far they slide in the substep, m, (ncon, 3)."""
    x, v = _joined(bodies, "x"), _joined(bodies, "v")
    i, n = contacts.particle, contacts.normal
    pair = (contacts.other >= 0)[:, None]
    gap = np.einsum("nk,nk->n", n, x[i] - np.where(pair, x[contacts.other], contacts.point)) - contacts.reach
    velocity = v[i] - np.where(pair, v[contacts.other], 0) if law.relative else v[i]
    return gap, dt * (velocity - np.einsum("nk,nk->n", n, velocity)[:, None] * n)


def _spread(bodies: Sequence[Body], contacts: _Contacts, push: NDArray) -> list[NDArray]:
    """Displacements of contacts, each particle's share, added up over each, body by body."""
    total = np.zeros_like(_joined(bodies, "x"))
    np.add.at(total, contacts.particle, contacts.share[:, None] * push)
    return np.split(total, np.cumsum([len(body.x) for body in bodies])[:-1])


def substep(bodies: Sequence[Body], dt: float, law: Law, around: Around = Around()) -> None:  # noqa: B008 - frozen
    """Advance bodies in place, that may touch each other, by dt, s."""
    dtype = bodies[0].x.dtype
    dt = dtype.type(dt)
    start = [body.x for body in bodies]
    for k, body in enumerate(bodies):
        _predict(body, *around.wrench(k, body.mass.sum(), dtype), dt)
    contacts = _find(bodies, start, around.planes, dt, law)
    gain = _gains(bodies, start, contacts, law).astype(dtype)
    descent = Descent(len(gain), law.momentum)
    for iteration in range(law.iterations):
        apart = (*_apart(bodies, contacts, dt, law), contacts.normal, contacts.friction, gain)
        step = np.inf
        if law.accumulate:
            push, step = descent.push(*apart, final=iteration + 1 == law.iterations)
        else:  # lines 7 and 8 of Algorithm 1
            push = published(*apart)
        for body, dx, first in zip(bodies, _spread(bodies, contacts, push), start, strict=True):
            _displace(body, dx, first, dt, law)
            _keep_shape(body, first, dt, law)
        if step <= law.tolerance * law.weight * dt**2 and law.tolerance > 0.0:
            break
    if law.rigid:
        for body in bodies:
            _stiffen(body)
