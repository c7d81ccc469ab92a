"""Inverse weights at qpos0: how much dofs, bodies, tendons and actuators move by a unit force.

The same numbers as MuJoCo's `mj_setConst`. `mujoco_warp.set_const` solves for one vector after another and launches
kernels for each, and it gives a body that cannot move in one way (a turntable) the weight of the other way. Here all
vectors are solved at once, one thread each: with M = L' D L, the weight of a vector y is y' M^-1 y, the square of
D^-1/2 L'^-1 y, so that half a solve is enough.
"""

import mujoco
import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp.lanes import WARP, sync_warp

wp.set_module_options({"enable_backward": False})

_FREE = wp.constant(int(mujoco.mjtJoint.mjJNT_FREE))
_BALL = wp.constant(int(mujoco.mjtJoint.mjJNT_BALL))
_SLIDES = wp.constant(2)
"""In `body_simple`: a body of the world whose joints slide along its own axes."""


@wp.kernel
def _factor(
    # Model:
    nv: int,
    M_rownnz: wp.array[int],
    M_rowadr: wp.array[int],
    M_colind: wp.array[int],
    # Data in:
    M_in: wp.array2d[float],
    # In:
    nlane: int,
    # Out:
    L_out: wp.array2d[float],
    Dinv_out: wp.array2d[float],
):
    """M = L' D L by a few lanes per world; a row of M has the ancestors of its dof, itself last."""
    thread = wp.tid()
    worldid = thread / nlane
    lane = thread - worldid * nlane
    for e in range(lane, L_out.shape[1], nlane):
        L_out[worldid, e] = M_in[worldid, e]
    sync_warp(nlane)
    for n in range(nv):
        k = nv - 1 - n
        adr = M_rowadr[k]
        last = M_rownnz[k] - 1
        inverse = 1.0 / L_out[worldid, adr + last]
        for p in range(lane, last * last, nlane):  # rows of the ancestors, none of which is the row itself
            a = p / last
            b = p - a * last
            if b <= a:
                at = M_rowadr[M_colind[adr + a]] + b
                L_out[worldid, at] = L_out[worldid, at] - L_out[worldid, adr + a] * inverse * L_out[worldid, adr + b]
        sync_warp(nlane)
        for a in range(lane, last, nlane):
            L_out[worldid, adr + a] = L_out[worldid, adr + a] * inverse
        if lane == 0:
            Dinv_out[worldid, k] = inverse
        sync_warp(nlane)


@wp.func
def solve_half(
    nv: int,
    M_rownnz: wp.array[int],
    M_rowadr: wp.array[int],
    M_colind: wp.array[int],
    L: wp.array2d[float],
    Dinv: wp.array2d[float],
    worldid: int,
    row: int,
    x: wp.array3d[float],
) -> float:
    """x becomes L'^-1 x; returns the sum of x^2 / D."""
    total = float(0.0)
    for n in range(nv):
        i = nv - 1 - n
        value = x[worldid, i, row]
        if value != 0.0:
            adr = M_rowadr[i]
            for a in range(M_rownnz[i] - 1):
                j = M_colind[adr + a]
                x[worldid, j, row] = x[worldid, j, row] - L[worldid, adr + a] * value
            total += value * value * Dinv[worldid, i]
    return total


@wp.kernel
def _weigh(
    # Model:
    nv: int,
    nbody: int,
    ntendon: int,
    body_weldid: wp.array[int],
    body_rootid: wp.array[int],
    body_dofadr: wp.array[int],
    body_dofnum: wp.array[int],
    dof_parentid: wp.array[int],
    M_rownnz: wp.array[int],
    M_rowadr: wp.array[int],
    M_colind: wp.array[int],
    ten_J_rownnz: wp.array[int],
    ten_J_rowadr: wp.array[int],
    ten_J_colind: wp.array[int],
    # Data in:
    subtree_com_in: wp.array2d[wp.vec3],
    xipos_in: wp.array2d[wp.vec3],
    cdof_in: wp.array2d[wp.spatial_vector],
    ten_J_in: wp.array2d[float],
    moment_rownnz_in: wp.array2d[int],
    moment_rowadr_in: wp.array2d[int],
    moment_colind_in: wp.array2d[int],
    actuator_moment_in: wp.array2d[float],
    # In:
    L: wp.array2d[float],
    Dinv: wp.array2d[float],
    # Out:
    x_out: wp.array3d[float],
    weight_out: wp.array2d[float],
):
    """The weight of each vector: of dofs, of six directions of each body, of tendons; the norm of actuators."""
    worldid, row = wp.tid()
    for i in range(nv):
        x_out[worldid, i, row] = 0.0
    bodies = nv + 6 * nbody
    if row < nv:
        x_out[worldid, row, row] = 1.0
    elif row < bodies:
        bodyid = (row - nv) / 6
        axis = row - nv - 6 * bodyid
        offset = xipos_in[worldid, bodyid] - subtree_com_in[worldid, body_rootid[bodyid]]
        weldid = body_weldid[bodyid]
        dofid = int(-1)
        if weldid > 0 and body_dofnum[weldid] > 0:
            dofid = body_dofadr[weldid] + body_dofnum[weldid] - 1
        while dofid >= 0:
            angular = wp.spatial_top(cdof_in[worldid, dofid])
            linear = wp.spatial_bottom(cdof_in[worldid, dofid]) + wp.cross(angular, offset)
            if axis < 3:
                x_out[worldid, dofid, row] = linear[axis]
            else:
                x_out[worldid, dofid, row] = angular[axis - 3]
            dofid = dof_parentid[dofid]
    elif row < bodies + ntendon:
        tendon = row - bodies
        for e in range(ten_J_rowadr[tendon], ten_J_rowadr[tendon] + ten_J_rownnz[tendon]):
            x_out[worldid, ten_J_colind[e], row] = ten_J_in[worldid, e]
    else:
        actuator = row - bodies - ntendon
        adr = moment_rowadr_in[worldid, actuator]
        for e in range(adr, adr + moment_rownnz_in[worldid, actuator]):
            x_out[worldid, moment_colind_in[worldid, e], row] = actuator_moment_in[worldid, e]
    weight = solve_half(nv, M_rownnz, M_rowadr, M_colind, L, Dinv, worldid, row, x_out)
    if row >= bodies + ntendon:
        weight = float(0.0)
        for i in range(nv):
            value = x_out[worldid, i, row] * Dinv[worldid, i]
            adr = M_rowadr[i]
            for a in range(M_rownnz[i] - 1):
                value -= L[worldid, adr + a] * x_out[worldid, M_colind[adr + a], row]
            x_out[worldid, i, row] = value
            weight += value * value
        weight = wp.sqrt(weight)
    weight_out[worldid, row] = weight


