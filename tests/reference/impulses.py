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
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.reference.particles import Plane

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
    """

    iterations: int = 50
    tolerance: float = 1e-4
    weight: float = 9.81
    momentum: float = 0.65
    margin: float = 0.25
    recovery: float = 50.0
    gentle: float = 0.02


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
    def energy(self) -> float:
        """Of motion, J."""
        return 0.5 * float(self.linear @ self.linear / self.mass + self.angular @ self.omega)

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


def cross_matrix(w: ArrayLike) -> Array:
    """That multiplies as w x does."""
    x, y, z = np.asarray(w, dtype=float)
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


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


def _room(was: float, dt: float, law: Law) -> float:
    """Of a gap of the start of the substep: the gap, or of an overlap what is undone, less than zero."""
    return was if was >= 0.0 else max(was, -dt * max(law.recovery * -was, law.gentle))


def _find(bodies: Sequence[Body], ahead: Sequence[Body], planes: Sequence[Plane], dt: float, law: Law) -> _Contacts:
    """Contacts of bodies where they are predicted to be; `ahead` are they there."""
    found = []
    none = np.zeros(3)
    grain = [body.mass / max(len(body.radius), 1) for body in bodies]
    for a, (body, later) in enumerate(zip(bodies, ahead, strict=True)):
        centres, velocity = later.centres, later.linear / later.mass
        turn = later.mat @ body.mat.T
        for plane in planes:
            n = np.asarray(plane.normal, dtype=float)
            gaps = (centres - np.asarray(plane.point)) @ n - body.radius
            for i in np.flatnonzero(gaps < law.margin * body.radius):
                lever = body.mat @ body.place[i] - body.radius[i] * n
                was = gaps[i] - n @ (centres[i] - body.x - body.mat @ body.place[i])
                full = gaps[i] - n @ (dt * velocity + (turn - np.eye(3)) @ lever)
                point = centres[i] - (body.radius[i] + 0.5 * gaps[i]) * n - dt * velocity
                mu = max(body.friction, plane.friction)
                found.append(
                    (a, WORLD, n, (lever, none), (point - body.x, none), full - was + _room(was, dt, law), grain[a], mu)
                )  # fmt: skip
        for b in range(a):
            theirs, there = bodies[b], ahead[b].centres
            apart = centres[:, None] - there
            length = np.linalg.norm(apart, axis=2)
            gaps = length - body.radius[:, None] - theirs.radius
            near = gaps < law.margin * np.minimum(body.radius[:, None], theirs.radius)
            # the point goes with both, most with the one that is moved more easily
            light = np.array([1.0 / body.mass, 1.0 / theirs.mass])
            mean = light @ [velocity, ahead[b].linear / theirs.mass] / light.sum()
            for i, j in np.argwhere(near):
                n = apart[i, j] / length[i, j]
                levers = (
                    body.mat @ body.place[i] - body.radius[i] * n,
                    theirs.mat @ theirs.place[j] + theirs.radius[j] * n,
                )
                was = n @ (body.x + levers[0] - theirs.x - levers[1])
                ways = [
                    later.x + later.mat @ body.mat.T @ levers[0] - body.x - levers[0],
                    ahead[b].x + ahead[b].mat @ theirs.mat.T @ levers[1] - theirs.x - levers[1],
                ]
                room = gaps[i, j] - n @ (ways[0] - ways[1]) - was + _room(was, dt, law)
                point = centres[i] - (body.radius[i] + 0.5 * gaps[i, j]) * n - dt * mean
                mass = grain[a] * grain[b] / (grain[a] + grain[b])
                mu = max(body.friction, theirs.friction)
                found.append((a, b, n, levers, (point - body.x, point - theirs.x), room, mass, mu))
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


def _sides(contacts: _Contacts, body: int) -> list[tuple[NDArray[np.bool_], int, float]]:
    """Contacts of a body, on which side it is of them, and the sign of what they do to it."""
    return [(contacts.one == body, 0, 1.0), (contacts.other == body, 1, -1.0)]


def answer(body: Body, lever: ArrayLike, mass: ArrayLike) -> float:
    """How far contacts at levers push a body, of what each is asked for: about the largest eigenvalue of K.

    ``K = M^-1/2 (sum of mass J' J) M^-1/2`` with J = (1, -[lever]) and M the body's 6 x 6 inertia.
    """
    inertia, total = np.zeros((6, 6)), np.zeros((6, 6))
    inertia[:3, :3], inertia[3:, 3:] = body.mass * np.eye(3), body.inertia_now
    for r, m in zip(np.asarray(lever), np.asarray(mass), strict=True):
        j = np.hstack([np.eye(3), -cross_matrix(r)])
        total += m * j.T @ j
    half = np.linalg.inv(np.linalg.cholesky(inertia))
    values = np.linalg.eigvalsh(half @ total @ half.T)
    return float(np.sum(values**16) ** (1.0 / 16.0))


def _gains(bodies: Sequence[Body], contacts: _Contacts) -> Array:
    """Of each contact, (ncon,): the smaller one of its bodies; a pair, which moves both, counts twice."""
    counted = np.where(contacts.other == WORLD, contacts.mass, 2.0 * contacts.mass)
    gain = np.full(len(bodies) + 1, np.inf)  # the last: the world's
    for k, body in enumerate(bodies):
        sides = _sides(contacts, k)
        lever = np.concatenate([contacts.lever[side, which] for which, side, _ in sides])
        mass = np.concatenate([counted[which] for which, _, _ in sides])
        if len(mass):
            gain[k] = 1.0 / answer(body, lever, mass)
    return np.minimum(gain[contacts.one], gain[contacts.other])


def project(displacement: Array, normal: Array, friction: Array) -> Array:
    """Of contacts, (ncon, 3): they only push, and along no more than friction times that."""
    height = np.einsum("nk,nk->n", displacement, normal)
    up = np.maximum(height, 0.0)
    along = displacement - height[:, None] * normal
    length = np.linalg.norm(along, axis=1)
    share = np.minimum(1.0, friction * up / np.where(length > 0.0, length, 1.0))
    return up[:, None] * normal + share[:, None] * along


# a substep


def _ways(bodies: Sequence[Body], contacts: _Contacts, dt: float) -> Array:
    """How far the two points of each contact go against each other in the substep, m, (ncon, 3)."""
    way = np.zeros_like(contacts.normal)
    for k, body in enumerate(bodies):
        sides = _sides(contacts, k)
        if not any(which.any() for which, _, _ in sides):
            continue
        change = rotation_for(body.inertia_now, dt * body.angular) - np.eye(3)
        for which, side, sign in sides:
            way[which] += sign * (dt * body.linear / body.mass + contacts.lever[side, which] @ change.T)
    return way


def _iterate(bodies: Sequence[Body], contacts: _Contacts, dt: float, law: Law) -> int:
    """Add the impulses of contacts to bodies; how many iterations it took."""
    gain = _gains(bodies, contacts)[:, None]
    n = contacts.normal
    shift = last = np.zeros_like(n)
    pace = 1.0
    for iteration in range(law.iterations):
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * pace**2))
        beta = 0.0 if iteration == law.iterations - 1 else min((pace - 1.0) / following, law.momentum)
        pace = following
        # its part along the normal is the gap, the rest is sliding
        wrong = _ways(bodies, contacts, dt) + contacts.room[:, None] * n
        now = project(shift - gain * wrong, n, contacts.friction)
        ahead = now + beta * (now - last)
        impulse = contacts.mass[:, None] * (ahead - shift) / dt
        for k, body in enumerate(bodies):
            for which, side, sign in _sides(contacts, k):
                body.linear = body.linear + sign * impulse[which].sum(axis=0)
                body.angular = body.angular + sign * np.cross(contacts.arm[side, which], impulse[which]).sum(axis=0)
        step = np.linalg.norm(now - last, axis=1).max()
        shift, last = ahead, now
        if step <= law.tolerance * law.weight * dt**2 and law.tolerance > 0.0:
            return iteration + 1
    return law.iterations


def _moved(body: Body, dt: float) -> Body:
    """Where its momentum takes a body."""
    turn = rotation_for(body.inertia_now, dt * body.angular)
    u, _, vt = np.linalg.svd(turn @ body.mat)  # the nearest rotation
    return dataclasses.replace(body, x=body.x + dt * body.linear / body.mass, mat=u @ vt)


def substep(
    bodies: Sequence[Body],
    dt: float,
    law: Law,
    *,
    planes: Sequence[Plane] = (),
    gravity: ArrayLike = (0.0, 0.0, 0.0),
    force: ArrayLike | None = None,
    torque: ArrayLike | None = None,
) -> int:
    """Advance bodies in place; how many iterations it took.

    Args:
        bodies: that may touch each other.
        dt: s.
        law: how.
        planes: that bodies may touch.
        gravity: m/s^2, (3,).
        force: through the centre of mass of each body, N, (nbody, 3).
        torque: on each body, N m, (nbody, 3).
    """
    zero = np.zeros((len(bodies), 3))
    pushed, turned = (np.asarray(zero if a is None else a, dtype=float) for a in (force, torque))
    for k, body in enumerate(bodies):
        body.linear = body.linear + dt * (body.mass * np.asarray(gravity, dtype=float) + pushed[k])
        body.angular = body.angular + dt * turned[k]
    contacts = _find(bodies, [_moved(body, dt) for body in bodies], planes, dt, law)
    taken = _iterate(bodies, contacts, dt, law) if len(contacts.mass) else 0
    for body in bodies:
        moved = _moved(body, dt)
        body.x, body.mat = moved.x, moved.mat
    return taken
