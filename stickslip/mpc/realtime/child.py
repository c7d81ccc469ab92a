"""The plant's process as the planner's process holds it: started, watched, asked to stop, and ended for certain."""

import contextlib
import dataclasses
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import stickslip
from stickslip.errors import InputError, Unsupported
from stickslip.mpc.realtime import result
from stickslip.mpc.realtime.bus import Bus, LoopbackBus, pair
from stickslip.mpc.realtime.line import PlannerEnd
from stickslip.mpc.realtime.plant_process import task_named
from stickslip.mpc.realtime.sensors import Sensors
from stickslip.mpc.task import Problem

LOOPBACK, LCM = "loopback", "lcm"
"""Names of the buses."""
MODULE = "stickslip.mpc.realtime.plant_process"
STOP_LIMIT = 3.0
"""Time the plant has to send its result after it was asked to stop [s]."""
_SHOWN = 200
"""Characters of what the process printed, in a reason."""
_PLANT_FIELDS = ("build", "sample", "success", "substeps", "floor")
"""What the plant's process takes from the task of the same name."""


class PlantProcess:
    """A plant in a process of its own. `bus` is the planner's end of the bus to it."""

    def __init__(self, problem: Problem, seed: int, sensors: Sensors, bus: str) -> None:
        check(problem)
        self._steps, self._nq = problem.task.longest, problem.mjm.nq
        mine, its = socket.socketpair()
        self._line = PlannerEnd(mine, result.most_bytes(self._steps, self._nq))
        inherited = [its]
        try:
            self.bus, words, ends = _open(bus)
        except BaseException:
            mine.close()
            its.close()
            raise
        inherited += ends
        words += ["--task", problem.task.name, "--object", problem.object, "--line", str(its.fileno())]
        words += ["--seed", str(seed), "--longest", str(self._steps), "--nq", str(self._nq)]
        words += ["--sensors", *(repr(float(value)) for value in dataclasses.astuple(sensors))]
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115, closed with the other ends
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._printed,
                env=_environment(),
                pass_fds=[end.fileno() for end in inherited],
            )
        except BaseException:
            self._close_ends()
            raise
        finally:
            for end in inherited:
                end.close()

    def poll(self) -> result.Result | None:
        """Its result, once it has ended; None while it runs. Never waits."""
        data = self._line.poll()
        if data is None:
            return None
        if data:
            try:
                return result.decode(data, self._steps, self._nq)
            except InputError as error:
                return self._without(f"plant: {error}")
        try:
            code = self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            return self._without("plant: it has hung up without a result")
        self._printed.seek(0)
        last = self._printed.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        return self._without(f"plant: its process ended without a result, exit code {code} {last[:_SHOWN]}".strip())

    def stop(self) -> result.Result:
        """Ask it to end, and give what came of the trial so far."""
        self._line.stop()
        deadline = time.monotonic() + STOP_LIMIT
        while time.monotonic() < deadline:
            outcome = self.poll()
            if outcome is not None:
                return outcome
            time.sleep(0.005)
        return self._without(f"plant: it did not stop within {STOP_LIMIT:g} s")

    def close(self) -> None:
        """End the process, whatever it does."""
        try:
            if self.process.poll() is None:
                self._line.stop()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(0.2)
        finally:
            self.process.kill()
            self.process.wait()
            self._close_ends()

    def _close_ends(self) -> None:
        self._line.close()
        self._printed.close()
        self.bus.close()

    def _without(self, reason: str) -> result.Result:
        return result.Result(reason, result.no_frames(self._nq))


def check(problem: Problem) -> None:
    """Raise unless a process of its own can make this plant."""
    if os.name != "posix":
        raise Unsupported(f"planning in real time needs sockets of POSIX, which {os.name} has not; use `trial.run`")
    task = problem.task
    known = task_named(task.name)
    for field in _PLANT_FIELDS:
        if getattr(known, field) != getattr(task, field):
            raise InputError(
                f"{task.name} with another {field} than the task of that name: the plant's process makes it by name; "
                "give it a name in `stickslip.mpc.tasks.TASKS`, or use `trial.run`"
            )


def _open(bus: str) -> tuple[Bus, list[str], list[socket.socket]]:
    """Our end of a bus, how to tell the child of the other, and what it inherits for it."""
    if bus == LOOPBACK:
        mine, its = pair()
        return LoopbackBus(mine), ["--loopback", str(its.fileno())], [its]
    if bus == LCM or "://" in bus:
        from stickslip.mpc.realtime import lcm_bus

        url, prefix = lcm_bus.URL if bus == LCM else bus, lcm_bus.new_prefix()
        return lcm_bus.LcmBus("planner", prefix, url), ["--lcm", url, prefix], []
    raise InputError(f"there is no bus {bus!r}; there is: {LOOPBACK}, {LCM}, and LCM by its URL")


def _environment() -> dict[str, str]:
    """Ours, so that the child finds this very stickslip, from wherever it was imported."""
    root = str(pathlib.Path(stickslip.__file__).resolve().parent.parent)
    path = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, path] if path else [root])}
