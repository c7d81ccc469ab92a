"""Environments of one task under several physics as one: the contact model is randomised as friction and mass are."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from stickslip.envs.env import Env
from stickslip.envs.step import Step
from stickslip.errors import InputError


class EnvGroup:
    """Worlds of several environments side by side, in their order; used as one `Env`.

    Args:
        envs: environments of one task on one device
    """

    def __init__(self, envs: Sequence[Env]) -> None:
        if not envs:
            raise InputError("no environments: give at least one")
        self.envs = tuple(envs)
        first = self.envs[0]
        for env in self.envs[1:]:
            if env.task is not first.task or env.device != first.device or env.autoreset != first.autoreset:
                raise InputError(
                    f"environments of one group share task, device and autoreset; {env.task.name!r} on {env.device}, "
                    f"{env.autoreset}, is not like {first.task.name!r} on {first.device}, {first.autoreset}"
                )
        self.task, self.device, self.autoreset = first.task, first.device, first.autoreset
        self.sim = first.sim
        self.nworld = sum(env.nworld for env in self.envs)
        self.naction, self.nobservation, self.ncritic = first.naction, first.nobservation, first.ncritic
        self.limit, self.dt = first.limit, first.dt
        self._sizes = [env.nworld for env in self.envs]

    @property
    def physics(self) -> str:
        """The physics, separated by "+"."""
        return "+".join(env.physics for env in self.envs)

    @property
    def observations(self) -> Mapping[str, slice]:
        """Where each part of the observation is, by name."""
        return self.envs[0].observations

    @property
    def elapsed(self) -> torch.Tensor:
        """Control steps since the start of each episode, (nworld,)."""
        return torch.cat([env.elapsed for env in self.envs])

    @elapsed.setter
    def elapsed(self, value: torch.Tensor) -> None:
        for env, part in zip(self.envs, self._split(value), strict=True):
            env.elapsed = part

    def _split(self, value: Any) -> list[Any]:
        given = torch.as_tensor(value)
        if given.ndim < 1 or len(given) != self.nworld:
            raise InputError(f"a value has shape {tuple(given.shape)}: its first axis must be {self.nworld} worlds")
        return list(torch.split(given, self._sizes))

    def spread(self) -> None:
        """As of `Env`."""
        for env in self.envs:
            env.spread()

    def reset(self, mask: Any = None, *, seed: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """As of `Env`."""
        masks = [None] * len(self.envs) if mask is None else self._split(mask)
        found = [env.reset(part, seed=seed) for env, part in zip(self.envs, masks, strict=True)]
        return torch.cat([policy for policy, _ in found]), torch.cat([critic for _, critic in found])

    def step(self, action: Any) -> Step:
        """As of `Env`."""
        steps = [env.step(part) for env, part in zip(self.envs, self._split(action), strict=True)]
        return Step(*(torch.cat(parts) for parts in zip(*(step.parts() for step in steps), strict=True)))

    def log(self) -> dict[str, float]:
        """As of `Env`, with the success of each physics as `success/NAME`."""
        logs = [env.log() for env in self.envs]
        n = sum(log["episodes"] for log in logs)
        found = {"episodes": n}
        for name in dict.fromkeys(name for log in logs for name in log if name != "episodes"):
            counted = name in ("diverged", "refused_actions")
            total = sum(log.get(name, 0.0) * (1.0 if counted else log["episodes"]) for log in logs)
            found[name] = total if counted else total / max(1.0, n)
        for env, log in zip(self.envs, logs, strict=True):
            if "success" in log:
                found[f"success/{env.physics}"] = log["success"]
        return found

    def lately(self) -> dict[str, torch.Tensor]:
        """As of `Env`; the mean over the physics."""
        each = [env.lately() for env in self.envs]
        return {name: torch.stack([one[name] for one in each]).mean() for name in each[0]}

    def health(self) -> list[str]:
        """As of `Env`, with the name of the physics."""
        return [f"{env.physics}: {message}" for env in self.envs for message in env.health()]

    def close(self) -> None:
        """As of `Env`."""
        for env in self.envs:
            env.close()
