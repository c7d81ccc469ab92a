"""The quasi-dynamic contact model of "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous
Manipulation", as functions for any array library.

A hand whose joints are springs towards their targets moves an object that resists by stiffness only. With the stiffness
Q and the forces b without contact, a step moves hand and object by

    delta = Q^-1 (b + R^T lambda),    b = (Kr u, m g),
    lambda = softplus(-K (R Q^-1 b + s phi) - K (c / h) R Q^-1 b),

where a row of R, J_n + mu J_d, is one edge of a contact's friction pyramid, and phi its distance. These are (23) and
(25) of the paper; the term with c is damping, and s is the fraction of the distance that counts.

Rows and distances are those of the start of a plan, for all its steps. So a step depends on its own control alone, and
the horizon is a sum instead of a recursion.
"""

from typing import Any

import numpy as np

from stickslip.mpc.success import Array
from stickslip.mpc.task import QuasiDynamic


def compliance(model: QuasiDynamic, nr: int) -> Array:
    """The diagonal of Q^-1, joints first, (nr + 6,)."""
    return 1.0 / np.array([model.joints] * nr + [model.translation] * 3 + [model.rotation] * 3)


def free_motion(xp: Any, model: QuasiDynamic, u: Any) -> Any:
    """Q^-1 b, the displacement of a step without contact, (nr + 6,); `xp` is the array library of `u` (nr,)."""
    drop = -model.mass * model.gravity / model.translation
    return xp.concatenate([u, xp.asarray([0.0, 0.0, drop, 0.0, 0.0, 0.0])])


def softplus(xp: Any, x: Any, sharpness: float) -> Any:
    """log(1 + exp(sharpness x)) / sharpness, a smooth max(x, 0), without overflow."""
    return xp.logaddexp(sharpness * x, 0.0 * x) / sharpness


def force(xp: Any, model: QuasiDynamic, rows: Any, phi: Any, u: Any) -> Any:
    """lambda, force along each edge of the friction pyramids, (n,).

    Args:
        xp: array library
        model: parameters
        rows: R, J_n + mu J_d of each edge    (n, nr + 6)
        phi: distance of its contact [m]      (n,)
        u: joint targets minus positions      (nr,)
    """
    approach = rows @ free_motion(xp, model, u)
    stiffness = model.contact
    inside = -stiffness * (1.0 + model.damping / model.step) * approach - stiffness * model.distance * phi
    return softplus(xp, inside, model.sharpness)


def displacement(xp: Any, model: QuasiDynamic, rows: Any, phi: Any, u: Any) -> Any:
    """delta, displacement of joints, object position, and object orientation in its own frame, (nr + 6,)."""
    nr = rows.shape[1] - 6
    pushed = rows.T @ force(xp, model, rows, phi, u)
    return free_motion(xp, model, u) + xp.asarray(compliance(model, nr)) * pushed
