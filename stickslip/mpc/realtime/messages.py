"""The messages between planner and plant. Both ends run the same code, so they are plain dataclasses.

All times are the plant's, in seconds since the start of the trial.
"""

import dataclasses
import enum
import math

import numpy as np

from stickslip.mpc.success import Array


class Signal(enum.Enum):
    """Messages without content."""

    READY = "ready"
    """Plant to planner: the model is compiled."""
    START = "start"
    """Planner to plant: start the clock."""
    STOP = "stop"
    """Planner to plant: end the trial now."""


@dataclasses.dataclass(frozen=True, eq=False)
class JointState:
    """State of the hand.

    Attributes:
        time: when it was measured [s]
        qpos: positions of the hand's joints    (nr,)
        qvel: their velocities                  (nr,)
        ctrl: current joint targets             (nu,)
    """

    time: float
    qpos: Array
    qvel: Array
    ctrl: Array


@dataclasses.dataclass(frozen=True, eq=False)
class ObjectPose:
    """Measured pose of the object.

    Attributes:
        time: when it was measured [s]
        pos: position of the body frame [m]     (3,)
        quat: orientation, w first              (4,)
    """

    time: float
    pos: Array
    quat: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Command:
    """Joint targets.

    Attributes:
        time: of the joint state that was planned from [s]
        target: joint targets                   (nu,)
    """

    time: float
    target: Array


@dataclasses.dataclass(frozen=True)
class Counts:
    """Messages at one end of a channel.

    Attributes:
        sent: messages that went out
        skipped: messages that did not, because there was no room or the other end is closed
        received: messages that arrived
    """

    sent: int = 0
    skipped: int = 0
    received: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """Outcome of a trial on the plant's side.

    Attributes:
        reason: why the trial ended
        frames: qpos at the start and after each control step      (steps + 1, nq); empty if unknown
        history: errors after each control step                    (steps, k)
        simulated: simulated time [s]
        wall: wall-clock time [s]
        slipped: time by which the plant gave up catching up with the clock [s]
        latency: from a joint state until the command computed from it takes effect, mean [s]; NaN without a command
        worst: maximum latency [s]
        longest: longest time that one command was held [s]
        commands: commands that took effect
        refused: commands with the wrong number of joints, out of order, or from the future
        counts: messages at the plant's end of the channel
    """

    reason: str
    frames: Array = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    history: Array = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    simulated: float = 0.0
    wall: float = 0.0
    slipped: float = 0.0
    latency: float = math.nan
    worst: float = math.nan
    longest: float = 0.0
    commands: int = 0
    refused: int = 0
    counts: Counts = Counts()


Message = Signal | JointState | ObjectPose | Command | Result
