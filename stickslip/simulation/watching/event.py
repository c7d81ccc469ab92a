"""An event, and the file that replays it: the model, the physics, the state before, and the controls since."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import files, mjcf, npz
from stickslip.errors import InputError
from stickslip.simulation.watching.limits import KINDS
from stickslip.state import PARTS, State

VERSION = 1
_UNITS = {"energy": "J", "penetration": "m"}
_TOLD = {
    "not finite": "is not finite, or too large: {figure:.3g}, at most {limit:.3g} is allowed",
    "energy": "energy from nothing: {figure:.3g} J, at most {limit:.3g} J is allowed",
    "penetration": "penetration of {figure:.3g} m, at most {limit:.3g} m, its thickness, is allowed",
    "joint": "a joint is {figure:.3g} rad or m beyond its limits, at most {limit:.3g} is allowed",
    "dropped": "{why}",
    "twins": "it differs from its twin, the world before it, by {figure:.3g}; at most {limit:.3g} is allowed",
}


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that a world must not do.

    Attributes:
        kind: one of `KINDS`
        world: number of the world
        step: number of the step since the watch was opened, the first is 1
        body: name of the body, or "body 3"; of what concerns no body, ""
        figure: how much it was, in the unit of the kind
        limit: how much was allowed
        why: of contacts that were dropped, what `health` says
        file: where it can be replayed from; None if no file was written
    """

    kind: str
    world: int
    step: int
    body: str
    figure: float
    limit: float
    why: str = ""
    file: Path | None = None

    def __str__(self) -> str:
        told = _TOLD[self.kind].format(figure=self.figure, limit=self.limit, why=self.why)
        body = f", {self.body}" if self.body else ""
        return f"world {self.world}, step {self.step}{body}: {told}"


@dataclasses.dataclass(frozen=True, eq=False)
class Stored:
    """What the file of an event has.

    Attributes:
        event: the event
        model: the model
        physics: name of the physics
        parameters: its parameters by name
        limits: of the watch, by name
        state: before the steps, of the world, or of it and its twin before it
        fields: fields of the model that were given, per world
        ctrl: controls of each step, (steps, worlds, nu)
        kept: what the watch had kept of the world: see `Watch`
        sizes: nconmax and njmax, where they were given
        device: that it happened on
        versions: of stickslip and what it uses
    """

    event: Event
    model: mujoco.MjModel
    physics: str
    parameters: Mapping[str, Any]
    limits: Mapping[str, float | None]
    state: State
    fields: Mapping[str, NDArray[Any]]
    ctrl: NDArray[np.float32]
    kept: Mapping[str, float]
    sizes: Mapping[str, int]
    device: str
    versions: Mapping[str, str]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file, without pickle."""
        told = {
            "version": VERSION,
            "event": {k: v for k, v in dataclasses.asdict(self.event).items() if k != "file"},
            **{name: getattr(self, name) for name in _NAMES},
            "state": {"physics": self.state.physics, "model": self.state.model},
        }
        arrays: dict[str, Any] = {"told": np.array(json.dumps(files.plain(told), allow_nan=False)), "ctrl": self.ctrl}
        arrays["model"] = np.frombuffer(mjcf.to_bytes(self.model), dtype=np.uint8)
        arrays["figure"] = np.array([self.event.figure, self.event.limit])  # JSON has no NaN
        arrays |= {f"part/{name}": part for name, part in self.state.parts.items()}
        arrays |= {f"memory/{name}": part for name, part in self.state.memory.items()}
        arrays |= {f"field/{name}": value for name, value in self.fields.items()}
        return npz.write(path, arrays)


_NAMES = "physics parameters limits kept sizes device versions".split()


def load(path: str | os.PathLike[str]) -> Stored:
    """Read the file of an event; raises InputError if it is something else, DamagedFile if it was changed."""
    path = Path(path)
    with npz.opened(path, "an event of `sim.watch`") as file:
        arrays = file.read()
    try:
        told = json.loads(str(arrays["told"]))
        if told["version"] > VERSION:
            raise InputError(
                f"{str(path)!r} is an event of version {told['version']}, this stickslip reads up to {VERSION}: "
                "update it"
            )
        figure, limit = (float(x) for x in arrays["figure"])
        event = Event(**{**told["event"], "figure": figure, "limit": limit, "file": path})
        parts = _named(arrays, "part/")
        if event.kind not in KINDS or not {"time", "qpos", "qvel", "act"} <= parts.keys() <= PARTS.keys():
            raise ValueError(f"it has no such kind as {event.kind!r}, or no state")
        if arrays["ctrl"].ndim != 3 or not len(arrays["ctrl"]):
            raise ValueError(f"its controls have shape {arrays['ctrl'].shape}")
        return Stored(
            event=event,
            model=mjcf.from_bytes(arrays["model"].tobytes(), f"the model in {path}"),
            state=State(**parts, memory=_named(arrays, "memory/"), **told["state"]),
            fields=_named(arrays, "field/"),
            ctrl=arrays["ctrl"],
            **{name: told[name] for name in _NAMES},
        )
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(path)!r} is not an event of `sim.watch`: {error}") from None


def _named(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
