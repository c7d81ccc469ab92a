"""The plant in real time: it follows a clock, whether a plan has come or not. The servos hold the last command."""

import math

import numpy as np

from stickslip.errors import InputError
from stickslip.mpc.plant import Plant
from stickslip.mpc.realtime.bus import Bus
from stickslip.mpc.realtime.messages import Command, Envelope
from stickslip.mpc.realtime.result import Result
from stickslip.mpc.realtime.sensors import SLACK, Sensing, Sensors
from stickslip.mpc.task import Observation, Problem
from stickslip.mpc.trial import Judge, draw

BEHIND = 0.1
"""Time the plant may be behind its clock and still make up for it [s]; more is given up, and told."""


class PlantLoop:
    """A trial as the plant's process sees it. Knows no clock: it is told how much time has passed."""

    def __init__(self, problem: Problem, seed: int, sensors: Sensors, bus: Bus) -> None:
        self.problem = problem
        self.bus = bus
        self.reason = ""
        self.plant = Plant(problem)
        start, goal = draw(problem, seed)
        self.plant.reset(start, goal)
        self._judge = Judge(problem, goal)
        self._timestep = float(problem.mjm.opt.timestep)
        self._sensing = Sensing(sensors, problem.nr, self._timestep, seed)
        self._frames = [start.copy()]
        self._steps = 0  # time steps done
        self._elapsed = self._slipped = 0.0
        self._sequence = -1
        self._latencies: list[float] = []
        self._held, self._longest = 0.0, 0.0
        self._refused = 0

    @property
    def time(self) -> float:
        """Of the plant [s]."""
        return self._steps * self._timestep

    def begin(self) -> None:
        """Tell where things are at the start."""
        self._send()

    def advance(self, elapsed: float) -> None:
        """Go on until the plant's clock shows what has passed since the start [s], less what was given up."""
        self._elapsed = elapsed
        behind = elapsed - self._slipped - self.time
        if behind > BEHIND:
            self._slipped += behind - BEHIND
        until = elapsed - self._slipped + SLACK
        while not self.reason and self.time + self._timestep <= until:
            self._step()

    def next(self) -> float:
        """When there is something to do again, in time since the start [s]."""
        return self.time + self._timestep + self._slipped

    def result(self, reason: str = "") -> Result:
        """What came of it so far; `reason` if it did not end by itself."""
        position, rotation = self._judge.errors()
        latencies = self._latencies or [math.nan]
        return Result(
            self.reason or reason,
            np.array(self._frames),
            position,
            rotation,
            self.time,
            self._elapsed,
            self._slipped,
            float(np.mean(latencies)),
            max(latencies),
            max(self._longest, self.time - self._held),
            len(self._latencies),
            self._refused,
            self.bus.counts,
        )

    def _step(self) -> None:
        for envelope in self.bus.receive(0.0):
            self._take(envelope)
        self.plant.advance(1)
        self._steps += 1
        self.reason = self.plant.lost()
        if self._steps % self.problem.task.substeps == 0:
            qpos = self.plant.mjd.qpos.copy()
            self._frames.append(qpos)
            self.reason = self.reason or self._judge.see(qpos)
        if not self.reason:
            self._send()

    def _take(self, envelope: Envelope) -> None:
        """Put a command in force, if it is one for this plant and newer than the last."""
        command = envelope.message
        if not isinstance(command, Command):
            return
        late = self.time - command.time
        if len(command.target) != self.problem.nr or envelope.sequence <= self._sequence or late < -SLACK:
            self._refused += 1
            return
        self._sequence = envelope.sequence
        self._latencies.append(late)
        self._longest, self._held = max(self._longest, self.time - self._held), self.time
        self.plant.command(command.target)

    def _send(self) -> None:
        truth = self.plant.observe()
        try:
            for message in self._sensing.see(Observation(self.time, truth.qpos, truth.qvel, truth.ctrl)):
                self.bus.publish(message)
        except InputError:  # a number is not finite, which MuJoCo has not seen yet
            self.reason = "not finite"
