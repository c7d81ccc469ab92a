"""Tasks: a hand and an object in one model, with start, goal, cost and success.

The joints of the hand come first in `qpos`, the object's free joint last. `ctrl` holds joint targets, in the order of
the joints. Planners choose the difference between target and joint position.
"""

import abc
import dataclasses
import math
from collections.abc import Callable

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, unknown
from stickslip.parameters import checked, parameter

Array = NDArray[np.float64]

OBJECT = "object"
"""Name of the manipulated body and of its free joint."""
GOAL = "goal"
"""Name of the mocap body that shows the goal; it has no contacts."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """Weights of the cost. Squared lengths are in m^2, rotations are 1 - (q.q*)^2, squared angles are in rad^2.

    Attributes:
        contact: sum over the fingertips of their squared distance from the object
        grasp: squared length of the sum of the unit vectors from the object to the fingertips
        control: squared control
        posture: squared distance of the joints from the reference posture
        orientation: rotation error, running
        position: position error along x, y and z, running [1/m]
        fallen: each step with the object below `floor`
        floor: height below which the object has fallen [m]
        final_position: squared position error, terminal
        final_orientation: rotation error, terminal
    """

    contact: float = 0.0
    grasp: float = 0.0
    control: float = 0.0
    posture: float = 0.0
    orientation: float = 0.0
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    fallen: float = 0.0
    floor: float = -math.inf
    final_position: float = 0.0
    final_orientation: float = 0.0


@dataclasses.dataclass(frozen=True)
class Success:
    """Criterion of success.

    Attributes:
        position: largest position error [m]; infinity if only the rotation counts
        rotation: largest rotation error 1 - (q.q*)^2
        steps: consecutive control steps within both
    """

    position: float
    rotation: float
    steps: int = 20


@dataclasses.dataclass(frozen=True, eq=False)
class Goal:
    """Goal pose of the object.

    Attributes:
        pos: position [m]                   (3,)
        quat: orientation, w first          (4,)
    """

    pos: Array
    quat: Array

    def errors(self, qpos: Array) -> tuple[float, float]:
        """Position error [m] and rotation error 1 - (q.q*)^2 at `qpos` (nq,), whose last joint is the object's."""
        quat = qpos[-4:] / np.linalg.norm(qpos[-4:])
        return float(np.linalg.norm(qpos[-7:-4] - self.pos)), max(0.0, 1.0 - float(quat @ self.quat) ** 2)


def angle(rotation: float) -> float:
    """Angle [rad] of a rotation error 1 - (q.q*)^2."""
    return 2.0 * math.asin(math.sqrt(min(1.0, max(0.0, rotation))))


@dataclasses.dataclass(frozen=True)
class QuasiDynamic:
    """Parameters of the quasi-dynamic contact model; see `model/quasidynamic.py`.

    Attributes:
        step: h, duration of a step [s]
        translation: translational stiffness of the object [N/m]
        rotation: rotational stiffness of the object [N m/rad]
        joints: Kr, stiffness of the hand's joints [N/m or N m/rad]
        contact: K, contact stiffness, relative to those
        damping: c, contact damping [s]
        friction: mu of every contact
        sharpness: beta of softplus
        distance: s, fraction of a contact's distance that counts
        mass: mass of the object [kg]
        gravity: gravity [m/s^2]
        slots: number of contacts, for planners that need a fixed one
    """

    step: float = 0.1
    translation: float = 50.0
    rotation: float = 0.1
    joints: float = 1.0
    contact: float = 0.5
    damping: float = 0.1
    friction: float = 0.5
    sharpness: float = 100.0
    distance: float = 0.5
    mass: float = 0.01
    gravity: float = 9.8
    slots: int = 20


@checked
@dataclasses.dataclass(frozen=True)
class Regrasp:
    """When a hand releases an object and grasps it again; see `trial/regrasp.py`."""

    patience: int = parameter(
        20, "control steps without progress before the first release; the n-th takes n times as many", 0
    )
    steps: int = parameter(10, "control steps in which the hand returns to its posture", 1)
    progress: float = parameter(0.02, "relative decrease of the remaining error that counts as progress", 0.0, 0.99)


