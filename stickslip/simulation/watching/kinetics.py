"""Kinetic and potential energy of every world from positions and velocities alone, the same for every physics."""

import warp as wp

wp.set_module_options({"enable_backward": False})

FREE = wp.constant(0)
BALL = wp.constant(1)
SLIDE = wp.constant(2)


@wp.struct
class Tree:
    """What a model says of its bodies and joints; fields with an axis of worlds have one row, or one for each."""

    body_parentid: wp.array(dtype=int)
    body_jntadr: wp.array(dtype=int)
    body_jntnum: wp.array(dtype=int)
    body_mocapid: wp.array(dtype=int)
    jnt_type: wp.array(dtype=int)
    jnt_qposadr: wp.array(dtype=int)
    jnt_dofadr: wp.array(dtype=int)
    qpos0: wp.array2d(dtype=float)
    body_pos: wp.array2d(dtype=wp.vec3)
    body_quat: wp.array2d(dtype=wp.quat)
    body_ipos: wp.array2d(dtype=wp.vec3)
    body_iquat: wp.array2d(dtype=wp.quat)
    body_mass: wp.array2d(dtype=float)
    body_inertia: wp.array2d(dtype=wp.vec3)
    jnt_pos: wp.array2d(dtype=wp.vec3)
    jnt_axis: wp.array2d(dtype=wp.vec3)
    dof_armature: wp.array2d(dtype=float)
    gravity: wp.array(dtype=wp.vec3)
    timestep: wp.array(dtype=float)


