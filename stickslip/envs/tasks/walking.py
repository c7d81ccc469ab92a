"""Walking at a commanded velocity: what the tasks of walking robots share.

A robot is declared by its numbers (`Robot`); `velocity_task` makes the task of it. The command is a velocity of the
base in its own frame, forwards and to the left [m/s], and a yaw rate [rad/s]. A foot touches the floor if its lowest
point is lower than `TOUCHING`: that means the same in every physics, whatever its contact forces are.

The free joint of the base comes first in `qpos` and `qvel`, then the hinges, in the order of their servos.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import mujoco
import torch

from stickslip.envs.state import GRAVITY, State, quat_of_yaw, rotate_back
from stickslip.envs.task import Action, Gains, Observed, Push, Reward, Task
from stickslip.simulation import Scale

BASE = "floating_base_joint"
TOUCHING = 0.01
"""Height of a foot's lowest point below which it touches the floor [m]."""
SLOW = 0.1
"""Commanded speed, and yaw rate, below which a command is to stand [m/s], [rad/s]."""
WIDTH = 0.25
"""Squared error of velocity at which its reward is 1/e [m^2/s^2], [rad^2/s^2]."""
STEP = 0.5
"""Longest time in the air that pays [s]."""


@dataclasses.dataclass(frozen=True)
class Robot:
    """A walking robot.

    Attributes:
        build: makes the model, with a key frame that stands
        feet: names of the spheres that each foot stands on
        keep_off: names of the spheres that should not touch the floor, such as knees
        spread: of each hinge, how far from the key frame's posture walking may take it [rad]
        low: height of the base below which it has fallen [m]
        upright: vertical part of the base's z axis below which it has fallen
        forwards, sideways, turn: bounds of the command [m/s], [m/s], [rad/s]
        lift: height to which a swinging foot is to be lifted [m]
        within: mean errors of velocity [m/s] and yaw rate [rad/s] below which an episode is a success
    """

    build: Callable[[], mujoco.MjSpec]
    feet: tuple[tuple[str, ...], ...]
    keep_off: tuple[str, ...]
    spread: tuple[float, ...]
    low: float
    upright: float
    forwards: tuple[float, float]
    sideways: tuple[float, float]
    turn: tuple[float, float]
    lift: float
    within: tuple[float, float]
    resample: tuple[float, float] = (3.0, 8.0)
    """Least and largest time between two commands [s]."""
    standing: float = 0.15
    """Share of commands that are to stand."""

    # --- what is seen ---

    def linear(self, s: State) -> torch.Tensor:
        """Velocity of the base in its frame [m/s], (nworld, 3)."""
        return rotate_back(s.qpos[:, 3:7], s.qvel[:, :3])

    def angular(self, s: State) -> torch.Tensor:
        """Angular velocity of the base in its frame [rad/s], (nworld, 3)."""
        return s.qvel[:, 3:6]

    def gravity(self, s: State) -> torch.Tensor:
        """Direction of gravity in the frame of the base, (nworld, 3)."""
        return rotate_back(s.qpos[:, 3:7], s.constant(*GRAVITY).expand(s.nworld, 3))

    def away(self, s: State) -> torch.Tensor:
        """Hinge angles from those of the key frame [rad], (nworld, nhinge)."""
        return s.qpos[:, 7:] - s.constant(*map(float, s.mjm.key_qpos[0][7:]))

    def heights(self, s: State) -> torch.Tensor:
        """Height of the lowest point of each foot [m], (nworld, nfoot)."""
        return torch.stack([_lowest(s, names).amin(dim=1) for names in self.feet], dim=1)

    def places(self, s: State) -> torch.Tensor:
        """Middle of each foot in the horizontal plane [m], (nworld, nfoot, 2)."""
        return torch.stack(
            [torch.stack([s.geom(name).xpos[:, :2] for name in names]).mean(dim=0) for names in self.feet], dim=1
        )

    def touching(self, s: State) -> torch.Tensor:
        """Whether each foot touches the floor, (nworld, nfoot)."""
        return self.heights(s) < TOUCHING

    def moving(self, s: State) -> torch.Tensor:
        """Whether the command is to move, (nworld,)."""
        return s["command"].abs().amax(dim=1) > 0.0

    # --- the command ---

    def draw_command(self, s: State) -> torch.Tensor:
        """Commands of all worlds, (nworld, 3)."""
        draw = s.random
        found = torch.cat([draw.uniform(*bounds) for bounds in (self.forwards, self.sideways, self.turn)], dim=1)
        slow = torch.linalg.norm(found[:, :2], dim=1, keepdim=True) < SLOW
        found = torch.cat(
            [torch.where(slow, 0.0, found[:, :2]), torch.where(found[:, 2:].abs() < SLOW, 0.0, found[:, 2:])], dim=1
        )
        return torch.where(draw.uniform(0.0, 1.0) < self.standing, 0.0, found)

    # --- episodes ---

    def start(self, s: State) -> Mapping[str, torch.Tensor]:
        """Standing near the key frame, with any heading and a small velocity."""
        draw, home = s.random, s.mjm.key_qpos[0]
        nhinge, nfoot = s.mjm.nq - 7, len(self.feet)
        zero = s.constant(0.0).expand(s.nworld, 1)
        base = torch.cat([zero, zero, float(home[2]) + draw.uniform(0.0, 0.02)], dim=1)
        hinges = s.constant(*map(float, home[7:])) + draw.uniform(-0.05, 0.05, nhinge)
        low, high = s.constant(*map(float, s.mjm.jnt_range[1:, 0])), s.constant(*map(float, s.mjm.jnt_range[1:, 1]))
        heading = quat_of_yaw(draw.uniform(-math.pi, math.pi)[:, 0])
        flat, up = draw.uniform(-0.3, 0.3, 2), draw.uniform(-0.1, 0.1)
        still = zero.expand(s.nworld, nhinge)
        return {
            "qpos": torch.cat([base, heading, torch.minimum(torch.maximum(hinges, low), high)], dim=1),
            "qvel": torch.cat([flat, up, draw.uniform(-0.1, 0.1, 3), still], dim=1),
            "ctrl": s.constant(*map(float, s.mjm.key_ctrl[0])).expand(s.nworld, s.mjm.nu),
            "command": self.draw_command(s),
            "left": draw.uniform(*self.resample)[:, 0],
            "air": zero.expand(s.nworld, nfoot),
            "ground": zero.expand(s.nworld, nfoot),
            "landed": zero.expand(s.nworld, nfoot),
            "foot place": zero[:, :, None].expand(s.nworld, nfoot, 2),
            "foot speed": zero.expand(s.nworld, nfoot),
            "hinge velocity": still,
            "hinge acceleration": still,
            "error": zero.expand(s.nworld, 2),
            "steps": zero[:, 0],
        }

    def memory(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what `start` and `update` keep."""
        nfoot, nhinge = len(self.feet), len(self.spread)
        return {
            "command": (3,),
            "left": (),
            "air": (nfoot,),
            "ground": (nfoot,),
            "landed": (nfoot,),
            "foot place": (nfoot, 2),
            "foot speed": (nfoot,),
            "hinge velocity": (nhinge,),
            "hinge acceleration": (nhinge,),
            "error": (2,),
            "steps": (),
        }

    def update(self, s: State) -> Mapping[str, torch.Tensor]:
        """Times of the feet in the air and on the ground [s], errors so far, and the next command.

        `landed` is the time that a foot which touches the floor now was in the air just before, 0 for the others.
        """
        touching, places = self.touching(s), self.places(s)
        first = s["steps"] == 0.0
        moved = torch.where(first[:, None, None], 0.0, places - s["foot place"])
        hinges = s.qvel[:, 6:]
        bend = torch.where(first[:, None], 0.0, hinges - s["hinge velocity"])
        left = s["left"] - s.dt
        again = left <= 0.0
        return {
            "air": torch.where(touching, 0.0, s["air"] + s.dt),
            "ground": torch.where(touching, s["ground"] + s.dt, 0.0),
            "landed": torch.where(touching, s["air"], 0.0),
            "foot place": places,
            "foot speed": torch.linalg.norm(moved, dim=2) / s.dt,
            "hinge velocity": hinges,
            "hinge acceleration": bend / s.dt,
            "error": s["error"] + torch.stack(self.errors(s), dim=1),
            "steps": s["steps"] + 1.0,
            "command": torch.where(again[:, None], self.draw_command(s), s["command"]),
            "left": torch.where(again, s.random.uniform(*self.resample)[:, 0], left),
        }

    def errors(self, s: State) -> tuple[torch.Tensor, torch.Tensor]:
        """Errors of the horizontal velocity [m/s] and of the yaw rate [rad/s], (nworld,) each."""
        command = s["command"]
        linear = torch.linalg.norm(self.linear(s)[:, :2] - command[:, :2], dim=1)
        return linear, (self.angular(s)[:, 2] - command[:, 2]).abs()

    def fallen(self, s: State) -> torch.Tensor:
        """Whether the base is too low."""
        return s.qpos[:, 2] < self.low

    def tilted(self, s: State) -> torch.Tensor:
        """Whether the base is tilted too far."""
        return self.gravity(s)[:, 2] > -self.upright

    def success(self, s: State) -> torch.Tensor:
        """Whether the mean errors so far are small, and it is upright."""
        linear, turn = (s["error"] / s["steps"].clamp(min=1.0)[:, None]).unbind(dim=1)
        small = (linear < self.within[0]) & (turn < self.within[1]) & (s["steps"] > 0.0)
        return small & ~self.fallen(s) & ~self.tilted(s)

    # --- rewards ---

    def tracking(self, s: State) -> torch.Tensor:
        """1 for the commanded horizontal velocity."""
        return torch.exp(-((self.linear(s)[:, :2] - s["command"][:, :2]) ** 2).sum(dim=1) / WIDTH)

    def turning(self, s: State) -> torch.Tensor:
        """1 for the commanded yaw rate."""
        return torch.exp(-((self.angular(s)[:, 2] - s["command"][:, 2]) ** 2) / WIDTH)

    def posture(self, s: State) -> torch.Tensor:
        """1 for the posture of the key frame; the more so where the command is to stand."""
        spread = torch.where(self.moving(s)[:, None], 1.0, 0.4) * s.constant(*self.spread)
        return torch.exp(-((self.away(s) / spread) ** 2).mean(dim=1))

    def air_time(self, s: State) -> torch.Tensor:
        """Time in the air of feet that land, beyond 0.1 s and up to `STEP` [s]; where the command is to move."""
        time = torch.where(s["landed"] > 0.0, s["landed"].clamp(max=STEP) - 0.1, 0.0)
        return time.sum(dim=1) * self.moving(s)

    def single_stance(self, s: State) -> torch.Tensor:
        """For how long one foot has stood and the others swung, up to `STEP` [s]; where the command is to move."""
        touching = s["ground"] > 0.0
        time = torch.where(touching, s["ground"], s["air"]).amin(dim=1).clamp(max=STEP)
        return torch.where((touching.sum(dim=1) == 1) & self.moving(s), time, 0.0)

    def slip(self, s: State) -> torch.Tensor:
        """Squared horizontal speeds of feet that touch the floor [m^2/s^2]."""
        return (s["foot speed"] ** 2 * (s["ground"] > 0.0)).sum(dim=1)

    def clearance(self, s: State) -> torch.Tensor:
        """Speed of each foot times how far it is from the height to which it is to be lifted [m^2/s]."""
        return ((self.heights(s) - self.lift).abs() * s["foot speed"]).sum(dim=1) * self.moving(s)

    def knocks(self, s: State) -> torch.Tensor:
        """How many parts touch the floor that should not."""
        return (_lowest(s, self.keep_off) < TOUCHING).float().sum(dim=1)

    def at_limits(self, s: State) -> torch.Tensor:
        """By how much hinges are in the last twentieth of their ranges [rad]."""
        low, high = s.constant(*map(float, s.mjm.jnt_range[1:, 0])), s.constant(*map(float, s.mjm.jnt_range[1:, 1]))
        margin, q = 0.05 * (high - low), s.qpos[:, 7:]
        return ((low + margin - q).clamp(min=0.0) + (q - high + margin).clamp(min=0.0)).sum(dim=1)

    def torques(self, s: State) -> torch.Tensor:
        """Squared torques of all servos [N^2 m^2]."""
        return (s.field("actuator_force") ** 2).sum(dim=1)

    def rewards(self) -> dict[str, Reward]:
        """The parts of the reward that every walking robot has."""
        return {
            "velocity": Reward(self.tracking, 2.0),
            "turn": Reward(self.turning, 1.0),
            "posture": Reward(self.posture, 0.5),
            "bounce": Reward(lambda s: self.linear(s)[:, 2] ** 2, -1.0),
            "rock": Reward(lambda s: (self.angular(s)[:, :2] ** 2).sum(dim=1), -0.05),
            "tilt": Reward(lambda s: (self.gravity(s)[:, :2] ** 2).sum(dim=1), -2.0),
            "acceleration": Reward(lambda s: (s["hinge acceleration"] ** 2).sum(dim=1), -2.5e-7),
            "action rate": Reward(lambda s: ((s.action - s.previous) ** 2).sum(dim=1), -0.01),
            "slip": Reward(self.slip, -0.05),
            "clearance": Reward(self.clearance, -0.5),
            "knocks": Reward(self.knocks, -1.0),
            "limits": Reward(self.at_limits, -1.0),
            "fall": Reward(lambda s: (self.fallen(s) | self.tilted(s)).float(), -4.0, once=True),
        }


def last_torques(s: State) -> torch.Tensor:
    """Torques of the servos in the last timestep, 0 where an episode starts [N m], (nworld, nu)."""
    return torch.where(s.elapsed[:, None] > 0, s.field("actuator_force"), 0.0)


def _lowest(s: State, names: tuple[str, ...]) -> torch.Tensor:
    """Heights of the lowest points of spheres [m], (nworld, n)."""
    return torch.stack([s.geom(name).xpos[:, 2] - float(s.mjm.geom(name).size[0]) for name in names], dim=1)


def velocity_task(name: str, summary: str, robot: Robot, rewards: Mapping[str, Reward], **settings: Any) -> Task:
    """The task of a robot.

    Args:
        name, summary: of the task
        robot: its numbers
        rewards: parts of the reward beside the shared ones, or in their place
        settings: attributes of the task that differ
    """
    return Task(
        **{
            "name": name,
            "summary": summary,
            "build": robot.build,
            "start": robot.start,
            "memory": robot.memory(),
            "update": robot.update,
            "observations": {
                "velocity": Observed(robot.linear, scale=2.0, noise=0.1),
                "angular velocity": Observed(robot.angular, scale=0.25, noise=0.2),
                "gravity": Observed(robot.gravity, noise=0.05),
                "hinges": Observed(robot.away, noise=0.01),
                "velocity of the hinges": Observed(lambda s: s.qvel[:, 6:], scale=0.05, noise=1.0),
                "last action": Observed(lambda s: s.action),
                "command": Observed(lambda s: s["command"] * s.constant(2.0, 2.0, 1.0)),
            },
            "critic": {
                "height": Observed(lambda s: s.qpos[:, 2]),
                "heights of the feet": Observed(robot.heights, scale=10.0),
                "touching": Observed(lambda s: robot.touching(s).float()),
                "air": Observed(lambda s: s["air"], scale=2.0),
                "torques": Observed(last_torques, scale=0.05),
            },
            "rewards": {**robot.rewards(), **rewards},
            "terminations": {"fallen": robot.fallen, "tilted": robot.tilted},
            "success": robot.success,
            "action": Action(scale=0.25, limit=5.0, delay=(0, 3)),
            "timestep": 0.005,
            "decimation": 4,
            "episode": 20.0,
            "randomize": RANDOMIZE,
            "gains": GAINS,
            "pushes": (Push(BASE, linear=0.5, angular=0.3, every=(5.0, 10.0)),),
            "camera": "beside",
            **settings,
        }
    )


RANDOMIZE = {
    "geom_friction": Scale([0.5, 1.0, 1.0], [1.2, 1.0, 1.0], shared=True),
    "body_mass": Scale(0.9, 1.1),
    "dof_armature": Scale(0.8, 1.2),
}
"""Friction, masses and armatures."""
GAINS = Gains(stiffness=(0.9, 1.1), damping=(0.8, 1.2))
