"""Gymnasium's ids: `stickslip/PushT-v0` for the task "push-t"; registered by `import stickslip.envs`."""

import importlib.util

PREFIX, VERSION = "stickslip/", "v0"


def id_of(task: str) -> str:
    """The id of a task."""
    return f"{PREFIX}{''.join(part.capitalize() for part in task.split('-'))}-{VERSION}"


def register() -> None:
    """Register all tasks, where Gymnasium is installed; no task is imported before it is made."""
    if importlib.util.find_spec("gymnasium") is None:
        return
    import gymnasium

    from stickslip.envs.tasks.catalogue import NAMES

    for task in NAMES:
        if id_of(task) not in gymnasium.registry:
            gymnasium.register(
                id=id_of(task),
                entry_point="stickslip.envs.gymnasium:SingleEnv",
                vector_entry_point="stickslip.envs.gymnasium:make_vector",
                kwargs={"task": task},
                disable_env_checker=True,
                order_enforce=True,
            )
