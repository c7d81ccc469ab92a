"""Episodes of a policy: one in each world, from the same starts whatever the physics."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.envs.env import Env
from stickslip.envs.factory import model_of
from stickslip.envs.task import Task
from stickslip.errors import InputError
from stickslip.learning.policy import Policy
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation


@dataclasses.dataclass(frozen=True)
class Episodes:
    """What came of one episode in each world; host, (nworld,).

    Attributes:
        success: whether the world had succeeded at the end
        total: sum of rewards
        seconds: duration [s]
        terminated: whether it ended in a state of the task
        diverged: worlds that were no longer finite
    """

    success: NDArray[np.bool_]
    total: NDArray[np.floating]
    seconds: NDArray[np.floating]
    terminated: NDArray[np.bool_]
    diverged: int


def environment(
    task: Task,
    physics: Physics[Any, Any],
    nworld: int,
    *,
    device: str | None,
    seed: int,
    nominal: bool = True,
    threads: int = 1,
) -> Env:
    """Worlds that stay where their episode ends.

    Args:
        task: the task
        physics: the physics
        nworld: number of worlds
        device: as for `Simulation`
        seed: of starts and noise
        nominal: take the model as it is, without randomization
        threads: of a CPU
    """
    chosen = dataclasses.replace(task, randomize={}, gains=None) if nominal else task
    sim = Simulation(model_of(chosen), physics, nworld=nworld, device=device, timestep=chosen.timestep, threads=threads)
    env = Env(sim, chosen, seed=seed, autoreset="disabled", check=False)
    sim.compile()
    return env


def play(
    env: Env, policy: Policy, seen: Callable[[Env], None] = lambda env: None, *, seed: int | None = None
) -> Episodes:
    """Play one episode in each world; `seen` is called at the start and after each control step.

    With a seed, starts and noise are the same in each call, of a nominal environment.
    """
    policy.check(env)
    if env.task.longest is None:
        raise InputError(f"task {env.task.name!r} has no time-out: episodes of a policy could go on for ever")
    actor = policy.on(env.device)
    observation, _ = env.reset(seed=seed)
    env.log()
    over = np.zeros(env.nworld, dtype=bool)
    success, terminated = np.zeros_like(over), np.zeros_like(over)
    total, seconds = np.zeros(env.nworld), np.zeros(env.nworld)
    seen(env)
    for _ in range(env.task.longest):
        step = env.step(actor(observation))
        observation = step.observation
        total += np.where(over, 0.0, step.reward.numpy(force=True))
        seconds += np.where(over, 0.0, env.dt)
        ended = step.done.numpy(force=True) & ~over
        success |= ended & step.success.numpy(force=True)
        terminated |= ended & step.terminated.numpy(force=True)
        over |= ended
        seen(env)
        if over.all():
            break
    return Episodes(success, total, seconds, terminated, int(env.log()["diverged"]))
