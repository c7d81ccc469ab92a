"""The parameters of a dataclass in the API reference: default, meaning and limits, as `parameter` has them.

A field `name: kind = parameter(default, "meaning", low, high)` has no docstring, so its class gets an Attributes
section.
"""

import ast
from collections.abc import Iterator
from typing import Any

import griffe

from stickslip import parameters

KEY = "stickslip"


class Parameters(griffe.Extension):
    """Documents fields that `stickslip.parameters.parameter` makes."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        """Keep the meaning of a parameter, and its default as the value that signatures show."""
        if isinstance(attr.value, griffe.ExprCall) and str(attr.value.function).rpartition(".")[2] == "parameter":
            call = ast.parse(str(attr.value), mode="eval").body
            assert isinstance(call, ast.Call)
            attr.value = ast.unparse(call.args[0])
            attr.extra[KEY]["meaning"] = meaning(call)

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Add the Attributes section to every class that has such fields, its own or inherited."""
        for cls in classes(pkg):
            lines = [f"    {name}: {meaning}" for name, meaning in meanings(cls).items()]
            text = cls.docstring.value if cls.docstring else ""
            if lines and "Attributes:" not in text:
                cls.docstring = griffe.Docstring("\n".join([text, "", "Attributes:", *lines]), parent=cls)


def meaning(call: ast.Call) -> str:
    """Meaning and limits of a call of `parameter`; the meaning alone if a limit is not a literal."""
    try:
        given = [ast.literal_eval(argument) for argument in call.args]
        named = {k.arg: kind(k.value) if k.arg == "kind" else ast.literal_eval(k.value) for k in call.keywords}
    except ValueError:
        return next((str(a.value) for a in call.args[1:2] if isinstance(a, ast.Constant)), "")
    declared = parameters.parameter(*given, **named).metadata["parameter"]
    return declared.meaning if declared.kind in (bool, object) else f"{declared.meaning} ({declared.limits})"


def kind(node: ast.expr) -> type:
    """The type that `kind=` names."""
    return {"int": int, "float": float, "bool": bool, "str": str}.get(ast.unparse(node), object)


def meanings(cls: griffe.Class) -> dict[str, str]:
    """Meanings of the parameters of a class, those of its bases first."""
    found: dict[str, str] = {}
    for one in [*reversed(cls.mro()), cls]:
        for attr in one.attributes.values():
            if not attr.is_alias and "meaning" in attr.extra[KEY]:
                found[attr.name] = attr.extra[KEY]["meaning"]
    return found


def classes(module: griffe.Module) -> Iterator[griffe.Class]:
    """The classes of a module and its submodules."""
    for member in module.members.values():
        if isinstance(member, griffe.Class):
            yield member
        elif isinstance(member, griffe.Module):
            yield from classes(member)
