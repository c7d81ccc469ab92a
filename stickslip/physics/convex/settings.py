"""Parameters that the physics with a convex step share, checked."""

import math

from stickslip.errors import InputError


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


def check_count(name: str, value: object, low: int) -> None:
    """Raise InputError unless `value` is a whole number, at least `low`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise InputError(f"{name} is {value!r}: it must be a whole number, at least {low}")
