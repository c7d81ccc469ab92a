"""NumPy reference of rigid bodies made of particles that are told by their momentum: `PbdR` as it is by default.

A body has a centre of mass x, a rotation R, and momentum P and L about x. A substep:

1. forces add to P and L;
2. the centre goes by ``dt P / m``, and what was at r from it is at Q r, Q the rotation for which
   ``sum of m r x Q r = dt L``; there contacts are found, once: of spheres with planes, and of spheres of two bodies;
3. each iteration displaces the two sides of every contact against each other, which is an impulse on each body, from
   which follow its P and L, and by 2 how far it moves.

A contact acts on points of its bodies: those of the surfaces of its spheres that are on the normal. In a substep they
go a way w against each other. ``g = n . w + room`` is their gap; room is the gap of the start, or where that was an
overlap what of it is undone now. The displacement s of the contact over the substep is found by projected gradients,
``s <- project(s - gain (g n + w_t))``, onto the cone ``|s_t| <= mu s_n``, with Nesterov's momentum. Its impulse is
``mass s / dt``, at a point that both bodies have in common.

All contacts of a body together push it farther than each is asked to, by `answer`; the gain is one over that.

`Law` can take these back to the paper's: friction by each body's own motion, forces that are bounded in each iteration
by itself, and a fixed gain.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.reference.contacts import Around, Descent, Plane, answer, cross_matrix, published, room_left

Array = NDArray[np.float64]
WORLD = -1
"""In the place of the other body: a plane."""


@dataclasses.dataclass(frozen=True)
class Law:
    """How a substep is made.

    Attributes:
        iterations: most of a substep.
        tolerance: iterations end when none moves a contact farther than this share of ``weight dt^2``.
        weight: acceleration that this refers to, m/s^2.
        momentum: most of its last step that a contact takes on.
        margin: how far ahead contacts are noticed, in radii.
        recovery: rate at which an overlap of the start is undone, 1/s.
        gentle: speed at which it is undone, if that is more, m/s.
        relative: whether friction goes by how two bodies slide along each other; else by how each does by itself.
        accumulate: whether a contact's displacement is bounded over the whole substep; else in each iteration by
            itself, without momentum, and an overlap is undone at once.
        relaxation: gain of every contact; None: as much as a body's contacts allow.
    """

    iterations: int = 50
    tolerance: float = 1e-4
    weight: float = 9.81
    momentum: float = 0.65
    margin: float = 0.25
    recovery: float = 50.0
    gentle: float = 0.02
    relative: bool = True
    accumulate: bool = True
    relaxation: float | None = None


@dataclasses.dataclass
class Body:
    """A rigid body with spheres to touch with.

    Attributes:
        place: of spheres about the centre of mass, in its frame, m, (n, 3).
        radius: m, (n,).
        friction: coefficient; of two that touch, the larger counts.
        mass: kg.
        inertia: about the centre of mass, in its frame, kg m^2, (3, 3).
        x: centre of mass, m, (3,).
        mat: axes of its frame are the columns, (3, 3).
        linear: momentum, kg m/s, (3,).
        angular: momentum about the centre of mass, kg m^2/s, (3,).
    """

    place: Array
    radius: Array
    friction: float
    mass: float
    inertia: Array
    x: Array
    mat: Array
    linear: Array
    angular: Array

    @property
    def inertia_now(self) -> Array:
        """In the axes of the world."""
        return self.mat @ self.inertia @ self.mat.T

    @property
    def omega(self) -> Array:
        """Angular velocity, rad/s."""
        return np.linalg.inv(self.inertia_now) @ self.angular

    @property
    def grain(self) -> float:
        """Mass of each of its spheres, kg."""
        return self.mass / max(len(self.radius), 1)

    @property
    def centres(self) -> Array:
        """Of its spheres, m, (n, 3)."""
        return self.x + self.place @ self.mat.T


def motion_of(body: Body) -> tuple[Array, Array]:
    """Places and velocities of its spheres, m and m/s, (n, 3)."""
    return body.centres, body.linear / body.mass + np.cross(body.omega, body.place @ body.mat.T)


def make_body(
    place: ArrayLike,
    radius: ArrayLike,
    mass: float,
    centre: ArrayLike,
    inertia: ArrayLike,
    friction: float = 0.0,
    *,
    pos: ArrayLike = (0.0, 0.0, 0.0),
    mat: ArrayLike = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    vel: ArrayLike = (0.0, 0.0, 0.0),
    omega: ArrayLike = (0.0, 0.0, 0.0),
) -> Body:
    """A rigid body from the frame it is told in.

    Args:
        place: of the spheres in the frame, m, (n, 3).
        radius: of each, m, (n,).
        mass: kg.
        centre: of mass in the frame, m, (3,).
        inertia: about it, along the axes of the frame, kg m^2, (3, 3).
        friction: coefficient.
        pos: origin of the frame, m, (3,).
        mat: its axes are the columns, (3, 3).
        vel: velocity of the origin, m/s, (3,).
        omega: angular velocity in the world, rad/s, (3,).
    """
    turn, inside, spin, own, start, moving = (
        np.asarray(a, dtype=float) for a in (mat, centre, omega, inertia, pos, vel)
    )
    arm = turn @ inside
    return Body(
        place=np.asarray(place, dtype=float) - inside,
        radius=np.asarray(radius, dtype=float),
        friction=friction,
        mass=mass,
        inertia=own,
        x=start + arm,
        mat=turn,
        linear=mass * (moving + np.cross(spin, arm)),
        angular=turn @ own @ turn.T @ spin,
    )


# rotations


def exponential(w: ArrayLike) -> Array:
    """Rotation about w by its length."""
    angle, k = float(np.linalg.norm(w)), cross_matrix(w)
    return np.eye(3) + np.sinc(angle / np.pi) * k + 0.5 * np.sinc(0.5 * angle / np.pi) ** 2 * k @ k


def moment_of(spread: Array, turn: Array) -> Array:
    """Sum of m r x Q r, where the sum of m r r' is known."""
    a = spread @ turn.T
    return np.array([a[1, 2] - a[2, 1], a[2, 0] - a[0, 2], a[0, 1] - a[1, 0]])


