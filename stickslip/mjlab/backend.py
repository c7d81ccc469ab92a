"""A module with MuJoCo Warp's names: models are made with the chosen physics, and stepped with the one that made them.

So a simulation that exists keeps its physics when another one is chosen.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import mujoco_warp as mjw

import stickslip.comfree as comfree
import stickslip.conesweep as conesweep
from stickslip import parameters as declared
from stickslip import spec
from stickslip.errors import InputError, Unsupported
from stickslip.physics import registry
from stickslip.physics.base import Physics

MODULES: Mapping[str, ModuleType] = {"cone-sweep": conesweep, "comfree": comfree, "mujoco": mjw}
"""The physics that have a module with MuJoCo Warp's names."""
MAKERS = ("put_model", "make_data", "put_data")
"""What makes models and data: of the chosen physics."""
_DROP_INS = (conesweep, comfree)


@dataclasses.dataclass(frozen=True)
class Choice:
    """A physics with its parameters.

    Attributes:
        name: the physics as it is written on a command line
        module: with MuJoCo Warp's names
        parameters: what its `put_model` is given
    """

    name: str
    module: ModuleType
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)


MUJOCO = Choice("mujoco", mjw)
_chosen = MUJOCO


def chosen() -> Choice:
    """What models are made with."""
    return _chosen


def choose(choice: Choice) -> Choice:
    """Make models with a choice from now on; returns the one before."""
    global _chosen
    before, _chosen = _chosen, choice
    return before


def choice_of(physics: str | Physics[Any, Any], given: Mapping[str, Any]) -> Choice:
    """The choice that a name and parameters, or a physics itself, stand for; raises as `stickslip.mjlab.use`."""
    if isinstance(physics, str):
        name, written = spec.split(physics)
        twice = sorted(written.keys() & given.keys())
        if twice:
            raise InputError(f"parameter {twice[0]!r} is given twice, in {physics!r} and by keyword; give it once")
        registry.find(name)
        _check_has_module(name)
        physics = spec.make(registry.PHYSICS[name], {**written, **given}, name)
    elif not isinstance(physics, Physics):
        raise InputError(f"physics is a {type(physics).__name__}: give a name, {_names()}, or a stickslip physics")
    elif given:
        names = ", ".join(given)
        raise InputError(f"{names}: a physics has its parameters already; give them to {type(physics).__name__}(...)")
    _check_has_module(physics.name)
    if not isinstance(physics, registry.PHYSICS[physics.name]):
        raise InputError(f"{physics!r} is named {physics.name!r} and is not that physics; give it another name")
    values = {name: getattr(physics, name) for name in declared.fields(physics)}
    label = spec.written(physics.name, physics)
    if MODULES[physics.name] is mjw:
        if label != "mujoco":
            raise Unsupported(
                f"{label}: with mjlab, options of MuJoCo's solver are in its configuration: set "
                "cfg.sim.mujoco.cone = 'elliptic' and cfg.sim.mujoco.impratio = 100 for anti_creep"
            )
        values = {}
    return Choice(label, MODULES[physics.name], values)


def _names() -> str:
    return ", ".join(MODULES)


def _check_has_module(name: str) -> None:
    if name not in MODULES:
        raise Unsupported(
            f"{name} cannot be mjlab's backend: it has no module with MuJoCo Warp's names; choose one that has: "
            f"{_names()}"
        )


def owner_of(thing: Any) -> ModuleType:
    """The module that made a model or data."""
    return next((module for module in _DROP_INS if isinstance(thing, (module.Model, module.Data))), mjw)


class Backend(ModuleType):
    """MuJoCo Warp's names; those that a physics replaces follow the choice or the model."""

    def __init__(self) -> None:
        super().__init__("stickslip.mjlab.backend.BACKEND", "MuJoCo Warp's names for mjlab")
        for name in MAKERS:
            setattr(self, name, _making(name))
        for name in _replaced():
            if name not in MAKERS:
                setattr(self, name, _following(name))

    def __getattr__(self, name: str) -> Any:
        return getattr(mjw, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(mjw), *vars(self)})


def _replaced() -> list[str]:
    """Functions that a physics has of its own."""
    names = [name for name in dir(mjw) if not name.startswith("_") and inspect.isroutine(getattr(mjw, name))]
    return [name for name in names if any(getattr(module, name) is not getattr(mjw, name) for module in _DROP_INS)]


def _making(name: str) -> Callable[..., Any]:
    @functools.wraps(getattr(mjw, name))
    def make(*args: Any, **kwargs: Any) -> Any:
        choice = chosen()
        own = {key: value for key, value in choice.parameters.items() if name == "put_model" and key not in kwargs}
        return getattr(choice.module, name)(*args, **kwargs, **own)

    return make


def _following(name: str) -> Callable[..., Any]:
    """The function of the physics that made the model and data it is given."""
    original = getattr(mjw, name)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind_partial(*args, **kwargs).arguments
        owners = [owner_of(bound[key]) for key in ("m", "d") if key in bound]
        if len(owners) == 2 and owners[0] is not owners[1]:
            made = " and data with ".join(module.__name__ for module in owners)
            raise InputError(f"{name}: the model was made with {made}; make both with the same physics")
        return getattr(owners[0] if owners else mjw, name)(*args, **kwargs)

    return call


BACKEND = Backend()
"""What takes the place of MuJoCo Warp."""