@wp.func
def mean_of_three(weight: wp.array2d[float], worldid: int, first: int) -> float:
    return (weight[worldid, first] + weight[worldid, first + 1] + weight[worldid, first + 2]) / 3.0


@wp.kernel
def _average(
    # Model:
    nv: int,
    nbody: int,
    ntendon: int,
    body_weldid: wp.array[int],
    dof_bodyid: wp.array[int],
    dof_jntid: wp.array[int],
    jnt_type: wp.array[int],
    jnt_dofadr: wp.array[int],
    body_simple: wp.array[int],
    body_mass: wp.array2d[float],
    # In:
    weight: wp.array2d[float],
    # Out:
    dof_invweight0_out: wp.array2d[float],
    body_invweight0_out: wp.array2d[wp.vec2],
    tendon_invweight0_out: wp.array2d[float],
    actuator_acc0_out: wp.array2d[float],
):
    """Directions that belong together have the mean of their weights; bodies that only slide, MuJoCo's 1 / mass."""
    worldid, i = wp.tid()
    bodies = nv + nbody
    if i < nv:
        jntid = dof_jntid[i]
        dofadr = jnt_dofadr[jntid]
        value = weight[worldid, i]
        if jnt_type[jntid] == _FREE:
            value = mean_of_three(weight, worldid, wp.where(i < dofadr + 3, dofadr, dofadr + 3))
        elif jnt_type[jntid] == _BALL:
            value = mean_of_three(weight, worldid, dofadr)
        elif body_simple[dof_bodyid[i]] == _SLIDES:
            value = 1.0 / body_mass[worldid % body_mass.shape[0], dof_bodyid[i]]
        dof_invweight0_out[worldid, i] = value
    elif i < bodies:
        bodyid = i - nv
        linear = float(0.0)
        angular = float(0.0)
        if body_weldid[bodyid] > 0:
            linear = mean_of_three(weight, worldid, nv + 6 * bodyid)
            angular = mean_of_three(weight, worldid, nv + 6 * bodyid + 3)
        if body_simple[bodyid] == _SLIDES:
            linear = 1.0 / body_mass[worldid % body_mass.shape[0], bodyid]
        body_invweight0_out[worldid, bodyid] = wp.vec2(linear, angular)
    elif i < bodies + ntendon:
        tendon_invweight0_out[worldid, i - bodies] = weight[worldid, nv + 6 * nbody + i - bodies]
    else:
        actuator = i - bodies - ntendon
        actuator_acc0_out[worldid, actuator] = weight[worldid, nv + 6 * nbody + ntendon + actuator]


def find_weights(m: mjw.Model, d: mjw.Data) -> None:
    """Inverse weights of the model, from M, poses, tendons and moments at qpos0 that the data has."""
    if m.nv == 0:
        for array in (m.body_invweight0, m.tendon_invweight0, m.actuator_acc0):
            array.zero_()
        return
    L, Dinv = wp.empty((d.nworld, m.nC), dtype=float), wp.empty((d.nworld, m.nv), dtype=float)
    structure = [m.M_rownnz, m.M_rowadr, m.M_colind]
    nlane = WARP if d.M.device.is_cuda else 1
    wp.launch(_factor, d.nworld * nlane, inputs=[m.nv, *structure, d.M, nlane], outputs=[L, Dinv])
    nvector = m.nv + 6 * m.nbody + m.ntendon + m.nactuator
    x = wp.empty((d.nworld, m.nv, nvector), dtype=float)  # vectors side by side: threads read them together
    weight = wp.empty((d.nworld, nvector), dtype=float)
    wp.launch(
        _weigh,
        (d.nworld, nvector),
        inputs=[
            m.nv,
            m.nbody,
            m.ntendon,
            m.body_weldid,
            m.body_rootid,
            m.body_dofadr,
            m.body_dofnum,
            m.dof_parentid,
            *structure,
            m.ten_J_rownnz,
            m.ten_J_rowadr,
            m.ten_J_colind,
            d.subtree_com,
            d.xipos,
            d.cdof,
            d.ten_J,
            d.moment_rownnz,
            d.moment_rowadr,
            d.moment_colind,
            d.actuator_moment,
            L,
            Dinv,
        ],
        outputs=[x, weight],
    )
    wp.launch(
        _average,
        (d.nworld, m.nv + m.nbody + m.ntendon + m.nactuator),
        inputs=[
            m.nv,
            m.nbody,
            m.ntendon,
            m.body_weldid,
            m.dof_bodyid,
            m.dof_jntid,
            m.jnt_type,
            m.jnt_dofadr,
            m.body_simple,
            m.body_mass,
            weight,
        ],
        outputs=[m.dof_invweight0, m.body_invweight0, m.tendon_invweight0, m.actuator_acc0],
    )
