"""What a plan costs, in functions for every array library `xp`: the smooth terms of `task.Cost`, which gradients know.

These are contact, grasp, control, posture and orientation along the way, and position and orientation at the end, (29)
and (30) to (32) of "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous Manipulation". The start
of a plan cannot be changed and costs nothing.
"""

from collections.abc import Sequence
from typing import Any

from stickslip.mpc import kinematics, quasidynamic
from stickslip.mpc.kinematics import Chain
from stickslip.mpc.task import Cost, QuasiDynamic


def control(xp: Any, weights: Cost, u: Any) -> Any:
    """Of a control, (nr,)."""
    return weights.control * xp.sum(u * u)


def rotation(xp: Any, goal_quat: Any, quat: Any) -> Any:
    """1 - (q.q*)^2 of unit quaternions (4,), as a sum of squares: of the imaginary part of q*^-1 q."""
    left = kinematics.multiply(xp, kinematics.conjugate(xp, goal_quat), quat)
    return xp.sum(left[1:4] * left[1:4])


def between(xp: Any, weights: Cost, chains: Sequence[Chain], posture: Any, goal_quat: Any, qpos: Any) -> Any:
    """Of a position on the way.

    Args:
        xp: the array library
        weights: of the terms
        chains: to the fingertips
        posture: of the hand                            (nr,)
        goal_quat: orientation the object is to have    (4,)
        qpos: of hand and object                        (nr + 7,)
    """
    nr = qpos.shape[0] - 7
    pos = qpos[nr : nr + 3]
    away = [chain.position(xp, qpos[:nr]) - pos for chain in chains]
    total = 0.0
    for a in away:
        total = total + weights.contact * xp.sum(a * a)
    if weights.grasp:
        units = sum(a / xp.sqrt(xp.sum(a * a)) for a in away)  # as long as the object sees it
        total = total + weights.grasp * xp.sum(units * units)
    if weights.posture:
        off = qpos[:nr] - xp.asarray(posture)
        total = total + weights.posture * xp.sum(off * off)
    if weights.orientation:
        total = total + weights.orientation * rotation(xp, goal_quat, qpos[nr + 3 : nr + 7])
    return total


def final(xp: Any, weights: Cost, goal_pos: Any, goal_quat: Any, qpos: Any) -> Any:
    """Of the last position (nr + 7,)."""
    nr = qpos.shape[0] - 7
    off = qpos[nr : nr + 3] - goal_pos
    turned = rotation(xp, goal_quat, qpos[nr + 3 : nr + 7])
    return weights.final_position * xp.sum(off * off) + weights.final_orientation * turned


def of_plan(
    xp: Any,
    weights: Cost,
    model: QuasiDynamic,
    chains: Sequence[Chain],
    posture: Any,
    goal: tuple[Any, Any],
    qpos: Any,
    rows: Any,
    phi: Any,
    controls: Sequence[Any],
) -> Any:
    """Of all controls (nr,) of a plan, one after another, as the quasi-dynamic model sees what they do.

    Args:
        xp: the array library
        weights: of the terms
        model: parameters of the contact model
        chains: to the fingertips
        posture: of the hand                            (nr,)
        goal: position (3,) and orientation (4,) the object is to have
        qpos: of hand and object at the start           (nr + 7,)
        rows: edges of the friction pyramids            (n, nr + 6)
        phi: distances of their contacts [m]            (n,)
        controls: joint targets less the joints
    """
    total = 0.0
    for i, u in enumerate(controls):
        qpos = kinematics.move(xp, qpos, quasidynamic.displacement(xp, model, rows, phi, u))
        total = total + control(xp, weights, u)
        if i < len(controls) - 1:
            total = total + between(xp, weights, chains, posture, goal[1], qpos)
    return total + final(xp, weights, goal[0], goal[1], qpos)