def rotation_for(inertia: Array, moment: Array) -> Array:
    """The rotation Q for which the sum of m r x Q r is `moment`, by Newton's method.

    Turned on by a small w, Q r moves by w x Q r: ``r x (w x Q r) = (r . Q r) w - (r . w) Q r``.

    Raises:
        ArithmeticError: there is none.
    """
    spread = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    turn = np.eye(3)
    for _ in range(30):
        a = turn @ spread
        w = np.linalg.solve(np.trace(a) * np.eye(3) - a, moment - moment_of(spread, turn))
        if np.linalg.norm(w) > 1.0:
            break
        turn = exponential(w) @ turn
        if np.linalg.norm(w) < 1e-14:
            return turn
    raise ArithmeticError("no rotation has this moment")


# contacts


@dataclasses.dataclass(frozen=True)
class _Contacts:
    """Of a sphere of body `one` with a plane or a sphere of body `other`.

    Attributes:
        one: bodies, (ncon,).
        other: likewise; WORLD: a plane, (ncon,).
        normal: towards the one, (ncon, 3).
        lever: from each body's centre of mass to its point, at the start of the substep, m, (2, ncon, 3).
        arm: from each body's centre of mass, at the start, to where the impulse acts, m, (2, ncon, 3).
        room: that is there for them to approach, m, (ncon,).
        mass: kg, (ncon,).
        friction: (ncon,).
    """

    one: NDArray[np.integer]
    other: NDArray[np.integer]
    normal: Array
    lever: Array
    arm: Array
    room: Array
    mass: Array
    friction: Array


