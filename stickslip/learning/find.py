"""Policies and their tasks by the names that commands take."""

from pathlib import Path

from stickslip.envs.task import Task
from stickslip.envs.tasks import folder_of, load_task
from stickslip.envs.tasks.catalogue import NAMES
from stickslip.errors import InputError
from stickslip.learning.policy import Policy


def policy(name: str) -> Policy:
    """The policy of a task, of a folder of `stickslip train`, or of a file."""
    return Policy.load(policy_file(name))


def policy_file(name: str) -> Path:
    """Its file; raises InputError if there is none."""
    path = Path(name)
    if name in NAMES:
        path = folder_of(name) / "policy.npz"
        if not path.is_file():
            raise InputError(f"no trained policy comes with the task {name!r}: train one with `stickslip train {name}`")
    elif path.is_dir():
        path = path / "policy.npz"
    if not path.is_file():
        raise InputError(f"{path} is not a file: give a task, a folder of `stickslip train`, or a policy's file")
    return path


def task_of(policy: Policy, given: str | None) -> Task:
    """The task that is given, or the one that a policy was trained for."""
    name = given or policy.about.get("task")
    if given is None and name not in NAMES:
        raise InputError(f"the policy is for the task {name!r}, of a file: name the file with --task mytask.py")
    return load_task(str(name))
