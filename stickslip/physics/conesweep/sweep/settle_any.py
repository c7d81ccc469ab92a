"""The contacts of one pair against each other, of any kind, one after the other in memory; see `settle`."""

import warp as wp

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
from stickslip.physics.conesweep.sweep.cone import project
from stickslip.physics.conesweep.sweep.settle import DEEP, GROWTH, PUSH_OUT, contact_wrench, vec12
from stickslip.physics.mjwarp.private import vec5

wp.set_module_options({"enable_backward": False})


@wp.func(inline=False)
def settle_any(
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
    """Resolve contacts of any kind; see `settle_smooth`.

    It stays a function of its own: within the sweep it would take the registers that the others need.
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
