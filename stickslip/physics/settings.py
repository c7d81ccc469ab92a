"""Parameters of a physics, checked: errors name the value and its limits."""

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


def check_count(name: str, value: object, low: int, high: int | None = None, *, optional: bool = False) -> None:
    """Raise InputError unless `value` is a whole number from `low` on, up to `high` if there is one; or None."""
    if optional and value is None:
        return
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):  # type: ignore[operator]
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise InputError(
            f"{name} is {value!r}: it must be a whole number, {limits}" + (", or None" if optional else "")
        )


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise InputError unless `value` is one of the choices."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}: it must be one of {', '.join(map(repr, choices))}")
