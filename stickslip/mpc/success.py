"""Goals of a task, errors of a state, and what counts as success or as failure."""

import dataclasses
import math
from collections.abc import Callable

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

OBJECT = "object"
"""Name of the manipulated body and of its free joint."""


def angle(rotation: float) -> float:
    """Angle [rad] of a rotation error 1 - (q.q*)^2."""
    return 2.0 * math.asin(math.sqrt(min(1.0, max(0.0, rotation))))


def _degrees(rotation: float) -> float:
    return math.degrees(angle(rotation)) if math.isfinite(rotation) else math.nan


def millimetres(distance: float) -> float:
    """A distance [m] in mm."""
    return 1e3 * distance


def _same(value: float) -> float:
    return value


@dataclasses.dataclass(frozen=True)
class Measure:
    """An error that a trial is judged by.

    Attributes:
        name: name in tables and pictures
        limit: largest value that counts as success; infinity: it is only shown
        unit: unit in which it is shown
        shown: value in that unit
    """

    name: str
    limit: float
    unit: str = ""
    shown: Callable[[float], float] = _same

    @property
    def key(self) -> str:
        """Name of the value in stored results."""
        return f"{self.name}_{self.unit}" if self.unit else self.name


@dataclasses.dataclass(frozen=True)
class Success:
    """Criterion of success.

    Attributes:
        measures: the errors, in the order of `Task.errors`
        steps: consecutive control steps within all limits
    """

    measures: tuple[Measure, ...]
    steps: int = 20

    def reached(self, errors: Array) -> bool:
        """Whether all errors (k,) are within their limits."""
        return all(error < measure.limit for error, measure in zip(errors, self.measures, strict=True))


def pose_success(position: float, rotation: float, steps: int = 20) -> Success:
    """Success of `pose_errors`: largest position error [m] and rotation error 1 - (q.q*)^2; infinity: any."""
    measures = (
        Measure("position", position, "mm", millimetres),
        Measure("angle", rotation, "deg", _degrees),
    )
    return Success(measures, steps)


@dataclasses.dataclass(frozen=True, eq=False)
class Goal:
    """Goal of a trial.

    Attributes:
        values: what the cost reads as `State.goal`; a pose is a position [m] and a quaternion, w first
    """

    values: Array

    @property
    def pos(self) -> Array:
        """Position of the first pose [m], (3,)."""
        return self.values[:3]

    @property
    def quat(self) -> Array:
        """Orientation of the first pose, w first, (4,)."""
        return self.values[3:7]


def pose_goal(pos: Array, quat: Array) -> Goal:
    """A goal that is a pose of the object."""
    return Goal(np.concatenate([pos, np.asarray(quat) / np.linalg.norm(quat)]))


def pose_errors(mjm: mujoco.MjModel, qpos: Array, qvel: Array, goal: Goal) -> Array:
    """Position error [m] and rotation error 1 - (q.q*)^2 of the free joint `object`, (2,)."""
    start = int(mjm.joint(OBJECT).qposadr[0])
    pos, quat = qpos[start : start + 3], qpos[start + 3 : start + 7]
    quat = quat / np.linalg.norm(quat)
    return np.array([np.linalg.norm(pos - goal.pos), max(0.0, 1.0 - float(quat @ goal.quat) ** 2)])


FELL = "fell"
"""Why a trial ends whose object or robot has fallen."""


@dataclasses.dataclass(frozen=True)
class Below:
    """Failure of a trial: a body with a free joint is below a height [m]."""

    joint: str
    height: float

    def __call__(self, mjm: mujoco.MjModel, qpos: Array) -> str:
        return FELL if qpos[int(mjm.joint(self.joint).qposadr[0]) + 2] < self.height else ""


def quat_of(roll: float, pitch: float, yaw: float) -> Array:
    """Unit quaternion, w first, of rotations about the fixed axes x, y, z, in this order [rad]."""
    quat = np.zeros(4)
    mujoco.mju_euler2Quat(quat, np.array([roll, pitch, yaw]), "XYZ")
    return quat
