"""Things that a Python file of a user defines, such as a task."""

import importlib.util
import sys
from pathlib import Path
from typing import TypeVar

from stickslip.errors import InputError, unknown

SUFFIX = ".py"
T = TypeVar("T")


def split(name: str) -> tuple[Path | None, str]:
    """A file, None if the name is not that of a file, and the variable behind its colon, empty if none is given."""
    if name.endswith(SUFFIX):
        return Path(name), ""
    path, found, which = name.rpartition(f"{SUFFIX}:")
    return (Path(path + SUFFIX), which) if found else (None, "")


def only(file: Path, kind: type[T], which: str, what: str) -> T:
    """The only instance of a class that a file defines, or the one of a variable; the file is run.

    Args:
        file: the file
        kind: the class
        which: name of the variable; empty: there must be one only
        what: the class in error messages
    """
    if not file.is_file():
        raise InputError(f"{file} is not a file: give a Python file that defines a {what}")
    found = {key: value for key, value in _run(file).items() if isinstance(value, kind)}
    if which:
        if which not in found:
            raise unknown(f"{what.rpartition('.')[2].lower()} of {file}", which, found)
        return found[which]
    if len(found) != 1:
        names = ", ".join(found) or "none"
        raise InputError(f"{file} must define one {what}, it defines {names}; choose one with {file}:NAME")
    return next(iter(found.values()))


def _run(file: Path) -> dict[str, object]:
    """The variables of a file."""
    name = f"stickslip_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Warp reads the source of functions through their module
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{file} does not run: {type(error).__name__}: {error}; mend it") from error
    return dict(vars(module))
