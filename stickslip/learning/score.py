"""A policy scored under every physics: the same episodes, the same policy, another contact model."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stickslip import spec
from stickslip.envs.task import Task
from stickslip.errors import StickslipError, unknown
from stickslip.learning.episodes import environment, play
from stickslip.learning.plant import Plant
from stickslip.learning.policy import Policy
from stickslip.physics.base import Physics
from stickslip.physics.registry import PHYSICS

IN_C = "mujoco-c"


@dataclasses.dataclass(frozen=True)
class Score:
    """How a policy does under one physics.

    Attributes:
        physics: its name, with parameters that are not the default
        episodes: how many, each from a start of its own, the same for every physics
        success: share that succeeded; None if the task has no success
        error: standard error of it
        total: mean return
        total_error: standard error of it
        seconds: mean duration of an episode [s]
        diverged: worlds that were no longer finite
        refused: why the physics could not run the task; empty if it could
    """

    physics: str
    episodes: int = 0
    success: float | None = None
    error: float = 0.0
    total: float = 0.0
    total_error: float = 0.0
    seconds: float = 0.0
    diverged: int = 0
    refused: str = ""


def methods(names: Sequence[str]) -> dict[str, Physics[Any, Any]]:
    """The physics of specs such as "cone-sweep:substeps=4", and MuJoCo in C as "mujoco-c"."""
    found: dict[str, Physics[Any, Any]] = {}
    for name in names:
        if name == IN_C:
            found[name] = Plant()
        elif spec.split(name)[0] not in PHYSICS:
            raise unknown("physics", spec.split(name)[0], (*PHYSICS, IN_C))
        else:
            found[name] = spec.resolve(name, PHYSICS, "physics")
    return found


def score(
    policy: Policy,
    task: Task,
    physics: Sequence[str],
    *,
    episodes: int = 256,
    device: str | None = None,
    seed: int = 0,
    threads: int = 1,
    told: Callable[[Score], None] = lambda found: None,
) -> list[Score]:
    """Score a policy; a physics that cannot run the task says why.

    Args:
        policy: the policy
        task: its task
        physics: names, with parameters
        episodes: starts of a world each, the same for every physics
        device: of the simulations; MuJoCo in C runs on the CPU
        seed: of starts and noise
        threads: of a CPU
        told: called with each result
    """
    found = []
    for name, method in methods(physics).items():
        in_c = name == IN_C
        try:
            env = environment(
                task,
                method,
                episodes,
                device="cpu" if in_c else device,
                seed=seed,
                threads=threads if method.shardable else 1,
            )
            played = play(env, policy)
        except StickslipError as error:
            found.append(Score(name, refused=str(error)))
        else:
            rate, n = played.success.mean(), episodes
            found.append(
                Score(
                    name,
                    n,
                    float(rate) if task.success is not None else None,
                    float(np.sqrt(rate * (1.0 - rate) / n)),
                    float(played.total.mean()),
                    float(played.total.std() / np.sqrt(n)),
                    float(played.seconds.mean()),
                    played.diverged,
                )
            )
        told(found[-1])
    return found
