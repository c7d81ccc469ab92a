"""Tasks: a MuJoCo model and a cost, with starts, goals and a test of success.

Planners choose `ctrl`. If a task has a `bound`, its actuators are position servos, `ctrl` holds joint targets, and
planners choose their change; else they choose `ctrl` itself, within `ctrlrange`.
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, SceneError, StickslipError, Unsupported, unknown
from stickslip.mpc import cost as costs
from stickslip.mpc.cost import Cost
from stickslip.mpc.model import smooth
from stickslip.mpc.model.smooth import Smooth
from stickslip.mpc.servos import is_servo
from stickslip.mpc.success import OBJECT, Array, Goal, Success, pose_errors
from stickslip.parameters import checked, parameter

GOAL = "goal"
"""Name of the mocap body that shows the goal; it has no contacts."""
MOST_NAMED = 3
"""Actuators that an error names at most."""
SPLINES = ("hold", "linear", "cubic")
"""How ctrl goes from knot to knot."""
DEFAULT = "default"
"""Name of the only variant of a task without objects."""


@checked
@dataclasses.dataclass(frozen=True)
class Sampling:
    """How sampling planners look ahead in a task; a planner's settings replace single values."""

    dt: float | None = parameter(None, "time step of a rollout [s]; none: the model's", 0.0, above=True, kind=float)
    horizon: int = parameter(48, "time steps of a rollout", 1)
    knot_steps: int | None = parameter(
        None, "time steps from one knot to the next; none: one control step of the task", 1, kind=int
    )
    std: float = parameter(
        0.02,
        "standard deviation of the noise: of joint targets per time step, summed over a knot [m or rad]; "
        "of ctrl, as a fraction of half its range",
        0.0,
        above=True,
    )
    temperature: float = parameter(
        2e-3, "temperature of the weights exp(-(S - min S) / temperature), in units of the cost", 0.0, above=True
    )
    spline: str = parameter("hold", "interpolation of ctrl between knots", choices=SPLINES)


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
        build: returns the scene with an object, given by name, as an editable MuJoCo spec
        sample: draws start (nq,) and goal, given a random generator, the compiled model and the object
        cost: terms of the cost
        success: criterion of success
        substeps: time steps of the plant per control step
        longest: control steps after which a trial ends
        objects: names of the objects; the first is the default
        errors: errors of a state (k,), given model, qpos, qvel and goal, in the order of `success.measures`
        failure: why a trial must end, given model and qpos; empty: it need not
        bound: largest difference between a joint target and its joint [m or rad]; None: planners choose ctrl itself
        planner: default planner
        sampling: how sampling planners look ahead
        model: parameters of the quasi-dynamic model of the gradient planners; None: they do not fit
        horizon: control steps of a plan, for gradient planners
        iterations: maximum number of iterations of IPOPT
        optional: further objects, which need an optional package
        extra: extra of stickslip that the scene needs; empty: none
        regrasp: when the hand releases the object and grasps it again; None: never
        shown: pose of the mocap body `goal`, given the goal's values; None: the first seven, if there are as many
        uncertain: bodies whose friction, mass and size a plan may doubt; see `variation.py`
    """

    name: str
    summary: str
    build: Callable[[str], mujoco.MjSpec]
    sample: Callable[[np.random.Generator, mujoco.MjModel, str], tuple[Array, Goal]]
    cost: Cost
    success: Success
    substeps: int
    longest: int
    objects: tuple[str, ...] = (DEFAULT,)
    errors: Callable[[mujoco.MjModel, Array, Array, Goal], Array] = pose_errors
    failure: Callable[[mujoco.MjModel, Array], str] | None = None
    bound: float | None = None
    planner: str = "mppi"
    sampling: Sampling = Sampling()
    model: QuasiDynamic | None = None
    horizon: int = 4
    iterations: int = 50
    optional: tuple[str, ...] = ()
    extra: str = ""
    regrasp: Regrasp | None = None
    shown: Callable[[Array], tuple[Array, Array]] | None = None
    uncertain: tuple[str, ...] = ()

    def goal_pose(self, goal: Goal) -> tuple[Array, Array] | None:
        """Position and orientation of the body that shows a goal; None if there is nothing to show."""
        if self.shown is not None:
            return self.shown(goal.values)
        return (goal.pos, goal.quat) if len(goal.values) >= 7 else None


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """A task with one of its objects, compiled. Planners and plants are made from it.

    Attributes:
        task: the task
        object: name of the object
        mjm: model of the plant; planners make their own copies
        joints: address in qpos of the joint of each actuator; empty if some are no position servos     (nu,)
    """

    task: Task
    object: str
    mjm: mujoco.MjModel
    joints: NDArray[np.intp]

    @property
    def nr(self) -> int:
        """Number of actuators, which is the number of joints of a hand."""
        return self.mjm.nu

    @property
    def period(self) -> float:
        """Duration of a control step [s]."""
        return self.task.substeps * float(self.mjm.opt.timestep)

    @property
    def posture(self) -> Array:
        """Reference posture (nu,): actuated joints of the first keyframe, or of qpos0. A release returns to it."""
        return (self.mjm.key_qpos[0] if self.mjm.nkey else self.mjm.qpos0)[self.joints].copy()

    def start_ctrl(self, qpos: Array) -> Array:
        """Controls (nu,) with which a trial starts at `qpos` (nq,): targets there, or the keyframe's, or zero."""
        if len(self.joints):
            return np.clip(qpos[self.joints], *self.limits())
        return self.mjm.key_ctrl[0].copy() if self.mjm.nkey else np.zeros(self.mjm.nu)

    def bounds(self, joints: Array) -> tuple[Array, Array]:
        """Bounds of target minus joint position, low and high, (nu,) each: the task's bound and the joint limits."""
        low, high = (limit - joints for limit in self.limits())
        bound = self.task.bound
        assert bound is not None
        return np.clip(low, -bound, 0.0), np.clip(high, 0.0, bound)

    def limits(self) -> tuple[Array, Array]:
        """Limits of ctrl, low and high, (nu,) each: of the joints, infinite where there are none, or `ctrlrange`."""
        if self.task.bound is None:
            ranges = self.mjm.actuator_ctrlrange
            return ranges[:, 0].copy(), ranges[:, 1].copy()
        which = self.mjm.actuator_trnid[:, 0]
        limited = self.mjm.jnt_limited[which].astype(bool)
        ranges = self.mjm.jnt_range[which]
        return np.where(limited, ranges[:, 0], -math.inf), np.where(limited, ranges[:, 1], math.inf)

    def smooth(self, planner: str) -> tuple[Smooth, QuasiDynamic]:
        """Weights and contact model for a gradient planner; raises Unsupported that says what does not fit."""
        task, mjm = self.task, self.mjm
        wrong = []
        if task.model is None:
            wrong.append("it has no quasi-dynamic model (`Task.model`)")
        if task.bound is None:
            wrong.append("its controls are not joint targets (`Task.bound`)")
        if not is_hand(mjm):
            wrong.append(
                f"its model must hold joints with one actuator each, then the free joint {OBJECT!r}: it has {mjm.nq} "
                f"positions, {mjm.nv} velocities and {mjm.nu} actuators"
            )
        if wrong or task.model is None:
            raise Unsupported(
                f"{task.name} does not fit the planner {planner}: {'; '.join(wrong)}; use the planner mppi"
            )
        return smooth.weights(task.cost, task.name, planner), task.model


