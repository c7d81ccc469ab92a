"""The quasi-dynamic contact model and the cost of a plan in JAX, compiled and differentiable.

They compute in single precision unless JAX is told otherwise.
"""

# pyright: reportMissingImports=false

import functools
from collections.abc import Sequence
from typing import Any

from stickslip.errors import MissingExtra
from stickslip.mpc.model import cost, quasidynamic
from stickslip.mpc.model.kinematics import Chain
from stickslip.mpc.success import Array
from stickslip.mpc.task import Cost, QuasiDynamic

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise MissingExtra("the model in JAX needs JAX: pip install 'stickslip[jax]'") from None


@functools.partial(jax.jit, static_argnums=0)
def displacement(model: QuasiDynamic, rows: Any, phi: Any, u: Any) -> Any:
    """As `quasidynamic.displacement`, (nr + 6,)."""
    return quasidynamic.displacement(jnp, model, rows, phi, u)


@functools.partial(jax.jit, static_argnums=0)
def jacobian(model: QuasiDynamic, rows: Any, phi: Any, u: Any) -> Any:
    """Derivative of the displacement by the control, (nr + 6, nr)."""
    return jax.jacobian(lambda u: quasidynamic.displacement(jnp, model, rows, phi, u))(u)


def plan_cost(weights: Cost, model: QuasiDynamic, chains: Sequence[Chain], posture: Array) -> Any:
    """A compiled function of goal, start, contacts and controls (T, nr): the cost of a plan and its gradient (T, nr).

    Its arguments are `goal` (position, quaternion), `qpos`, `rows`, `phi` and `controls`; see `cost.of_plan`.
    """

    def total(controls: Any, goal: Any, qpos: Any, rows: Any, phi: Any) -> Any:
        steps = [controls[t] for t in range(controls.shape[0])]
        return cost.of_plan(jnp, weights, model, chains, posture, goal, qpos, rows, phi, steps)

    both = jax.jit(jax.value_and_grad(total))
    return lambda goal, qpos, rows, phi, controls: both(controls, goal, qpos, rows, phi)
