"""The plant's process: its entry point, and the handle that the planner's process holds."""

import contextlib
import dataclasses
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection

from stickslip.errors import InputError, Unsupported
from stickslip.mpc.realtime.channel import Envelope, PipeChannel
from stickslip.mpc.realtime.messages import Message, Result, Signal
from stickslip.mpc.realtime.plant import STOPPED, RealtimePlant
from stickslip.mpc.realtime.sensors import Sensors
from stickslip.mpc.task import Problem

START_LIMIT = 600.0
"""Time the planner's side has to start the clock [s]."""
STOP_LIMIT = 3.0
"""Time the plant has to send its result after it was asked to stop [s]."""
EXIT_LIMIT = 0.2
"""Time the plant's process has to exit by itself before it is killed [s]."""
HINT = '; its error is printed on stderr; a script needs `if __name__ == "__main__":` around what it runs'
"""Added to the reason when the process failed before it could report its error."""
WAIT = 0.05
"""Longest wait for a message before the clock is checked again [s]."""


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """What the plant's process simulates."""

    problem: Problem
    seed: int
    sensors: Sensors


def run_plant(connection: Connection) -> None:
    """Entry point of the plant's process: receive a `Job`, run its trial, send the `Result`."""
    channel = PipeChannel(connection)
    try:
        result = _run(connection.recv(), channel)
    except Exception as error:  # the planner's side reports it
        result = Result(f"plant: {type(error).__name__}: {error}")
    channel.finish(result)


def _run(job: Job, channel: PipeChannel) -> Result:
    plant = RealtimePlant(job.problem, job.seed, job.sensors, channel)
    channel.publish(Signal.READY)
    reason = _wait_for_start(channel)
    if not reason:
        follow_clock(plant)
    return plant.result(reason)


def _wait_for_start(channel: PipeChannel) -> str:
    """Wait for the planner's side to start the clock; returns why it did not, or nothing."""
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        for envelope in channel.receive(WAIT):
            if envelope.message is Signal.START:
                return ""
            if envelope.message is Signal.STOP:
                return STOPPED
        if channel.closed:
            return STOPPED
    return f"plant: not started within {START_LIMIT:g} s"


def follow_clock(plant: RealtimePlant) -> None:
    """Run the plant by the wall clock until its trial is over."""
    begin = time.monotonic()
    plant.begin()
    while not plant.reason:
        plant.advance(time.monotonic() - begin)
        time.sleep(max(0.0, begin + plant.next() - time.monotonic()))


class PlantProcess:
    """A plant in a process of its own.

    Attributes:
        process: the process
        result: outcome of the trial; None while it runs
    """

    def __init__(self, problem: Problem, seed: int, sensors: Sensors) -> None:
        if os.name != "posix":
            raise Unsupported(f"planning in real time needs POSIX pipes, which {os.name} lacks; use `trial.run`")
        try:
            job = pickle.dumps(Job(problem, seed, sensors))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"the task {problem.task.name} cannot be sent to the plant's process ({error}): "
                "define its functions at the top level of a module, or use `trial.run`"
            ) from None
        context = multiprocessing.get_context("spawn")
        connection, its = context.Pipe()
        self._channel = PipeChannel(connection)
        self.process = context.Process(target=run_plant, args=(its,), name="stickslip-plant", daemon=True)
        self.result: Result | None = None
        try:
            with its, _without_interrupts():
                self.process.start()
            with contextlib.suppress(OSError):  # `receive` reports a process that died
                connection.send_bytes(job)
        except BaseException:
            self.close()
            raise

    @property
    def channel(self) -> PipeChannel:
        """The planner's end of the channel."""
        return self._channel

    def publish(self, message: Message) -> None:
        """Send a message without waiting."""
        self._channel.publish(message)

    def receive(self, timeout: float) -> list[Envelope]:
        """Messages that have arrived; sets `result` once the plant has ended or died."""
        arrived = self._channel.receive(timeout)
        for envelope in arrived:
            if isinstance(envelope.message, Result):
                self.result = envelope.message
        if self._channel.closed and self.result is None:
            self.process.join(1.0)
            code = self.process.exitcode
            reason = "closed its channel" if code is None else "ended"
            reason = f"plant: its process {reason} without a result, exit code {code}{HINT if code == 1 else ''}"
            self.result = Result(reason)
        return arrived

    def stop(self) -> Result:
        """Ask the plant to end the trial; returns the outcome so far."""
        self.publish(Signal.STOP)
        deadline = time.monotonic() + STOP_LIMIT
        while self.result is None and time.monotonic() < deadline:
            self.receive(WAIT)
        return self.result or Result(f"plant: it did not stop within {STOP_LIMIT:g} s")

    def close(self) -> None:
        """End the process, whatever it does."""
        self._channel.close()
        if self.process.pid is None:
            return
        try:
            self.process.join(EXIT_LIMIT)
        finally:
            self.process.kill()
            self.process.join()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block SIGINT, also in a process that is started meanwhile: Ctrl-C is for the planner's process alone."""
    resource_tracker.ensure_running()  # otherwise it starts with the process, and then unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
