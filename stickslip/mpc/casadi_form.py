"""CasADi as an array library, so that what is written once for NumPy and JAX gives CasADi's expressions too.

A vector is a column of SX or MX. `quasidynamic.displacement(Arrays(), ...)` is the model of the planner `ipopt`.
"""

from collections.abc import Sequence
from typing import Any

from stickslip.errors import MissingExtra


def load() -> Any:
    """The module `casadi`."""
    try:
        import casadi
    except ImportError:
        raise MissingExtra("the planners ipopt and implicit need CasADi: pip install 'stickslip[mpc]'") from None
    return casadi


class Arrays:
    """The functions of an array library that models and costs use, for SX and MX."""

    def __init__(self) -> None:
        self._ca = load()

    def asarray(self, x: Any) -> Any:
        """Numbers or an expression, as a matrix of CasADi."""
        ca = self._ca
        return x if isinstance(x, ca.SX | ca.MX | ca.DM) else ca.DM(x)

    def concatenate(self, parts: Sequence[Any]) -> Any:
        """Vectors one below the other."""
        return self._ca.vertcat(*(self.asarray(part) for part in parts))

    def stack(self, parts: Sequence[Any]) -> Any:
        """A vector of scalars."""
        return self._ca.vertcat(*parts)

    def sum(self, x: Any) -> Any:
        """Of all entries of a vector."""
        return self._ca.sum1(x)

    def sqrt(self, x: Any) -> Any:
        return self._ca.sqrt(x)

    def sin(self, x: Any) -> Any:
        return self._ca.sin(x)

    def cos(self, x: Any) -> Any:
        return self._ca.cos(x)

    def logaddexp(self, a: Any, b: Any) -> Any:
        """log(exp(a) + exp(b)), with derivatives of every order that are right where a = b, and far from it.

        The half that does not count must be finite too, since its derivative is multiplied by zero: so its argument is
        held at 1. It is not held at 0, where the halves meet, since the derivative there would be that of the bound.
        """
        ca = self._ca
        more = a - b
        below = b + ca.log1p(ca.exp(ca.fmin(more, 1.0)))
        above = a + ca.log1p(ca.exp(ca.fmin(-more, 1.0)))
        return ca.if_else(more < 0.0, below, above)
