"""Row-free contact: relative velocity and wrench along the chain of dofs, without Jacobian rows.

MuJoCo Warp keeps `cdof`, the motion of each dof as a spatial vector (angular, linear) about
`subtree_com` of the dof's tree. The velocity of a body is a sum over its chain of dofs, and the
generalized force of a wrench is the product with the same vectors, so a contact needs O(1) memory.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func
def body_twist(
    # Model:
    body_weldid: wp.array[int],
    body_dofnum: wp.array[int],
    body_dofadr: wp.array[int],
    dof_parentid: wp.array[int],
    # Data in:
    cdof_in: wp.array2d[wp.spatial_vector],
    # In:
    qvel_in: wp.array2d[float],
    qacc_in: wp.array2d[float],
    timestep: float,
    worldid: int,
    bodyid: int,
) -> wp.spatial_vector:
    """Twist of a body about its tree's subtree_com for the joint velocity qvel + timestep qacc."""
    twist = wp.spatial_vector()
    weldid = body_weldid[bodyid]
    dofid = body_dofadr[weldid] + body_dofnum[weldid] - 1
    if body_dofnum[weldid] == 0:
        dofid = -1
    while dofid >= 0:
        twist += cdof_in[worldid, dofid] * (qvel_in[worldid, dofid] + timestep * qacc_in[worldid, dofid])
        dofid = dof_parentid[dofid]
    return twist


@wp.func
def point_velocity(twist: wp.spatial_vector, arm: wp.vec3) -> wp.vec3:
    """Velocity of the point at `arm` from the reference point of the twist: v + omega x r."""
    return wp.spatial_bottom(twist) + wp.cross(wp.spatial_top(twist), arm)


@wp.func
def wrench_at(force: wp.vec3, torque: wp.vec3, arm: wp.vec3) -> wp.spatial_vector:
    """Wrench (torque, force) about the reference point, of a force that acts at `arm` from it."""
    return wp.spatial_vector(torque + wp.cross(arm, force), force)


@wp.func
def mul_quat(a: wp.quat, b: wp.quat) -> wp.quat:
    """Product of quaternions stored as MuJoCo stores them: w, x, y, z."""
    va = wp.vec3(a[1], a[2], a[3])
    vb = wp.vec3(b[1], b[2], b[3])
    v = a[0] * vb + b[0] * va + wp.cross(va, vb)
    return wp.quat(a[0] * b[0] - wp.dot(va, vb), v[0], v[1], v[2])


@wp.func
def conjugate(q: wp.quat) -> wp.quat:
    return wp.quat(q[0], -q[1], -q[2], -q[3])


@wp.func
def impedance(solimp: wp.types.vector(length=5, dtype=float), phi: float) -> float:
    """MuJoCo's impedance curve r(|phi|), equation (13), with MuJoCo's limits on its parameters."""
    r_min = wp.clamp(solimp[0], 1.0e-4, 0.9999)
    r_max = wp.clamp(solimp[1], 1.0e-4, 0.9999)
    width = solimp[2]
    mid = wp.clamp(solimp[3], 1.0e-4, 0.9999)
    power = wp.max(1.0, solimp[4])

    if r_min == r_max or width <= 1.0e-15:
        return 0.5 * (r_min + r_max)
    x = wp.abs(phi) / width
    if x >= 1.0:
        return r_max
    if x == 0.0:
        return r_min
    y = x
    if power != 1.0:
        if x <= mid:
            y = wp.pow(x, power) / wp.pow(mid, power - 1.0)
        else:
            y = 1.0 - wp.pow(1.0 - x, power) / wp.pow(1.0 - mid, power - 1.0)
    return wp.clamp(r_min + y * (r_max - r_min), r_min, r_max)
