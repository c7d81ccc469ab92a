"""What a task is: a hand and an object in one model, where they start and are to go, what a plan costs, when it ends.

The joints of the hand come first in `qpos`, the object's free joint last. A control is a joint target, in the order of
the joints; planners choose how far it is to be from where the joint is.
"""

import abc
import dataclasses
import math
from collections.abc import Callable

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError

Array = NDArray[np.float64]

OBJECT = "object"
"""Name of the body that is manipulated, and of its free joint."""
GOAL = "goal"
"""Name of the mocap body that shows where it is to go; it touches nothing."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """Weights of what a plan costs. Squared lengths in m^2, rotations as 1 - (q.q*)^2, squared angles in rad^2.

    Attributes:
        contact: sum over the fingertips of their squared distance from the object's middle
        grasp: squared length of the sum of the unit vectors from the object to the fingertips, seen from the object
        control: squared control
        posture: squared distance of the joints from the posture at the start
        orientation: rotation still to go, along the way
        position: distance still to go along x, y and z, along the way [1/m]
        fallen: for each step with the object below `floor`
        floor: height of the object's middle that counts as fallen [m]
        final_position: squared distance still to go at the end
        final_orientation: rotation still to go at the end
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
    """When a task is done.

    Attributes:
        position: distance from the goal that is near enough [m]; infinity if only the rotation counts
        rotation: 1 - (q.q*)^2 that is near enough
        steps: control steps in a row
    """

    position: float
    rotation: float
    steps: int = 20


@dataclasses.dataclass(frozen=True, eq=False)
class Goal:
    """Where the object is to go.

    Attributes:
        pos: of its middle [m]              (3,)
        quat: its orientation, w first      (4,)
    """

    pos: Array
    quat: Array

    def errors(self, qpos: Array) -> tuple[float, float]:
        """Distance [m] and rotation 1 - (q.q*)^2 still to go; the object's free joint is last in `qpos` (nq,)."""
        quat = qpos[-4:] / np.linalg.norm(qpos[-4:])
        return float(np.linalg.norm(qpos[-7:-4] - self.pos)), max(0.0, 1.0 - float(quat @ self.quat) ** 2)


def angle(rotation: float) -> float:
    """Angle [rad] of a rotation 1 - (q.q*)^2."""
    return 2.0 * math.asin(math.sqrt(min(1.0, max(0.0, rotation))))


