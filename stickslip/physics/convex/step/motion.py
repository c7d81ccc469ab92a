"""Positions in double precision: what MuJoCo Warp's single precision sees of them, and how velocities move them."""

import mujoco
import warp as wp

from stickslip.physics.convex.step.potential import real

wp.set_module_options({"enable_backward": False})

vec4d = wp.types.vector(length=4, dtype=wp.float64)

_FREE = wp.constant(int(mujoco.mjtJoint.mjJNT_FREE))
_BALL = wp.constant(int(mujoco.mjtJoint.mjJNT_BALL))


@wp.func
def turned(q: vec4d, omega: wp.vec3d, dt: real) -> vec4d:
    """A quaternion (w, x, y, z) after turning with omega, in its own frame, for dt; normalized."""
    speed = wp.length(omega)
    half = real(0.5) * dt * speed
    s = real(0.5) * dt
    if half > real(1.0e-12):
        s = wp.sin(half) / speed
    w = wp.cos(half)
    x = s * omega[0]
    y = s * omega[1]
    z = s * omega[2]
    out = vec4d(
        q[0] * w - q[1] * x - q[2] * y - q[3] * z,
        q[0] * x + q[1] * w + q[2] * z - q[3] * y,
        q[0] * y - q[1] * z + q[2] * w + q[3] * x,
        q[0] * z + q[1] * y - q[2] * x + q[3] * w,
    )
    return out / wp.length(out)


@wp.func
def move_joint(
    # Model:
    jnt_type: wp.array[int],
    jnt_qposadr: wp.array[int],
    jnt_dofadr: wp.array[int],
    # In:
    dt: real,
    qpos_in: wp.array2d[real],
    qvel_in: wp.array2d[real],
    # Out:
    qpos_out: wp.array2d[real],
    worldid: int,
    joint: int,
):
    """qpos + dt qvel of one joint."""
    a = jnt_qposadr[joint]
    b = jnt_dofadr[joint]
    kind = jnt_type[joint]
    if kind == _FREE:
        for k in range(3):
            qpos_out[worldid, a + k] = qpos_in[worldid, a + k] + dt * qvel_in[worldid, b + k]
        a += 3
        b += 3
    if kind == _FREE or kind == _BALL:  # noqa: SIM109 - Warp knows no `in`
        q = vec4d(qpos_in[worldid, a], qpos_in[worldid, a + 1], qpos_in[worldid, a + 2], qpos_in[worldid, a + 3])
        q = turned(q, wp.vec3d(qvel_in[worldid, b], qvel_in[worldid, b + 1], qvel_in[worldid, b + 2]), dt)
        for k in range(4):
            qpos_out[worldid, a + k] = q[k]
    else:
        qpos_out[worldid, a] = qpos_in[worldid, a] + dt * qvel_in[worldid, b]


@wp.kernel
def move(
    # Model:
    jnt_type: wp.array[int],
    jnt_qposadr: wp.array[int],
    jnt_dofadr: wp.array[int],
    # In:
    dt_in: wp.array[real],
    scale: real,
    qpos_in: wp.array2d[real],
    qvel_in: wp.array2d[real],
    # Out:
    qpos_out: wp.array2d[real],
):
    """qpos + dt qvel; the same qpos where dt is not positive."""
    worldid, joint = wp.tid()
    dt = wp.max(dt_in[worldid] * scale, real(0.0))
    move_joint(jnt_type, jnt_qposadr, jnt_dofadr, dt, qpos_in, qvel_in, qpos_out, worldid, joint)


@wp.kernel
def show(
    # In:
    exact_in: wp.array2d[real],
    # Out:
    shown_out: wp.array2d[float],
):
    """What single precision shows of exact numbers."""
    worldid, i = wp.tid()
    shown_out[worldid, i] = float(exact_in[worldid, i])


@wp.kernel
def take(
    # In:
    shown_in: wp.array2d[float],
    # In and out:
    exact: wp.array2d[real],
):
    """Exact numbers follow what was written to the shown ones; where nothing was, they keep their last digits."""
    worldid, i = wp.tid()
    if float(exact[worldid, i]) != shown_in[worldid, i]:
        exact[worldid, i] = real(shown_in[worldid, i])
