"""What a cell runs: parameters in, numbers, arrays and files out."""

import abc
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stickslip import mjcf, parameters, provenance, scenes, spec
from stickslip.errors import InputError, SceneError, unknown
from stickslip.physics.registry import PHYSICS, find
from stickslip.physics.registry import names as physics_names


@dataclasses.dataclass(frozen=True)
class Resolved:
    """The parameters of a cell, checked.

    Attributes:
        values: all of them, defaults included, as JSON can hold them: the same for all ways to write the same
        group: cells of one group use the same kernels
        modules: where the code begins that the result depends on
        contents: digests of models and files
    """

    values: Mapping[str, Any]
    group: str
    modules: tuple[str, ...]
    contents: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a cell runs.

    Attributes:
        device: Warp's name, "cpu" or "cuda:0"
        folder: an empty folder for files; they are kept under the cell's hash with their suffix
    """

    device: str
    folder: Path


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a cell gave.

    Attributes:
        metrics: numbers by name
        labels: words by name, such as why a trial ended
        arrays: stored beside the table, in one .npz file
        messages: what makes the metrics doubtful, in sentences
    """

    metrics: Mapping[str, float | int | bool]
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = dataclasses.field(default_factory=dict)
    messages: Sequence[str] = ()


class Work(abc.ABC):
    """A sort of work."""

    name: str
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages whose versions matter besides those of stickslip."""

    @abc.abstractmethod
    def resolve(self, given: Mapping[str, Any], device: str) -> Resolved:
        """Check the parameters of a cell on "cpu" or "cuda"; raises StickslipError. It must be quick."""

    @abc.abstractmethod
    def run(self, given: Mapping[str, Any], place: Place) -> Outcome:
        """Run a cell; the result depends on the parameters and the kind of the device alone."""


def split(given: Mapping[str, Any], heads: Sequence[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Plain parameters, and those of some heads: `scene.angle` is `angle` of `scene`."""
    plain: dict[str, Any] = {}
    of: dict[str, dict[str, Any]] = {head: {} for head in heads}
    for name, value in given.items():
        head, dot, key = name.partition(".")
        if dot and head in of:
            of[head][key] = value
        else:
            plain[name] = value
    return plain, of


def checked(kind: type, given: Mapping[str, Any], owner: str, needed: Sequence[str] = ()) -> Any:
    """An instance of a dataclass of parameters; those that are `needed` must be given."""
    for name in needed:
        if name not in given:
            raise InputError(f"{name} is missing: {owner} needs it; put it into [fixed] or [grid]")
    return spec.make(kind, given, owner)


def joined(text: str, extra: Mapping[str, Any], head: str) -> str:
    """A spec such as "name:key=value" with further parameters."""
    if not extra:
        return text
    if head == "scene" and (text.lower().endswith(mjcf.SUFFIXES) or "/" in text or text.lstrip().startswith("<")):
        name = f"scene.{next(iter(extra))}"
        raise SceneError(f"{name} is given, and {text!r} is a file: only built-in scenes have parameters")
    name, given = spec.split(text)
    for key, value in extra.items():
        if key in given:
            raise InputError(f"{key} is given as {head}.{key} and in {text!r}: give it once")
        given[key] = parameters.text(tuple(value) if isinstance(value, list) else value)
    return f"{name}:" + ",".join(f"{key}={value}" for key, value in given.items())


@functools.lru_cache(4096)
def scene_of(text: str) -> tuple[Any, tuple[str, ...], dict[str, str], str]:
    """Values of a scene for the hash, its modules, the digest of its model, and its name for the group."""
    if is_model(text):
        mjcf.check(text)
        return text if text.startswith("menagerie:") else Path(text).name, (), {"scene": _model(text)}, text
    found, given = scenes.resolve(text)
    values = {"scene": found.name, **dataclasses.asdict(found.values(**given))}
    modules = {found.edit.__module__, found.kind.__module__}
    return listed(values), tuple(sorted(modules)), {"scene": _model(found.name)}, found.name


def is_model(text: str) -> bool:
    """Whether a scene is a file or a robot of Menagerie, not a built-in one."""
    return text.startswith("menagerie:") or text.lower().endswith(mjcf.SUFFIXES) or "/" in text


@functools.cache
def _model(text: str) -> str:
    return provenance.model_digest(mjcf.load(text))


@functools.lru_cache(4096)
def physics_of(text: str) -> tuple[Any, tuple[str, ...], str]:
    """Values of a physics for the hash, the module of its code, and its name."""
    name = spec.split(text)[0]
    module = find(name).where.partition(":")[0]
    made: Any = spec.resolve(text, PHYSICS, "physics")
    return listed({"physics": name, **dataclasses.asdict(made)}), (module,), name


def check_physics(name: str, also: Sequence[str] = ()) -> None:
    """Raise InputError for a physics that does not exist."""
    if name not in (*physics_names(), *also):
        raise unknown("physics", name, (*physics_names(), *also))


@functools.cache
def file_digest(path: str) -> str:
    """Digest of a file, or of all files in a folder; raises InputError if there is none."""
    place = Path(path)
    if not place.exists():
        raise InputError(f"there is no file {path!r}: give the path of one, from the folder where the study runs")
    found = hashlib.sha256()
    for one in sorted(place.rglob("*")) if place.is_dir() else [place]:
        if one.is_file():
            found.update(one.name.encode() + hashlib.sha256(one.read_bytes()).digest())
    return found.hexdigest()[: provenance.DIGITS]


def listed(obj: Any) -> Any:
    """In the types of JSON."""
    if isinstance(obj, Mapping):
        return {str(key): listed(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [listed(value) for value in obj]
    if isinstance(obj, np.generic):
        return obj.item()
    return obj if isinstance(obj, str | int | float | bool) or obj is None else repr(obj)


def function_of(text: str) -> Callable[..., Any]:
    """The function that "module:function" names; raises InputError."""
    import importlib

    module, colon, name = text.partition(":")
    if not colon or not module or not name.isidentifier():
        raise InputError(f"{text!r} is no function: write module:function, such as mystudy:slide")
    try:
        found = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise InputError(
            f"{text!r}: the module {module} cannot be imported: {error}; install it, or run in its folder"
        ) from None
    except AttributeError:
        raise InputError(f"{text!r}: the module {module} has no {name!r}; name a function that it has") from None
    if not callable(found):
        raise InputError(f"{text!r} is a {type(found).__name__}: it must be a function")
    return found
