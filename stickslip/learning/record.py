"""Episodes of a policy as a dataset for imitation learning."""

from collections.abc import Callable
from typing import Any

from stickslip.datasets import EpisodeRecorder
from stickslip.envs.env import Env
from stickslip.learning.policy import Policy


def record(
    env: Env, policy: Policy, writer: Any, episodes: int, told: Callable[[int], None] = lambda done: None
) -> int:
    """Play episodes and hand them to a writer of `stickslip.datasets`; how many of them succeeded.

    Observations are the parts of the policy's, by name; actions are within their limit.

    Args:
        env: worlds that stay where their episode ends
        policy: the policy
        writer: an `Hdf5Writer` or a `LeRobotWriter`
        episodes: how many, at least; those that end in the same step are all written
        told: called with the number of episodes so far
    """
    policy.check(env)
    actor = policy.on(env.device)
    seen, _ = env.reset()
    now = {"observation": seen}

    def part(place: slice) -> Callable[[], Any]:
        return lambda: now["observation"][:, place]

    recorder = EpisodeRecorder(
        env.sim,
        writer,
        observations={name.replace(" ", "_"): part(place) for name, place in env.observations.items()},
        decimation=env.task.decimation,
        task=env.task.summary,
        info={"policy": policy.about.get("physics", ""), "task": env.task.name},
    )
    succeeded = 0
    while recorder.episodes < episodes:
        step = env.step(actor(now["observation"]))
        now["observation"] = step.observation
        over = step.done
        recorder.step(env.state.action, step.reward, step.terminated, step.truncated, info={"success": step.success})
        if bool(over.any()):
            succeeded += int((step.success & over).sum())
            now["observation"], _ = env.reset(over)
            recorder.begin()
            told(recorder.episodes)
    recorder.close()
    return succeeded