def _with_planes(a: int, body: Body, later: Body, planes: Sequence[Plane], dt: float, law: Law) -> Iterator[tuple]:
    """Contacts of a body, number a, with planes; `later` is the body where it is predicted to be."""
    centres, velocity, none = later.centres, later.linear / later.mass, np.zeros(3)
    turn = later.mat @ body.mat.T
    for plane in planes:
        n = np.asarray(plane.normal, dtype=float)
        gaps = (centres - np.asarray(plane.point)) @ n - body.radius
        for i in np.flatnonzero(gaps < law.margin * body.radius):
            lever = body.mat @ body.place[i] - body.radius[i] * n
            was = gaps[i] - n @ (centres[i] - body.x - body.mat @ body.place[i])
            full = gaps[i] - n @ (dt * velocity + (turn - np.eye(3)) @ lever)
            point = centres[i] - (body.radius[i] + 0.5 * gaps[i]) * n - dt * velocity
            room = full - was + room_left(was, dt, law)
            mu = max(body.friction, plane.friction)
            yield a, WORLD, n, (lever, none), (point - body.x, none), room, body.grain, mu


def _with_body(a: int, b: int, bodies: Sequence[Body], ahead: Sequence[Body], dt: float, law: Law) -> Iterator[tuple]:
    """Contacts of two bodies where they are predicted to be; `ahead` are they there."""
    one, other = bodies[a], bodies[b]
    centres, there = ahead[a].centres, ahead[b].centres
    apart = centres[:, None] - there
    length = np.linalg.norm(apart, axis=2)
    gaps = length - one.radius[:, None] - other.radius
    near = gaps < law.margin * np.minimum(one.radius[:, None], other.radius)
    # the point goes with both, most with the one that is moved more easily
    light = np.array([1.0 / one.mass, 1.0 / other.mass])
    mean = light @ [ahead[a].linear / one.mass, ahead[b].linear / other.mass] / light.sum()
    for i, j in np.argwhere(near):
        n = apart[i, j] / length[i, j]
        levers = one.mat @ one.place[i] - one.radius[i] * n, other.mat @ other.place[j] + other.radius[j] * n
        was = gaps[i, j] - n @ (
            _way(one, ahead[a], one.mat @ one.place[i]) - _way(other, ahead[b], other.mat @ other.place[j])
        )
        full = gaps[i, j] - n @ (_way(one, ahead[a], levers[0]) - _way(other, ahead[b], levers[1]))
        point = centres[i] - (one.radius[i] + 0.5 * gaps[i, j]) * n - dt * mean
        mass = one.grain * other.grain / (one.grain + other.grain)
        room = full - was + room_left(was, dt, law)
        yield a, b, n, levers, (point - one.x, point - other.x), room, mass, max(one.friction, other.friction)


def _way(body: Body, later: Body, lever: Array) -> Array:
    """How far a point of a body goes until later, m, (3,)."""
    return later.x + later.mat @ body.mat.T @ lever - body.x - lever


def _find(bodies: Sequence[Body], ahead: Sequence[Body], planes: Sequence[Plane], dt: float, law: Law) -> _Contacts:
    """Contacts of bodies where they are predicted to be; `ahead` are they there."""
    found: list[tuple] = []
    for a, (body, later) in enumerate(zip(bodies, ahead, strict=True)):
        found += _with_planes(a, body, later, planes, dt, law)
        for b in range(a):
            found += _with_body(a, b, bodies, ahead, dt, law)
    one, other, normal, lever, arm, room, mass, friction = zip(*found, strict=True) if found else [()] * 8
    return _Contacts(
        np.array(one, dtype=int),
        np.array(other, dtype=int),
        np.reshape(np.array(normal, dtype=float), (-1, 3)),
        np.reshape(np.array(lever, dtype=float), (-1, 2, 3)).swapaxes(0, 1),
        np.reshape(np.array(arm, dtype=float), (-1, 2, 3)).swapaxes(0, 1),
        np.array(room, dtype=float),
        np.array(mass, dtype=float),
        np.array(friction, dtype=float),
    )


def _sides(contacts: _Contacts, body: int) -> list[NDArray[np.bool_]]:
    """Contacts of a body, on each of their two sides, (2, ncon)."""
    return [contacts.one == body, contacts.other == body]