@dataclasses.dataclass(frozen=True)
class Task:
    """A task, with every object it can be done with.

    Attributes:
        name: name on the command line
        summary: one line
        objects: names of the objects; the first is the default
        build: returns the scene with an object, as an editable MuJoCo spec
        sample: draws start and goal, given a random generator, the compiled model and the object
        tips: sites at the fingertips
        cost: cost of a plan
        success: criterion of success
        model: parameters of the quasi-dynamic model
        bound: largest difference between a joint target and its joint [m or rad]
        substeps: time steps of the plant per control step
        longest: control steps after which a trial ends
        horizon: control steps of a plan, for gradient planners
        floor: height below which the object has fallen, which ends a trial [m]
        planner: default planner
        iterations: maximum number of iterations of IPOPT
        optional: further objects, which need an optional package
        extra: extra of stickslip that the scene needs; empty: none
        regrasp: when the hand releases the object and grasps it again; None: never
    """

    name: str
    summary: str
    objects: tuple[str, ...]
    build: Callable[[str], mujoco.MjSpec]
    sample: Callable[[np.random.Generator, mujoco.MjModel, str], tuple[Array, Goal]]
    tips: tuple[str, ...]
    cost: Cost
    success: Success
    model: QuasiDynamic
    bound: float
    substeps: int
    longest: int
    horizon: int = 4
    floor: float = -math.inf
    planner: str = "newton"
    iterations: int = 50
    optional: tuple[str, ...] = ()
    extra: str = ""
    regrasp: Regrasp | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """A task with one of its objects, compiled. Planners and plants are made from it.

    Attributes:
        task: the task
        object: name of the object
        mjm: model of the plant; planners make their own copies
        tips: sites at the fingertips          (n,)
    """

    task: Task
    object: str
    mjm: mujoco.MjModel
    tips: NDArray[np.intp]

    @property
    def nr(self) -> int:
        """Number of joints of the hand."""
        return self.mjm.nu

    @property
    def posture(self) -> Array:
        """Reference posture (nu,): joints of the first keyframe, or qpos0. A release returns to it."""
        return (self.mjm.key_qpos[0] if self.mjm.nkey else self.mjm.qpos0)[: self.nr].copy()

    def bounds(self, joints: Array) -> tuple[Array, Array]:
        """Bounds of target minus joint position, low and high, (nu,) each: the task's bound and the joint limits."""
        low, high = (limit - joints for limit in self.limits())
        bound = self.task.bound
        return np.clip(low, -bound, 0.0), np.clip(high, 0.0, bound)

    def limits(self) -> tuple[Array, Array]:
        """Joint limits, low and high, (nu,) each; infinite where a joint has none."""
        joints = self.mjm.jnt_range[: self.nr]
        limited = self.mjm.jnt_limited[: self.nr].astype(bool)
        return np.where(limited, joints[:, 0], -math.inf), np.where(limited, joints[:, 1], math.inf)


@dataclasses.dataclass(frozen=True, eq=False)
class Observation:
    """State that a planner plans from.

    Attributes:
        time: time of the state [s]
        qpos: positions of hand and object           (nq,)
        qvel: velocities                             (nv,)
        ctrl: current joint targets                  (nu,)
    """

    time: float
    qpos: Array
    qvel: Array
    ctrl: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A plan.

    Attributes:
        target: joint targets until the next plan     (nu,)
        cost: cost of the plan in the planner's model
        iterations: iterations of the solver
        note: problem that the planner worked around; empty: none
    """

    target: Array
    cost: float
    iterations: int = 0
    note: str = ""


class Planner(abc.ABC):
    """Chooses joint targets. A planner is for one problem and any number of consecutive trials."""

    @abc.abstractmethod
    def reset(self, goal: Goal, seed: int) -> None:
        """Start a new trial with a goal; `seed` seeds all random numbers until the next reset."""

    @abc.abstractmethod
    def plan(self, observation: Observation) -> Plan:
        """Plan for the next control step."""


def compile_problem(task: Task, name: str | None = None) -> Problem:
    """Compile a task with an object, given by name; default: its first."""
    name = task.objects[0] if name is None else name
    names = (*task.objects, *task.optional)
    if name not in names:
        raise unknown(f"object of {task.name}", name, names)
    mjm = task.build(name).compile()
    tips = [mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_SITE, tip) for tip in task.tips]
    if min(tips) < 0:
        raise InputError(f"the scene of {task.name} has no site {task.tips[tips.index(min(tips))]!r}")
    free = mjm.joint(OBJECT)
    if free.type[0] != mujoco.mjtJoint.mjJNT_FREE or free.qposadr[0] + 7 != mjm.nq or mjm.nu != mjm.nv - 6:
        raise InputError(
            f"the scene of {task.name} must hold joints with one actuator each, then the free joint {OBJECT!r}: "
            f"it has {mjm.nq} positions, {mjm.nv} velocities and {mjm.nu} actuators"
        )
    return Problem(task, name, mjm, np.array(tips))


def quat_of(roll: float, pitch: float, yaw: float) -> Array:
    """Unit quaternion, w first, of rotations about the fixed axes x, y, z, in this order [rad]."""
    quat = np.zeros(4)
    mujoco.mju_euler2Quat(quat, np.array([roll, pitch, yaw]), "XYZ")
    return quat
