"""A round rod that pushes a square box over a plane, so slowly that inertia does not count.

The model of Lynch and Mason: the friction under the box allows forces (f_x, f_y) and moments m inside an ellipsoid,

    (f_x^2 + f_y^2) / f_max^2 + m^2 / m_max^2 = 1,      c = m_max / f_max,

and the box moves along its normal: velocity = k f, angular velocity = k m / c^2 with k > 0. At the point p where the
rod touches, the box then moves with u = k A f, A = I + J J^T / c^2, J = (-p_y, p_x). Either the rod sticks, u = w, its
own velocity, if the force this takes lies inside the friction cone of rod and box; or it slides, the force lies on the
cone's edge and u and w agree along the normal. How fast the rod goes does not matter, only how far.

The rod does not turn, and it has a radius: where it sticks, the face rolls on it and the point of contact wanders.
"""

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

Pose = NDArray[np.float64]
"""x, y [m] and yaw [rad] of the box, (3,) or (n, 3)."""


def patch_ratio(half: float) -> float:
    """c of a square under even pressure: the mean distance of its points from its middle [m]."""
    return half * (math.sqrt(2.0) + math.log(1.0 + math.sqrt(2.0))) / 3.0


def corner_ratio(half: float) -> float:
    """c of a square that stands on its corners alone, as one does that a simulation gives four contacts [m]."""
    return math.sqrt(2.0) * half


APART = 0.002
"""Gap between rod and box from which they no longer touch [m]; one that bounces stays closer."""


@dataclasses.dataclass(frozen=True)
class Push:
    """What is pushed by what. The box starts at the origin, the rod on its -x side, and goes along +x.

    Attributes:
        half: half of the box's side [m]
        radius: of the rod [m]
        distance: from the rod's axis to the box's middle at the start, along x [m]
        offset: of the rod from the box's middle, along y [m]
        mu: coefficient of friction between rod and box; that under the box does not matter
        ratio: c [m]
    """

    half: float = 0.1
    radius: float = 0.03
    distance: float = 0.16
    offset: float = 0.01
    mu: float = 0.4
    ratio: float = patch_ratio(0.1)

    @property
    def gap(self) -> float:
        """How far the rod goes before it touches [m]."""
        return self.distance - self.half - self.radius

    def rod(self, travel: float) -> NDArray[np.float64]:
        """Where the rod's axis is after `travel` [m]."""
        return np.array([travel - self.distance, self.offset])


@dataclasses.dataclass(frozen=True)
class Path:
    """How a box was pushed.

    Attributes:
        travel: of the rod since its start, rising [m]  (n,)
        pose: of the box                                 (n, 3)
        lost: travel at which the rod passed the end of the face; infinity if it did not
    """

    travel: NDArray[np.float64]
    pose: Pose
    lost: float

    def at(self, travel: NDArray[np.float64]) -> Pose:
        """The pose after a displacement of the rod, (n, 3); beyond the path's end, the last one."""
        return np.stack([np.interp(travel, self.travel, column) for column in self.pose.T], axis=-1)


def touch(pose: Pose, rod: NDArray[np.float64], push: Push) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the rod is as seen from the box's -x face: along the face from its middle, and the gap between them [m].

    Both for one pose and one rod, (3,) and (2,), or for n of them.
    """
    away = rod - pose[..., :2]
    cosine, sine = np.cos(pose[..., 2]), np.sin(pose[..., 2])
    outward = cosine * away[..., 0] + sine * away[..., 1]
    along = -sine * away[..., 0] + cosine * away[..., 1]
    return along, -outward - push.half - push.radius


def velocity(pose: Pose, rod: NDArray[np.float64], push: Push) -> Pose:
    """How the box's pose changes for every metre the rod goes along x while it touches the -x face."""
    along, _ = touch(pose, rod, push)
    cosine, sine = math.cos(pose[2]), math.sin(pose[2])
    w = np.array([cosine, -sine])  # the rod's direction seen from the box
    if w[0] <= 0.0:
        return np.zeros(3)  # the face turns away from the rod
    lever = np.array([-along, -push.half])
    compliance = np.eye(2) + np.outer(lever, lever) / push.ratio**2
    force = np.linalg.solve(compliance, w)  # k f of a rod that sticks
    if abs(force[1]) > push.mu * force[0]:
        edge = np.array([1.0, math.copysign(push.mu, force[1])])
        force = edge * w[0] / (compliance[0] @ edge)
    moment = lever @ force
    x, y = cosine * force[0] - sine * force[1], sine * force[0] + cosine * force[1]
    return np.array([x, y, moment / push.ratio**2], dtype=np.float64)


def pushed(push: Push, travel: float, step: float = 1e-3) -> Path:
    """Push until the rod has gone `travel` [m] or passes the end of the face; `step`: integration step [m]."""
    pose = np.zeros(3)
    travels, poses = [0.0, min(push.gap, travel)], [pose, pose]
    beyond = abs(push.offset) - push.half
    lost = math.inf if beyond < 0.0 else push.gap
    while travels[-1] < travel and lost == math.inf:
        travelled, size = travels[-1], min(step, travel - travels[-1])
        first = velocity(pose, push.rod(travelled), push)
        second = velocity(pose + 0.5 * size * first, push.rod(travelled + 0.5 * size), push)
        third = velocity(pose + 0.5 * size * second, push.rod(travelled + 0.5 * size), push)
        fourth = velocity(pose + size * third, push.rod(travelled + size), push)
        pose = pose + size / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)
        travels.append(travelled + size)
        poses.append(pose)
        before, beyond = beyond, abs(float(touch(pose, push.rod(travels[-1]), push)[0])) - push.half
        if beyond > 0.0:
            lost = travels[-1] - size * beyond / (beyond - before)
    return Path(np.array(travels), np.array(poses), lost)


def parted(pose: Pose, rod: NDArray[np.float64], push: Push) -> int | None:
    """The first sample at which rod and box, having touched, no longer do; None if they go on touching.

    The rod has then passed the end of the face, or left it, or gone through the box. `pose` is (n, 3), `rod` is (n, 2).
    """
    along, gap = touch(pose, rod, push)
    touched = np.cumsum(gap < APART) > 0
    found = np.flatnonzero(touched & ((np.abs(along) > push.half) | (gap > APART) | (gap < -push.half)))
    return int(found[0]) if len(found) else None


def first_half(travel: NDArray[np.float64], push: Push, lost: float) -> slice:
    """Samples of the first half of a push: from the first touch to half of the rod's travel until `lost`.

    A push that is not lost ends with the last sample; of a rod that never gets to the box, it is the first half of all.

    Args:
        travel: of the rod, rising from 0 [m]  (n,)
        push: what is pushed
        lost: travel at which the box is lost [m]
    """
    touched = push.gap if push.gap < travel[-1] else 0.0
    half = 0.5 * (touched + min(lost, float(travel[-1])))
    first, last = np.searchsorted(travel, [touched, half], side="right") - 1
    return slice(int(first), int(last) + 1)
