"""A trained policy: observation in, action out; a small file of numbers, without pickle."""

import dataclasses
import json
import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from stickslip import npz
from stickslip.envs.env import Env
from stickslip.errors import InputError

FORMAT = 1
ACTIVATIONS = {"elu": torch.nn.functional.elu, "relu": torch.relu, "tanh": torch.tanh}
MOST = 64 * 2**20
"""Bytes of a file at most."""


@dataclasses.dataclass(frozen=True)
class Policy:
    """A network of dense layers on a normalised observation.

    Attributes:
        weights, biases: of each layer, (n_out, n_in) and (n_out,)
        mean, std: of the observation                                                                 (nobservation,)
        activation: between layers
        about: task, physics, parts of the observation, how it was trained
    """

    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]
    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    activation: str
    about: dict[str, Any]

    @property
    def nobservation(self) -> int:
        """Numbers that it observes."""
        return len(self.mean)

    @property
    def naction(self) -> int:
        """Numbers that it gives."""
        return len(self.biases[-1])

    def on(self, device: torch.device | str) -> "Actor":
        """The policy on a device."""
        return Actor(self, torch.device(device))

    def check(self, env: Env) -> None:
        """Raise InputError unless it fits an environment."""
        parts = {name: [part.start, part.stop] for name, part in env.observations.items()}
        if (self.nobservation, self.naction) != (env.nobservation, env.naction):
            raise InputError(
                f"the policy observes {self.nobservation} numbers and gives {self.naction}, the task {env.task.name!r} "
                f"has {env.nobservation} and {env.naction}: it was trained for {self.about.get('task')!r}"
            )
        if self.about.get("observations", parts) != parts:
            raise InputError(
                f"the policy was trained with other parts of the observation, {self.about['observations']}; the task "
                f"{env.task.name!r} has {parts}"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it into an npz file, at once."""
        arrays: dict[str, Any] = {f"weight{i}": array for i, array in enumerate(self.weights)}
        arrays |= {f"bias{i}": array for i, array in enumerate(self.biases)}
        header = {"format": FORMAT, "layers": len(self.weights), "activation": self.activation, "about": self.about}
        npz.write(path, {"header": np.array(json.dumps(header)), "mean": self.mean, "std": self.std, **arrays})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Policy":
        """Read a file that `save` wrote."""
        try:
            if os.path.getsize(path) > MOST:
                raise InputError(f"{path} has {os.path.getsize(path)} bytes, a policy at most {MOST}: it is none")
            with npz.opened(path, "a policy that `stickslip train` wrote") as found:
                header = json.loads(str(found["header"]))
                if header["format"] != FORMAT:
                    raise InputError(
                        f"{path} has format {header['format']}, this version reads {FORMAT}; train it again"
                    )
                layers = range(int(header["layers"]))
                policy = cls(
                    tuple(found[f"weight{i}"] for i in layers),
                    tuple(found[f"bias{i}"] for i in layers),
                    found["mean"],
                    found["std"],
                    header["activation"],
                    header["about"],
                )
        except (KeyError, ValueError, TypeError, EOFError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is not a policy that `stickslip train` wrote: {error}") from error
        policy._check_shapes(path)
        return policy

    def _check_shapes(self, path: Any) -> None:
        sizes = [self.nobservation]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            if weight.ndim != 2 or weight.shape != (len(bias), sizes[-1]) or not np.isfinite(weight).all():
                raise InputError(f"{path}: a layer of shape {weight.shape} does not follow one of {sizes[-1]} numbers")
            sizes.append(len(bias))
        if self.activation not in ACTIVATIONS:
            raise InputError(f"{path}: activation {self.activation!r}; there are {', '.join(ACTIVATIONS)}")


class Actor:
    """A policy on a device: a function of observations, (n, nobservation), that gives actions, (n, naction)."""

    def __init__(self, policy: Policy, device: torch.device) -> None:
        def put(array: NDArray[np.float32]) -> torch.Tensor:
            return torch.tensor(array, dtype=torch.float32, device=device)

        self._layers = [(put(w), put(b)) for w, b in zip(policy.weights, policy.biases, strict=True)]
        self._mean, self._std = put(policy.mean), put(policy.std)
        self._activation = ACTIVATIONS[policy.activation]

    @torch.no_grad()
    def __call__(self, observation: torch.Tensor) -> torch.Tensor:
        x = (observation - self._mean) / self._std
        for weight, bias in self._layers[:-1]:
            x = self._activation(torch.nn.functional.linear(x, weight, bias))
        return torch.nn.functional.linear(x, *self._layers[-1])
