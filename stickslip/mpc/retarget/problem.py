"""A motion on a robot, compiled: the model, and the reference at the times of the rollouts."""

import dataclasses
import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError, SceneError
from stickslip.mpc.retarget.motion import Array, Motion, qpos_of, velocities
from stickslip.mpc.retarget.robots import Options, Robot
from stickslip.mpc.retarget.settings import Weights
from stickslip.mpc.servos import is_servo

DEEPEST = 1e-3
"""Depth of a contact at which a start is lifted [m]."""


@dataclasses.dataclass(frozen=True, eq=False)
class Reference:
    """A motion in the coordinates of a model; frame j is at the time j dt.

    Attributes:
        qpos: positions                                                                       (N, nq)
        qvel: velocities                                                                      (N, nv)
        ctrl: controls with which servos would follow if only their damping and armature held them back   (N, nu)
        contact: 1 while a site is to touch something                                         (N, nc)
        contact_pos: where, in the mean over the time in which it does, without a break [m]   (N, nc, 3)
    """

    qpos: Array
    qvel: Array
    ctrl: Array
    contact: Array
    contact_pos: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """A motion on a robot.

    Attributes:
        robot: the robot
        options: its options
        motion: the motion, at the rate of the rollouts
        weights: weights of the cost
        mjm: the model; its time step is the plant's
        dt: time step of the rollouts, a multiple of the plant's [s]
        substeps: time steps of the plant in one of the rollouts
        reference: the motion in the coordinates of the model
        dof_weights: weight of each entry of the difference of two positions                  (nv,)
        sites: indices of the sites of `Reference.contact`                                    (nc,)
        start: positions that the plant starts from: the first frame, lifted until nothing is in the floor     (nq,)
    """

    robot: Robot
    options: Options
    motion: Motion
    weights: Weights
    mjm: mujoco.MjModel
    dt: float
    substeps: int
    reference: Reference
    dof_weights: Array
    sites: NDArray[np.intp]
    start: Array

    @property
    def steps(self) -> int:
        """Time steps of the motion."""
        return len(self.reference.qpos) - 1

    @property
    def limits(self) -> tuple[Array, Array]:
        """Limits of ctrl, low and high (nu,) each; infinite where there are none."""
        limited = self.mjm.actuator_ctrllimited.astype(bool)
        low, high = self.mjm.actuator_ctrlrange.T
        return np.where(limited, low, -math.inf), np.where(limited, high, math.inf)

    def difference(self, qpos: Array, frame: int) -> Array:
        """Positions minus the reference's, (nv,): rotation vectors where joints are free or balls."""
        out = np.zeros(self.mjm.nv)
        mujoco.mj_differentiatePos(self.mjm, out, 1.0, self.reference.qpos[frame], qpos)
        return out

    def free_joints(self) -> dict[str, int]:
        """Free joints that the motion moves, "base" or the object's name, with their index."""
        found = {}
        if self.motion.base is not None:
            found["base"] = _free_joint(self.mjm, self.robot.base)
        for name in self.motion.objects:
            found[name] = _free_joint(self.mjm, name)
        return found


def compile_problem(
    robot: Robot,
    motion: Motion,
    weights: Weights | None = None,
    options: Options | None = None,
    dt: float = 1.0 / 60.0,
    plant_dt: float | None = None,
) -> Problem:
    """Compile a robot and a motion.

    Args:
        robot: the robot
        motion: the motion; its joints and objects are found by name
        weights: weights of the cost
        options: options of the robot
        dt: time step of the rollouts [s]
        plant_dt: time step of the plant, at most; default: the model's. `dt` is a multiple of what is used [s]
    """
    options, weights = options or Options(), weights or Weights()
    if not (math.isfinite(dt) and 0.0 < dt <= 0.1):
        raise InputError(f"dt is {dt}: it must be above 0 and at most 0.1 s")
    try:
        mjm = robot.build(options).compile()
    except ValueError as error:
        raise SceneError(f"the robot {robot.name} does not compile: {error}") from error
    plant_dt = plant_dt or float(mjm.opt.timestep)
    substeps = max(1, math.ceil(dt / plant_dt - 1e-9))
    mjm.opt.timestep = dt / substeps
    joints = _servo_joints(robot, mjm)
    motion = motion.resampled(1.0 / dt)
    qpos = qpos_of(motion, mjm, robot.base)
    qvel = velocities(mjm, qpos, dt)
    names = [name for name in robot.contacts if name in motion.contacts]
    sites = np.array([mjm.site(name).id for name in names], dtype=np.intp)
    contact = np.array([motion.contacts[name] for name in names]).reshape(len(names), len(qpos)).T
    reference = Reference(
        qpos, qvel, _controls(mjm, joints, qpos, qvel, dt), contact, _touched(mjm, qpos, sites, contact)
    )
    start = qpos[0].copy()
    problem = Problem(robot, options, motion, weights, mjm, dt, substeps, reference, np.zeros(mjm.nv), sites, start)
    _lift(problem)
    return dataclasses.replace(problem, dof_weights=_dof_weights(problem))


