"""What the references of particle bodies share: what is around them, how contacts answer to a gap and to sliding."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
class Around:
    """What acts on bodies in a substep, besides each other.

    Attributes:
        planes: that they may touch.
        gravity: m/s^2, (3,).
        force: through the centre of mass of each body, N, (nbody, 3); None: none.
        torque: on each body, N m, (nbody, 3); None: none.
    """

    planes: Sequence[Plane] = ()
    gravity: ArrayLike = (0.0, 0.0, 0.0)
    force: ArrayLike | None = None
    torque: ArrayLike | None = None

    def wrench(self, body: int, mass: Any, dtype: Any = np.float64) -> tuple[NDArray, NDArray]:
        """Force, weight included, and torque on a body, N and N m, (3,)."""
        force, torque = (
            np.zeros(3, dtype) if a is None else np.asarray(a, dtype)[body] for a in (self.force, self.torque)
        )
        return mass * np.asarray(self.gravity, dtype) + force, torque


class Recovering(Protocol):
    """A law that says how overlaps are undone; see `room_left`."""

    @property
    def accumulate(self) -> bool: ...
    @property
    def recovery(self) -> float: ...
    @property
    def gentle(self) -> float: ...


def room_left(was: Any, dt: float, law: Recovering) -> NDArray:
    """Of gaps of the start of a substep, m: the gap, or of an overlap what is undone, less than zero."""
    was = np.asarray(was)
    if not law.accumulate:
        return was
    return np.where(was >= 0.0, was, np.maximum(was, -dt * np.maximum(-law.recovery * was, law.gentle)))


def cross_matrix(w: ArrayLike) -> NDArray:
    """That multiplies as w x does."""
    x, y, z = np.asarray(w, dtype=float)
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def answer(mass: float, inertia: NDArray, lever: ArrayLike, masses: ArrayLike) -> float:
    """How far contacts at levers push a body, of what each is asked for: about the largest eigenvalue of K.

    ``K = M^-1/2 (sum of m J' J) M^-1/2`` with J = (1, -[lever]) and M the body's 6 x 6 inertia.
    """
    whole, total = np.zeros((6, 6)), np.zeros((6, 6))
    whole[:3, :3], whole[3:, 3:] = mass * np.eye(3), inertia
    for r, m in zip(np.asarray(lever), np.asarray(masses), strict=True):
        j = np.hstack([np.eye(3), -cross_matrix(r)])
        total += m * j.T @ j
    half = np.linalg.inv(np.linalg.cholesky(whole))
    values = np.linalg.eigvalsh(half @ total @ half.T)
    return float(np.sum(values**16) ** (1.0 / 16.0))


def project(displacement: NDArray, normal: NDArray, friction: NDArray) -> NDArray:
    """Of contacts, (ncon, 3): they only push, and along no more than friction times that."""
    height = np.einsum("nk,nk->n", displacement, normal)
    up = np.maximum(height, 0.0)
    along = displacement - height[:, None] * normal
    length = np.linalg.norm(along, axis=1)
    share = np.minimum(1.0, friction * up / np.where(length > 0.0, length, 1.0))
    return up[:, None] * normal + share[:, None] * along


def published(gap: NDArray, sliding: NDArray, normal: NDArray, friction: NDArray, gain: Any) -> NDArray:
    """Displacements of contacts in an iteration as the paper has them, m, (ncon, 3): bounded by what is deep now."""
    length = np.linalg.norm(sliding, axis=1)
    direction = sliding / np.where(length > 0, length, 1)[:, None]
    along = np.minimum(friction * np.abs(gap), length)
    push = np.reshape(gain, (-1, 1)) * (-normal * gap[:, None] - direction * along[:, None])
    return np.where(gap[:, None] <= 0, push, 0).astype(gap.dtype)


class Descent:
    """Displacements of contacts over a substep, by projected gradients with Nesterov's momentum.

    Args:
        count: of contacts
        momentum: most of its last step that a contact takes on
    """

    def __init__(self, count: int, momentum: float) -> None:
        self._shift = self._last = np.zeros((count, 3))
        self._pace, self._momentum = 1.0, momentum

    def push(
        self, gap: NDArray, sliding: NDArray, normal: NDArray, friction: NDArray, gain: Any, *, final: bool
    ) -> tuple[NDArray, float]:
        """What the next iteration displaces, m, (ncon, 3), and the longest step; the final one has no momentum."""
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * self._pace**2))
        beta = 0.0 if final else min((self._pace - 1.0) / following, self._momentum)
        self._pace = following
        wrong = gap[:, None] * normal + sliding
        now = project(self._shift - np.reshape(gain, (-1, 1)) * wrong, normal, friction)
        step = float(np.linalg.norm(now - self._last, axis=1).max(initial=0.0))
        ahead = now + beta * (now - self._last)
        push = ahead - self._shift
        self._shift, self._last = ahead, now
        return push, step
