"""Data sets of the episodes that cells wrote: shards as they are, one HDF5 file, or LeRobot v3."""

from collections.abc import Callable
from pathlib import Path

from stickslip import datasets, files
from stickslip.errors import DamagedFile, InputError
from stickslip.studies.records import DONE
from stickslip.studies.store import Store

SHARD = "-episodes.hdf5"
"""Behind the hash of a cell."""
TARGETS = {"hdf5": "episodes.hdf5", "lerobot": "lerobot"}
"""What is built in the folder of a study."""


def shards(store: Store) -> list[Path]:
    """The files of episodes, in the order of the cells."""
    found = [store.path(DONE, cell, SHARD) for cell in store.manifest()]
    return [path for path in found if path.is_file()]


def build(store: Store, kind: str, advance: Callable[[int, int], None] = lambda done, of: None) -> Path:
    """Put all episodes of a study into one data set; what is there already, of the same cells, is kept."""
    paths = shards(store)
    if not paths:
        raise InputError(f"dataset = {kind!r}: no cell wrote episodes; say episodes = true in [fixed], of rollouts")
    target = store.folder / TARGETS[kind]
    noted = store.folder / f"{TARGETS[kind]}.cells.json"
    made_of = [path.name for path in paths]
    if target.exists() and noted.is_file() and _noted(noted) == made_of:
        return target
    datasets.convert(paths, target, overwrite=target.exists(), advance=advance)
    files.write_json(noted, {"cells": made_of})
    return target


def _noted(path: Path) -> list[str] | None:
    """The files that a data set was made of; None if that is not known any more."""
    try:
        found = files.read_json(path, "a list of cells")
    except DamagedFile:
        return None
    return found if isinstance(found, list) else found["cells"]  # a list in earlier versions
