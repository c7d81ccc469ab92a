"""How well a motion was followed, and whether the physics of it is sound."""

import dataclasses
import math
from collections.abc import Mapping

import mujoco
import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.retarget.motion import Array
from stickslip.mpc.retarget.problem import Problem
from stickslip.mpc.retarget.rollout import Retargeted

METRICS = ("aligned", "spider")
"""How frames are paired: each with its own, or as SPIDER does, each with the one before."""
TOUCHING = 0.005
"""Height of a foot's lowest geom above the floor below which it touches [m]."""


@dataclasses.dataclass(frozen=True)
class Errors:
    """Means over time of the errors. NaN: there is no such thing."""

    base_pos: float
    base_rot: float
    joints: float
    object_pos: float
    object_rot: float


def errors(ran: Retargeted, metric: str = "aligned") -> Errors:
    """Means over time: distance of the base [m], its angle [rad], norm of the joint errors [rad]; of objects likewise.

    With "spider" each state is compared with the reference of one time step earlier, as in SPIDER's evaluation.
    """
    if metric not in METRICS:
        raise InputError(f"metric is {metric!r}: it must be one of {', '.join(METRICS)}")
    over = series(ran, metric)
    means = {name: float(values.mean()) if len(values) else math.nan for name, values in over.items()}
    return Errors(**{field.name: means.get(field.name, math.nan) for field in dataclasses.fields(Errors)})


def series(ran: Retargeted, metric: str = "aligned") -> Mapping[str, Array]:
    """The errors after each time step, (n,) each, by the names of `Errors`."""
    problem, late = ran.problem, 1 if metric == "spider" else 0
    away = [problem.difference(qpos, frame - late) for frame, qpos in enumerate(ran.qpos) if frame]
    differences = np.array(away).reshape(-1, problem.mjm.nv)
    found = {}
    dofs = [problem.mjm.joint(name).dofadr[0] for name in problem.motion.joint_names]
    found["joints"] = np.linalg.norm(differences[:, dofs], axis=1)
    objects = []
    for name, joint in problem.free_joints().items():
        adr = problem.mjm.jnt_dofadr[joint]
        pair = [np.linalg.norm(differences[:, adr + k : adr + k + 3], axis=1) for k in (0, 3)]
        if name == "base":
            found["base_pos"], found["base_rot"] = pair
        else:
            objects.append(pair)
    if objects:
        found["object_pos"], found["object_rot"] = np.mean(objects, axis=0)
    return found


@dataclasses.dataclass(frozen=True)
class Report:
    """Physics of a motion.

    Attributes:
        foot_slide: mean horizontal speed of the feet while they touch [m/s]
        penetration: depth of the deepest contact [m]
        self_contacts: share of frames in which bodies of the robot touch each other
        torque_share: share of time steps and servos at the torque limit; NaN for a reference, or without limits
        jerk: mean change of the change of ctrl from step to step, over that of the reference's ctrl
        gap: cost of the plant minus the cost that the plan's model predicted, mean over time; NaN for a reference
    """

    foot_slide: float
    penetration: float
    self_contacts: float
    torque_share: float = math.nan
    jerk: float = math.nan
    gap: float = math.nan


def report(ran: Retargeted) -> Report:
    """Physics of what the plant did."""
    problem, mjm = ran.problem, ran.problem.mjm
    kinematic = _kinematic(problem, ran.qpos)
    limited = mjm.actuator_forcelimited.astype(bool)
    mjd, at_limit = mujoco.MjData(mjm), []
    for qpos, qvel, ctrl in zip(ran.qpos, ran.qvel, ran.ctrl, strict=False):
        mjd.qpos[:], mjd.qvel[:], mjd.ctrl[:] = qpos, qvel, ctrl
        mujoco.mj_forward(mjm, mjd)
        force, most = np.abs(mjd.actuator_force), mjm.actuator_forcerange[:, 1]
        at_limit.append((force >= most - 1e-6)[limited])
    torque = float(np.mean(at_limit)) if limited.any() and at_limit else math.nan
    own = _jerk(problem.reference.ctrl)
    jerk = _jerk(ran.ctrl) / own if own > 0.0 else math.nan
    realised = costs(problem, ran.qpos, ran.qvel, ran.ctrl)
    gap = float(np.mean(realised - ran.predicted)) if len(realised) else math.nan
    return dataclasses.replace(kinematic, torque_share=torque, jerk=jerk, gap=gap)


