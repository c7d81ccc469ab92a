"""Rotations and fingertip positions, as functions for any array library `xp` (NumPy, JAX, `casadi_form`).

Quaternions have w first. A rotation is a rotation vector in the body frame, as in MuJoCo: q+ = q * exp(turn).
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from stickslip.errors import Unsupported
from stickslip.mpc.success import Array

_TERMS = 11
"""Terms of the series of `exponential`, which is exact to rounding for angles up to pi."""
_COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(_TERMS))
_SINC = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(_TERMS))


def multiply(xp: Any, a: Any, b: Any) -> Any:
    """Product of quaternions, (4,)."""
    return xp.stack(
        [
            a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
            a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
            a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
            a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
        ]
    )


def conjugate(xp: Any, a: Any) -> Any:
    """Conjugate of a quaternion, (4,)."""
    return xp.stack([a[0], -a[1], -a[2], -a[3]])


def exponential(xp: Any, turn: Any) -> Any:
    """Quaternion (4,) of a rotation vector (3,) [rad].

    Cosine and sinc are series in the squared angle, so that derivatives exist at zero.
    """
    square = 0.25 * (turn[0] * turn[0] + turn[1] * turn[1] + turn[2] * turn[2])
    share = 0.5 * _series(_SINC, square)
    return xp.stack([_series(_COSINE, square), share * turn[0], share * turn[1], share * turn[2]])


def _series(coefficients: Sequence[float], x: Any) -> Any:
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = coefficient + x * total
    return total


def cross(xp: Any, a: Any, b: Any) -> Any:
    """Cross product, (3,)."""
    return xp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def move(xp: Any, qpos: Any, delta: Any) -> Any:
    """Positions (nr + 7,) after a displacement of joints, object's middle and, seen from it, orientation (nr + 6,)."""
    n = delta.shape[0] - 3
    quat = multiply(xp, qpos[n : n + 4], exponential(xp, delta[n : n + 3]))
    return xp.concatenate([qpos[:n] + delta[:n], quat])


@dataclasses.dataclass(frozen=True, eq=False)
class _Joint:
    """A joint on the way from the world to a site.

    Attributes:
        index: index among the joints of the hand
        hinge: whether it is a hinge; otherwise a slide
        offset: its anchor in the previous frame                               (3,)
        rotation: its frame in the previous frame                              (3, 3)
        axis: axis in its own frame                                            (3,)
        reference: its qpos0 [m or rad]
    """

    index: int
    hinge: bool
    offset: Array
    rotation: Array
    axis: Array
    reference: float


@dataclasses.dataclass(frozen=True, eq=False)
class Chain:
    """The hinges and slides from the world to a site, and the site in the frame after the last, (3,)."""

    joints: tuple[_Joint, ...]
    site: Array

    def position(self, xp: Any, joints: Any) -> Any:
        """Position of the site (3,) [m], given the joints of the hand (nr,)."""
        point = xp.asarray(self.site)
        for joint in reversed(self.joints):
            q = joints[joint.index] - joint.reference
            axis = xp.asarray(joint.axis)
            if joint.hinge:
                once = cross(xp, axis, point)
                point = point + xp.sin(q) * once + (1.0 - xp.cos(q)) * cross(xp, axis, once)
            else:
                point = point + q * axis
            point = xp.asarray(joint.offset) + xp.asarray(joint.rotation) @ point
        return point


def chains(mjm: mujoco.MjModel, sites: Sequence[str]) -> tuple[Chain, ...]:
    """The kinematic chains of fingertips, given by their sites."""
    return tuple(chain(mjm, mjm.site(site).id) for site in sites)


def chain(mjm: mujoco.MjModel, site: int) -> Chain:
    """The kinematic chain of a site; its joints must be hinges and slides that come first in `qpos`."""
    bodies = [int(mjm.site_bodyid[site])]
    while bodies[-1] > 0:
        bodies.append(int(mjm.body_parentid[bodies[-1]]))
    joints: list[_Joint] = []
    offset, rotation = np.zeros(3), np.eye(3)  # of the current frame in the frame after the last joint
    for body in reversed(bodies):
        offset, rotation = offset + rotation @ mjm.body_pos[body], rotation @ _matrix(mjm.body_quat[body])
        first = int(mjm.body_jntadr[body])
        for j in range(first, first + int(mjm.body_jntnum[body])):
            kind = mujoco.mjtJoint(int(mjm.jnt_type[j]))
            if kind not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
                raise Unsupported(f"joint {mjm.joint(j).name!r} leads to a fingertip: it must be a hinge or a slide")
            if mjm.jnt_qposadr[j] != mjm.jnt_dofadr[j]:
                raise Unsupported(f"joint {mjm.joint(j).name!r} must come before the object's free joint in the scene")
            hinge = kind == mujoco.mjtJoint.mjJNT_HINGE
            anchor = mjm.jnt_pos[j] if hinge else np.zeros(3)
            address = int(mjm.jnt_qposadr[j])
            axis, reference = mjm.jnt_axis[j].copy(), float(mjm.qpos0[address])
            joints.append(_Joint(address, hinge, offset + rotation @ anchor, rotation, axis, reference))
            offset, rotation = -anchor, np.eye(3)
    return Chain(tuple(joints), offset + rotation @ mjm.site_pos[site])


def _matrix(quat: Array) -> Array:
    out = np.empty(9)
    mujoco.mju_quat2Mat(out, quat)
    return out.reshape(3, 3)
