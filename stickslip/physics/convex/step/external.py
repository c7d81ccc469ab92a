"""Systems of the user's own that act on a model, z' = h(z, x), tau = g(z, x), integrated implicitly: (26) to (29)."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import warp as wp

from stickslip.errors import InputError
from stickslip.physics.convex.step.layout import RowSet
from stickslip.physics.convex.step.motion import move_joint
from stickslip.physics.convex.step.potential import real

wp.set_module_options({"enable_backward": False})

_STEP = wp.constant(wp.float64(1.0e-7))
"""Of forward differences, relative to the size of what is changed, at least 1."""


@dataclasses.dataclass(frozen=True)
class External:
    """A system that reads the state of a world and acts on some of its dofs.

    `force` and `derivative` are Warp functions of positions, velocities and the system's own state, all in double
    precision, that write into their last argument:

        @wp.func
        def force(qpos: wp.array[wp.float64], qvel: wp.array[wp.float64], z: wp.array[wp.float64],
                  out: wp.array[wp.float64]):
            out[0] = -k * qpos[0] - z[0]

    Attributes:
        dofs: the dofs that it acts on
        force: g, the force on each of them [N, N m]
        derivative: h, how fast each number of its state changes; None if it has no state
        start: the state at the start, one number each
        effort: largest force on each dof, one for all or one each; None: no limit
    """

    dofs: Sequence[int]
    force: Any
    derivative: Any = None
    start: Sequence[float] = ()
    effort: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dofs", _numbers("dofs", self.dofs, whole=True))
        object.__setattr__(self, "start", _numbers("start", self.start))
        if not self.dofs or len(set(self.dofs)) < len(self.dofs):
            raise InputError(f"dofs is {self.dofs}: name one dof or more, each of them once")
        for name in ("force", "derivative"):
            value = getattr(self, name)
            if not isinstance(value, wp.Function) and not (name == "derivative" and value is None):
                raise InputError(f"{name} is {value!r}: it must be a Warp function, made with @wp.func")
        if bool(self.start) != (self.derivative is not None):
            raise InputError("a system with a state needs both `derivative` and `start`, one without has neither")
        if self.effort is not None:
            efforts = self.effort if isinstance(self.effort, (Sequence, np.ndarray)) else [self.effort]
            efforts = _numbers("effort", efforts)
            if len(efforts) not in (1, len(self.dofs)) or min(efforts) <= 0.0:
                raise InputError(
                    f"effort is {self.effort}: give one positive number, or one for each of {len(self.dofs)} dofs"
                )

    def check(self, mjm: mujoco.MjModel) -> None:
        """Raise InputError unless the model has the dofs."""
        for dof in self.dofs:
            if not 0 <= dof < mjm.nv:
                raise InputError(f"dofs has {dof}: the model has dofs 0 to {mjm.nv - 1}; choose among them")

    def efforts(self) -> list[float]:
        """Largest force on each dof."""
        limit = 1e30 if self.effort is None else self.effort
        return np.broadcast_to(np.asarray(limit, dtype=float), len(self.dofs)).tolist()


def _numbers(name: str, values: Any, *, whole: bool = False) -> tuple[Any, ...]:
    """The values as finite numbers, or whole ones; raises InputError naming the argument."""
    wanted = "whole numbers" if whole else "finite numbers"
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)):
        raise InputError(f"{name} is {values!r}: give a list of {wanted}")
    for value in values:
        fit = isinstance(value, (int, np.integer)) or (not whole and isinstance(value, (float, np.floating)))
        if not fit or isinstance(value, bool) or not math.isfinite(value):
            raise InputError(f"{name} has {value!r}: give {wanted}")
    return tuple(int(value) if whole else float(value) for value in values)


@wp.struct
class Linear:
    """An external system near the state of a step, and the arrays to find it; all in double precision.

    Attributes:
        row: first of its rows
        z: its state at the start of the step                          (nworld, nz)
        gain, bias: (28), the state at the end for a velocity v: gain v + bias    (nworld, nz * nv), (nworld, nz)
        slope: of h over z, then I - dt of it                          (nworld, nz * nz)
        qpos, qvel, zs: where h and g are asked                        (nworld, nq), (nworld, nv), (nworld, nz)
        h0, h1: what h says                                            (nworld, nz)
        tau0, tau1: what g says                                        (nworld, ndof)
        effort: largest force                                          (ndof,)
        dof: the dofs                                                  (ndof,)
    """

    row: int
    z: wp.array2d[wp.float64]
    gain: wp.array2d[wp.float64]
    bias: wp.array2d[wp.float64]
    slope: wp.array2d[wp.float64]
    qpos: wp.array2d[wp.float64]
    qvel: wp.array2d[wp.float64]
    zs: wp.array2d[wp.float64]
    h0: wp.array2d[wp.float64]
    h1: wp.array2d[wp.float64]
    tau0: wp.array2d[wp.float64]
    tau1: wp.array2d[wp.float64]
    effort: wp.array[wp.float64]
    dof: wp.array[int]


def make_linear(external: External, mjm: mujoco.MjModel, nworld: int, row: int) -> Linear:
    """Workspace for an external system whose first row is `row`."""
    nz, n = len(external.start), len(external.dofs)
    linear = Linear()
    linear.row = row
    sizes = {"gain": nz * mjm.nv, "slope": nz * nz, "qpos": mjm.nq, "qvel": mjm.nv, "tau0": n, "tau1": n}
    for name in Linear.vars:
        if name not in ("row", "effort", "dof"):
            setattr(linear, name, wp.zeros((nworld, sizes.get(name, nz)), dtype=real))
    linear.effort = wp.array(external.efforts(), dtype=real)
    linear.dof = wp.array(external.dofs, dtype=int)
    return linear


@wp.func
def solve_dense(a: wp.array[real], n: int, gain: wp.array[real], nv: int, bias: wp.array[real]):
    """gain and bias become a^-1 of themselves: Gauss, with the largest pivot first."""
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if wp.abs(a[i * n + k]) > wp.abs(a[best * n + k]):
                best = i
        if best != k:
            for j in range(n):
                keep = a[k * n + j]
                a[k * n + j] = a[best * n + j]
                a[best * n + j] = keep
            for j in range(nv):
                keep_gain = gain[k * nv + j]
                gain[k * nv + j] = gain[best * nv + j]
                gain[best * nv + j] = keep_gain
            keep_bias = bias[k]
            bias[k] = bias[best]
            bias[best] = keep_bias
        for i in range(n):
            if i != k:
                share = a[i * n + k] / a[k * n + k]
                for j in range(n):
                    a[i * n + j] -= share * a[k * n + j]
                for j in range(nv):
                    gain[i * nv + j] -= share * gain[k * nv + j]
                bias[i] -= share * bias[k]
    for i in range(n):
        pivot = a[i * n + i]
        for j in range(nv):
            gain[i * nv + j] /= pivot
        bias[i] /= pivot


@functools.cache
def linearize_kernel(force: Any, derivative: Any) -> wp.Kernel:
    """The kernel that linearizes a system around the start of a step of dt."""
    has_state = derivative is not None
    rate = derivative if has_state else force

    @wp.kernel(module="unique", enable_backward=False)
    def linearize(
        # Model:
        jnt_type: wp.array[int],
        jnt_qposadr: wp.array[int],
        jnt_dofadr: wp.array[int],
        dof_jntid: wp.array[int],
        # In:
        dt_in: wp.array[real],
        scale: real,
        qpos_in: wp.array2d[real],
        qvel_in: wp.array2d[real],
        # Out:
        linear: Linear,
        rows: RowSet,
    ):
        """(26) to (29) by forward differences, one world a thread; the force becomes the law of rows, one a dof."""
        worldid = wp.tid()
        dt = dt_in[worldid] * scale
        if not (dt > real(0.0)):
            return
        nv = qvel_in.shape[1]
        nz = linear.z.shape[1]
        qpos = linear.qpos[worldid]
        qvel = linear.qvel[worldid]
        zs = linear.zs[worldid]
        for joint in range(jnt_type.shape[0]):
            move_joint(jnt_type, jnt_qposadr, jnt_dofadr, dt, qpos_in, qvel_in, linear.qpos, worldid, joint)
        for i in range(nv):
            qvel[i] = qvel_in[worldid, i]
        gain = linear.gain[worldid]
        bias = linear.bias[worldid]
        if wp.static(has_state):
            slope = linear.slope[worldid]
            h0 = linear.h0[worldid]
            h1 = linear.h1[worldid]
            for i in range(nz):
                zs[i] = linear.z[worldid, i]
            rate(qpos, qvel, zs, h0)
            for i in range(nz):
                bias[i] = h0[i]
            for j in range(nz):
                keep = zs[j]
                step = _STEP * wp.max(wp.abs(keep), real(1.0))
                zs[j] = keep + step
                rate(qpos, qvel, zs, h1)
                zs[j] = keep
                for i in range(nz):
                    change = (h1[i] - h0[i]) / step
                    bias[i] -= change * keep
                    slope[i * nz + j] = wp.where(i == j, real(1.0), real(0.0)) - dt * change
            for j in range(nv):
                keep = qvel[j]
                step = _STEP * wp.max(wp.abs(keep), real(1.0))
                qvel[j] = keep + step
                joint = dof_jntid[j]
                move_joint(jnt_type, jnt_qposadr, jnt_dofadr, dt, qpos_in, linear.qvel, linear.qpos, worldid, joint)
                rate(qpos, qvel, zs, h1)
                qvel[j] = keep
                move_joint(jnt_type, jnt_qposadr, jnt_dofadr, dt, qpos_in, linear.qvel, linear.qpos, worldid, joint)
                for i in range(nz):
                    change = (h1[i] - h0[i]) / step
                    bias[i] -= change * keep
                    gain[i * nv + j] = dt * change
            for i in range(nz):
                bias[i] = linear.z[worldid, i] + dt * bias[i]
            solve_dense(slope, nz, gain, nv, bias)
            for i in range(nz):
                zs[i] = bias[i]
                for j in range(nv):
                    zs[i] += gain[i * nv + j] * qvel[j]
        tau0 = linear.tau0[worldid]
        tau1 = linear.tau1[worldid]
        force(qpos, qvel, zs, tau0)
        for k in range(linear.dof.shape[0]):
            j = linear.dof[k]
            keep = qvel[j]
            step = _STEP * wp.max(wp.abs(keep), real(1.0))
            qvel[j] = keep + step
            joint = dof_jntid[j]
            move_joint(jnt_type, jnt_qposadr, jnt_dofadr, dt, qpos_in, linear.qvel, linear.qpos, worldid, joint)
            for i in range(nz):
                zs[i] += gain[i * nv + j] * step
            force(qpos, qvel, zs, tau1)
            qvel[j] = keep
            move_joint(jnt_type, jnt_qposadr, jnt_dofadr, dt, qpos_in, linear.qvel, linear.qpos, worldid, joint)
            for i in range(nz):
                zs[i] -= gain[i * nv + j] * step
            r = linear.row + k
            rows.residual[worldid, r] = tau0[k]
            rows.rate[worldid, r] = wp.max((tau0[k] - tau1[k]) / step, real(0.0))
            rows.vel[worldid, r] = keep
            rows.low[worldid, r] = -linear.effort[k]
            rows.high[worldid, r] = linear.effort[k]

    return linearize


@wp.kernel
def advance_external(
    # In:
    dt_in: wp.array[real],
    v_in: wp.array2d[real],
    linear: Linear,
    # Out:
    z_out: wp.array2d[real],
):
    """(28): the state of the system after a step that ended with the velocity v."""
    worldid = wp.tid()
    if dt_in[worldid] > real(0.0):
        nv = v_in.shape[1]
        for i in range(z_out.shape[1]):
            total = linear.bias[worldid, i]
            for j in range(nv):
                total += linear.gain[worldid, i * nv + j] * v_in[worldid, j]
            z_out[worldid, i] = total


def linearize(
    m: Any, system: "System", rows: RowSet, dt: wp.array, scale: float, qpos: wp.array, qvel: wp.array, z: wp.array
) -> None:
    """Put an external system into the rows of a step of scale dt that starts at (qpos, qvel, z)."""
    system.linear.z = z
    wp.launch(
        linearize_kernel(system.external.force, system.external.derivative),
        dim=qpos.shape[0],
        inputs=[m.jnt_type, m.jnt_qposadr, m.jnt_dofadr, m.dof_jntid, dt, scale, qpos, qvel],
        outputs=[system.linear, rows],
    )


def advance(system: "System", dt: wp.array, v: wp.array, z: wp.array) -> None:
    """z = the state of the system after the step it was linearized for, which ended with v."""
    if z.shape[1]:
        wp.launch(advance_external, dim=v.shape[0], inputs=[dt, v, system.linear], outputs=[z])


@dataclasses.dataclass
class System:
    """An external system and what it keeps with the data.

    Attributes:
        external: what the user gave
        linear: how it acts near the start of a step
        z: its state                                                     (nworld, nz)
        z_mid, z_end: in the middle and at the end of a step             (nworld, nz)
    """

    external: External
    linear: Linear
    z: wp.array
    z_mid: wp.array
    z_end: wp.array


def make_system(external: External, mjm: mujoco.MjModel, nworld: int, rows: RowSet) -> System:
    """An external system at its start; its rows are the last ones."""
    linear = make_linear(external, mjm, nworld, rows.n - len(external.dofs))
    nz = len(external.start)
    start = np.tile(np.asarray(external.start, dtype=float), (nworld, 1))
    return System(external, linear, *(wp.array(start, dtype=real, shape=(nworld, nz)) for _ in range(3)))
