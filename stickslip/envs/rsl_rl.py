"""rsl_rl: an environment as its `VecEnv`, all tensors on the device."""

from typing import Any

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from stickslip.envs.env import Env
from stickslip.envs.group import EnvGroup
from stickslip.errors import InputError


class RslRlVecEnv(VecEnv):
    """Many worlds of a task for rsl_rl, with the observation groups "policy" and "critic".

    Time-outs are in `extras["time_outs"]`, the last observations of episodes that have ended in `extras["final"]`, and
    means over the episodes that ended lately in `extras["log"]`.

    Args:
        env: an environment that starts worlds again in the same step
    """

    def __init__(self, env: Env | EnvGroup) -> None:
        if env.autoreset != "same-step":
            raise InputError(f"rsl_rl needs autoreset='same-step', the environment has {env.autoreset!r}")
        self.env = env
        self.num_envs, self.num_actions = env.nworld, env.naction
        self.max_episode_length = env.task.longest or 10**9
        self.device = env.device
        self.cfg: dict[str, Any] = {"task": env.task.name, "physics": env.physics}
        self._last = env.reset()

    @property
    def episode_length_buf(self) -> torch.Tensor:  # type: ignore[override]
        """Control steps since the start of each episode; rsl_rl may assign it, to spread the ends of episodes."""
        return self.env.elapsed

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        self.env.elapsed = value

    def get_observations(self) -> TensorDict:
        """The present observations."""
        return self._observations(*self._last)

    def _observations(self, policy: torch.Tensor, critic: torch.Tensor) -> TensorDict:
        return TensorDict({"policy": policy, "critic": critic}, batch_size=[self.num_envs], device=self.device)

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Advance all worlds by a control step."""
        step = self.env.step(actions)
        self._last = step.observation, step.critic
        extras = {
            "time_outs": step.truncated.float(),
            "final": self._observations(step.final, step.final_critic),
            "log": {f"episode/{name}": value for name, value in self.env.lately().items()},
        }
        return self._observations(*self._last), step.reward, step.done.long(), extras
