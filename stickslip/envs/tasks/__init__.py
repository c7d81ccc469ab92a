"""The tasks, by name; each is a folder with its reward, its settings and a trained policy."""

import importlib
from pathlib import Path

from stickslip import definitions
from stickslip.envs.task import Task
from stickslip.envs.tasks.catalogue import NAMES
from stickslip.errors import unknown

FOLDER = Path(__file__).parent


def folder_of(name: str) -> Path:
    """The folder of a task."""
    return FOLDER / name.replace("-", "_")


def load_task(name: str) -> Task:
    """A task by name, or the only `Task` that a Python file defines; `file.py:NAME` chooses one of several."""
    file, which = definitions.split(name)
    if file is not None:
        return definitions.only(file, Task, which, "stickslip.envs.Task")
    if name not in NAMES:
        raise unknown("task", name, NAMES)
    return importlib.import_module(f"stickslip.envs.tasks.{name.replace('-', '_')}").TASK
