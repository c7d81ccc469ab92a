"""Closed forms of hydroelastic contact: E modulus, H depth, x penetration; SI units.

`g` is the slope of the pressure, E/H. None of this is Hertz: the force of a sphere goes by x^2, not by x^1.5.
"""

import numpy as np
from numpy.typing import NDArray


def sphere_on_plane(E: float, R: float, x: float) -> float:
    """Compliant sphere on a rigid plane, ``pi E x^2 (1 - 2x/3R)``."""
    return np.pi * E * x**2 * (1.0 - 2.0 * x / (3.0 * R))


def sphere_on_plane_stiffness(E: float, R: float, x: float) -> float:
    """Its derivative, ``2 pi E x (1 - x/R)``."""
    return 2.0 * np.pi * E * x * (1.0 - x / R)


def sphere_on_plane_energy(E: float, R: float, x: float) -> float:
    """Its integral, ``pi E (x^3/3 - x^4/6R)``."""
    return np.pi * E * (x**3 / 3.0 - x**4 / (6.0 * R))


def ellipsoid_on_plane(E: float, a: float, b: float, c: float, x: float) -> float:
    """Compliant, on the end of its half axis c: ``pi E (ab/c^2) x^2 (1 - 2x/3c)``, the sphere's, stretched."""
    return a * b / c**2 * sphere_on_plane(E, c, x)


def rigid_sphere_on_slab(g: float, R: float, x: float) -> float:
    """Rigid sphere in a compliant plane, ``pi g x^2 (R - x/3)``: g times the volume of the cap."""
    return np.pi * g * x**2 * (R - x / 3.0)


def two_spheres(Ea: float, Ra: float, Eb: float, Rb: float, x: float, n: int = 40) -> float:
    """Both compliant: pressure over the shadow of the surface, n Gauss points in the squared radius.

    At each radius, the height is the root of ``p_A - p_B``, by bisection. The rim is where both spheres meet.
    """
    gap = Ra + Rb - x  # A at the origin, B above it
    meet = (gap**2 + Ra**2 - Rb**2) / (2.0 * gap)
    square = Ra**2 - meet**2
    nodes, weights = np.polynomial.legendre.leggauss(n)
    s = 0.5 * (nodes + 1.0) * square
    low, high = np.zeros(n), np.full(n, gap)
    for _ in range(60):
        z = 0.5 * (low + high)
        of_a = Ea * (1.0 - np.sqrt(s + z**2) / Ra)
        above = of_a < Eb * (1.0 - np.sqrt(s + (gap - z) ** 2) / Rb)
        low, high = np.where(above, low, z), np.where(above, z, high)
    return float(0.5 * np.pi * square * weights @ (Ea * (1.0 - np.sqrt(s + low**2) / Ra)))


def two_spheres_leading(Ea: float, Ra: float, Eb: float, Rb: float, x: float) -> float:
    """``pi kappa R x^2`` with ``1/kappa = Ra/Ea + Rb/Eb`` and ``1/R = 1/Ra + 1/Rb``: leading order in x."""
    return np.pi * x**2 / ((Ra / Ea + Rb / Eb) * (1.0 / Ra + 1.0 / Rb))


def box_on_plane(g: float, a: float, b: float, x: float) -> float:
    """Compliant box with a face of sides a, b on a rigid plane, ``g (ab x - (a+b) x^2 + 4x^3/3)``.

    Uniform pressure inside; within x of the sides the nearest face is a side, and the pressure falls to 0.
    """
    return g * (a * b * x - (a + b) * x**2 + 4.0 * x**3 / 3.0)


def cylinder_cap(g: float, R: float, x: float) -> float:
    """Compliant cylinder on its cap, ``pi g (R^2 x - R x^2 + x^3/3)``."""
    return np.pi * g * (R**2 * x - R * x**2 + x**3 / 3.0)


def cylinder_flank(g: float, R: float, L: float, x: float) -> float:
    """On its flank, L long: ``g L (R b - h^2 asinh(b/h))``, h = R - x, b^2 = R^2 - h^2.

    Near a cap the nearest face is the cap. That takes away a share of order x/L, which is left out here.
    """
    h = R - x
    b = np.sqrt(R**2 - h**2)
    return g * L * (R * b - h**2 * np.arcsinh(b / h))


def capsule_on_plane(E: float, R: float, L: float, x: float) -> float:
    """Lying, its segment L long: a flank and two halves of a sphere."""
    return cylinder_flank(E / R, R, L, x) + sphere_on_plane(E, R, x)


# eccentric push on a foundation of slope g, side b in the direction of the push, a across it


def tilt(g: float, a: float, b: float, M: float) -> float:
    """Of a moment M within the kern, ``12 M / (g a b^3)``, rad."""
    return 12.0 * M / (g * a * b**3)


def pressed_length(b: float, e: float) -> float:
    """Of a push e off the middle: b within the kern, b/6; ``3 (b/2 - e)`` beyond; 0 from b/2 on, where it tips."""
    return float(np.clip(3.0 * (0.5 * b - abs(e)), 0.0, b))


# torque of sliding friction mu p dA when a patch spins about its middle, over mu N


def disc_torque(R: float) -> float:
    """Uniform pressure, ``2R/3``."""
    return 2.0 * R / 3.0


def rectangle_torque(a: float, b: float) -> float:
    """Uniform pressure, ``[c + a^2/2b ln((b+c)/a) + b^2/2a ln((a+c)/b)] / 6``, c the diagonal; square: 0.38260 a."""
    c = np.hypot(a, b)
    return (c + a**2 / (2.0 * b) * np.log((b + c) / a) + b**2 / (2.0 * a) * np.log((a + c) / b)) / 6.0


def sphere_torque(radius: float) -> float:
    """Pressure ``1 - (r/radius)^2``, that of a sphere to leading order in depth: ``8/15 radius``."""
    return 8.0 / 15.0 * radius


def stopping_ratio(
    weight: NDArray[np.float64], xy: NDArray[np.float64], R: float, ratio: float, steps: int = 150
) -> float:
    """v/(R omega) as a uniform disc of radius R comes to rest, from a start with another ratio, by Runge-Kutta.

    The disc (inertia m R^2/2) slides and spins on points of normal forces `weight` (they sum to 1) at xy (n, 2). Speeds
    are over mu g: ``v' = -sum w u_x/|u|``, ``w' = -2/R^2 sum w (r x u)/|u|``. Time goes by the speed that is left, so
    the ratio has time to settle, at 0.653 (Farkas et al., Frictional coupling between sliding and spinning motion).
    """

    def rate(y: NDArray[np.float64]) -> NDArray[np.float64]:
        u = np.stack([y[0] - y[1] * xy[:, 1], y[1] * xy[:, 0]], axis=1)
        direction = u / np.maximum(np.linalg.norm(u, axis=1, keepdims=True), 1e-300)
        spin = xy[:, 0] * direction[:, 1] - xy[:, 1] * direction[:, 0]
        return -np.array([weight @ direction[:, 0], 2.0 / R**2 * (weight @ spin)])

    y = np.array([ratio * R, 1.0])
    for _ in range(steps):
        dt = 0.1 * np.hypot(y[0], R * y[1])
        k1 = rate(y)
        k2 = rate(y + 0.5 * dt * k1)
        k3 = rate(y + 0.5 * dt * k2)
        k4 = rate(y + dt * k3)
        y = y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return float(y[0] / (R * y[1]))
