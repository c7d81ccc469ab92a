"""Parameters to identify, as a command line names them: `mass:T=0.1:3`."""

import re
from collections.abc import Callable

from stickslip import identification as given
from stickslip.errors import InputError, unknown
from stickslip.identification.parameter import Parameter

_INDEX = re.compile(r"(?P<field>\w+)(?:\[(?P<index>[^\[\]]*)\])?")
_EXAMPLES = {
    "friction": "friction:T=0.05:2, or friction=0.05:2 for all geoms",
    "pair-friction": "pair-friction:PAIR=0.05:2",
    "mass": "mass:BODY=0.1:3",
    "stiffness": "stiffness:GEOM=1e3:1e6, or stiffness=1e3:1e6 for all geoms",
    "dissipation": "dissipation:GEOM=0.01:10, or dissipation=0.01:10 for all geoms",
    "static-friction": "static-friction:GEOM=0.1:2",
    "modulus": "modulus:GEOM=1e4:1e8",
    "damping": "damping:JOINT=0.01:10",
    "dry-friction": "dry-friction:JOINT=0.01:10",
    "armature": "armature:JOINT=1e-3:1",
    "gain": "gain:ACTUATOR=10:1000",
    "delay": "delay:measurements=0:0.1 or delay:controls=0:0.1",
    "field": "field:geom_solref[3,0]=0.004:0.1, and :scale or :linear behind it",
}
_OF_GEOMS = {
    "friction": given.Friction,
    "static-friction": given.StaticFriction,
    "stiffness": given.Stiffness,
    "dissipation": given.Dissipation,
    "modulus": given.Modulus,
}
_OF_ONE: dict[str, Callable[[str, float, float], Parameter]] = {
    "pair-friction": given.PairFriction,
    "mass": given.Mass,
    "damping": given.JointDamping,
    "dry-friction": given.JointFriction,
    "armature": given.Armature,
    "gain": given.ServoGain,
}


def parse(text: str) -> Parameter:
    """The parameter that `KIND:NAME=LOW:HIGH` stands for; raises InputError with an example of its kind."""
    left, equals, right = text.rpartition("=")
    kind, _, of = (part.strip() for part in (left if equals else text).partition(":"))
    if kind not in _EXAMPLES:
        raise InputError(f"parameter {text!r}: {unknown('sort of parameter', kind, _EXAMPLES)}; such as mass:T=0.1:3")
    bounds, options = right.split(":")[:2], right.split(":")[2:]
    allowed = {"scale", "linear"} if kind == "field" else set()
    if not equals or len(bounds) < 2 or not set(options) <= allowed:
        raise InputError(f"parameter {text!r} must be KIND:NAME=LOW:HIGH; such as {_EXAMPLES[kind]}")
    try:
        low, high = map(float, bounds)
    except ValueError:
        raise InputError(
            f"parameter {text!r}: bounds {right!r} are not two numbers; such as {_EXAMPLES[kind]}"
        ) from None
    if not of and kind not in _OF_GEOMS:
        raise InputError(f"parameter {text!r} does not say of what; such as {_EXAMPLES[kind]}")
    try:
        return _make(kind, of, low, high, options)
    except InputError as error:
        raise InputError(f"parameter {text!r}: {error}") from None


def _make(kind: str, of: str, low: float, high: float, options: list[str]) -> Parameter:
    if kind in _OF_GEOMS:
        names = [name.strip() for name in of.split(",")]
        return _OF_GEOMS[kind](None if not of else names[0] if len(names) == 1 else names, low, high)
    if kind == "delay":
        return given.Delay(low, high, of)
    if kind == "field":
        found = _INDEX.fullmatch(of)
        if found is None:
            raise InputError(f"{of!r} is not FIELD[INDEX]; such as {_EXAMPLES[kind]}")
        index = _index(found["index"] or "")
        return given.ModelField(found["field"], index, low, high, scale="scale" in options, linear="linear" in options)
    return _OF_ONE[kind](of, low, high)


def _index(text: str) -> tuple[int | slice, ...]:
    """The index that `3,0` or `:,0` stands for."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    try:
        return tuple(
            slice(*(int(end) if end else None for end in part.split(":", 1))) if ":" in part else int(part)
            for part in parts
        )
    except ValueError:
        raise InputError(f"index [{text}] must be numbers, or ranges such as 2:5; such as [3,0]") from None