def _servo_joints(robot: Robot, mjm: mujoco.MjModel) -> NDArray[np.intp]:
    """Index of the joint of each actuator; raises InputError unless all are position servos of joints."""
    joints = mjm.actuator_trnid[:, 0]
    wrong = [mjm.actuator(i).name for i in range(mjm.nu) if not is_servo(mjm, i)]
    if wrong or not mjm.nu:
        what = f"these are none: {', '.join(wrong[:5])}" if wrong else "it has no actuators"
        raise InputError(f"the robot {robot.name} needs position servos of hinges or slides; {what}")
    twice = sorted({mjm.joint(j).name for j in joints if (joints == j).sum() > 1})
    if twice:
        raise InputError(f"the robot {robot.name} has two servos on the joint {twice[0]!r}; it may have one")
    return joints.astype(np.intp)


def _controls(mjm: mujoco.MjModel, joints: NDArray[np.intp], qpos: Array, qvel: Array, dt: float) -> Array:
    """Controls (N, nu) of a motion: q + (kv qvel + armature qacc) / kp, within ctrlrange.

    A servo's force is kp (ctrl - q) - kv qvel. With ctrl = q, as in SPIDER, damping makes it late by kv / kp.
    """
    dofs = mjm.jnt_dofadr[joints]
    kp, kv = mjm.actuator_gainprm[:, 0], -mjm.actuator_biasprm[:, 2] + mjm.dof_damping[dofs]
    gear = mjm.actuator_gear[:, 0]
    acceleration = np.gradient(qvel[:, dofs], dt, axis=0)
    force = kv * qvel[:, dofs] + mjm.dof_armature[dofs] * acceleration
    ctrl = gear * qpos[:, mjm.jnt_qposadr[joints]] + force / kp
    low, high = mjm.actuator_ctrlrange.T
    return np.where(mjm.actuator_ctrllimited, np.clip(ctrl, low, high), ctrl)


def _free_joint(mjm: mujoco.MjModel, name: str) -> int:
    """Index of the free joint of that name, or of the body of that name; the first one if the name is empty."""
    for joint in range(mjm.njnt):
        if mjm.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            body = mjm.body(mjm.jnt_bodyid[joint]).name
            if not name or name in (mjm.joint(joint).name, body):
                return joint
    raise InputError(f"the model has no free joint or body {name!r}; name one that it has")


def _dof_weights(problem: Problem) -> Array:
    mjm, weights, motion = problem.mjm, problem.weights, problem.motion
    found = np.zeros(mjm.nv)
    for name in motion.joint_names:
        found[mjm.joint(name).dofadr[0]] = weights.joints
    for name, joint in problem.free_joints().items():
        own = (weights.base_pos, weights.base_rot) if name == "base" else (weights.object_pos, weights.object_rot)
        adr = mjm.jnt_dofadr[joint]
        found[adr : adr + 6] = np.repeat(own, 3)
    if not found.any():
        raise InputError(f"motion {motion.name!r}: all weights of what it moves are 0; raise one")
    return found


def _lift(problem: Problem) -> None:
    """Lift base and objects of the start until each is at most `DEEPEST` in what stands still."""
    mjm, start = problem.mjm, problem.start
    mjd = mujoco.MjData(mjm)
    for joint in problem.free_joints().values():
        adr, root = mjm.jnt_qposadr[joint], mjm.body_rootid[mjm.jnt_bodyid[joint]]
        for _ in range(3):
            mjd.qpos[:] = start
            mujoco.mj_forward(mjm, mjd)
            bodies = mjm.geom_bodyid[mjd.contact.geom.reshape(-1, 2)]
            static, own = mjm.body_weldid[bodies] == 0, mjm.body_rootid[bodies] == root
            depths = -mjd.contact.dist[static.any(axis=1) & own.any(axis=1)]
            if not len(depths) or depths.max() <= DEEPEST:
                break
            start[adr + 2] += depths.max()


def _touched(mjm: mujoco.MjModel, qpos: Array, sites: NDArray[np.intp], contact: Array) -> Array:
    """Where sites touch (N, nc, 3): the mean over each time without a break in which they do."""
    mjd = mujoco.MjData(mjm)
    where = np.zeros((len(qpos), len(sites), 3))
    for frame, positions in enumerate(qpos):
        mjd.qpos[:] = positions
        mujoco.mj_kinematics(mjm, mjd)
        where[frame] = mjd.site_xpos[sites]
    for column in range(len(sites)):
        on = np.concatenate([[0.0], contact[:, column], [0.0]])
        begins, ends = np.flatnonzero(np.diff(on) > 0.0), np.flatnonzero(np.diff(on) < 0.0)
        for begin, end in zip(begins, ends, strict=True):
            where[begin:end, column] = where[begin:end, column].mean(axis=0)
    return where
