"""Friction with a gain of its own, in the place of facets: a slip is answered by itself, and cut at the cone."""

import warp as wp

from stickslip.physics.comfree.exact import EXACT_FLOOR
from stickslip.physics.mjwarp.private import vec5, vec11
from stickslip.physics.mjwarp.rows import MIN_INVERSE_MASS

wp.set_module_options({"enable_backward": False})


@wp.func
def friction_force(
    gain: float, weight: wp.vec2, gram: vec11, exact: bool, slip: vec5, mu: vec5, condim: int, normal: float
) -> vec5:
    """Forces -gain / w slip of all friction directions, cut by one factor to the elliptic cone of the normal force.

    Args:
        gain: share of a slip that the contact takes away in a step, over the timestep [1/s]
        weight: approximate inverse mass of the two bodies, for translation and for rotation
        gram: exact inverse masses of the contact, read if `exact`
        exact: whether w is one of those
        slip: velocity in each direction: tangents, spin, rolling
        mu: coefficient of each direction
        condim: of the contact
        normal: force along the normal [N]
    """
    force = vec5()
    used = float(0.0)
    for i in range(5):
        if i < condim - 1:
            inverse = wp.max(weight[wp.where(i < 2, 0, 1)], MIN_INVERSE_MASS)
            if exact:
                inverse = wp.max(gram[6 + i], EXACT_FLOOR * inverse)
            force[i] = -gain / inverse * slip[i]
            used += force[i] * force[i] / (mu[i] * mu[i])
    return wp.min(1.0, normal / wp.max(wp.sqrt(used), 1.0e-20)) * force
