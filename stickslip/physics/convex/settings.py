"""Parameters that the physics with a convex step share, checked."""

import math

import mujoco

from stickslip.errors import InputError
from stickslip.physics.convex.external import External


def check_number(
    name: str, value: object, low: float, high: float, *, optional: bool = False, included: bool = False
) -> None:
    """Raise InputError unless `value` is a number above `low`, or from it on if included, up to `high`; or None."""
    if optional and value is None:
        return
    lowest = f"from {low:g}" if included else f"above {low:g}"
    wanted = f"it must be a number {lowest}, up to {high:g}" + (", or None for the model's" if optional else "")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{name} is {value!r}: {wanted}")
    if not (math.isfinite(value) and (low <= value if included else low < value) and value <= high):
        raise InputError(f"{name} is {value}: {wanted}")


def check_material(stiffness: object, dissipation: object, stiction: object, ahead: object) -> None:
    """Raise InputError unless contact parameters are fit."""
    check_number("stiffness", stiffness, 0.0, 1e15, optional=True)
    check_number("dissipation", dissipation, 0.0, 1e6, optional=True, included=True)
    check_number("stiction", stiction, 0.0, 1.0, optional=True)
    check_number("ahead", ahead, 0.0, 1.0, included=True)


def check_external(external: object) -> None:
    """Raise InputError unless `external` is an external system, or none."""
    if external is not None and not isinstance(external, External):
        raise InputError(f"external is {external!r}: it must be a stickslip.External, or None")


def dofs_of(external: External | None, mjm: mujoco.MjModel) -> tuple[int, ...]:
    """The dofs that an external system acts on; raises InputError unless the model has them."""
    if external is None:
        return ()
    external.check(mjm)
    return tuple(external.dofs)
