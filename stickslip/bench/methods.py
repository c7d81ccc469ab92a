"""What takes part in an experiment: a method is a physics, an outside engine or a planner, with its parameters."""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stickslip import parameters, spec
from stickslip.errors import InputError, unknown
from stickslip.physics import registry
from stickslip.provenance import package_version

Kind = Literal["physics", "planner"]
ANTI_CREEP = "mujoco-anti-creep"
"""MuJoCo with the settings its users recommend against creep: elliptic cone, impratio 100."""
IN_C = "mujoco-c"
"""MuJoCo in C, on one core of a CPU."""
PAPER = "pbd-r-paper"
"""PBD-R as published; its parameters are its choices, such as `pbd-r-paper:velocity=false`."""
REFERENCES = ("mujoco", ANTI_CREEP)
"""The methods that every claim is compared with; only the better of the two counts."""


@dataclasses.dataclass(frozen=True)
class Method:
    """A method with its parameters.

    Attributes:
        label: how it was named, such as `comfree:stiffness=0.1`; its column in every table
        kind: what it is; an experiment takes one kind
        subject: the physics or the planner itself; what `Experiment.measure` is given
        modules: where its code begins, for the digest of its source
        packages: packages whose versions matter to it beside those of every method
    """

    label: str
    kind: Kind
    subject: Any
    modules: tuple[str, ...]
    packages: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name without parameters."""
        return str(self.subject.name)

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter by its name."""
        return dataclasses.asdict(self.subject) if dataclasses.is_dataclass(self.subject) else {}  # type: ignore[arg-type]

    @property
    def versions(self) -> dict[str, str]:
        """Version of each of `packages`."""
        return {name: package_version(name) for name in self.packages}


@dataclasses.dataclass(frozen=True)
class Entry:
    """How a method is made from its name.

    Attributes:
        target: "module:Class"
        kind: what it is
        role: as in the registry of physics: "production" runs in every experiment that names no methods, the others
            where they are named; a "baseline" has no column in summaries
        packages: see `Method`
        modules: where its code begins; the module of `target` if empty
        fixed: parameters that its name stands for
    """

    target: str
    kind: Kind = "physics"
    role: registry.Role = "baseline"
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def cls(self) -> Any:
        """The class of the method."""
        module, _, name = self.target.partition(":")
        return getattr(importlib.import_module(module), name)

    def make(self, label: str, values: Mapping[str, Any]) -> Method:
        """The method under a label, with parameters."""
        modules = self.modules or (self.target.partition(":")[0],)
        return Method(label, self.kind, self.cls(**self.fixed, **values), modules, self.packages)


_JAX = ("jax", "mujoco-mjx")
_PLANNERS = "stickslip.bench.baselines.planners"
_SHOOTING = "stickslip.mpc.planners.shooting"
_PBD_PAPER = "stickslip.bench.baselines.pbd_paper.physics"
OTHERS: dict[str, Entry] = {
    IN_C: Entry("stickslip.bench.baselines.mujoco_c:MujocoC"),
    "qp": Entry("stickslip.bench.baselines.qp:QpModel", packages=("osqp",)),
    "drake": Entry("stickslip.bench.baselines.drake:Drake", packages=("drake",)),
    "mjx": Entry("stickslip.bench.baselines.mjx:Mjx", packages=_JAX),
    "pbd": Entry(f"{_PBD_PAPER}:Pbd"),
    PAPER: Entry(f"{_PBD_PAPER}:PbdRPaper"),
    "pbd-r-ablated": Entry(f"{_PBD_PAPER}:PbdRAblated"),
    "newton": Entry(
        f"{_PLANNERS}:NewtonPlanner", "planner", modules=(_PLANNERS, "stickslip.mpc.planners.newton.planner")
    ),
    "ipopt": Entry(f"{_PLANNERS}:IpoptPlanner", "planner", "baseline", ("casadi",), (_PLANNERS, f"{_SHOOTING}.ipopt")),
    "implicit": Entry(
        f"{_PLANNERS}:ImplicitPlanner", "planner", "baseline", ("casadi",), (_PLANNERS, f"{_SHOOTING}.implicit")
    ),
}
"""Methods that are no physics of the library."""
_PACKAGES = {"jax": (*_JAX, "pynanoinstantmeshes")}
"""Packages of each extra that a physics may need; the last one remeshes for `scm` where it is installed."""


def entries() -> dict[str, Entry]:
    """Every method by its name: the physics, variants that have a name of their own, planners and outside engines."""
    found = {
        name: Entry(known.where, role=known.role, packages=_PACKAGES.get(known.extra, ()))
        for name, known in registry.entries().items()
    }
    variants = {
        ANTI_CREEP: dataclasses.replace(found["mujoco"], fixed={"anti_creep": True}),
    }
    return found | variants | OTHERS


def names() -> list[str]:
    """The methods of an experiment that names none: MuJoCo in both forms, then every physics meant to be used."""
    return [*REFERENCES, *(name for name, e in entries().items() if e.role == "production" and name not in REFERENCES)]


def resolve(specs: Sequence[str]) -> dict[str, Method]:
    """The method of each spec, by the spec: `comfree`, `mujoco-anti-creep`, `comfree:stiffness=0.1,damping=0.001`."""
    return {text: _resolve(text) for text in specs}


def of(label: str, subject: Any) -> Method:
    """A method made of a physics at hand, which need not be registered."""
    return subject if isinstance(subject, Method) else Method(label, "physics", subject, (type(subject).__module__,))


def entry(label: str) -> Entry | None:
    """The entry that a label begins with, whatever its parameters; None if there is none."""
    return entries().get(label.partition(":")[0])


def has(subject: Any, name: str) -> bool:
    """Whether a physics has a parameter of that name."""
    return dataclasses.is_dataclass(subject) and name in {field.name for field in dataclasses.fields(subject)}


def _resolve(text: str) -> Method:
    found = entries()
    name, given = spec.split(text)
    if name not in found:
        raise unknown("physics", name, found)
    if name == ANTI_CREEP and given:
        given_text = ",".join(f"{key}={value}" for key, value in given.items())
        raise InputError(f"{text!r}: {ANTI_CREEP} takes no parameters; write mujoco:anti_creep=true,{given_text}")
    return found[name].make(text, parameters.values(found[name].cls, given, name))
