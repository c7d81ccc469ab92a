"""The contacts of one pair against each other: up to four of them in registers, any number of them in memory.

Both do the same, in coordinates in which the two bodies give way alike in all directions: a force along z, times the
timestep, changes the relative velocity by z. The first is written in CUDA C++ for the sake of registers: its loops
unroll, so that nothing of a contact leaves them between passes. Most pairs have four contacts or fewer.
"""

import warp as wp

from stickslip.physics.conesweep.cone import project
from stickslip.physics.conesweep.pack import (
    PULL,
    TOUCH,
    TURN,
    load,
    load_force,
    load_frame,
    load_grip,
    load_pull,
    store,
    store_force,
    xyz,
)
from stickslip.physics.mjwarp_private import vec5

wp.set_module_options({"enable_backward": False})

PUSH_OUT = wp.constant(1.0)
"""Fastest that depth is taken out [m/s or rad/s]."""

GROWTH = wp.constant(2.0)
"""By how much more of a depth is taken out where it is deep: there is no resting contact to wake."""
DEEP = wp.constant(5.0e-4)
"""Depth beyond the slop at which half of that is added [m]."""

vec12 = wp.types.vector(length=12, dtype=float)


@wp.func_native("""
struct alignas(16) Four { float x, y, z, w; };
Four* const contact = reinterpret_cast<Four*>(touch.data) + 3 * first;
const Four* const moved = reinterpret_cast<const Four*>(pull.data) + 5 * first;
Four* const force = reinterpret_cast<Four*>(f.data) + 2 * first;
const float per_h = 1.0f / h;
float z[4][18], speed[4][3], now[4][3], gain[4][2], friction[4], target[4], distance[4];
#pragma unroll
for (int k = 0; k < 4; ++k) {
    gain[k][0] = gain[k][1] = friction[k] = target[k] = distance[k] = 0.0f;
    if (k >= count) continue;
    const Four n = contact[3 * k], t = contact[3 * k + 1], a = contact[3 * k + 2];
    const float ux = U[3] + U[1] * a.z - U[2] * a.y, uy = U[4] + U[2] * a.x - U[0] * a.z;
    const float uz = U[5] + U[0] * a.y - U[1] * a.x;
    const float sx = n.y * t.z - n.z * t.y, sy = n.z * t.x - n.x * t.z, sz = n.x * t.y - n.y * t.x;
    speed[k][0] = n.x * ux + n.y * uy + n.z * uz;
    speed[k][1] = t.x * ux + t.y * uy + t.z * uz;
    speed[k][2] = sx * ux + sy * uy + sz * uz;
    const float phi = n.w + n.x * (X[3] + X[1] * a.z - X[2] * a.y) + n.y * (X[4] + X[2] * a.x - X[0] * a.z)
        + n.z * (X[5] + X[0] * a.y - X[1] * a.x);
    distance[k] = phi;
    target[k] = wp::min(-phi * per_h, 0.0f);  // it may not close faster than the gap allows
    if (a.w != 0.0f && (a.w < 0.0f || phi <= h * a.w)) {
        target[k] = restitution * wp::abs(a.w);
        contact[3 * k + 2].w = -wp::abs(a.w);  // it bounces for the rest of the step
    }
    friction[k] = t.w;
    const Four p = moved[5 * k], q = moved[5 * k + 1], r = moved[5 * k + 2], s = moved[5 * k + 3], e = moved[5 * k + 4];
    z[k][0] = p.x; z[k][1] = p.y; z[k][2] = p.z; z[k][3] = p.w; z[k][4] = q.x; z[k][5] = q.y;
    z[k][6] = q.z; z[k][7] = q.w; z[k][8] = r.x; z[k][9] = r.y; z[k][10] = r.z; z[k][11] = r.w;
    z[k][12] = s.x; z[k][13] = s.y; z[k][14] = s.z; z[k][15] = s.w; z[k][16] = e.x; z[k][17] = e.y;
    gain[k][0] = e.z;
    gain[k][1] = e.w;
    const Four g = force[2 * k];
    now[k][0] = g.x;
    now[k][1] = g.y;
    now[k][2] = g.z;
}
float c[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};  // change of velocity
const auto along = [](const float* d, const float* v) {
    return (d[0] * v[0] + d[1] * v[1] + d[2] * v[2]) + (d[3] * v[3] + d[4] * v[4] + d[5] * v[5]);
};
const auto resolve = [&](int k) {
    const float normal = wp::max(0.0f, now[k][0] - (speed[k][0] + along(z[k], c) - target[k]) * gain[k][0]);
    const float change = dt * (normal - now[k][0]);
    now[k][0] = normal;
    for (int j = 0; j < 6; ++j) c[j] += change * z[k][j];
    if (friction[k] > 0.0f) {  // against the slip, within the cone
        float f1 = now[k][1] - (speed[k][1] + along(z[k] + 6, c)) * gain[k][1];
        float f2 = now[k][2] - (speed[k][2] + along(z[k] + 12, c)) * gain[k][1];
        const float size = f1 * f1 + f2 * f2, limit = friction[k] * normal;
        if (size > limit * limit) {
#if defined(__CUDA_ARCH__)
            const float scale = limit * rsqrtf(size);
#else
            const float scale = limit / wp::sqrt(size);
#endif
            f1 *= scale;
            f2 *= scale;
        }
        const float change1 = dt * (f1 - now[k][1]), change2 = dt * (f2 - now[k][2]);
        now[k][1] = f1;
        now[k][2] = f2;
        for (int j = 0; j < 6; ++j) c[j] += change1 * z[k][6 + j] + change2 * z[k][12 + j];
    }
};
for (int run = 0; run < passes; ++run) {
    if (run % 2 == 0) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) if (k < count) resolve(k);
    } else {
        #pragma unroll
        for (int k = 3; k >= 0; --k) if (k < count) resolve(k);
    }
}
wp::vec_t<12, wp::float32> out;
float d[6] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};  // displacement that takes out depth
#pragma unroll
for (int k = 0; k < 4; ++k) {
    if (k >= count) continue;
    const Four n = contact[3 * k], t = contact[3 * k + 1], a = contact[3 * k + 2], old = force[2 * k];
    Four g = {now[k][0], now[k][1], now[k][2], 0.0f};
    force[2 * k] = g;
    g.x -= old.x;
    g.y -= old.y;
    g.z -= old.z;
    const float fx = g.x * n.x + g.y * t.x + g.z * (n.y * t.z - n.z * t.y);
    const float fy = g.x * n.y + g.y * t.y + g.z * (n.z * t.x - n.x * t.z);
    const float fz = g.x * n.z + g.y * t.z + g.z * (n.x * t.y - n.y * t.x);
    out[0] += a.y * fz - a.z * fy;
    out[1] += a.z * fx - a.x * fz;
    out[2] += a.x * fy - a.y * fx;
    out[3] += fx;
    out[4] += fy;
    out[5] += fz;
    if (!is_last) continue;
    const float depth = -(distance[k] + h * (speed[k][0] + along(z[k], c)) + slop);
    const float more = 1.0f + growth * wp::max(depth, 0.0f) / (wp::max(depth, 0.0f) + deep);
    const float wanted = wp::min(share * depth * more, fastest * h) - along(z[k], d);
    if (depth > 0.0f && wanted > 0.0f) {
        const float push = wanted * gain[k][0] * dt;
        for (int j = 0; j < 6; ++j) d[j] += push * z[k][j];
        out[6] += push * (a.y * n.z - a.z * n.y);
        out[7] += push * (a.z * n.x - a.x * n.z);
        out[8] += push * (a.x * n.y - a.y * n.x);
        out[9] += push * n.x;
        out[10] += push * n.y;
        out[11] += push * n.z;
    }
}
return out;
""")
def settle_few(
    touch: wp.array[wp.vec4],
    pull: wp.array[wp.vec4],
    f: wp.array[wp.vec4],
    first: int,
    count: int,
    U: wp.spatial_vector,
    X: wp.spatial_vector,
    dt: float,
    h: float,
    share: float,
    slop: float,
    restitution: float,
    growth: float,
    deep: float,
    fastest: float,
    passes: int,
    is_last: bool,
) -> vec12:
    """Resolve up to FEW contacts without spin and rolling, one after the other, there and back.

    Args:
        touch: records of contacts, as in `Work`
        pull: likewise
        f: likewise; updated
        first: first contact of the pair
        count: number of contacts
        U: relative velocity of the two bodies at the pair's point
        X: their displacement since the start of the step
        dt: timestep
        h: substep
        share: of the depth that is taken out
        slop: depth that is left alone
        restitution: share of an approach that bounces back
        growth: by how much more that share is where it is deep
        deep: depth at which half of it is
        fastest: speed at which depth is taken out at most
        passes: passes over the contacts
        is_last: whether depth is taken out

    Returns:
        what was added to the wrench on the second body; what displaces it without velocity
    """
    ...


