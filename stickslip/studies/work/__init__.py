"""The sorts of work, by name."""

import importlib
import inspect

from stickslip.errors import unknown
from stickslip.studies.work.base import Work

WORK = {
    "rollout": "stickslip.studies.work.rollout:Rollout",
    "bench": "stickslip.studies.work.bench:Bench",
    "plan": "stickslip.studies.work.plan:Plan",
    "retarget": "stickslip.studies.work.retarget:Retarget",
    "score": "stickslip.studies.work.score:Score",
    "identify": "stickslip.studies.work.identify:Identify",
}
"""The class of each."""

_made: dict[str, Work] = {}


def find(name: str) -> Work:
    """What `run` names: a sort of work, or a user's function "module:function"."""
    if name not in _made:
        if ":" in name:
            from stickslip.studies.work.function import Function

            _made[name] = Function(name)
        elif name in WORK:
            module, _, kind = WORK[name].partition(":")
            _made[name] = getattr(importlib.import_module(module), kind)()
        else:
            raise unknown("work for the cells of a study", name, [*WORK, "module:function"])
    return _made[name]


def doc(name: str) -> str:
    """What a sort of work does, in a line."""
    return (inspect.getdoc(type(find(name))) or "").partition("\n")[0]
