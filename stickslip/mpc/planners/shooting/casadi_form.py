"""CasADi as an array library, so that functions written for NumPy and JAX also give CasADi expressions.

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
    """The array functions that models and costs use, for SX and MX."""

    def __init__(self) -> None:
        self._ca = load()

    def asarray(self, x: Any) -> Any:
        """Numbers or an expression, as a CasADi matrix."""
        ca = self._ca
        return x if isinstance(x, ca.SX | ca.MX | ca.DM) else ca.DM(x)

    def concatenate(self, parts: Sequence[Any]) -> Any:
        """Concatenated vectors."""
        return self._ca.vertcat(*(self.asarray(part) for part in parts))

    def stack(self, parts: Sequence[Any]) -> Any:
        """A vector of scalars."""
        return self._ca.vertcat(*parts)

    def sum(self, x: Any) -> Any:
        """Sum of a vector."""
        return self._ca.sum1(x)

    def sqrt(self, x: Any) -> Any:
        return self._ca.sqrt(x)

    def sin(self, x: Any) -> Any:
        return self._ca.sin(x)

    def cos(self, x: Any) -> Any:
        return self._ca.cos(x)

    def logaddexp(self, a: Any, b: Any) -> Any:
        """log(exp(a) + exp(b)), with correct derivatives of every order, also at a = b and far from it.

        The branch that is not taken must be finite too, because its derivative is multiplied by zero. So its argument
        is clamped at 1; not at 0, where the branches meet, because the derivative there would be that of the clamp.
        """
        ca = self._ca
        more = a - b
        below = b + ca.log1p(ca.exp(ca.fmin(more, 1.0)))
        above = a + ca.log1p(ca.exp(ca.fmin(-more, 1.0)))
        return ca.if_else(more < 0.0, below, above)
