"""The joints between the world and each fingertip, so that a kernel finds a fingertip from `qpos` alone."""

import dataclasses

import mujoco
import numpy as np
import warp as wp

from stickslip.errors import Unsupported
from stickslip.mpc.task import Problem

_HINGE, _SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)


@dataclasses.dataclass(frozen=True, eq=False)
class Chains:
    """One chain of joints for each fingertip, the joints of all chains one after another; on the device.

    Attributes:
        start: first joint of each chain, and the number of all joints                   (ntip + 1,)
        frame: body of the joint seen from the joint before (or the world), at rest      (n,)
        hinge: 1 for a hinge, 0 for a slide                                              (n,)
        axis: of the joint, seen from its body                                           (n,)
        anchor: point on the axis of a hinge, likewise [m]                               (n,)
        adr: where the joint is in `qpos`                                                (n,)
        rest: `qpos0` of the joint                                                       (n,)
        tip: the site, seen from the body of the last joint [m]                          (ntip,)
    """

    start: wp.array
    frame: wp.array
    hinge: wp.array
    axis: wp.array
    anchor: wp.array
    adr: wp.array
    rest: wp.array
    tip: wp.array

    def arrays(self) -> list[wp.array]:
        """All of them, in the order in which the kernels take them."""
        return [getattr(self, f.name) for f in dataclasses.fields(self)]


def make_chains(problem: Problem) -> Chains:
    """The chains of the fingertips of a problem, on the current device."""
    m = problem.mjm
    start, frame, hinge, axis, anchor, adr, rest, tips = [0], [], [], [], [], [], [], []
    for site in problem.tips:
        bodies, body = [], int(m.site_bodyid[site])
        while body:
            bodies.append(body)
            body = int(m.body_parentid[body])
        fixed = _Frame()
        for body in reversed(bodies):
            fixed = fixed.then(m.body_pos[body], m.body_quat[body])
            for joint in range(m.body_jntadr[body], m.body_jntadr[body] + m.body_jntnum[body]):
                kind = int(m.jnt_type[joint])
                if kind not in (_HINGE, _SLIDE):
                    raise Unsupported(
                        f"fingertip {m.site(site).name!r} hangs on joint {m.joint(joint).name!r}, a "
                        f"{mujoco.mjtJoint(kind).name[6:].lower()} joint: mppi follows hinges and slides only"
                    )
                place = int(m.jnt_qposadr[joint])
                frame.append([*fixed.pos, *fixed.quat[1:], fixed.quat[0]])  # Warp's transform: x, y, z, w
                hinge.append(int(kind == _HINGE))
                axis.append(m.jnt_axis[joint])
                anchor.append(m.jnt_pos[joint])
                adr.append(place)
                rest.append(m.qpos0[place])
                fixed = _Frame()
        start.append(len(adr))
        tips.append(fixed.then(m.site_pos[site], m.site_quat[site]).pos)
    n = len(adr)
    return Chains(
        start=wp.array(start, dtype=int),
        frame=wp.array(np.reshape(frame, (n, 7)), dtype=wp.transform),
        hinge=wp.array(hinge, dtype=int),
        axis=wp.array(np.reshape(axis, (n, 3)), dtype=wp.vec3),
        anchor=wp.array(np.reshape(anchor, (n, 3)), dtype=wp.vec3),
        adr=wp.array(adr, dtype=int),
        rest=wp.array(rest, dtype=float),
        tip=wp.array(np.reshape(tips, (len(tips), 3)), dtype=wp.vec3),
    )


class _Frame:
    """A fixed frame seen from another."""

    def __init__(self) -> None:
        self.pos, self.quat = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])

    def then(self, pos: np.ndarray, quat: np.ndarray) -> "_Frame":
        """The frame at `pos` and `quat` seen from this one."""
        out, moved, turned = _Frame(), np.empty(3), np.empty(4)
        mujoco.mju_rotVecQuat(moved, np.asarray(pos, dtype=float), self.quat)
        mujoco.mju_mulQuat(turned, self.quat, np.asarray(quat, dtype=float))
        out.pos, out.quat = self.pos + moved, turned
        return out
