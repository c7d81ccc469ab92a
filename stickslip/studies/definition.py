"""A study as its TOML file tells it: what a cell runs, and the parameters of all cells."""

import dataclasses
import itertools
import math
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stickslip import files, parameters
from stickslip.errors import InputError, unknown
from stickslip.parameters import checked, parameter
from stickslip.studies import samples

SECTIONS = ("fixed", "list", "grid", "samples")
"""Tables of the file that hold parameters of cells."""
HEADS = ("scene", "physics", "settings", "planner", "randomize")
"""Parameters with parameters of their own: `scene.angle` is written "scene.angle", or angle in a table [grid.scene]."""
MOST = 10_000_000
"""Cells of a study at most."""


@checked
@dataclasses.dataclass(frozen=True)
class Settings:
    """How cells run; none of this changes what they give, but `device`."""

    name: str = parameter("study", "what the study is called in its report")
    device: str = parameter("", "cpu or cuda; empty: cuda where there is a GPU", choices=("", "cpu", "cuda"))
    tries: int = parameter(2, "how often a cell that fails is run before it is given up", 1, 100)
    timeout: float = parameter(3600.0, "longest time of a cell, without the compiling of kernels [s]", 0.0, above=True)
    memory: float | None = parameter(
        None, "most memory of a process that runs cells [GB]; none: its share of the machine's", 0.0, above=True,
        kind=float,
    )  # fmt: skip
    dataset: str = parameter(
        "", "of a study that writes episodes: what is made of them at the end", choices=("", "hdf5", "lerobot")
    )


@dataclasses.dataclass(frozen=True)
class Definition:
    """A study.

    Attributes:
        run: what a cell runs: the name of a sort of work, or "module:function"
        settings: how
        fixed: parameters that all cells have
        list: sets of parameters; each is combined with all of grid and samples
        grid: values by parameter; all combinations
        samples: draws of several parameters at once
    """

    run: str
    settings: Settings
    fixed: Mapping[str, Any]
    list: Sequence[Mapping[str, Any]]
    grid: Mapping[str, Sequence[Any]]
    samples: samples.Samples | None

    @property
    def count(self) -> int:
        """Number of cells, duplicates included."""
        drawn = 1 if self.samples is None else self.samples.count
        return max(len(self.list), 1) * math.prod(map(len, self.grid.values())) * drawn

    @property
    def varied(self) -> list[str]:
        """Parameters that differ between cells, in the order of the file."""
        names = [name for entry in self.list for name in entry]
        names += [name for name, values in self.grid.items() if len(values) > 1]
        return list(dict.fromkeys([*names, *(self.samples.ranges if self.samples else ())]))

    def combinations(self) -> Iterator[dict[str, Any]]:
        """The parameters of each cell."""
        drawn = list(self.samples.draw()) if self.samples else [{}]
        for entry in self.list or [{}]:
            for values in itertools.product(*self.grid.values()):
                chosen = dict(zip(self.grid, values, strict=True))
                for sample in drawn:
                    yield {**self.fixed, **entry, **chosen, **sample}

    def written(self) -> dict[str, Any]:
        """For JSON; `parse` reads it back."""
        found: dict[str, Any] = {"run": self.run}
        default = Settings()
        found |= {k: v for k, v in dataclasses.asdict(self.settings).items() if v != getattr(default, k)}
        found |= {"fixed": dict(self.fixed), "list": [dict(entry) for entry in self.list]}
        found |= {"grid": {name: list(values) for name, values in self.grid.items()}}
        return found | ({"samples": self.samples.written()} if self.samples else {})


def load(path: str | os.PathLike[str]) -> Definition:
    """The study of a TOML file; raises InputError that names what is wrong in it."""
    place = Path(path)
    if not place.is_file():
        raise InputError(f"{str(place)!r} is not a file: give the TOML file of a study")
    try:
        table = tomllib.loads(files.read_bytes(place, "the TOML of a study").decode("utf-8"))
        files.check_depth(table, place)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{place} is not TOML: {error}; mend it") from None
    table.setdefault("name", place.stem)
    try:
        return parse(table)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def parse(table: Mapping[str, Any]) -> Definition:
    """The study of a table such as that of a TOML file."""
    known = parameters.fields(Settings)
    for key in table:
        if key not in ("run", *known, *SECTIONS):
            raise unknown("key of a study", key, ["run", *known, *SECTIONS])
    run = table.get("run")
    if not isinstance(run, str) or not run:
        raise InputError('run is missing: what a cell runs, such as run = "rollout" or run = "module:function"')
    settings = Settings(**parameters.values(Settings, {key: table[key] for key in known if key in table}, "a study"))
    fixed = _flat(_table(table, "fixed"), "fixed")
    rows = table.get("list", [])
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not all(isinstance(row, Mapping) for row in rows):
        raise InputError("list must be an array of tables: write [[list]] above each set of parameters")
    entries = [_flat(row, f"list {place}") for place, row in enumerate(rows, 1)]
    grid = {name: samples.axis(name, value) for name, value in _flat(_table(table, "grid"), "grid").items()}
    drawn = samples.parse(_table(table, "samples"), _flat) if "samples" in table else None
    listed = list(dict.fromkeys(name for entry in entries for name in entry))
    found = Definition(run, settings, fixed, entries, grid, drawn)
    places: dict[str, str] = {}
    for section, names in zip(SECTIONS, (fixed, listed, grid, drawn.ranges if drawn else ()), strict=True):
        for name in names:
            if name in places:
                raise InputError(f"{name} is in {places[name]} and in {section}: give it once")
            places[name] = section
    if found.count > MOST:
        raise InputError(f"the study has {found.count:,} cells: at most {MOST:,}; split it")
    return found


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, Mapping):
        raise InputError(f"{name} is {found!r}: it must be a table, [{name}]")
    return found


def _flat(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A table whose inner tables of `HEADS` are written as "scene.angle"."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        inner = isinstance(value, Mapping) and key in HEADS
        for name, entry in {f"{key}.{k}": v for k, v in value.items()}.items() if inner else ((key, value),):
            if name in found:
                raise InputError(f"{name} is given twice in {where}: give it once")
            _plain(name, entry)
            found[name] = entry
    return found


def _plain(name: str, value: Any) -> None:
    """Raise InputError for what a hash cannot be taken of."""
    if isinstance(value, Mapping):
        for entry in value.values():
            _plain(name, entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            _plain(name, entry)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} is {value}: it must be finite")
    elif not isinstance(value, str | int | float | bool):
        raise InputError(f"{name} is {value!r}: give text, a number, true or false, or a list of these")