@wp.func
def _mul(a: wp.quat, b: wp.quat):
    """Product of quaternions in MuJoCo's order, w first."""
    return wp.quat(
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


@wp.func
def _rotate(q: wp.quat, v: wp.vec3):
    u = wp.vec3(q[1], q[2], q[3])
    return v + 2.0 * wp.cross(u, wp.cross(u, v) + q[0] * v)


@wp.func
def _unit(w: float, x: float, y: float, z: float):
    norm = wp.sqrt(w * w + x * x + y * y + z * z)
    if norm < 1.0e-15:
        return wp.quat(1.0, 0.0, 0.0, 0.0)
    return wp.quat(w / norm, x / norm, y / norm, z / norm)


@wp.kernel
def measure_energy(
    # Model:
    tree: Tree,
    # Data in:
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    mocap_pos: wp.array2d[wp.vec3],
    mocap_quat: wp.array2d[wp.quat],
    # Scratch, (nworld, nbody):
    pos: wp.array2d[wp.vec3],
    quat: wp.array2d[wp.quat],
    spin: wp.array2d[wp.vec3],
    drift: wp.array2d[wp.vec3],
    # Out:
    kinetic_out: wp.array2d[float],
    speed_out: wp.array2d[wp.vec2],
    energy_out: wp.array[wp.float64],
):
    """Kinetic energy and speeds (of the centre of mass, of turning) of each body; total energy of each world.

    The velocity of a point p of a body is drift + spin x p.
    """
    w = wp.tid()
    gravity = tree.gravity[w % tree.gravity.shape[0]]
    pos[w, 0] = wp.vec3()
    quat[w, 0] = wp.quat(1.0, 0.0, 0.0, 0.0)
    spin[w, 0] = wp.vec3()
    drift[w, 0] = wp.vec3()
    kinetic_out[w, 0] = 0.0
    speed_out[w, 0] = wp.vec2()
    total = wp.float64(0.0)
    for b in range(1, tree.body_parentid.shape[0]):
        parent = tree.body_parentid[b]
        p = pos[w, parent] + _rotate(quat[w, parent], tree.body_pos[w % tree.body_pos.shape[0], b])
        q = _mul(quat[w, parent], tree.body_quat[w % tree.body_quat.shape[0], b])
        turn = spin[w, parent]
        move = drift[w, parent]
        mocap = tree.body_mocapid[b]
        if mocap >= 0:
            given = mocap_quat[w, mocap]
            p = mocap_pos[w, mocap]
            q = _unit(given[0], given[1], given[2], given[3])
        own = float(0.0)
        for j in range(tree.body_jntadr[b], tree.body_jntadr[b] + tree.body_jntnum[b]):
            kind = tree.jnt_type[j]
            qa = tree.jnt_qposadr[j]
            va = tree.jnt_dofadr[j]
            armature = tree.dof_armature[w % tree.dof_armature.shape[0], va]
            if kind == FREE:
                p = wp.vec3(qpos[w, qa], qpos[w, qa + 1], qpos[w, qa + 2])
                q = _unit(qpos[w, qa + 3], qpos[w, qa + 4], qpos[w, qa + 5], qpos[w, qa + 6])
                turn = _rotate(q, wp.vec3(qvel[w, va + 3], qvel[w, va + 4], qvel[w, va + 5]))
                move = wp.vec3(qvel[w, va], qvel[w, va + 1], qvel[w, va + 2]) - wp.cross(turn, p)
                for i in range(6):
                    own += 0.5 * tree.dof_armature[w % tree.dof_armature.shape[0], va + i] * qvel[w, va + i] ** 2.0
                continue
            anchor = p + _rotate(q, tree.jnt_pos[w % tree.jnt_pos.shape[0], j])
            if kind == SLIDE:
                axis = _rotate(q, tree.jnt_axis[w % tree.jnt_axis.shape[0], j])
                p = p + axis * (qpos[w, qa] - tree.qpos0[w % tree.qpos0.shape[0], qa])
                move = move + axis * qvel[w, va]
                own += 0.5 * armature * qvel[w, va] * qvel[w, va]
                continue
            rate = wp.vec3()
            local = wp.quat(1.0, 0.0, 0.0, 0.0)
            if kind == BALL:
                local = _unit(qpos[w, qa], qpos[w, qa + 1], qpos[w, qa + 2], qpos[w, qa + 3])
                of_joint = wp.vec3(qvel[w, va], qvel[w, va + 1], qvel[w, va + 2])
                rate = _rotate(_mul(q, local), of_joint)
                own += 0.5 * armature * wp.dot(of_joint, of_joint)
            else:
                along = tree.jnt_axis[w % tree.jnt_axis.shape[0], j]
                half = 0.5 * (qpos[w, qa] - tree.qpos0[w % tree.qpos0.shape[0], qa])
                local = wp.quat(wp.cos(half), along[0] * wp.sin(half), along[1] * wp.sin(half), along[2] * wp.sin(half))
                rate = _rotate(q, along) * qvel[w, va]
                own += 0.5 * armature * qvel[w, va] * qvel[w, va]
            q = _mul(q, local)
            p = anchor - _rotate(q, tree.jnt_pos[w % tree.jnt_pos.shape[0], j])
            turn = turn + rate
            move = move + wp.cross(anchor, rate)
        q = _unit(q[0], q[1], q[2], q[3])
        pos[w, b] = p
        quat[w, b] = q
        spin[w, b] = turn
        drift[w, b] = move
        mass = tree.body_mass[w % tree.body_mass.shape[0], b]
        centre = p + _rotate(q, tree.body_ipos[w % tree.body_ipos.shape[0], b])
        velocity = move + wp.cross(turn, centre)
        frame = _mul(q, tree.body_iquat[w % tree.body_iquat.shape[0], b])
        back = wp.quat(frame[0], -frame[1], -frame[2], -frame[3])
        inside = _rotate(back, turn)
        inertia = tree.body_inertia[w % tree.body_inertia.shape[0], b]
        own += 0.5 * mass * wp.dot(velocity, velocity) + 0.5 * wp.dot(wp.cw_mul(inertia, inside), inside)
        kinetic_out[w, b] = own
        speed_out[w, b] = wp.vec2(wp.length(velocity), wp.length(turn))
        total += wp.float64(own) - wp.float64(mass) * wp.float64(wp.dot(gravity, centre))
    energy_out[w] = total
