"""The plant in real time: it follows a clock whether or not a plan has arrived. The servos hold the last command."""

import math

import numpy as np

from stickslip.errors import Unsupported
from stickslip.mpc.realtime.channel import Channel
from stickslip.mpc.realtime.messages import Command, Result, Signal
from stickslip.mpc.realtime.sensors import SLACK, Sensing, Sensors
from stickslip.mpc.success import OBJECT
from stickslip.mpc.task import Observation, Problem, is_hand
from stickslip.mpc.trial.plant import NOT_FINITE, Plant
from stickslip.mpc.trial.trial import Monitor, draw

CATCH_UP = 0.1
"""Time by which the plant may lag behind its clock and still catch up [s]; more than this is given up and counted."""
STOPPED = "stopped"
"""Reason of a trial that the planner's side ended."""


class RealtimePlant:
    """The plant of one trial. It reads no clock: the caller says how much time has passed."""

    def __init__(self, problem: Problem, seed: int, sensors: Sensors, channel: Channel) -> None:
        if not is_hand(problem.mjm):
            raise Unsupported(
                f"{problem.task.name} cannot run in real time: its sensors are encoders of all joints and a camera for "
                f"one free body {OBJECT!r}, which comes last in the model; let the plant wait for plans instead"
            )
        self.problem = problem
        self.channel = channel
        self.reason = ""
        self.plant = Plant(problem)
        start, goal = draw(problem, seed)
        self.plant.reset(start, goal)
        self._monitor = Monitor(problem, goal)
        self._timestep = float(problem.mjm.opt.timestep)
        self._sensing = Sensing(sensors, problem.nr, self._timestep, seed)
        self._frames = [start.copy()]
        self._steps = 0  # time steps done
        self._elapsed = self._slipped = 0.0
        self._newest = -math.inf  # time of the last command
        self._latencies: list[float] = []
        self._commanded, self._longest = 0.0, 0.0
        self._refused = 0

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self._steps * self._timestep

    def begin(self) -> None:
        """Publish the sensors at the start."""
        self._publish()

    def advance(self, elapsed: float) -> None:
        """Step until the simulated time is the time since the start [s], less the time given up."""
        self._elapsed = elapsed
        behind = elapsed - self._slipped - self.time
        if behind > CATCH_UP:
            self._slipped += behind - CATCH_UP
        until = elapsed - self._slipped + SLACK
        while not self.reason and self.time + self._timestep <= until:
            self._step()

    def next(self) -> float:
        """When the next time step is due, in time since the start [s]."""
        return self.time + self._timestep + self._slipped

    def result(self, reason: str = "") -> Result:
        """Outcome so far; `reason` applies if the trial has not ended by itself."""
        latencies = self._latencies or [math.nan]
        return Result(
            self.reason or reason,
            np.array(self._frames),
            history=self._monitor.history(),
            simulated=self.time,
            wall=self._elapsed,
            slipped=self._slipped,
            latency=float(np.mean(latencies)),
            worst=max(latencies),
            longest=max(self._longest, self.time - self._commanded),
            commands=len(self._latencies),
            refused=self._refused,
            counts=self.channel.counts,
        )

    def _step(self) -> None:
        for envelope in self.channel.receive():
            if isinstance(envelope.message, Command):
                self._apply(envelope.message)
            elif envelope.message is Signal.STOP:
                self.reason = STOPPED
        if self.channel.closed:
            self.reason = STOPPED
        if self.reason:
            return
        self.plant.advance(1)
        self._steps += 1
        self.reason = self.plant.failure()
        if self._steps % self.problem.task.substeps == 0:
            qpos = self.plant.mjd.qpos.copy()
            self._frames.append(qpos)
            self.reason = self.reason or self._monitor.update(qpos, self.plant.mjd.qvel.copy())
        if not self.reason:
            self._publish()

    def _apply(self, command: Command) -> None:
        """Give a command to the servos, unless it does not fit or is older than the last."""
        late = self.time - command.time
        if len(command.target) != self.problem.nr or command.time < self._newest or late < -SLACK:
            self._refused += 1
            return
        self._newest = command.time
        self._latencies.append(late)
        self._longest, self._commanded = max(self._longest, self.time - self._commanded), self.time
        self.plant.command(command.target)

    def _publish(self) -> None:
        truth = self.plant.observe()
        if not (np.isfinite(truth.qpos).all() and np.isfinite(truth.qvel).all()):
            self.reason = NOT_FINITE  # before MuJoCo has noticed
            return
        for message in self._sensing.measure(Observation(self.time, truth.qpos, truth.qvel, truth.ctrl)):
            self.channel.publish(message)
