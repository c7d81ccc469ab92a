"""Tasks by name, or from a Python file of a user."""

import importlib.util
import sys
from pathlib import Path

from stickslip.errors import InputError, unknown
from stickslip.mpc.task import Task
from stickslip.mpc.tasks import TASKS

SUFFIX = ".py"


def split(name: str) -> tuple[Path | None, str]:
    """The file of a task, None if it is one of stickslip, and the name of its variable, empty if none is given."""
    if name.endswith(SUFFIX):
        return Path(name), ""
    path, found, which = name.rpartition(f"{SUFFIX}:")
    return (Path(path + SUFFIX), which) if found else (None, "")


def load_task(name: str) -> Task:
    """A task of stickslip by name, or the only `Task` that a Python file defines, given its path.

    The file is run. A path with a name behind a colon, such as `mytasks.py:PUSH`, chooses one of several.
    """
    file, which = split(name)
    if file is None:
        if name not in TASKS:
            raise unknown("task", name, TASKS)
        return TASKS[name]
    if not file.is_file():
        raise InputError(
            f"{file} is not a file: give the name of a task (`stickslip tasks`), or a Python file with one"
        )
    found = _tasks(file)
    if which:
        if which not in found:
            raise unknown(f"task of {file}", which, found)
        return found[which]
    if len(found) != 1:
        names = ", ".join(found) or "none"
        raise InputError(
            f"{file} must define one stickslip.mpc.task.Task, it defines {names}; choose one with {file}:NAME"
        )
    return next(iter(found.values()))


def _tasks(file: Path) -> dict[str, Task]:
    """The tasks that a file defines, by the name of their variable."""
    name = f"stickslip_task_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Warp reads the source of functions through their module
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{file} does not run: {type(error).__name__}: {error}") from error
    return {key: value for key, value in vars(module).items() if isinstance(value, Task)}
