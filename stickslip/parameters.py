"""Parameters, declared once: default, meaning with unit, bounds. Checks, command-line values and tables follow.

    @parameters.checked
    @dataclasses.dataclass(frozen=True)
    class Gains:
        stiffness: float = parameter(0.2, "share of the depth that a step removes", 0.0, 1.0)
        substeps: int | None = parameter(None, "parts of a step; None: by timestep", 1, 1000, kind=int)

`Gains(stiffness=2.0)` raises InputError naming value and limits; `make(Gains, "stiffness=0.1,substeps=4")` reads text.
"""

import ast
import dataclasses
import functools
import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from stickslip.errors import InputError, unknown

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What is known of a parameter besides its name and default.

    Attributes:
        meaning: what it sets, with its SI unit in brackets
        kind: bool, int, float, str or object; of a tuple, of each entry
        low, high: limits, included; None: none
        above: whether `low` itself is excluded
        optional: whether None is allowed
        several: whether it is a tuple of values
        per_world: whether it may also be a tuple, with one value per world
        choices: the strings it may be; empty: any
        was: former names, which raise an error naming the new one
    """

    meaning: str
    kind: type
    low: float | None = None
    high: float | None = None
    above: bool = False
    optional: bool = False
    several: bool = False
    per_world: bool = False
    choices: tuple[str, ...] = ()
    was: tuple[str, ...] = ()

    @property
    def limits(self) -> str:
        """In words: "a whole number from 1 to 1000, or None"."""
        noun = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(
            self.kind, "an object"
        )
        if self.choices:
            noun = f"one of {', '.join(map(repr, self.choices))}"
        low, high = text(self.low), text(self.high)
        if self.low is not None and self.high is not None:
            noun += f" above {low} up to {high}" if self.above else f" from {low} to {high}"
        elif self.low is not None:
            noun += f" above {low}" if self.above else f" of at least {low}"
        elif self.high is not None:
            noun += f" of at most {high}"
        noun = f"one or more, each {noun}" if self.several else noun
        noun += ", or one per world" if self.per_world else ""
        return noun + (", or None" if self.optional else "")


def parameter(
    default: Any,
    meaning: str,
    low: float | None = None,
    high: float | None = None,
    *,
    kind: type | None = None,
    above: bool = False,
    optional: bool = False,
    several: bool = False,
    per_world: bool = False,
    choices: Sequence[str] = (),
    was: str | Sequence[str] = (),
) -> Any:
    """A dataclass field for a parameter.

    Args:
        default: its type gives the kind; a tuple takes several values
        meaning: what it sets, with its SI unit in brackets: "length of a step [s]"
        low, high: limits, included
        kind: needed only if the default is None
        above: exclude `low` itself
        optional: allow None; follows from a default of None
        several: take a tuple of values; follows from a default that is one
        per_world: take one value, or a tuple of one per world
        choices: the strings it may be
        was: former name or names
    """
    several = several or isinstance(default, tuple)
    if kind is None:
        example = default[0] if isinstance(default, tuple) else default
        if example is None:
            raise TypeError(f"parameter {meaning!r}: a default of None needs a kind")
        kind = type(example)
    low, high = (None if limit is None or math.isinf(limit) else limit for limit in (low, high))
    former = (was,) if isinstance(was, str) else tuple(was)
    declared = Declaration(
        meaning, kind, low, high, above, optional or default is None, several, per_world, tuple(choices), former
    )
    return dataclasses.field(default=default, metadata={"parameter": declared})


def declaration(field: dataclasses.Field[Any]) -> Declaration:
    """The declaration of a field that `parameter` made."""
    return field.metadata["parameter"]


def fields(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    """The parameters of a dataclass or an instance of one, by name."""
    return {field.name: field for field in dataclasses.fields(kind) if "parameter" in field.metadata}


def checked(cls: type[T]) -> type[T]:
    """Class decorator, outside `dataclass`: every instance is checked, and unknown or former names are explained."""
    initialise = cls.__init__

    @functools.wraps(initialise)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        check_names(cls, kwargs)
        initialise(self, *args, **kwargs)
        check(self)

    cls.__init__ = __init__  # type: ignore[method-assign]
    return cls


def check_names(kind: Any, given: Mapping[str, Any], owner: str = "") -> None:
    """Raise InputError if a name is not among the fields of a dataclass, with the new name of one that was renamed."""
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    of = f" of {owner}" if owner else ""
    _check_former(kind, given, of)
    for name in given:
        if name not in names:
            raise unknown(f"parameter{of}", name, names)


def explaining(kind: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator of a function that takes the parameters of `kind`: a former name raises the error with the new one."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            _check_former(kind, kwargs)
            return function(*args, **kwargs)

        return wrapper

    return decorate


def _check_former(kind: Any, given: Mapping[str, Any], of: str = "") -> None:
    former = {old: name for name, field in fields(kind).items() for old in declaration(field).was}
    for name in given:
        if name in former:
            raise InputError(f"the parameter {name!r}{of} is called {former[name]!r} now; write that")


def check(obj: Any) -> None:
    """Raise InputError naming value and limits unless every parameter of a dataclass instance is valid."""
    for name, field in fields(obj).items():
        _check(name, declaration(field), getattr(obj, name))


def convert(name: str, field: dataclasses.Field[Any], value: Any) -> Any:
    """A value, or the text of one, as what the parameter takes; raises InputError naming value and limits."""
    declared = declaration(field)
    if isinstance(value, str):
        value = _read(name, declared, value)
    elif (declared.several or declared.per_world) and isinstance(value, Sequence):
        value = tuple(_number(declared, entry) for entry in value)
    else:
        value = _number(declared, value)
    _check(name, declared, value)
    return value


def values(kind: Any, given: Mapping[str, Any], owner: str = "") -> dict[str, Any]:
    """Given parameters, as values or text, by name and converted; raises InputError for a name or value that is not."""
    check_names(kind, given, owner)
    known = fields(kind)
    return {name: convert(name, known[name], value) if name in known else value for name, value in given.items()}


def describe(field: dataclasses.Field[Any]) -> str:
    """One line: "substeps=none (a whole number from 1 to 1000, or None): parts of a step"."""
    declared = declaration(field)
    return f"{field.name}={text(field.default)} ({declared.limits}): {declared.meaning}"


def rows(kind: Any) -> Iterator[tuple[str, str, str, str]]:
    """Name, default, limits and meaning of every parameter, for tables."""
    for name, field in fields(kind).items():
        declared = declaration(field)
        yield name, text(field.default), declared.limits, declared.meaning


def text(value: Any) -> str:
    """A value as it is written in "name=value"."""
    if isinstance(value, tuple):
        return ",".join(map(text, value))
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _check(name: str, declared: Declaration, value: Any) -> None:
    if value is None and declared.optional:
        return
    entries = {name: value}
    if declared.several or declared.per_world and isinstance(value, tuple):
        if not isinstance(value, tuple) or not value:
            raise InputError(f"{name} is {value!r}: it must be {declared.limits}")
        entries = {f"{name}[{i}]": entry for i, entry in enumerate(value)}
    for place, entry in entries.items():
        if not _fits(declared, entry):
            raise InputError(f"{place} is {entry!r}: it must be {declared.limits}")


def _fits(declared: Declaration, value: Any) -> bool:
    if declared.kind is object:
        return True
    if declared.kind is bool:
        return isinstance(value, bool)
    if declared.kind is str:
        return isinstance(value, str) and (not declared.choices or value in declared.choices)
    if isinstance(value, bool) or not isinstance(value, numbers.Integral if declared.kind is int else numbers.Real):
        return False
    number = float(value)
    if not math.isfinite(number):
        return False
    if declared.low is not None and (number < declared.low or declared.above and number == declared.low):
        return False
    return declared.high is None or number <= declared.high


def _number(declared: Declaration, value: Any) -> Any:
    """A number that is one of the declared kind, such as 3.0 for 3; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or declared.kind not in (int, float):
        return value
    if declared.kind is float or not isinstance(value, numbers.Integral):
        number = float(value)
        return int(number) if declared.kind is int and number.is_integer() else number
    return int(value)


def _read(name: str, declared: Declaration, given: str) -> Any:
    if declared.optional and given.strip().lower() == "none":
        return None
    if declared.several or declared.per_world and "," in given:
        return tuple(_entry(name, declared, part) for part in given.split(","))
    return _entry(name, declared, given)


def _entry(name: str, declared: Declaration, given: str) -> Any:
    given = given.strip()
    if declared.kind is str:
        return given
    wrong = InputError(f"{name} is {given!r}: it must be {declared.limits}")
    if declared.kind is object:
        raise InputError(f"{name} cannot be written as text; give it in Python")
    if declared.kind is bool:
        if given.lower() not in ("true", "false"):
            raise wrong
        return given.lower() == "true"
    try:
        value = ast.literal_eval(given)
    except (ValueError, SyntaxError):
        try:
            value = float(given)
        except ValueError:
            raise wrong from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong
    return _number(declared, value)
