"""Train a policy of Stable-Baselines3 on a task of stickslip; needs `pip install -e '.[envs]' stable-baselines3`.

Stable-Baselines3 has its own kind of vector environment, on the host; a dozen lines are enough.
"""

import sys
from typing import Any

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

from stickslip import envs
from stickslip.envs.gymnasium import VectorEnv


class Worlds(VecEnv):
    """All worlds of an environment."""

    def __init__(self, env: envs.Env) -> None:
        self._env = VectorEnv(env)
        super().__init__(env.nworld, self._env.single_observation_space, self._env.single_action_space)

    def reset(self) -> np.ndarray:
        return self._env.reset()[0]

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observation, reward, terminated, truncated, info = self._env.step(self._actions)
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": bool(cut)} for cut in truncated]
        for world in np.flatnonzero(terminated | truncated):
            infos[world]["terminal_observation"] = info["final_obs"][world]
        return observation, reward, terminated | truncated, infos

    def close(self) -> None:
        self._env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self._env, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self._env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **options: Any) -> list[Any]:
        return [getattr(self._env, method_name)(*args, **options)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def main(steps: int = 20_000) -> None:
    worlds = Worlds(envs.make("push-t", "comfree", nworld=16, device="cpu"))
    PPO("MlpPolicy", worlds, n_steps=64, batch_size=256, device="cpu", verbose=1).learn(steps)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
