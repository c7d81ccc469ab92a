"""The one notation for things with parameters on a command line: `name` or `name:key=value,key=value`."""

from collections.abc import Mapping
from typing import Any, TypeVar

from stickslip import parameters
from stickslip.errors import InputError, unknown

T = TypeVar("T")


def split(spec: str) -> tuple[str, dict[str, str]]:
    """The name, and parameters as text by name; a comma inside a value belongs to it unless `key=` follows it.

    Raises InputError if a parameter is not key=value, or is given twice.
    """
    name, _, rest = spec.partition(":")
    given: dict[str, str] = {}
    last = ""
    for part in rest.split(",") if rest.strip() else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and last and part.strip():
            given[last] += f",{part.strip()}"
            continue
        if not key.isidentifier() or not equals or not value:
            raise InputError(f"{spec!r}: {part.strip()!r} is not key=value; write parameters as name:key=1,other=2")
        if key in given:
            raise InputError(f"{spec!r}: parameter {key!r} is given twice; give it once")
        given[key] = value
        last = key
    return name.strip(), given


def make(kind: type[T], given: Mapping[str, Any], owner: str) -> T:
    """An instance of a dataclass of parameters from given ones, as values or text; `owner` is named in errors."""
    return kind(**parameters.values(kind, given, owner))


def resolve(spec: str, kinds: Mapping[str, type[T]], what: str) -> T:
    """The instance that a spec names, of the class registered under its name; `what` names the sort of thing."""
    name, given = split(spec)
    if name not in kinds:
        raise unknown(what, name, kinds)
    return make(kinds[name], given, name)


def written(name: str, thing: Any) -> str:
    """The spec of an instance of a dataclass of parameters: its name, and the parameters that are not the default."""
    given = {key: (getattr(thing, key), field.default) for key, field in parameters.fields(thing).items()}
    changed = [f"{key}={parameters.text(value)}" for key, (value, default) in given.items() if value != default]
    return name + (":" + ",".join(changed) if changed else "")
