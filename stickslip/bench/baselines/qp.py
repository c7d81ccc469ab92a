"""The convex contact model that ComFree approximates: a quadratic program over the next velocity, solved by OSQP.

    min_v  1/2 v'Mv - v'(M v0 + dt (tau - c))    with    (J_n - mu J_d) v + phi/dt >= 0

for every contact and every direction d of its friction pyramid, which are equation (7) of "Complementarity-Free
Multi-Contact Modeling and Optimization for Dexterous Manipulation" in its dynamic form, Q = M/dt^2. The multipliers
are the impulses of the facets. Without contacts a step is MuJoCo's Euler step, joint damping in M included.

The model knows contacts, and nothing else that constrains. Its known flaws: what slides is lifted by mu times its
slip, and a depth is undone within one step, which leaves the body with the speed that took. It is here to be compared
with. It is not one of our physics.
"""

import abc
import copy
import dataclasses
from typing import Any, ClassVar, final

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.bench.baselines.host import HostData, HostPhysics
from stickslip.errors import MissingExtra, Unsupported
from stickslip.parameters import checked, parameter

MAX_ITERATIONS = 20_000
"""Of OSQP, before it gives up; a program that can be solved takes hundreds."""

SOLVER = mujoco.mjtTimer.mjTIMER_CONSTRAINT
"""MuJoCo's place for the time of a solver."""


class TimedSolver(HostPhysics):
    """A physics on the host whose solver takes its own time: what a step would take without Python."""

    @abc.abstractmethod
    def solver_seconds(self, d: HostData) -> float:
        """Seconds the solver took, by its own clock, in all worlds since the start."""


@final
@checked
@dataclasses.dataclass(frozen=True)
class QpModel(TimedSolver):
    """The convex model in velocities, one program a step and world.

    Attributes:
        margin: distance at which contacts begin to count, m; the program allows no more than closing it in a step, so
            what comes faster than margin/dt penetrates first
        tolerance: of OSQP, absolute and relative, on velocities in m/s of a body of the mean mass
    """

    name: ClassVar[str] = "qp"
    margin: float = parameter(0.005, "distance from which contacts count [m]", 0.0)
    tolerance: float = parameter(1e-6, "of OSQP, absolute and relative, on velocities [m/s]", 0.0, above=True)

    def check(self, mjm: mujoco.MjModel) -> None:
        _osqp()
        limited = int(mjm.jnt_limited.sum() + mjm.tendon_limited.sum())
        dry = int((mjm.dof_frictionloss > 0).sum() + (mjm.tendon_frictionloss > 0).sum())
        counts = {
            "equality constraints": mjm.neq,
            "limits": limited,
            "dry friction": dry,
            "flex": mjm.nflex,
            "activations": mjm.na,
            "delays": mjm.nhistory,
            "plastic joints": mjm.nplastic,
            "surface velocities": int(np.any(mjm.geom_surfacevel, axis=-1).sum()),
            "adhesion": int(np.count_nonzero(mjm.geom_adhesion) + np.count_nonzero(mjm.pair_adhesion)),
        }
        found = [f"{what} ({count})" for what, count in counts.items() if count]
        if mjm.opt.integrator != mujoco.mjtIntegrator.mjINT_EULER:
            found.append("integrators other than Euler")
        if found:
            raise Unsupported(f"{self.name} knows contacts alone, not: {', '.join(found)}")

    def put_model(self, mjm: mujoco.MjModel) -> mujoco.MjModel:
        self.check(mjm)
        own = copy.copy(mjm)
        own.geom_margin[:] = np.maximum(own.geom_margin, 0.5 * self.margin)  # MuJoCo adds those of two geoms
        own.pair_margin[:] = np.maximum(own.pair_margin, self.margin)
        own.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL  # its rows are the facets
        own.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        return own

    def advance(self, mjm: mujoco.MjModel, mjd: mujoco.MjData) -> NDArray[np.float64]:
        dt = mjm.opt.timestep
        mujoco.mj_fwdPosition(mjm, mjd)
        mujoco.mj_fwdVelocity(mjm, mjd)
        mujoco.mj_fwdActuation(mjm, mjd)
        mujoco.mj_fwdAcceleration(mjm, mjd)
        inertia = np.zeros((mjm.nv, mjm.nv))
        mujoco.mj_fullM(mjm, mjd, inertia)
        inertia[np.diag_indices(mjm.nv)] += dt * mjm.dof_damping
        momentum = inertia @ mjd.qvel + dt * mjd.qfrc_smooth
        facets = mjd.efc_J.reshape(mjd.nefc, mjm.nv)
        velocity, impulse, seconds = solve(inertia, momentum, facets, mjd.efc_pos / dt, self.tolerance)
        mjd.timer[SOLVER].duration += seconds
        force = _contact_forces(mjd, impulse / dt)
        mjd.qvel[:] = velocity
        mujoco.mj_integratePos(mjm, mjd.qpos, mjd.qvel, dt)
        mjd.time += dt
        return force

    def solver_seconds(self, d: HostData) -> float:
        return float(sum(mjd.timer[SOLVER].duration for mjd in d.worlds))


