"""The convex quasi-dynamic contact model that the closed form of `quasidynamic.py` approximates, solved by OSQP.

    min_d  1/2 d'Qd - d'b    with    R d + s phi >= 0,

(7) of "Complementarity-Free Multi-Contact Modeling and Optimization for Dexterous Manipulation" in displacements, with
the same Q, b, R and share s of the distances phi. The multipliers are the forces of the edges: Q d = b + R'lambda.
"""

import dataclasses
from typing import Any

import numpy as np

from stickslip.errors import InputError, MissingExtra
from stickslip.mpc.model import quasidynamic
from stickslip.mpc.success import Array
from stickslip.mpc.task import QuasiDynamic

MAX_ITERATIONS = 20_000
"""Of OSQP, before it gives up; a program that can be solved takes hundreds."""


@dataclasses.dataclass(frozen=True, eq=False)
class Motion:
    """A step of the convex model.

    Attributes:
        delta: displacement of joints and object, NaN if there is none        (nr + 6,)
        force: of each edge                                                   (n,)
        seconds: that OSQP took, by its own clock [s]
    """

    delta: Array
    force: Array
    seconds: float


def step(model: QuasiDynamic, rows: Array, phi: Array, u: Array, *, tolerance: float = 1e-8) -> Motion:
    """One step of the convex model.

    Args:
        model: parameters; stiffness, damping and sharpness of contact are not used: contact is rigid
        rows: R, J_n + mu J_d of each edge    (n, nr + 6)
        phi: distance of its contact [m]      (n,)
        u: joint targets less the joints      (nr,)
        tolerance: of OSQP, on displacements of something as stiff as the mean
    """
    if rows.shape != (len(phi), len(u) + 6):
        raise InputError(
            f"rows have the shape {rows.shape}: with {len(phi)} edges and {len(u)} joints it must be "
            f"({len(phi)}, {len(u) + 6})"
        )
    free = quasidynamic.free_motion(np, model, u)
    gap = model.distance * phi
    if (rows @ free + gap >= 0.0).all():
        return Motion(free, np.zeros(len(phi)), 0.0)
    osqp, sparse = _osqp()
    stiffness = 1.0 / quasidynamic.compliance(model, len(u))
    mean = np.exp(np.log(stiffness).mean())
    scale = np.sqrt(mean / stiffness)  # d = scale y: the program has one unit, and the tolerance one meaning
    size = np.linalg.norm(rows * scale, axis=1)
    size[size == 0.0] = 1.0
    solver = osqp.OSQP(algebra="builtin")
    solver.setup(
        sparse.identity(len(free), format="csc"),
        -free / scale,
        sparse.csc_matrix(rows * scale / size[:, None]),
        -gap / size,
        np.full(len(phi), np.inf),
        verbose=False,
        polishing=True,
        eps_abs=tolerance,
        eps_rel=tolerance,
        max_iter=MAX_ITERATIONS,
    )
    found = solver.solve(raise_error=False)
    if found.info.status_val not in (osqp.SolverStatus.OSQP_SOLVED, osqp.SolverStatus.OSQP_SOLVED_INACCURATE):
        return Motion(np.full(len(free), np.nan), np.full(len(phi), np.nan), found.info.run_time)
    return Motion(found.x * scale, np.maximum(-found.y, 0.0) * mean / size, found.info.run_time)


def _osqp() -> tuple[Any, Any]:
    try:
        import osqp
        from scipy import sparse
    except ImportError:
        raise MissingExtra("the convex model needs OSQP: pip install 'stickslip[mpc]'") from None
    return osqp, sparse