@dataclasses.dataclass(frozen=True)
class QuasiDynamic:
    """Parameters of the quasi-dynamic contact model; see `quasidynamic.py`.

    Attributes:
        step: h, time a step of the model stands for [s]
        translation: stiffness of the object against being moved [N/m]
        rotation: and turned [N m/rad]
        joints: stiffness of the hand's joints, Kr [N/m or N m/rad]
        contact: K, stiffness of contact, as a share of those
        damping: of contact [s]
        friction: mu of every contact
        sharpness: beta of softplus
        distance: share of the distance of a contact that counts
        mass: of the object [kg]
        gravity: [m/s^2]
        slots: contacts there is room for, where their number must be fixed
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


@dataclasses.dataclass(frozen=True)
class Regrasp:
    """When a hand lets go of an object and tries again; see `regrasp.py`.

    Attributes:
        patience: control steps without progress until it lets go the first time; the n-th time takes n times as many
        steps: control steps on the way back to its posture
        progress: decrease of what is still to go, weighed as at the end of a plan, that counts, as a share of it
    """

    patience: int = 20
    steps: int = 10
    progress: float = 0.02

    def __post_init__(self) -> None:
        for name, least in (("patience", 0), ("steps", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}: it must be at least {least} control steps")
        if not 0.0 <= self.progress < 1.0:
            raise InputError(f"progress is {self.progress}: it must be from 0 to less than 1; 0.02 is usual")


@dataclasses.dataclass(frozen=True)
class Task:
    """One task with every object it can be done with.

    Attributes:
        name: on the command line
        summary: one line
        objects: names of the objects; the first is the default
        build: gives the MJCF text of the scene with an object
        sample: draws where the object starts, and its goal, from random numbers, the compiled model and the object
        tips: sites at the fingertips
        cost: what a plan costs
        success: when it is done
        model: parameters of the quasi-dynamic model
        bound: farthest a joint target may be from its joint [m or rad]
        substeps: time steps of the plant in a control step
        longest: control steps until it is given up
        horizon: control steps that a gradient planner looks ahead
        floor: height of the object's middle below which it has fallen, which ends a trial [m]
        planner: that is used unless another is asked for
        iterations: most of IPOPT
        optional: further objects, which need a package that may not be there
        extra: of stickslip, that the scene itself needs; none if empty
        regrasp: when the hand lets go and tries again; never if there is nothing
    """

    name: str
    summary: str
    objects: tuple[str, ...]
    build: Callable[[str], str]
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
    """A task with one of its objects, compiled: what a planner and a plant are made of.

    Attributes:
        task: the task
        object: the object's name
        mjm: the model (the plant's; planners make their own copies)
        tips: sites at the fingertips          (n,)
        xml: MJCF that the model was compiled from; as the task builds it if None
    """

    task: Task
    object: str
    mjm: mujoco.MjModel
    tips: NDArray[np.intp]
    xml: str | None = None

    @property
    def nr(self) -> int:
        """Joints of the hand."""
        return self.mjm.nu

    @property
    def posture(self) -> Array:
        """Joints of the first key frame, or of the model as written, (nu,).

        A cost of posture counts from them, and a hand that lets go goes back to them.
        """
        return (self.mjm.key_qpos[0] if self.mjm.nkey else self.mjm.qpos0)[: self.nr].copy()

    def bounds(self, joints: Array) -> tuple[Array, Array]:
        """How far targets may be below and above where the joints are, (nu,) each: the task's bound, and limits."""
        low, high = (limit - joints for limit in self.limits())
        bound = self.task.bound
        return np.clip(low, -bound, 0.0), np.clip(high, 0.0, bound)

    def limits(self) -> tuple[Array, Array]:
        """Lowest and highest joint targets, (nu,) each; infinite where there are none."""
        joints = self.mjm.jnt_range[: self.nr]
        limited = self.mjm.jnt_limited[: self.nr].astype(bool)
        return np.where(limited, joints[:, 0], -math.inf), np.where(limited, joints[:, 1], math.inf)


@dataclasses.dataclass(frozen=True, eq=False)
class Observation:
    """What a planner is told.

    Attributes:
        time: when it was so [s]
        qpos: positions of the hand and the object   (nq,)
        qvel: their velocities                       (nv,)
        ctrl: joint targets in force                 (nu,)
    """

    time: float
    qpos: Array
    qvel: Array
    ctrl: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """What a planner answers.

    Attributes:
        target: joint targets until the next plan     (nu,)
        cost: of the plan, as the planner's model sees it
        iterations: of its solver
        note: what went wrong and was made do with; empty if nothing
    """

    target: Array
    cost: float
    iterations: int = 0
    note: str = ""


class Planner(abc.ABC):
    """Chooses joint targets. One planner serves one problem, and any number of trials one after another."""

    @abc.abstractmethod
    def reset(self, goal: Goal, seed: int) -> None:
        """Forget the last trial, and take a goal; `seed` is of every random number until the next reset."""

    @abc.abstractmethod
    def plan(self, observation: Observation) -> Plan:
        """Joint targets for the control step that begins."""


def compile_problem(task: Task, name: str | None = None) -> Problem:
    """The task with an object, by its name, or with its first."""
    name = task.objects[0] if name is None else name
    names = (*task.objects, *task.optional)
    if name not in names:
        raise InputError(f"{task.name} has no object {name!r}; it has: {', '.join(names)}")
    xml = task.build(name)
    mjm = mujoco.MjModel.from_xml_string(xml)
    tips = [mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_SITE, tip) for tip in task.tips]
    if min(tips) < 0:
        raise InputError(f"the scene of {task.name} has no site {task.tips[tips.index(min(tips))]!r}")
    free = mjm.joint(OBJECT)
    if free.type[0] != mujoco.mjtJoint.mjJNT_FREE or free.qposadr[0] + 7 != mjm.nq or mjm.nu != mjm.nv - 6:
        raise InputError(
            f"the scene of {task.name} must hold joints with one actuator each, then the free joint {OBJECT!r}: "
            f"it has {mjm.nq} positions, {mjm.nv} velocities and {mjm.nu} actuators"
        )
    return Problem(task, name, mjm, np.array(tips), xml)


def quat_of(roll: float, pitch: float, yaw: float) -> Array:
    """Unit quaternion, w first, of rotations about the fixed axes x, y, z in this order [rad]."""
    quat = np.zeros(4)
    mujoco.mju_euler2Quat(quat, np.array([roll, pitch, yaw]), "XYZ")
    return quat