def _contact_forces(mjd: mujoco.MjData, facet: NDArray[np.float64]) -> NDArray[np.float64]:
    """Force and torque of each contact in its frame, (ncon, 6), from the force of each facet."""
    contact = mjd.contact
    kept = np.flatnonzero(contact.efc_address >= 0)  # the others are too far away
    dim = contact.dim[kept]
    count = np.maximum(1, 2 * (dim - 1))
    owner = np.repeat(kept, count)
    place = np.arange(len(facet)) - np.repeat(contact.efc_address[kept], count)  # of a facet among those of its contact
    axis, sign = place // 2 + 1, 1.0 - 2.0 * (place % 2)
    pull = np.where(np.repeat(dim, count) > 1, sign * contact.friction[owner, axis - 1] * facet, 0.0)
    force = np.bincount(6 * owner + axis, pull, minlength=6 * mjd.ncon).astype(float).reshape(mjd.ncon, 6)
    force[:, 0] = np.bincount(owner, facet, minlength=mjd.ncon)
    return force


def solve(
    inertia: NDArray[np.float64],
    momentum: NDArray[np.float64],
    facets: NDArray[np.float64],
    gap: NDArray[np.float64],
    tolerance: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """min_v 1/2 v'Hv - v'p with A v + gap >= 0.

    Args:
        inertia: H                                          (nv, nv)
        momentum: p, without contact                        (nv,)
        facets: A                                           (n, nv)
        gap: phi/dt                                         (n,)
        tolerance: of OSQP

    Returns v, the impulse of each facet, both NaN where there is no solution, as between two walls that close in; and
    the seconds OSQP took.
    """
    free = np.asarray(np.linalg.solve(inertia, momentum), dtype=np.float64)
    if (facets @ free + gap >= 0.0).all():
        return free, np.zeros(len(facets)), 0.0
    osqp, sparse = _osqp()
    # One unit for all variables: v = scale y, so that the matrix of y has ones on its diagonal and y is about as large
    # as v. Else the tolerance would mean little for light bodies, and another thing for rotations.
    diagonal = np.diag(inertia)
    mean = np.exp(np.log(diagonal).mean())
    scale = np.sqrt(mean / diagonal)
    size = np.linalg.norm(facets * scale, axis=1)
    size[size == 0.0] = 1.0
    solver = osqp.OSQP(algebra="builtin")
    solver.setup(
        _columns(sparse, np.triu(inertia * np.outer(scale, scale) / mean)),
        -momentum * scale / mean,
        _columns(sparse, facets * scale / size[:, None]),
        -gap / size,
        np.full(len(facets), np.inf),
        verbose=False,
        eps_abs=tolerance,
        eps_rel=tolerance,
        max_iter=MAX_ITERATIONS,
    )
    found = solver.solve(raise_error=False)
    if found.info.status_val not in (osqp.SolverStatus.OSQP_SOLVED, osqp.SolverStatus.OSQP_SOLVED_INACCURATE):
        return np.full(len(momentum), np.nan), np.full(len(facets), np.nan), found.info.run_time
    return found.x * scale, np.maximum(-found.y, 0.0) * mean / size, found.info.run_time


def _columns(sparse: Any, matrix: NDArray[np.float64]) -> Any:
    """A matrix in compressed columns; SciPy's own conversion takes longer than OSQP takes to solve."""
    column, row = np.nonzero(matrix.T)
    start = np.searchsorted(column, np.arange(matrix.shape[1] + 1))
    return sparse.csc_matrix((matrix[row, column], row, start), shape=matrix.shape)


def _osqp() -> tuple[Any, Any]:
    try:
        import osqp
        from scipy import sparse
    except ImportError:
        raise MissingExtra("the method qp needs OSQP: pip install 'stickslip[bench]'") from None
    return osqp, sparse
