"""A pressure law of a soft pad with three numbers, from force and depth, for hydroelastic contact.

A rigid punch is pressed into a pad of thickness H that lies on something hard. Where it is x deep, and approaches at v,
the pressure is

    p = E (x/H)^n (1 + d v)

with the modulus E, the exponent n and the dissipation d. A hydroelastic geom of `icf` and `cenic` has n = 1, which
`PadFit.linear` tests; else `PadFit.user` gives the geom the line that has the pressure of the law at a depth.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stickslip.errors import InputError
from stickslip.identification.fit import WORSE, WRONG, Estimate
from stickslip.identification.parameter import Fields, Parameter
from stickslip.identification.solve import solve

CANDIDATES = 32
"""Candidates of a generation."""
MOST_STRAIN = 1.0
"""Depth over thickness, at most."""


@dataclasses.dataclass(frozen=True)
class Flat:
    """A punch with a flat face, as large as the patch.

    Attributes:
        area: of the face, m^2
    """

    area: float

    def volume(self, depth: NDArray[np.floating], exponent: NDArray[np.floating]) -> NDArray[np.floating]:
        """The integral of x^n over the face, m^(2 + n)."""
        return self.area * depth**exponent


@dataclasses.dataclass(frozen=True)
class Ball:
    """A punch with a round tip.

    Attributes:
        radius: of the tip, m
    """

    radius: float

    def volume(self, depth: NDArray[np.floating], exponent: NDArray[np.floating]) -> NDArray[np.floating]:
        """The integral of x^n over the shadow of the cap, m^(2 + n)."""
        share = (self.radius - depth) / (exponent + 1.0) + depth / (exponent + 2.0)
        return 2.0 * math.pi * depth ** (exponent + 1.0) * share


@dataclasses.dataclass(frozen=True, eq=False)
class Press:
    """Forces of a punch on a pad, at depths and speeds that were commanded or measured well.

    Attributes:
        depth: below the surface of the pad, m                      (n,)
        speed: of the approach, m/s; below 0 on the way back        (n,)
        force: m, N                                                 (n,)
        noise: standard deviation of the force, N; stored as        (n,)
        punch: `Flat` or `Ball`
        name: of the recording, for messages
    """

    depth: NDArray[np.floating]
    speed: NDArray[np.floating]
    force: NDArray[np.floating]
    noise: NDArray[np.floating]
    punch: Flat | Ball
    name: str = "press"

    def __init__(
        self,
        depth: ArrayLike,
        force: ArrayLike,
        noise: ArrayLike,
        punch: Flat | Ball,
        *,
        speed: ArrayLike = 0.0,
        name: str = "press",
    ) -> None:
        given = {"depth": depth, "force": force, "noise": noise, "speed": speed}
        arrays: dict[str, NDArray[np.floating]] = {}
        for key, value in given.items():
            try:
                arrays[key] = np.asarray(value, dtype=float)
            except (TypeError, ValueError):
                raise InputError(f"{key} of {name} is {value!r:.80}: it must be numbers") from None
        shape = arrays["depth"].shape
        for key, array in arrays.items():
            fits = array.shape == shape or (key in ("noise", "speed") and array.shape == ())
            if len(shape) != 1 or not shape[0] or not fits:
                raise InputError(f"{key} of {name} has shape {array.shape}: depth and force must be rows of one length")
            if not np.isfinite(array).all():
                raise InputError(f"{key} of {name} has a number that is not finite: leave out such rows")
            object.__setattr__(self, key, np.broadcast_to(array, shape))
        if self.depth.min() < 0.0:
            raise InputError(f"depth of {name} is {self.depth.min():g} m somewhere: it is 0 or more, in the pad")
        if self.noise.min() <= 0.0:
            raise InputError(
                f"noise of {name} is {self.noise.min():g} N somewhere: it is a standard deviation, and must be above 0"
            )
        size = punch.area if isinstance(punch, Flat) else punch.radius
        if not 0.0 < size < math.inf:
            raise InputError(f"the punch of {name} has a size of {size:g}: it must be above 0")
        if isinstance(punch, Ball) and self.depth.max() > punch.radius:
            raise InputError(
                f"depth of {name} is {self.depth.max():g} m, beyond the radius of the ball, {size:g} m: leave them out"
            )
        object.__setattr__(self, "punch", punch)
        object.__setattr__(self, "name", str(name))


@dataclasses.dataclass(frozen=True)
class _Number(Parameter):
    """A number of the law."""

    what: ClassVar[str] = ""

    @property
    def name(self) -> str:
        return self.what

    def check(self, mjm: object) -> None:
        """Nothing: a law has no model."""

    def write(self, fields: Fields, values: NDArray[np.floating]) -> None:
        """Nothing, likewise."""


@final
@dataclasses.dataclass(frozen=True)
class _Modulus(_Number):
    what: ClassVar[str] = "modulus"
    unit: ClassVar[str] = "Pa"


@final
@dataclasses.dataclass(frozen=True)
class _Exponent(_Number):
    what: ClassVar[str] = "exponent"


@final
@dataclasses.dataclass(frozen=True)
class _Dissipation(_Number):
    what: ClassVar[str] = "dissipation"
    unit: ClassVar[str] = "s/m"


@dataclasses.dataclass(frozen=True)
class Law:
    """The pressure law.

    Attributes:
        modulus: Pa
        exponent: of the strain
        dissipation: s/m
        thickness: of the pad, m
    """

    modulus: float
    exponent: float
    dissipation: float
    thickness: float

    def force(self, punch: Flat | Ball, depth: ArrayLike, speed: ArrayLike = 0.0) -> NDArray[np.floating]:
        """Force of a punch, N; never a pull."""
        numbers = np.array([[self.modulus, self.exponent, self.dissipation]])
        x, v = np.broadcast_arrays(np.asarray(depth, dtype=float), np.asarray(speed, dtype=float))
        return _forces(punch, x.ravel(), v.ravel(), numbers, self.thickness)[0].reshape(x.shape)

    def modulus_at(self, depth: float) -> float:
        """Hydroelastic modulus, Pa, with which a linear pad has the same pressure at a depth."""
        return self.modulus * (depth / self.thickness) ** (self.exponent - 1.0)


@dataclasses.dataclass(frozen=True, eq=False)
class PadFit:
    """What force and depth tell of a pad.

    Attributes:
        law: with the best numbers
        estimates: "modulus", "exponent" and "dissipation", each with its interval and whether it is identified; without
            the last if all presses were still
        residual: of the presses that were fitted, over the noise; about 1 if the law is right
        held_out: the same of those that were not; None if there were none
    """

    law: Law
    estimates: dict[str, Estimate]
    residual: float
    held_out: float | None

    @property
    def explains(self) -> bool:
        """Whether the law explains what was fitted."""
        return self.residual <= WRONG

    @property
    def carries(self) -> bool:
        """Whether it carries over to what was held out; True if nothing was."""
        return self.held_out is None or self.held_out <= WORSE * max(1.0, self.residual)

    @property
    def linear(self) -> bool:
        """Whether the pad may be linear, as hydroelastic geoms are: the interval of the exponent holds 1."""
        return self.estimates["exponent"].low <= 1.0 <= self.estimates["exponent"].high

    def user(self, depth: float) -> str:
        """What to write into `user` of a geom, `icf` or `cenic`, that is to be this pad when pressed so deep.

        The modulus has the pressure of the law there; elsewhere only if the law is linear.
        """
        if not 0.0 < depth <= MOST_STRAIN * self.law.thickness:
            raise InputError(f"depth is {depth:g} m: it must be above 0, and at most {self.law.thickness:g} m")
        return f"0 {self.law.dissipation:.6g} 0 {self.law.modulus_at(depth):.6g} {self.law.thickness:.6g}"

    def __str__(self) -> str:
        told = (
            f"Residual over noise: {self.residual:.3g}: the law {'explains' if self.explains else 'does not explain'}"
        )
        told += " the forces."
        if self.held_out is None:
            told += " There was no test: no press was held out."
        else:
            told += f" Held-out presses: {self.held_out:.3g}"
            told += "." if self.carries else ", much worse than those that were fitted."
        return "\n".join([told, *map(str, self.estimates.values())])


def fit_pad(
    presses: Sequence[Press],
    held_out: Sequence[Press],
    *,
    thickness: float,
    modulus: tuple[float, float] = (1e3, 1e9),
    exponent: tuple[float, float] = (0.3, 4.0),
    dissipation: tuple[float, float] = (1e-3, 100.0),
    generations: int = 40,
    seed: int = 0,
) -> PadFit:
    """Fit the pressure law of a pad.

    Args:
        presses: to fit, of several depths; of several speeds, or dissipation is left out, and 0
        held_out: that are not fitted, but tested, best with another punch; `()` if there are none
        thickness: of the pad, m
        modulus, exponent, dissipation: bounds, Pa, 1 and s/m
        generations: of the search, at most
        seed: of random numbers
    """
    if not 0.0 < thickness < math.inf:
        raise InputError(f"thickness is {thickness:g} m: it must be above 0")
    if not presses:
        raise InputError("presses is empty: give one or more")
    for press in (*presses, *held_out):
        if not isinstance(press, Press):
            raise InputError(f"presses and held_out must be lists of Press, got {press!r:.80}")
        if press.depth.max() > MOST_STRAIN * thickness:
            raise InputError(f"depth of {press.name} is {press.depth.max():g} m, beyond the pad, {thickness:g} m thick")
    parameters: list[Parameter] = [_Modulus(*modulus), _Exponent(*exponent)]
    if any(press.speed.any() for press in presses):
        parameters.append(_Dissipation(*dissipation))
    problem = _Presses(presses, thickness)
    found = solve(problem, parameters, generations, seed, lambda text: None, smooth=True)
    estimates = {estimate.parameter.name: estimate for estimate in found.estimates}
    best = np.array([[estimate.value for estimate in found.estimates]])
    tested = None
    if held_out:
        tested = float(np.sqrt((_Presses(held_out, thickness).residuals(best) ** 2).mean()))
    modulus_found, exponent_found, *rest = best[0].tolist()
    law = Law(modulus_found, exponent_found, rest[0] if rest else 0.0, thickness)
    return PadFit(law, estimates, found.residual, tested)


class _Presses:
    """What candidates of the law are off by."""

    def __init__(self, presses: Sequence[Press], thickness: float) -> None:
        self._presses, self._thickness = tuple(presses), thickness
        self.candidates = CANDIDATES
        self.nresidual = sum(len(press.depth) for press in presses)

    def residuals(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Over the noise, (n, nresidual)."""
        return np.concatenate(
            [
                (_forces(press.punch, press.depth, press.speed, values, self._thickness) - press.force) / press.noise
                for press in self._presses
            ],
            axis=1,
        )


def _forces(
    punch: Flat | Ball,
    depth: NDArray[np.floating],
    speed: NDArray[np.floating],
    values: NDArray[np.floating],
    thickness: float,
) -> NDArray[np.floating]:
    """Forces under laws, a row of modulus, exponent and perhaps dissipation each: (n, ndepth)."""
    modulus, exponent, *rest = values.T[..., None]
    share = np.maximum(1.0 + rest[0] * speed, 0.0) if rest else 1.0
    return modulus * thickness**-exponent * punch.volume(depth, exponent) * share
