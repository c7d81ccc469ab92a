"""Contact patches: the torque of friction on them, what two pads hold, and a base that is loaded off its middle.

Pressure of a flat base is uniform, that of a sphere falls as a parabola from its middle to its rim. Torques are those
of Coulomb friction that slips everywhere, as arms: the torque over mu N [m].
"""

import dataclasses
import functools
import math

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import GRAVITY

TOGETHER = 0.653
"""v / (R w) of a uniform disc that slides and spins, just before it stops: both end at once."""
_RADII, _ANGLES = 24, 96
"""Points of the sums over a disc."""
_SIDES = 200
"""Points along each side in the sums over a square."""


def disc_arm(radius: float) -> float:
    """Of a disc that spins about its middle: 2/3 R."""
    return 2.0 / 3.0 * radius


def rectangle_arm(a: float, b: float) -> float:
    """Of a rectangle of sides a, b: the mean distance from its middle; 0.38260 a of a square."""
    c = math.hypot(a, b)
    return (c + a**2 / (2.0 * b) * math.log((b + c) / a) + b**2 / (2.0 * a) * math.log((a + c) / b)) / 6.0


def sphere_patch(modulus: float, radius: float, force: float) -> float:
    """Radius of the patch of a soft sphere on a rigid plane [m], from force = pi E x^2 (1 - 2 x / 3 R), x < R."""
    low, high = 0.0, radius
    for _ in range(60):
        deep = 0.5 * (low + high)
        less = math.pi * modulus * deep**2 * (1.0 - 2.0 * deep / (3.0 * radius)) < force
        low, high = (deep, high) if less else (low, deep)
    deep = 0.5 * (low + high)
    return math.sqrt(2.0 * radius * deep - deep**2)


def sphere_arm(patch: float) -> float:
    """Of a sphere with a patch of that radius: 8/15 of it."""
    return 8.0 / 15.0 * patch


@dataclasses.dataclass(frozen=True)
class Slide:
    """A disc that slides and spins: time [s], velocity of its middle [m/s] and angular velocity [rad/s], (n,) each."""

    time: NDArray[np.float64]
    speed: NDArray[np.float64]
    spin: NDArray[np.float64]


def disc_friction(speed: float, rim: float) -> tuple[float, float]:
    """Force over mu N, and torque over mu N R, of a uniform disc that slides at `speed` and whose rim turns at `rim`.

    Both brake, and are positive where the velocities are.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_RADII)
    r = np.sqrt(0.5 * (nodes + 1.0))[:, None]  # uniform in the square of the radius
    angle = (np.arange(_ANGLES) + 0.5) * 2.0 * math.pi / _ANGLES
    x, y = r * np.cos(angle), r * np.sin(angle)
    u, v = speed - rim * y, rim * x
    size = np.maximum(np.hypot(u, v), 1e-300)
    share = 0.5 * weights / _ANGLES
    return float(share @ (u / size).sum(axis=1)), float(share @ ((x * v - y * u) / size).sum(axis=1))


@functools.cache
def disc_slide(speed: float, spin: float, radius: float, mu: float, steps: int = 400) -> Slide:
    """How a uniform solid disc (inertia m R^2 / 2) that slides and spins comes to rest, by midpoint steps.

    Steps shorten as it slows down, so that its end is resolved.
    """
    state, now = np.array([speed, radius * spin]), 0.0
    rows = [(now, *state)]
    for _ in range(steps):
        size = float(np.hypot(*state))
        step = 0.02 * size / (mu * GRAVITY)
        first = np.array(disc_friction(*state))
        middle = state - 0.5 * step * mu * GRAVITY * first * [1.0, 2.0]
        state = state - step * mu * GRAVITY * np.array(disc_friction(*middle)) * [1.0, 2.0]
        now += step
        rows.append((now, *state))
    time, along, rim = np.array(rows).T
    return Slide(time, along, rim / radius)


@functools.cache
def square_load(side: float, lever: float) -> float:
    """What a square pad holds of a force in its plane, `lever` away from its middle, over mu N.

    It turns about a point beside its middle, where the force has its moment balanced. For a long lever it is
    0.3826 side / lever; a force of its own in the plane takes little of that.
    """
    grid = ((np.arange(_SIDES) + 0.5) / _SIDES - 0.5) * side
    x, y = np.meshgrid(grid, grid, indexing="ij")

    def friction(centre: float) -> tuple[float, float]:
        """Force along y and torque about the middle, when it turns about (-centre, 0)."""
        size = np.hypot(x + centre, y)
        along = (x + centre) / size
        return float(along.mean()), float((x * along + y * y / size).mean())

    low, high = 0.0, side
    for _ in range(50):
        centre = 0.5 * (low + high)
        force, torque = friction(centre)
        low, high = (centre, high) if torque > lever * force else (low, centre)
    return friction(0.5 * (low + high))[0]


@dataclasses.dataclass(frozen=True)
class Base:
    """A base of `length` b along the eccentricity and `width` a, on a floor of pressure `slope` E/H [Pa/m]."""

    length: float
    width: float
    slope: float

    def pressed(self, eccentricity: float) -> float:
        """Length that is pressed [m]: b up to b/6, then 3 (b/2 - e); none where it tips."""
        return min(self.length, max(0.0, 3.0 * (0.5 * self.length - eccentricity)))

    def tilt(self, eccentricity: float, force: float) -> float:
        """Angle [rad]: F e / (E a b^3 / 12 H) up to b/6, then that of a triangle of pressure; inf where it tips."""
        pressed = self.pressed(eccentricity)
        if pressed == 0.0:
            return math.inf
        if pressed == self.length:
            return force * eccentricity * 12.0 / (self.slope * self.width * self.length**3)
        return 2.0 * force / (self.slope * self.width * pressed**2)


def sphere_force(modulus: float, radius: float, deep: float) -> float:
    """Of a soft sphere that is pressed `deep` into a rigid plane [N]."""
    return math.pi * modulus * deep**2 * (1.0 - 2.0 * deep / (3.0 * radius))


def box_force(slope: float, a: float, b: float, deep: float) -> float:
    """Of a soft box of base a by b [N], `slope` E/H: pressure falls to zero over the depth at its rim."""
    return slope * (a * b * deep - (a + b) * deep**2 + 4.0 / 3.0 * deep**3)


def cap_force(slope: float, radius: float, deep: float) -> float:
    """Of a soft cylinder that stands [N], `slope` E/H."""
    return math.pi * slope * (radius**2 * deep - radius * deep**2 + deep**3 / 3.0)


def flank_force(slope: float, radius: float, length: float, deep: float) -> float:
    """Of a soft cylinder that lies [N], `slope` E/H; what is missing at its ends is not taken off."""
    axis = radius - deep
    half = math.sqrt(radius**2 - axis**2)
    return slope * length * (radius * half - axis**2 * math.asinh(half / axis))
