"""Tasks by name, or from a Python file of a user."""

from stickslip import definitions
from stickslip.errors import unknown
from stickslip.mpc.task import Task
from stickslip.mpc.tasks import TASKS

split = definitions.split


def load_task(name: str) -> Task:
    """A task of stickslip by name, or the only `Task` that a Python file defines, given its path.

    The file is run. A path with a name behind a colon, such as `mytasks.py:PUSH`, chooses one of several.
    """
    file, which = split(name)
    if file is None:
        if name not in TASKS:
            raise unknown("task", name, TASKS)
        return TASKS[name]
    return definitions.only(file, Task, which, "stickslip.mpc.task.Task")