def is_hand(mjm: mujoco.MjModel) -> bool:
    """Whether a model holds joints with one actuator each, in this order, then the free joint of the object."""
    free = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_JOINT, OBJECT)
    return bool(
        free >= 0
        and mjm.jnt_type[free] == mujoco.mjtJoint.mjJNT_FREE
        and mjm.jnt_qposadr[free] + 7 == mjm.nq
        and mjm.nu == mjm.nv - 6
        and (mjm.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT).all()
        and np.array_equal(mjm.jnt_qposadr[mjm.actuator_trnid[:, 0]], np.arange(mjm.nu))
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Observation:
    """State that a planner plans from.

    Attributes:
        time: time of the state [s]
        qpos: positions                              (nq,)
        qvel: velocities                             (nv,)
        ctrl: current controls                       (nu,)
    """

    time: float
    qpos: Array
    qvel: Array
    ctrl: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A plan.

    Attributes:
        target: ctrl until the next plan, which are joint targets for a hand     (nu,)
        cost: cost of the plan in the planner's model
        iterations: iterations of the solver
        note: problem that the planner worked around; empty: none
        terms: terms of the cost at the state planned from, with their weights; empty: the planner does not tell
    """

    target: Array
    cost: float
    iterations: int = 0
    note: str = ""
    terms: Mapping[str, float] = dataclasses.field(default_factory=dict)


class Planner(abc.ABC):
    """Chooses controls. A planner is for one problem and any number of consecutive trials."""

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
    costs.check(task.cost, task.name)
    try:
        mjm = task.build(name).compile()
    except StickslipError:
        raise
    except ValueError as error:
        raise SceneError(f"the model of {task.name} does not compile: {error}") from error
    names_of = costs.Names(mjm)
    for term in task.cost:
        term.make(names_of)  # a name that the model does not have shows here
    return Problem(task, name, mjm, _actuated(task, mjm))


def _actuated(task: Task, mjm: mujoco.MjModel) -> NDArray[np.intp]:
    """Addresses in qpos of the joints of the servos; raises InputError for an actuator that no plan can use."""
    wrong, servos = [], [is_servo(mjm, i) for i in range(mjm.nu)]
    for i in range(mjm.nu):
        if mjm.actuator_dyntype[i] != mujoco.mjtDyn.mjDYN_NONE:
            wrong.append(f"{mjm.actuator(i).name!r} has a state (dyntype), which plans do not see; use dyntype none")
        elif task.bound is None and not mjm.actuator_ctrllimited[i]:
            wrong.append(f"{mjm.actuator(i).name!r} has no ctrlrange, which noise needs; set one")
        elif task.bound is not None and not servos[i]:
            wrong.append(f"{mjm.actuator(i).name!r} is no position servo of a hinge or slide; use one, or bound=None")
    if not mjm.nu:
        wrong.append("the model has none; add one")
    if wrong:
        more = f"; and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
        raise InputError(f"actuators of {task.name} that a planner cannot use: {'; '.join(wrong[:MOST_NAMED])}{more}")
    if not all(servos):
        return np.zeros(0, dtype=np.intp)
    return mjm.jnt_qposadr[mjm.actuator_trnid[:, 0]].astype(np.intp)
