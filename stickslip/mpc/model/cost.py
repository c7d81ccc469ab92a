"""The terms of `smooth.Smooth`, as functions for any array library `xp`.

The running cost has contact, grasp, control and posture; the terminal cost has position and orientation.
These are (29) to (32) of "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous Manipulation". The
start of a plan is fixed and has no cost.
"""

from collections.abc import Sequence
from typing import Any

from stickslip.mpc.model import kinematics, quasidynamic
from stickslip.mpc.model.kinematics import Chain
from stickslip.mpc.model.smooth import Smooth
from stickslip.mpc.task import QuasiDynamic


def control(xp: Any, weights: Smooth, u: Any) -> Any:
    """Cost of a control (nr,)."""
    return weights.control * xp.sum(u * u)


def rotation(xp: Any, goal_quat: Any, quat: Any) -> Any:
    """1 - (q.q*)^2 of unit quaternions (4,), as a sum of squares: of the imaginary part of q*^-1 q."""
    left = kinematics.multiply(xp, kinematics.conjugate(xp, goal_quat), quat)
    return xp.sum(left[1:4] * left[1:4])


def between(xp: Any, weights: Smooth, chains: Sequence[Chain], posture: Any, qpos: Any) -> Any:
    """Running cost of a state.

    Args:
        xp: array library
        weights: weights of the terms
        chains: kinematic chains of the fingertips
        posture: reference posture of the hand          (nr,)
        qpos: positions of hand and object              (nr + 7,)
    """
    nr = qpos.shape[0] - 7
    pos = qpos[nr : nr + 3]
    away = [chain.position(xp, qpos[:nr]) - pos for chain in chains]
    total = 0.0
    for a in away:
        total = total + weights.contact * xp.sum(a * a)
    if weights.grasp:
        units = sum(a / xp.sqrt(xp.sum(a * a)) for a in away)  # its length is the same in the object's frame
        total = total + weights.grasp * xp.sum(units * units)
    if weights.posture:
        off = qpos[:nr] - xp.asarray(posture)
        total = total + weights.posture * xp.sum(off * off)
    return total


def final(xp: Any, weights: Smooth, goal_pos: Any, goal_quat: Any, qpos: Any) -> Any:
    """Terminal cost of the last qpos (nr + 7,)."""
    nr = qpos.shape[0] - 7
    off = qpos[nr : nr + 3] - goal_pos
    turned = rotation(xp, goal_quat, qpos[nr + 3 : nr + 7])
    return weights.final_position * xp.sum(off * off) + weights.final_orientation * turned


def of_plan(
    xp: Any,
    weights: Smooth,
    model: QuasiDynamic,
    chains: Sequence[Chain],
    posture: Any,
    goal: tuple[Any, Any],
    qpos: Any,
    rows: Any,
    phi: Any,
    controls: Sequence[Any],
) -> Any:
    """Cost of a plan, rolled out with the quasi-dynamic model.

    Args:
        xp: array library
        weights: weights of the terms
        model: parameters of the contact model
        chains: kinematic chains of the fingertips
        posture: reference posture of the hand          (nr,)
        goal: goal position (3,) and orientation (4,) of the object
        qpos: positions of hand and object at the start (nr + 7,)
        rows: edges of the friction pyramids            (n, nr + 6)
        phi: distances of their contacts [m]            (n,)
        controls: joint targets minus joint positions, (nr,) per step
    """
    total = 0.0
    for i, u in enumerate(controls):
        qpos = kinematics.move(xp, qpos, quasidynamic.displacement(xp, model, rows, phi, u))
        total = total + control(xp, weights, u)
        if i < len(controls) - 1:
            total = total + between(xp, weights, chains, posture, qpos)
    return total + final(xp, weights, goal[0], goal[1], qpos)
