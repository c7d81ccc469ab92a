"""Kinematic chains of the fingertips, for kernels that compute fingertip positions from `qpos` alone."""

import dataclasses

import mujoco
import numpy as np
import warp as wp

from stickslip.mpc.model import kinematics
from stickslip.mpc.task import Array, Problem


@dataclasses.dataclass(frozen=True, eq=False)
class Chains:
    """One chain of joints per fingertip, concatenated; on the device.

    Attributes:
        start: first joint of each chain, and the total number of joints                 (ntip + 1,)
        frame: frame of the joint in that of the previous joint (or the world)           (n,)
        hinge: 1 for a hinge, 0 for a slide                                              (n,)
        axis: axis of the joint in its frame                                             (n,)
        adr: address of the joint in `qpos`                                              (n,)
        rest: `qpos0` of the joint                                                       (n,)
        tip: the site in the frame of the last joint [m]                                 (ntip,)
    """

    start: wp.array
    frame: wp.array
    hinge: wp.array
    axis: wp.array
    adr: wp.array
    rest: wp.array
    tip: wp.array

    def arrays(self) -> list[wp.array]:
        """All arrays, in the order of the kernels' arguments."""
        return [getattr(self, f.name) for f in dataclasses.fields(self)]


def make_chains(problem: Problem) -> Chains:
    """The chains of the fingertips of a problem, on the current device."""
    found = kinematics.chains(problem)
    joints = [joint for chain in found for joint in chain.joints]
    return Chains(
        start=wp.array(np.cumsum([0, *(len(chain.joints) for chain in found)]), dtype=int),
        frame=wp.array(np.array([_transform(joint.offset, joint.rotation) for joint in joints]), dtype=wp.transform),
        hinge=wp.array([int(joint.hinge) for joint in joints], dtype=int),
        axis=wp.array(np.array([joint.axis for joint in joints]), dtype=wp.vec3),
        adr=wp.array([joint.index for joint in joints], dtype=int),
        rest=wp.array([joint.reference for joint in joints], dtype=float),
        tip=wp.array(np.array([chain.site for chain in found]), dtype=wp.vec3),
    )


def _transform(pos: Array, rotation: Array) -> list[float]:
    """Warp's transform: x, y, z, then the quaternion with w last."""
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rotation).reshape(-1))
    return [*pos, *quat[1:], quat[0]]
