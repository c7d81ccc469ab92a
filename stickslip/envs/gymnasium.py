"""Gymnasium: many worlds as a `VectorEnv`, one as an `Env`."""

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from stickslip.envs.env import Env
from stickslip.envs.factory import make
from stickslip.envs.step import Step
from stickslip.envs.task import Task
from stickslip.errors import InputError
from stickslip.physics.base import Physics
from stickslip.render import Renderer

MODES = {
    "same-step": AutoresetMode.SAME_STEP,
    "next-step": AutoresetMode.NEXT_STEP,
    "disabled": AutoresetMode.DISABLED,
}
RENDER_MODES = ["rgb_array"]


class VectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many worlds of a task for Gymnasium.

    Info of a step has `success`, and `final_obs` with the mask `_final_obs` if episodes have ended in it.

    Args:
        env: the environment
        arrays: "numpy", or "torch": tensors on the device, without a copy to the host
    """

    def __init__(self, env: Env, *, arrays: str = "numpy") -> None:
        if arrays not in ("numpy", "torch"):
            raise InputError(f"arrays is {arrays!r}: it must be numpy or torch")
        self.env, self._arrays = env, arrays
        self.num_envs = env.nworld
        self.single_observation_space, self.single_action_space = _spaces(env)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, env.nworld)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, env.nworld)
        self.metadata = {
            "autoreset_mode": MODES[env.autoreset],
            "render_modes": [],
            "render_fps": round(1.0 / env.dt),
        }
        self.autoreset_mode = MODES[env.autoreset]  # TorchRL asks for it here
        self.render_mode = None

    def _given(self, tensor: torch.Tensor) -> Any:
        return tensor.numpy(force=True).copy() if self._arrays == "numpy" else tensor

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start all worlds, or those in `options["reset_mask"]`; one seed for all worlds."""
        if isinstance(seed, list):
            raise InputError("worlds share one seed: give a whole number, or None")
        super().reset(seed=seed)
        mask = (options or {}).get("reset_mask")
        observation, _ = self.env.reset(mask, seed=seed)
        return self._given(observation), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Advance all worlds by a control step."""
        step = self.env.step(actions)
        given = self._given
        info: dict[str, Any] = {"success": given(step.success)}
        if self.env.autoreset == "same-step":
            done = given(step.done)
            if self._arrays == "torch" or done.any():
                info |= {"final_obs": given(step.final), "_final_obs": done}
        return (
            given(step.observation),
            given(step.reward),
            given(step.terminated),
            given(step.truncated),
            info,
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Drop the simulation."""
        self.env.close()


class SingleEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One world of a task as a plain environment, with pictures.

    Args:
        task: as for `stickslip.envs.make`
        physics: likewise
        render_mode: "rgb_array" or None
        width, height: of pictures [pixels]
        options: further arguments of `stickslip.envs.make`
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": 50}

    def __init__(
        self,
        task: str | Task,
        physics: Physics[Any, Any] | str | None = None,
        *,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
        **options: Any,
    ) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise InputError(f"render_mode is {render_mode!r}: it must be None or {', '.join(RENDER_MODES)}")
        options.setdefault("device", "cpu")
        self.env = make(task, physics, nworld=1, autoreset="disabled", **options)
        self.observation_space, self.action_space = _spaces(self.env)
        self.metadata = {"render_modes": RENDER_MODES, "render_fps": round(1.0 / self.env.dt)}
        self.render_mode = render_mode
        self._size = (width, height)
        self._renderer: Renderer | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        observation, _ = self.env.reset(seed=seed)
        return observation[0].numpy(force=True).copy(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Advance by a control step."""
        step: Step = self.env.step(np.asarray(action, dtype=np.float32)[None])
        return (
            step.observation[0].numpy(force=True).copy(),
            float(step.reward[0]),
            bool(step.terminated[0]),
            bool(step.truncated[0]),
            {"success": bool(step.success[0])},
        )

    def render(self) -> Any:
        """A picture of the present state, (height, width, 3) bytes."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            width, height = self._size
            camera = self.env.task.camera or "overview"
            self._renderer = Renderer(self.env.sim.mjm, camera=camera, width=width, height=height)
        return self._renderer.draw(*self.env.poses()).pixels

    def close(self) -> None:
        """Drop the simulation."""
        if self._renderer is not None:
            self._renderer.close()
        self.env.close()


def _spaces(env: Env) -> tuple[Any, Any]:
    """What a world observes, and what it is given."""
    return (
        spaces.Box(-np.inf, np.inf, (env.nobservation,), np.float32),
        spaces.Box(-env.limit, env.limit, (env.naction,), np.float32),
    )


def make_vector(task: str, num_envs: int = 1, *, arrays: str = "numpy", **options: Any) -> VectorEnv:
    """The entry point of `gymnasium.make_vec`; options are those of `stickslip.envs.make`."""
    return VectorEnv(make(task, nworld=num_envs, **options), arrays=arrays)
