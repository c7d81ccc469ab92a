"""What every constraint kernel shares: gains, and the closed form of equation (8)."""

import warp as wp

from stickslip.physics.comfree.model import Model
from stickslip.physics.mjwarp.contact import impedance
from stickslip.physics.mjwarp.private import vec5
from stickslip.physics.mjwarp.rows import MIN_INVERSE_MASS

wp.set_module_options({"enable_backward": False})


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


@wp.struct
class Gains:
    """ComFree's k_user and d_user, timestep and softplus sharpness; shapes (*,)."""

    timestep: wp.array[float]
    stiffness: wp.array[float]
    damping: wp.array[float]
    smoothing: float


@wp.func
def row_mass(solimp: vec5, phi: float, inverse: float) -> float:
    """M(phi) = r / (1 - r) over MuJoCo's approximate inverse mass of the row, equation (12)."""
    r = impedance(solimp, phi)
    return 1.0 / wp.max(inverse * (1.0 - r) / r, MIN_INVERSE_MASS)


@wp.func
def row_force(gains: Gains, worldid: int, mass: float, u: float, phi: float) -> float:
    """The impedance force of (8) on one row, before its clamp."""
    timestep = gains.timestep[worldid % gains.timestep.shape[0]]
    k = gains.stiffness[worldid % gains.stiffness.shape[0]]
    d = gains.damping[worldid % gains.damping.shape[0]]
    return impedance_force(mass, k, d, timestep, u, phi)


def gains_of(m: Model) -> Gains:
    """The gains of a model."""
    gains = Gains()
    gains.timestep, gains.smoothing = m.opt.timestep, m.comfree.smoothing
    gains.stiffness, gains.damping = m.comfree.stiffness, m.comfree.damping
    return gains
