"""Warp's cache of compiled kernels: files that are damaged are found, and compiled again.

Warp loads what lies in its cache as it is. A file cut short makes an error that names no cure, and one with a changed
byte in the middle of a kernel computes something else. So each folder of a module gets a note of the checksums of its
files once they were loaded, which is looked at before they are loaded by another process.
"""

import hashlib
import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import warp as wp
from warp._src import context  # private: which variant of a module a launch loads

from stickslip import files
from stickslip.errors import DamagedFile

_NOTE = "stickslip.json"
_COUNTED = (".o", ".cubin", ".ptx", ".meta")
_looked_at: set[Path] = set()


def load(device: Any, modules: Sequence[Any], block_dim: int | None, workers: int) -> None:
    """Load kernels, compiling those that are not in the cache; what is damaged there is compiled again."""
    folders = {folder: module for module in modules if (folder := _folder(module, device, block_dim)).exists()}
    for folder in folders.keys() - _looked_at:
        if (why := _damage(folder)) is not None:
            _remove(folder, why)
    try:
        wp.force_load(device=device, modules=list(modules), block_dim=block_dim, max_workers=workers)
    except Exception:
        for module in modules:  # which of them?
            folder = _folder(module, device, block_dim)
            if folder not in folders:
                continue
            try:
                wp.force_load(device=device, modules=[module], block_dim=block_dim, max_workers=0)
            except Exception as error:
                _remove(folder, f"{type(error).__name__}: {error}")
        wp.force_load(device=device, modules=list(modules), block_dim=block_dim, max_workers=workers)
    for module in modules:
        folder = _folder(module, device, block_dim)
        if folder not in _looked_at:
            _looked_at.add(folder)
            _write_note(folder)


def _folder(module: Any, device: Any, block_dim: int | None) -> Path:
    """Where the files of a module lie."""
    where = wp.get_device(device)
    usual = None if where.is_cpu else module.options["block_dim"]
    dim = context._resolve_launch_block_dim(where, usual if block_dim is None else block_dim)
    return Path(wp.config.kernel_cache_dir) / module.get_module_identifier(dim)


def _sums(folder: Path) -> dict[str, str]:
    found = sorted(path for path in folder.iterdir() if path.suffix in _COUNTED)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def _damage(folder: Path) -> str | None:
    """What is wrong with the files of a module; None: nothing that a note tells of."""
    try:
        known = files.read_json(folder / _NOTE, "checksums of kernels")
    except FileNotFoundError:
        return None
    except DamagedFile as error:
        return str(error)
    sums = _sums(folder)
    changed = [name for name in known if name in sums and sums[name] != known[name]]
    return f"{changed[0]} is not as it was compiled" if changed else None


def _write_note(folder: Path) -> None:
    """Tell the checksums of a module that was loaded; a cache that cannot be written to has none."""
    try:
        sums = _sums(folder)
        if not (folder / _NOTE).exists() or files.read_json(folder / _NOTE) != sums:
            files.write_json(folder / _NOTE, sums)
    except (OSError, DamagedFile):
        return


def _remove(folder: Path, why: str) -> None:
    warnings.warn(f"Warp's cache of kernels was damaged: {folder}: {why}. It is compiled again.", stacklevel=3)
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.damaged")
    folder.rename(aside)  # at once: another process finds all of it, or nothing
    shutil.rmtree(aside, ignore_errors=True)
