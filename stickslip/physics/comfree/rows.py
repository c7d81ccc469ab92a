"""What every constraint kernel shares: gains, and the closed form of equation (8)."""

import warp as wp

from stickslip.physics.comfree.model import Model
from stickslip.physics.mjwarp.contact import impedance
from stickslip.physics.mjwarp.private import vec5
from stickslip.physics.mjwarp.rows import MIN_INVERSE_MASS

wp.set_module_options({"enable_backward": False})

MAX_GAIN = wp.constant(0.5)
"""Largest share of its relative velocity that one contact or row may take away in a step."""


@wp.func
def stable_ratio(ratio: float, nfacet: int, k: float, d: float, timestep: float) -> float:
    """r / (1 - r), cut so that all facets together stay within MAX_GAIN.

    The facets change the normal velocity by -nfacet r/(1-r) (k dt + d) of itself; above 1 they reverse it, and
    the contact throws bodies away. With MuJoCo's default solimp and the papers' k and d the cut never acts; with a
    stiff solimp (0.99 0.999: ratio up to 999) it keeps (11) below what (10) calls exact.
    """
    gain = float(nfacet) * ratio * (k * timestep + d)
    return ratio * wp.min(1.0, MAX_GAIN / wp.max(gain, 1.0e-10))


@wp.func
def impedance_force(mass: float, k: float, d: float, timestep: float, u: float, phi: float) -> float:
    """-K (u dt + phi) - D u with K = k M / dt and D = d M / dt, equations (8) and (11)."""
    return -mass / timestep * (k * (u * timestep + phi) + d * u)


@wp.func
def unilateral(force: float, smoothing: float) -> float:
    """max(0, force), or its softplus of sharpness `smoothing` in 1/N where that is positive."""
    if smoothing <= 0.0:
        return wp.max(force, 0.0)
    x = smoothing * force
    return (wp.max(x, 0.0) + wp.log(1.0 + wp.exp(-wp.abs(x)))) / smoothing


@wp.func
def force_work(force: float, free: float, mass: float, k: float, d: float, timestep: float) -> float:
    """A force times the velocity that is missing at its row, -(u + k phi / (k dt + d)); `free` is the force unclamped.

    That velocity is the force that (8) has before its clamp, over K dt + D. A softplus pushes where none is missing:
    there, the velocity that its force would need.
    """
    slope = mass / timestep * (k * timestep + d)
    return wp.abs(force) * wp.max(wp.abs(free), wp.abs(force)) / wp.max(slope, 1.0e-20)


@wp.struct
class Gains:
    """ComFree's k_user and d_user, timestep and softplus sharpness; shapes (*,)."""

    timestep: wp.array[float]
    stiffness: wp.array[float]
    damping: wp.array[float]
    smoothing: float


@wp.func
def row_mass(gains: Gains, worldid: int, solimp: vec5, phi: float, inverse: float) -> float:
    """M(phi) = r / (1 - r) over MuJoCo's approximate inverse mass of the row, equation (12), cut like a contact's."""
    timestep = gains.timestep[worldid % gains.timestep.shape[0]]
    k = gains.stiffness[worldid % gains.stiffness.shape[0]]
    d = gains.damping[worldid % gains.damping.shape[0]]
    r = impedance(solimp, phi)
    return stable_ratio(r / (1.0 - r), 1, k, d, timestep) / wp.max(inverse, MIN_INVERSE_MASS)


@wp.func
def limit_mass(gains: Gains, worldid: int, inverse: float) -> float:
    """M of a limit: it takes away MAX_GAIN of the velocity that violates it, whatever its solimp is."""
    timestep = gains.timestep[worldid % gains.timestep.shape[0]]
    k = gains.stiffness[worldid % gains.stiffness.shape[0]]
    d = gains.damping[worldid % gains.damping.shape[0]]
    return MAX_GAIN / wp.max((k * timestep + d) * wp.max(inverse, MIN_INVERSE_MASS), 1.0e-10)


@wp.func
def row_force(gains: Gains, worldid: int, mass: float, u: float, phi: float) -> float:
    """The impedance force of (8) on one row, before its clamp."""
    timestep = gains.timestep[worldid % gains.timestep.shape[0]]
    k = gains.stiffness[worldid % gains.stiffness.shape[0]]
    d = gains.damping[worldid % gains.damping.shape[0]]
    return impedance_force(mass, k, d, timestep, u, phi)


@wp.func
def row_work(gains: Gains, worldid: int, mass: float, free: float, force: float) -> float:
    """`force_work` of one row."""
    timestep = gains.timestep[worldid % gains.timestep.shape[0]]
    k = gains.stiffness[worldid % gains.stiffness.shape[0]]
    d = gains.damping[worldid % gains.damping.shape[0]]
    return force_work(force, free, mass, k, d, timestep)


def gains_of(m: Model) -> Gains:
    """The gains of a model."""
    gains = Gains()
    gains.timestep, gains.smoothing = m.opt.timestep, m.comfree.smoothing
    gains.stiffness, gains.damping = m.comfree.stiffness, m.comfree.damping
    return gains
