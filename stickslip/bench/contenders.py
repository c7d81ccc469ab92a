"""Who takes part in an experiment: the physics there are, MuJoCo twice, and any of them with other parameters."""

import ast
import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import stickslip
from stickslip.bench import drake, mjx, planners, qp
from stickslip.bench.result import package_version
from stickslip.errors import InputError
from stickslip.physics.base import Physics

ANTI_CREEP = "mujoco-anti-creep"
"""MuJoCo with the settings its users recommend against creep: elliptic cone, impratio 100."""
PAPER = "pbd-r-paper"
"""PBD-R as published; takes the parameters of `pbd-r`, such as `pbd-r-paper:velocity=false`."""
FOILS = ("pbd",)
"""Physics that are there to be compared with; experiments that show why name them."""
APART = ("scm",)
"""Physics that JAX compiles for each model; experiments of their own name them."""
BASELINES = ("mujoco", ANTI_CREEP)
"""Who every claim is held against; only the better of the two counts."""


def names() -> list[str]:
    """The contenders of every experiment: each physics that is there to be used, and MuJoCo a second time."""
    return [*BASELINES, *(name for name in stickslip.PHYSICS if name not in (*BASELINES, *FOILS, *APART))]


def resolve(specs: Sequence[str]) -> dict[str, Physics[Any, Any]]:
    """The physics of each spec, by the spec: `comfree`, `mujoco-anti-creep`, `comfree:stiffness=0.1,damping=0.001`."""
    return {spec: _resolve(spec) for spec in specs}


def describe(physics: Physics[Any, Any]) -> dict[str, Any]:
    """Name and parameters of a physics, for the record; of what is no physics of ours also the version behind it."""
    parameters = dataclasses.asdict(physics) if dataclasses.is_dataclass(physics) else {}  # type: ignore[arg-type]
    described: dict[str, Any] = {"physics": physics.name, "parameters": parameters}
    if isinstance(physics, qp.QpModel):
        described["osqp"] = package_version("osqp")
    if isinstance(physics, (planners.IpoptPlanner, planners.ImplicitPlanner)):
        described["casadi"] = package_version("casadi")
    if isinstance(physics, drake.Drake):
        described["drake"] = package_version("drake")
    if isinstance(physics, (mjx.Mjx, stickslip.Scm)):
        described |= {name: package_version(name) for name in ("jax", "mujoco-mjx")}
    return described


def has(physics: Physics[Any, Any], name: str) -> bool:
    """Whether a physics has a parameter of that name."""
    return dataclasses.is_dataclass(physics) and name in {field.name for field in dataclasses.fields(physics)}


def _resolve(spec: str) -> Physics[Any, Any]:
    name, _, text = spec.partition(":")
    if name == ANTI_CREEP:
        if text:
            raise InputError(f"{spec!r}: {ANTI_CREEP} takes no parameters; write mujoco:anti_creep=true,{text}")
        name, text = "mujoco", "anti_creep=True"
    others = {kind.name: kind for kind in (qp.QpModel, drake.Drake, mjx.Mjx, *planners.KINDS)} | {PAPER: stickslip.PbdR}
    kinds: Mapping[str, Any] = {**stickslip.PHYSICS, **others}
    if name not in kinds:
        known = [*names(), *FOILS, *APART, *others]
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(repr(c) for c in close)}? " if close else ""
        raise InputError(f"no physics named {name!r}; {hint}there are: {', '.join(known)}")
    kind = kinds[name]
    fields = [field.name for field in dataclasses.fields(kind)]
    given = {}
    for part in text.split(",") if text else []:
        key, equals, value = part.partition("=")
        if not equals or key not in fields:
            listed = ", ".join(fields) or "none"
            raise InputError(f"{spec!r}: {part!r} is not parameter=value of {name!r}; its parameters: {listed}")
        given[key] = _value(value)
    return stickslip.PbdR.paper(**given) if name == PAPER else kind(**given)


def _value(text: str) -> Any:
    """A Python literal, true and false in any case, or the text itself."""
    try:
        return ast.literal_eval(text.capitalize() if text.lower() in ("true", "false", "none") else text)
    except (ValueError, SyntaxError):
        return text