@wp.func(inline=False)
def settle_many(
    touch: wp.array[wp.vec4],
    pull: wp.array[wp.vec4],
    turn: wp.array[wp.vec4],
    f: wp.array[wp.vec4],
    first: int,
    count: int,
    U: wp.spatial_vector,
    X: wp.spatial_vector,
    dt: float,
    h: float,
    share: float,
    slop: float,
    restitution: float,
    passes: int,
    is_last: bool,
) -> vec12:
    """Resolve any number of contacts of any kind; see `settle_few`.

    It stays a function of its own: within the sweep it would take the registers that `settle_few` needs.
    """
    wrench = wp.spatial_vector()
    push = wp.spatial_vector()
    change = wp.spatial_vector()  # of velocity
    for run in range(passes):
        for order in range(count):
            i = first + order
            if run % 2 == 1:
                i = first + count - 1 - order
            frame = load_frame(touch, i)
            a = load(touch, i * TOUCH + 2)
            arm = xyz(a)
            mu = load(touch, i * TOUCH + 1)[3]
            z0, z1, z2, gain = load_pull(pull, i * PULL)
            old = load_force(f, i)
            new = old
            u = frame @ (wp.spatial_bottom(U) + wp.cross(wp.spatial_top(U), arm))
            # normal: may not close faster than the gap allows
            phi = distance_of(touch, i, X)
            target = wp.min(-phi / h, 0.0)
            approach = a[3]
            if approach != 0.0 and (approach < 0.0 or phi <= h * approach):
                target = restitution * wp.abs(approach)
                store(touch, i * TOUCH + 2, wp.vec4(arm[0], arm[1], arm[2], -wp.abs(approach)))
            new[0] = wp.max(0.0, old[0] - (u[0] + wp.dot(z0, change) - target) * gain[0])
            change += (dt * (new[0] - old[0])) * z0
            # friction: against the slip, within the cone
            if mu > 0.0:
                new[1] = old[1] - (u[1] + wp.dot(z1, change)) * gain[1]
                new[2] = old[2] - (u[2] + wp.dot(z2, change)) * gain[1]
                size = new[1] * new[1] + new[2] * new[2]
                limit = mu * new[0]
                if size > limit * limit:
                    scale = limit / wp.sqrt(size)
                    new[1] = new[1] * scale
                    new[2] = new[2] * scale
                change += (dt * (new[1] - old[1])) * z1 + (dt * (new[2] - old[2])) * z2
            elif mu < 0.0:
                z3, z4, z5, others = load_pull(turn, i * TURN)
                coefficients, surface, dim = load_grip(turn, i)
                gains = wp.vec3(gain[1], others[0], others[1])
                spin = frame @ wp.spatial_top(U)
                slip = vec5(
                    u[1] + wp.dot(z1, change) + surface[0],
                    u[2] + wp.dot(z2, change) + surface[1],
                    spin[0] + wp.dot(z3, change) + surface[2],
                    spin[1] + wp.dot(z4, change),
                    spin[2] + wp.dot(z5, change),
                )
                friction = vec5()
                for j in range(5):
                    if j < dim - 1:
                        friction[j] = old[j + 1] - slip[j] * gains[wp.max(0, wp.min(j - 1, 2))]
                friction = project(friction, new[0], dim, coefficients, gains)
                for j in range(5):
                    new[j + 1] = friction[j]
                change += (dt * (new[1] - old[1])) * z1 + (dt * (new[2] - old[2])) * z2
                change += (dt * (new[3] - old[3])) * z3 + (dt * (new[4] - old[4])) * z4 + (dt * (new[5] - old[5])) * z5
            store_force(f, i, new)
            wrench += contact_wrench(frame, arm, new - old)
    if is_last:
        # depth is taken out by a displacement of its own, which leaves no velocity behind
        moved = wp.spatial_vector()
        for i in range(first, first + count):
            normal = xyz(load(touch, i * TOUCH))
            arm = xyz(load(touch, i * TOUCH + 2))
            z0, _z1, _z2, gain = load_pull(pull, i * PULL)
            speed = wp.dot(normal, wp.spatial_bottom(U) + wp.cross(wp.spatial_top(U), arm)) + wp.dot(z0, change)
            depth = -(distance_of(touch, i, X) + h * speed + slop)
            more = 1.0 + GROWTH * wp.max(depth, 0.0) / (wp.max(depth, 0.0) + DEEP)
            wanted = wp.min(share * depth * more, PUSH_OUT * h) - wp.dot(z0, moved)
            if depth > 0.0 and wanted > 0.0:
                out = wanted * gain[0] * dt
                moved += out * z0
                push += wp.spatial_vector(wp.cross(arm, out * normal), out * normal)
    both = vec12()
    for j in range(6):
        both[j] = wrench[j]
        both[6 + j] = push[j]
    return both


@wp.func(inline=True)
def distance_of(touch: wp.array[wp.vec4], i: int, X: wp.spatial_vector) -> float:
    """Distance of contact i after its bodies were displaced."""
    row = load(touch, i * TOUCH)
    arm = xyz(load(touch, i * TOUCH + 2))
    return row[3] + wp.dot(xyz(row), wp.spatial_bottom(X) + wp.cross(wp.spatial_top(X), arm))


@wp.func
def contact_wrench(frame: wp.mat33, arm: wp.vec3, f: wp.spatial_vector) -> wp.spatial_vector:
    """Wrench about the pair's point of a contact's normal, tangential, spin and rolling forces."""
    turned = wp.transpose(frame)
    force = turned @ wp.vec3(f[0], f[1], f[2])
    torque = turned @ wp.vec3(f[3], f[4], f[5])
    return wp.spatial_vector(torque + wp.cross(arm, force), force)