def _gains(bodies: Sequence[Body], contacts: _Contacts, law: Law) -> Array:
    """Of each contact, (ncon,): the smaller one of its bodies; a pair, which moves both, counts twice."""
    if law.relaxation is not None:
        return np.full(len(contacts.mass), law.relaxation)
    counted = np.where(contacts.other == WORLD, contacts.mass, 2.0 * contacts.mass)
    gain = np.full(len(bodies) + 1, np.inf)  # the last: the world's
    for k, body in enumerate(bodies):
        sides = _sides(contacts, k)
        lever = np.concatenate([contacts.lever[side, which] for side, which in enumerate(sides)])
        mass = np.concatenate([counted[which] for which in sides])
        if len(mass):
            gain[k] = 1.0 / answer(body.mass, body.inertia_now, lever, mass)
    return np.minimum(gain[contacts.one], gain[contacts.other])


# a substep


def _ways(bodies: Sequence[Body], contacts: _Contacts, dt: float) -> Array:
    """How far the two points of each contact go in the substep, m, (2, ncon, 3); nothing of a plane."""
    way = np.zeros((2, *contacts.normal.shape))
    for k, body in enumerate(bodies):
        sides = _sides(contacts, k)
        if not any(which.any() for which in sides):
            continue
        change = rotation_for(body.inertia_now, dt * body.angular) - np.eye(3)
        for side, which in enumerate(sides):
            way[side, which] = dt * body.linear / body.mass + contacts.lever[side, which] @ change.T
    return way


def _apart(bodies: Sequence[Body], contacts: _Contacts, dt: float, law: Law) -> tuple[Array, Array]:
    """Gaps of contacts, m, (2, ncon), and how far each side of them slides in the substep, m, (2, ncon, 3)."""
    ways = _ways(bodies, contacts, dt)
    gap = contacts.room + np.einsum("nk,nk->n", contacts.normal, ways[0] - ways[1])
    if law.relative:
        ways = np.stack([ways[0] - ways[1], ways[1] - ways[0]])
    along = ways - np.einsum("snk,nk->sn", ways, contacts.normal)[..., None] * contacts.normal
    return np.stack([gap, gap]), along


def _iterate(bodies: Sequence[Body], contacts: _Contacts, dt: float, law: Law) -> None:
    """Add the impulses of contacts to bodies; the two sides of a contact are each worked out by itself."""
    count = len(contacts.mass)
    normal = np.concatenate([contacts.normal, -contacts.normal])
    friction, gain, mass = (np.tile(a, 2) for a in (contacts.friction, _gains(bodies, contacts, law), contacts.mass))
    descent = Descent(2 * count, law.momentum)
    for iteration in range(law.iterations):
        gap, sliding = _apart(bodies, contacts, dt, law)
        apart = (gap.ravel(), sliding.reshape(-1, 3), normal, friction, gain)
        step = np.inf
        if law.accumulate:
            push, step = descent.push(*apart, final=iteration + 1 == law.iterations)
        else:
            push = published(*apart)
        impulse = (mass[:, None] * push / dt).reshape(2, count, 3)
        for k, body in enumerate(bodies):
            for side, which in enumerate(_sides(contacts, k)):
                body.linear = body.linear + impulse[side, which].sum(axis=0)
                body.angular = body.angular + np.cross(contacts.arm[side, which], impulse[side, which]).sum(axis=0)
        if step <= law.tolerance * law.weight * dt**2 and law.tolerance > 0.0:
            break


def _moved(body: Body, dt: float) -> Body:
    """Where its momentum takes a body."""
    turn = rotation_for(body.inertia_now, dt * body.angular)
    u, _, vt = np.linalg.svd(turn @ body.mat)  # the nearest rotation
    return dataclasses.replace(body, x=body.x + dt * body.linear / body.mass, mat=u @ vt)


def substep(bodies: Sequence[Body], dt: float, law: Law, around: Around = Around()) -> None:  # noqa: B008 - frozen
    """Advance bodies in place, that may touch each other, by dt, s."""
    for k, body in enumerate(bodies):
        force, torque = around.wrench(k, body.mass)
        body.linear = body.linear + dt * force
        body.angular = body.angular + dt * torque
    contacts = _find(bodies, [_moved(body, dt) for body in bodies], around.planes, dt, law)
    if len(contacts.mass):
        _iterate(bodies, contacts, dt, law)
    for body in bodies:
        moved = _moved(body, dt)
        body.x, body.mat = moved.x, moved.mat
