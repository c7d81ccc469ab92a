"""Episode: what one world went through from its start to its end, in NumPy arrays; every format is written from it."""

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip import files
from stickslip.errors import InputError

MOST_INFO = 1 << 20
"""Most characters of what an episode, or a file, says of itself in JSON."""
_NAME = re.compile(r"[A-Za-z_][\w\-]*")


@dataclasses.dataclass(frozen=True, eq=False)
class Episode:
    """T control steps of one world. Row t of each array belongs to control step t.

    Making one checks it. Arrays are converted to NumPy's and not copied if they are.

    Attributes:
        observations: before each action, by name; (T,) becomes (T, 1)              (T, ...)
        actions: what was commanded                                                 (T, na)
        rewards: after each action                                                  (T,)
        terminated: whether it ended in a state from which there is no going on, such as success or a fall
        truncated: whether it was cut off, such as by a time limit
        states: MuJoCo's `mjSTATE_FULLPHYSICS` before each action, or None          (T, nstate)
        controls: MuJoCo's `ctrl` during each step, or None where it is the action  (T, nu)
        images: pictures before each action, by camera                              (T, height, width, 3) uint8
        final: observations, and pictures, after the last action, by name; or None  (...)
        final_state: the state after the last action, or None                       (nstate,)
        model_fields: fields of the model that this world had of its own, as `Simulation.set_model` takes them
        task: what was to be done, in words
        info: of what JSON can hold: seed, world, success, physics, decimation (timesteps per control step), ...
    """

    observations: Mapping[str, NDArray[Any]]
    actions: NDArray[Any]
    rewards: NDArray[Any]
    terminated: bool = False
    truncated: bool = False
    states: NDArray[np.float64] | None = None
    controls: NDArray[Any] | None = None
    images: Mapping[str, NDArray[np.uint8]] = dataclasses.field(default_factory=dict)
    final: Mapping[str, NDArray[Any]] | None = None
    final_state: NDArray[np.float64] | None = None
    model_fields: Mapping[str, NDArray[Any]] = dataclasses.field(default_factory=dict)
    task: str = ""
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "actions", numbers("actions", self.actions, 2))
        steps = len(self.actions)
        if not steps:
            raise InputError("actions has 0 rows: an episode needs one control step at least")
        put(self, "rewards", numbers("rewards", self.rewards, 1, steps))
        put(self, "terminated", bool(self.terminated))
        put(self, "truncated", bool(self.truncated))
        put(self, "observations", {n: _rows(f"observations[{n!r}]", a, steps) for n, a in _named(self, 0)})
        put(self, "images", {n: pictures(f"images[{n!r}]", a, steps) for n, a in _named(self, 1)})
        both = self.observations.keys() & self.images.keys()
        if both:
            raise InputError(f"{sorted(both)[0]!r} names an observation and a camera: give them different names")
        for name, kind in (("states", float), ("controls", None)):
            if getattr(self, name) is not None:
                put(self, name, numbers(name, getattr(self, name), 2, steps, kind))
        if self.final_state is not None:
            put(self, "final_state", numbers("final_state", self.final_state, 1, None, float))
            if self.states is None or self.final_state.shape != self.states.shape[1:]:
                raise InputError(
                    f"final_state has {self.final_state.size} numbers, "
                    f"a row of states {0 if self.states is None else self.states.shape[1]}: they must agree"
                )
        if self.final is not None:
            put(self, "final", {name: self._final(name, np.asarray(value)) for name, value in self.final.items()})
        put(self, "model_fields", {n: numbers(f"model_fields[{n!r}]", a, None) for n, a in self.model_fields.items()})
        if not isinstance(self.task, str) or len(self.task) > MOST_INFO:
            raise InputError(f"task is {str(self.task)[:40]!r}: give text of {MOST_INFO:,} characters at most")
        put(self, "info", json.loads(written(self.info)))

    def _final(self, name: str, value: NDArray[Any]) -> NDArray[Any]:
        rows = self.images.get(name, self.observations.get(name))
        if rows is None:
            raise InputError(f"final has {name!r}, which is neither an observation nor a camera: leave it out")
        value = value.reshape(1) if value.ndim == 0 and rows.shape[1:] == (1,) else value
        if value.shape != rows.shape[1:]:
            raise InputError(f"final[{name!r}] has shape {value.shape}, its rows {rows.shape[1:]}: they must agree")
        return numbers(f"final[{name!r}]", value, None).astype(rows.dtype)

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def dones(self) -> NDArray[np.bool_]:
        """Whether the episode was over after each action, (T,)."""
        dones = np.zeros(len(self), dtype=bool)
        dones[-1] = self.terminated or self.truncated
        return dones

    @property
    def nbytes(self) -> int:
        """Memory of its arrays."""
        arrays = [*self.observations.values(), *self.images.values(), self.actions, self.rewards]
        return sum(a.nbytes for a in [*arrays, self.states, self.controls] if a is not None)

    def layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of a row of each array by name; all episodes of one file have the same."""
        named = {"actions": self.actions, "rewards": self.rewards, "states": self.states, "controls": self.controls}
        named |= {f"observations/{name}": array for name, array in self.observations.items()}
        named |= {f"images/{name}": array for name, array in self.images.items()}
        return {name: (array.dtype.name, array.shape[1:]) for name, array in named.items() if array is not None}


def _named(episode: Episode, which: int) -> list[tuple[str, Any]]:
    """Items of the observations (0) or of the images (1), after a look at their names."""
    what, arrays = (("observation", episode.observations), ("camera", episode.images))[which]
    for name in arrays:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(f"{what} {name!r}: a name has letters, digits, - and _ only, and begins with a letter")
    return list(arrays.items())


def _rows(name: str, value: Any, steps: int) -> NDArray[Any]:
    array = numbers(name, value, None, steps)
    return array[:, None] if array.ndim == 1 else array


def numbers(name: str, value: Any, ndim: int | None, rows: int | None = None, kind: Any = None) -> NDArray[Any]:
    """`value` as a finite array of real numbers or flags, of so many axes and rows; raises InputError."""
    array = np.asarray(value, dtype=kind)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8 or array.dtype == np.float16:
        raise InputError(f"{name} has the type {array.dtype}: give float32, float64, whole numbers or bool")
    if ndim is not None and array.ndim != ndim:
        raise InputError(f"{name} has shape {array.shape}: it must have {ndim} axes, one row per control step")
    if rows is not None and (array.ndim < 1 or len(array) != rows):
        raise InputError(f"{name} has shape {array.shape}, and actions {rows} rows: give one row per control step")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        index = tuple(int(i) for i in bad[0])
        where = f"{name}[{', '.join(map(str, index))}]"
        raise InputError(f"{where} is {array[index]}: it must be finite ({len(bad)} such entries)")
    return array


def pictures(name: str, value: Any, rows: int) -> NDArray[np.uint8]:
    """`value` as pictures (rows, height, width, 3) uint8; raises InputError."""
    array = np.asarray(value)
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] != 3 or 0 in array.shape:
        raise InputError(f"{name} is {array.dtype} of shape {array.shape}: give uint8 of shape (T, height, width, 3)")
    return numbers(name, array, 4, rows)


def written(info: Mapping[str, Any]) -> str:
    """`info` as JSON; raises InputError for what JSON cannot hold, and for too much."""
    try:
        text = json.dumps(files.plain(dict(info)), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"info cannot be written as JSON: {error}; give text, numbers, lists and dicts") from None
    if len(text) > MOST_INFO:
        raise InputError(f"info has {len(text):,} characters as JSON: at most {MOST_INFO:,}; put arrays elsewhere")
    return text


def parsed(text: Any, where: str) -> dict[str, Any]:
    """The dict that a JSON text holds; raises InputError if it is too long or none."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    if len(text) > MOST_INFO:
        raise InputError(f"{where} has {len(text):,} characters of JSON: at most {MOST_INFO:,} are read")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}; write it again") from None
    if not isinstance(found, dict):
        raise InputError(f"{where} is of type {type(found).__name__}: expected a dict")
    return found