def reference_report(problem: Problem) -> Report:
    """Physics of the reference, as far as a motion without forces has it."""
    return _kinematic(problem, problem.reference.qpos)


def _jerk(ctrl: Array) -> float:
    return float(np.abs(np.diff(ctrl, 2, axis=0)).mean()) if len(ctrl) > 2 else 0.0


def costs(problem: Problem, qpos: Array, qvel: Array, ctrl: Array, begin: int = 0) -> Array:
    """Cost of each of n time steps, as `kernels.follow` counts it.

    Args:
        problem: robot and motion
        qpos, qvel: states from time step `begin` of the motion on     (n + 1, nq), (n + 1, nv)
        ctrl: controls between them                                    (n, nu)
        begin: time step of the first state
    """
    mjm, w, reference = problem.mjm, problem.weights, problem.reference
    mjd, found = mujoco.MjData(mjm), np.zeros(len(ctrl))
    for step in range(len(ctrl)):
        before, after = (min(begin + step + k, problem.steps) for k in (0, 1))
        cost = np.linalg.norm(problem.dof_weights * problem.difference(qpos[step + 1], after))
        cost += w.velocity * np.linalg.norm(qvel[step + 1] - reference.qvel[after])
        cost += w.control * np.mean((ctrl[step] - reference.ctrl[before]) ** 2)
        if len(problem.sites):
            mjd.qpos[:] = qpos[step]
            mujoco.mj_kinematics(mjm, mjd)
            away = np.linalg.norm(mjd.site_xpos[problem.sites] - reference.contact_pos[before], axis=1)
            cost += w.contact * float(away @ reference.contact[before])
        found[step] = cost
    return found


def _kinematic(problem: Problem, frames: Array) -> Report:
    mjm = problem.mjm
    mjd = mujoco.MjData(mjm)
    feet = [mjm.site(name).id for name in problem.robot.feet]
    base = _tree(problem)
    where, low, deepest, own = [], [], 0.0, 0
    for qpos in frames:
        mjd.qpos[:] = qpos
        mujoco.mj_kinematics(mjm, mjd)
        mujoco.mj_comPos(mjm, mjd)
        mujoco.mj_collision(mjm, mjd)
        touching = set()
        inside = False
        for contact in mjd.contact[: mjd.ncon]:
            bodies = mjm.geom_bodyid[contact.geom]
            deepest = max(deepest, -float(contact.dist))
            if contact.dist < TOUCHING:
                touching.update(int(body) for body in bodies)
                inside |= bool(base[bodies].all())
        own += inside
        where.append(mjd.site_xpos[feet].copy())
        low.append([int(mjm.site_bodyid[foot]) in touching for foot in feet])
    slide = math.nan
    if feet:
        speed = np.linalg.norm(np.diff(np.array(where), axis=0)[:, :, :2], axis=2) / problem.dt
        both = np.array(low)[1:] & np.array(low)[:-1]
        slide = float(speed[both].mean()) if both.any() else 0.0
    return Report(slide, deepest, own / len(frames))


def _tree(problem: Problem) -> Array:
    """Whether a body is part of the robot, by its index."""
    mjm = problem.mjm
    own = np.zeros(mjm.nbody, dtype=bool)
    for actuator in range(mjm.nu):
        own |= mjm.body_rootid == mjm.body_rootid[mjm.jnt_bodyid[mjm.actuator_trnid[actuator, 0]]]
    own[0] = False
    return own
