"""Environments for reinforcement learning: many worlds of a task, torch in and torch out, on the device.

- `task`: what a task is; `state`: what its terms see; `tasks`: those that come with stickslip
- `env`: a control step; `cycle`, `control`, `kicks`, `starts`, `servos`, `observe`, `accounts`, `random`: its parts
- `graph`: a control step as one graph, on CUDA
- `group`: environments of several physics as one
- `gymnasium`, `registration`, `rsl_rl`: adapters
"""

import importlib
from typing import TYPE_CHECKING, Any

from stickslip.envs import registration

if TYPE_CHECKING:
    from stickslip.envs.env import Env as Env
    from stickslip.envs.factory import make as make
    from stickslip.envs.factory import make_group as make_group
    from stickslip.envs.group import EnvGroup as EnvGroup
    from stickslip.envs.state import State as State
    from stickslip.envs.step import Step as Step
    from stickslip.envs.task import Action as Action
    from stickslip.envs.task import Gains as Gains
    from stickslip.envs.task import Observed as Observed
    from stickslip.envs.task import Push as Push
    from stickslip.envs.task import Reward as Reward
    from stickslip.envs.task import Task as Task

_WHERE = {
    "Env": "env",
    "Step": "step",
    "EnvGroup": "group",
    "make": "factory",
    "make_group": "factory",
    "State": "state",
    "Action": "task",
    "Gains": "task",
    "Observed": "task",
    "Push": "task",
    "Reward": "task",
    "Task": "task",
}
__all__ = list(_WHERE)  # pyright: ignore[reportUnsupportedDunderAll]


registration.register()


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'stickslip.envs' has no attribute {name!r}")
    from stickslip.envs import needs

    needs.torch()
    return getattr(importlib.import_module(f"stickslip.envs.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
