"""What the terms of a task see of all worlds: torch views of the simulation, actions, memory, and random numbers."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import warp as wp

from stickslip.envs.random import Random
from stickslip.errors import unknown
from stickslip.simulation import Simulation

GRAVITY = (0.0, 0.0, -1.0)


class Part:
    """A body, site, geom, joint or actuator in every world: `state.body("cube").xpos` is a tensor, (nworld, 3)."""

    def __init__(self, part: Any) -> None:
        self._part = part
        self.views: dict[str, torch.Tensor] = {}

    def __getattr__(self, name: str) -> torch.Tensor:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self.views:
            self.views[name] = wp.to_torch(getattr(self._part, name), requires_grad=False)
        return self.views[name]


class State:
    """All worlds of an environment, as the terms of its task see them.

    Arrays are views of the simulation's memory, as of the present state; read them, write nothing. `state["goal"]` is
    what the task keeps under that name in its memory.

    Attributes:
        nworld: number of worlds
        device: of all tensors
        dt: duration of a control step [s]
        action: the last action, within its limit                      (nworld, naction)
        previous: the one before it                                    (nworld, naction)
        elapsed: control steps since the start of the episode          (nworld,)
        random: random numbers, each world's own
        done: worlds whose episode has ended in this step; for `curriculum`   (nworld,)
        succeeded: worlds that had succeeded when it ended; for `curriculum`  (nworld,)
        found: what terms marked with `once` have found of the present state
    """

    def __init__(
        self, sim: Simulation, naction: int, dt: float, memory: dict[str, torch.Tensor], random: Random
    ) -> None:
        self._sim = sim
        self.mjm = sim.mjm
        self.nworld, self.dt, self.random = sim.nworld, dt, random
        self.device = wp.device_to_torch(sim.device)
        self.device = torch.device(self.device)
        self.action = torch.zeros((sim.nworld, naction), device=self.device)
        self.previous = torch.zeros_like(self.action)
        self.elapsed = torch.zeros(sim.nworld, dtype=torch.int64, device=self.device)
        self.done = torch.zeros(sim.nworld, dtype=torch.bool, device=self.device)
        self.succeeded = torch.zeros_like(self.done)
        self.memory = memory
        self.found: dict[Any, torch.Tensor] = {}
        self._parts: dict[tuple[str, Any], Any] = {}

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self.memory:
            raise unknown("memory of the task", name, self.memory)
        return self.memory[name]

    def _view(self, name: str) -> torch.Tensor:
        key = ("array", name)
        if key not in self._parts:
            self._parts[key] = wp.to_torch(self._sim.find_field(name), requires_grad=False)
        return self._parts[key]

    @property
    def qpos(self) -> torch.Tensor:
        """Positions, (nworld, nq)."""
        return self._view("qpos")

    @property
    def qvel(self) -> torch.Tensor:
        """Velocities, (nworld, nv)."""
        return self._view("qvel")

    @property
    def ctrl(self) -> torch.Tensor:
        """Controls, (nworld, nu)."""
        return self._view("ctrl")

    def field(self, name: str) -> torch.Tensor:
        """An array of MuJoCo's name, such as `actuator_force`, (nworld, ...)."""
        return self._view(name)

    def body(self, name: str | int) -> Part:
        """A body: `xpos`, `xquat`, `xmat`, ..."""
        return self._part("body", name)

    def site(self, name: str | int) -> Part:
        """A site: `xpos`, `xmat`."""
        return self._part("site", name)

    def geom(self, name: str | int) -> Part:
        """A geom: `xpos`, `xmat`."""
        return self._part("geom", name)

    def joint(self, name: str | int) -> Part:
        """A joint: `qpos`, `qvel`, `qacc`, each (nworld, n)."""
        return self._part("joint", name)

    def actuator(self, name: str | int) -> Part:
        """An actuator: `ctrl`, `force`, ... each (nworld,)."""
        return self._part("actuator", name)

    def sensor(self, name: str | int) -> torch.Tensor:
        """A sensor, (nworld, dim). Forces and contacts are those of the last timestep, and 0 when an episode starts."""
        key = ("sensor", name)
        if key not in self._parts:
            self._parts[key] = wp.to_torch(self._sim.sensor(name), requires_grad=False)
        return self._parts[key]

    def _part(self, kind: str, name: str | int) -> Part:
        key = (kind, name)
        if key not in self._parts:
            self._parts[key] = Part(getattr(self._sim, kind)(name))
        return self._parts[key]

    def views(self) -> dict[tuple[Any, ...], torch.Tensor]:
        """Everything that terms have asked for so far, but constants; `view` finds the same in another environment."""
        found = {}
        for key, value in self._parts.items():
            if isinstance(value, Part):
                found |= {(*key, name): view for name, view in value.views.items()}
            elif key[0] != "constant":
                found[key] = value
        return found

    def view(self, key: tuple[Any, ...]) -> torch.Tensor:
        """What `views` names so."""
        kind, name, *attribute = key
        if kind == "array":
            return self._view(name)
        return getattr(self._part(kind, name), attribute[0]) if attribute else self.sensor(name)

    def constants(self) -> list[torch.Tensor]:
        """The constants that terms have asked for so far."""
        return [value for key, value in self._parts.items() if key[0] == "constant"]

    def forget(self) -> None:
        """The state has changed: what was found of it before by terms marked with `once` is found again."""
        self.found.clear()

    def constant(self, *numbers: float) -> torch.Tensor:
        """Numbers as a tensor on the device; the same one each time, so that a graph can read it."""
        key = ("constant", numbers)
        if key not in self._parts:
            self._parts[key] = torch.tensor(numbers, device=self.device)
        return self._parts[key]


def once(term: Callable[[State], torch.Tensor]) -> Callable[[State], torch.Tensor]:
    """Marks a function of the state that several terms use: it is worked out once for each state."""

    @functools.wraps(term)
    def found(s: State) -> torch.Tensor:
        if term not in s.found:
            s.found[term] = term(s)
        return s.found[term]

    return found


def rotate_back(quat: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Vectors of the world frame in the frames of quaternions, real part first, (nworld, 3)."""
    w, u = quat[:, :1], quat[:, 1:]
    t = 2.0 * torch.linalg.cross(u, vector)
    return vector - w * t + torch.linalg.cross(u, t)


def rotate(quat: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Vectors in the frames of quaternions, real part first, in the world frame, (nworld, 3)."""
    w, u = quat[:, :1], quat[:, 1:]
    t = 2.0 * torch.linalg.cross(u, vector)
    return vector + w * t + torch.linalg.cross(u, t)


def angle_between(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Angle between orientations, quaternions (nworld, 4) [rad], (nworld,)."""
    return 2.0 * torch.acos((a * b).sum(dim=1).abs().clamp(max=1.0))


def yaw_of(quat: torch.Tensor) -> torch.Tensor:
    """Heading of the first axis [rad], (nworld,)."""
    w, x, y, z = quat.unbind(dim=1)
    return torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def quat_of_yaw(yaw: torch.Tensor) -> torch.Tensor:
    """The quaternion of a turn about z, (nworld, 4)."""
    zero = torch.zeros_like(yaw)
    return torch.stack([torch.cos(0.5 * yaw), zero, zero, torch.sin(0.5 * yaw)], dim=1)


def wrapped(angle: torch.Tensor) -> torch.Tensor:
    """Angles between -pi and pi."""
    return torch.remainder(angle + math.pi, 2.0 * math.pi) - math.pi
