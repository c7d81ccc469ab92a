"""A policy under a physics as the work of cells."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from stickslip.errors import Unsupported
from stickslip.learning import find, score
from stickslip.parameters import checked as checked_class
from stickslip.parameters import parameter
from stickslip.physics.registry import DEFAULT
from stickslip.studies.work import base
from stickslip.studies.work.base import Outcome, Place, Resolved, Work


@checked_class
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of a score, besides those of the physics."""

    policy: str = parameter("", "a task, for the policy that comes with it; a folder of `stickslip train`; or a file")
    task: str = parameter("", "the task; empty: the one it was trained for")
    physics: str = parameter(DEFAULT, "contact physics, or mujoco-c")
    episodes: int = parameter(256, "starts, one world each", 1)
    seed: int = parameter(0, "of starts and noise", 0)


class Score(Work):
    """A policy, played from the same starts under a physics."""

    name = "score"
    packages = ("torch",)

    def resolve(self, given: Mapping[str, Any], device: str) -> Resolved:
        chosen, physics = _chosen(given)
        path = find.policy_file(chosen.policy)
        policy = find.policy(chosen.policy)
        task = find.task_of(policy, chosen.task or None)
        modules = (type(self).__module__, "stickslip.envs.tasks")
        contents = {"policy": base.file_digest(str(path))}
        if physics == score.IN_C:
            method: Any = {"physics": physics}
        else:
            method, more, _ = base.physics_of(physics)
            modules = (*modules, *more)
        if type(task).__module__ != "stickslip.envs.task" or chosen.task.endswith(".py"):
            contents["task"] = base.file_digest(chosen.task.partition(".py")[0] + ".py")
        values = {"task": task.name, "physics": method, "episodes": chosen.episodes, "seed": chosen.seed}
        return Resolved(values, f"{task.name} {physics.partition(':')[0]}", modules, contents)

    def run(self, given: Mapping[str, Any], place: Place) -> Outcome:
        chosen, physics = _chosen(given)
        policy = find.policy(chosen.policy)
        task = find.task_of(policy, chosen.task or None)
        (found,) = score.score(
            policy, task, [physics], episodes=chosen.episodes, device=place.device, seed=chosen.seed
        )  # fmt: skip
        if found.refused:
            raise Unsupported(found.refused)
        metrics: dict[str, Any] = (
            {} if found.success is None else {"success": found.success, "success_error": found.error}
        )
        metrics |= {"return": found.total, "return_error": found.total_error, "episode_s": found.seconds}
        return Outcome({**metrics, "diverged": found.diverged})


def _chosen(given: Mapping[str, Any]) -> tuple[Parameters, str]:
    """Parameters, and the spec of the physics."""
    plain, of = base.split(given, ("physics",))
    chosen = base.checked(Parameters, plain, "score", ["policy"])
    physics = base.joined(chosen.physics, of["physics"], "physics")
    base.check_physics(physics.partition(":")[0], (score.IN_C,))
    return chosen, physics
