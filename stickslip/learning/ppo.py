"""rsl_rl's PPO on an environment: rollouts, updates, and the policy as it is."""

import contextlib
import io
from typing import Any

import torch
from rsl_rl.algorithms import PPO

from stickslip.envs.env import Env
from stickslip.envs.group import EnvGroup
from stickslip.envs.rsl_rl import RslRlVecEnv
from stickslip.errors import InputError
from stickslip.learning.policy import Policy
from stickslip.learning.settings import Settings

ACTIVATION = "elu"


class Learner:
    """A policy that improves.

    Args:
        env: the environment
        settings: of PPO
    """

    def __init__(self, env: Env | EnvGroup, settings: Settings) -> None:
        self.env, self._settings = env, settings
        self._worlds = RslRlVecEnv(env)
        self._observation = self._worlds.get_observations()
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its networks
            self._ppo: Any = PPO.construct_algorithm(
                self._observation, self._worlds, _config(settings), str(env.device)
            )
        self._ppo.train_mode()
        if settings.spread:
            env.spread()

    def rollout(self) -> None:
        """Take the control steps between two updates."""
        ppo, gamma = self._ppo, self._settings.gamma
        with torch.inference_mode():
            for _ in range(self._settings.steps):
                action = ppo.act(self._observation)
                self._observation, reward, done, extras = self._worlds.step(action)
                # a time-out is no end: the value of the last observation stands for what would have followed
                value = ppo.critic(extras["final"])[:, 0]
                ppo.process_env_step(self._observation, reward + gamma * extras["time_outs"] * value, done, {})
            ppo.compute_returns(self._observation)

    def update(self) -> dict[str, float]:
        """Improve the policy by the last rollout; the losses.

        With few worlds the estimated change of the policy is mostly noise, and the step size that rsl_rl adapts to it
        may fall to 1e-5 and stay there. So each update begins with `least_rate`, at least.
        """
        if self._settings.adaptive:
            self._ppo.learning_rate = max(self._ppo.learning_rate, self._settings.least_rate)
        losses = self._ppo.update()
        std = float(self._ppo.get_policy().output_std.detach().mean())
        if not all(map(_finite, (*losses.values(), std))):
            raise InputError(
                f"the training diverged: losses {losses}; take a smaller learning_rate, or look at rewards"
            )
        return {**losses, "std": std, "learning_rate": float(self._ppo.learning_rate)}

    def policy(self, about: dict[str, Any]) -> Policy:
        """A copy of the policy, without noise."""
        actor = self._ppo.get_policy()
        weights = {name: tensor.detach().cpu().float().numpy() for name, tensor in actor.state_dict().items()}
        layers = sorted({int(name.split(".")[1]) for name in weights if name.startswith("mlp.")})
        norm = actor.obs_normalizer
        return Policy(
            tuple(weights[f"mlp.{i}.weight"].copy() for i in layers),
            tuple(weights[f"mlp.{i}.bias"].copy() for i in layers),
            norm.mean.cpu().numpy(),
            (norm.std + norm.eps).cpu().numpy(),
            ACTIVATION,
            about,
        )

    def save(self) -> dict[str, Any]:
        """All that a training continues from, but the worlds."""
        return self._ppo.save()

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` gave."""
        self._ppo.load(saved, None, True)


def _finite(number: float) -> bool:
    return number == number and abs(number) != float("inf")


def _config(settings: Settings) -> dict[str, Any]:
    """The settings in rsl_rl's words."""
    network = {
        "class_name": "MLPModel",
        "hidden_dims": list(settings.hidden),
        "activation": ACTIVATION,
        "obs_normalization": True,
    }
    normal = {"class_name": "GaussianDistribution", "init_std": settings.std, "std_type": "log"}
    return {
        "num_steps_per_env": settings.steps,
        "obs_groups": {"actor": ["policy"], "critic": ["critic"]},
        "multi_gpu": None,
        "actor": {**network, "distribution_cfg": normal},
        "critic": dict(network),
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": settings.epochs,
            "num_mini_batches": settings.batches,
            "clip_param": settings.clip,
            "gamma": settings.gamma,
            "lam": settings.lam,
            "entropy_coef": settings.entropy,
            "learning_rate": settings.learning_rate,
            "max_grad_norm": settings.gradient,
            "schedule": "adaptive" if settings.adaptive else "fixed",
            "desired_kl": settings.desired_kl,
        },
    }
