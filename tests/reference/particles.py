"""NumPy reference of rigid bodies made of particles: PBD and PBD-R, particle by particle.

Algorithm 1 and equations (1) to (4) of "PBD-R"; every particle has a place, a velocity and a mass of its own, and what
belongs together is known by shape matching alone. A substep:

1. semi-implicit Euler for every particle; a force is spread by mass, a torque is ``m (I^-1 torque) x r``;
2. contacts are found once, where Euler has put the particles, and their normals stay;
3. each iteration adds up the displacements of all contacts, matches the shape of each body, updates velocities by (1)
   or (2), and puts back the momentum of before the shape matching, (3) and (4).

A contact of a particle has the gap ``c = n . (x - p) - r``. Where that is not positive the particle goes by
``relaxation (-n c - t min(mu |c|, |v_t| dt))``, t the direction in which it slides; of two particles of different
bodies each goes its share by inverse mass.

In single precision (see `make_body`) this drifts as the paper says; there is nothing here to prevent it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclasses.dataclass(frozen=True)
class Law:
    """How a substep is made.

    Attributes:
        iterations: of contacts, shape matching and momentum.
        relaxation: of what contacts displace.
        incremental: velocities by (2), as PBD-R has them; else by (1), as PBD does.
        linear: whether linear momentum is put back, (3).
        angular: whether angular momentum is, (4).
        relative: whether friction between particles goes by the difference of their velocities; else by each one's own.
        rigid: whether a substep ends with rigid bodies: best fit of places, velocities by momentum.
        margin: how far apart two particles are looked at, m.
    """

    iterations: int = 10
    relaxation: float = 0.9
    incremental: bool = True
    linear: bool = True
    angular: bool = True
    relative: bool = True
    rigid: bool = False
    margin: float = 0.01


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
class Plane:
    """The half space below it does not let particles in.

    Attributes:
        point: of it, m, (3,).
        normal: of unit length, (3,).
        friction: coefficient.
    """

    point: ArrayLike
    normal: ArrayLike
    friction: float


@dataclasses.dataclass(frozen=True)
class _Contacts:
    """Of one particle each, with a plane or with a particle of another body; such two have a contact each.

    Attributes:
        particle: over all bodies, (ncon,).
        other: likewise; -1: a plane, (ncon,).
        point: of the plane, m, (ncon, 3).
        normal: towards the particle, (ncon, 3).
        reach: distance along the normal at which there is no gap, m, (ncon,).
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


def _find(bodies: Sequence[Body], planes: Sequence[Plane], margin: float) -> _Contacts:
    """Every particle with every plane, and with the particles of other bodies that are near."""
    x, radius, mass = (_joined(bodies, name) for name in ("x", "radius", "mass"))
    count = [len(body.x) for body in bodies]
    owner = np.repeat(np.arange(len(bodies)), count)
    friction = np.repeat([body.friction for body in bodies], count).astype(x.dtype)
    n = len(x)

    away = x[:, None] - x
    length = np.linalg.norm(away, axis=2)
    near = (length - radius[:, None] - radius < margin) & (owner[:, None] != owner)
    i, j = np.nonzero(near)
    found = [
        (i, j, x[j], away[i, j] / length[i, j, None], radius[i] + radius[j], np.maximum(friction[i], friction[j]),
         mass[j] / (mass[i] + mass[j]))
    ]  # fmt: skip
    for plane in planes:
        point, normal = (np.tile(np.asarray(a, dtype=x.dtype), (n, 1)) for a in (plane.point, plane.normal))
        mu = np.maximum(friction, x.dtype.type(plane.friction))
        found.append((np.arange(n), np.full(n, -1), point, normal, radius, mu, np.ones_like(radius)))
    return _Contacts(*(np.concatenate(each) for each in zip(*found, strict=True)))


def _push(bodies: Sequence[Body], contacts: _Contacts, dt: float, law: Law) -> list[NDArray]:
    """Displacements by contacts, added up over each particle, body by body: lines 7 and 8 of Algorithm 1."""
    x, v = _joined(bodies, "x"), _joined(bodies, "v")
    i, n = contacts.particle, contacts.normal
    pair = (contacts.other >= 0)[:, None]
    gap = np.einsum("nk,nk->n", n, x[i] - np.where(pair, x[contacts.other], contacts.point)) - contacts.reach
    velocity = v[i] - np.where(pair, v[contacts.other], 0) if law.relative else v[i]
    sliding = velocity - np.einsum("nk,nk->n", n, velocity)[:, None] * n
    speed = np.linalg.norm(sliding, axis=1)
    direction = sliding / np.where(speed > 0, speed, 1)[:, None]
    along = np.minimum(contacts.friction * np.abs(gap), speed * dt)
    dx = law.relaxation * contacts.share[:, None] * (-n * gap[:, None] - direction * along[:, None])
    total = np.zeros_like(x)
    active = gap <= 0
    np.add.at(total, i[active], dx[active])
    return np.split(total, np.cumsum([len(body.x) for body in bodies])[:-1])


def substep(
    bodies: Sequence[Body],
    dt: float,
    law: Law,
    *,
    planes: Sequence[Plane] = (),
    gravity: ArrayLike = (0.0, 0.0, 0.0),
    force: ArrayLike | None = None,
    torque: ArrayLike | None = None,
) -> None:
    """Advance bodies in place.

    Args:
        bodies: that may touch each other.
        dt: s.
        law: how.
        planes: that bodies may touch.
        gravity: m/s^2, (3,).
        force: through the centre of mass of each body, N, (nbody, 3).
        torque: on each body, N m, (nbody, 3).
    """
    dtype = bodies[0].x.dtype
    dt = dtype.type(dt)
    zero = np.zeros((len(bodies), 3))
    start = [body.x for body in bodies]
    for k, body in enumerate(bodies):
        weight = body.mass.sum() * np.asarray(gravity, dtype=dtype)
        pushed, turned = (np.asarray(zero if a is None else a, dtype=dtype)[k] for a in (force, torque))
        _predict(body, weight + pushed, turned, dt)
    contacts = _find(bodies, planes, law.margin)
    for _ in range(law.iterations):
        pushes = _push(bodies, contacts, dt, law)
        for body, dx, first in zip(bodies, pushes, start, strict=True):
            _displace(body, dx, first, dt, law)
            _keep_shape(body, first, dt, law)
    if law.rigid:
        for body in bodies:
            _stiffen(body)
