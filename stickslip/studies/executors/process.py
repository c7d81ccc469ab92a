"""A worker process as its driver sees it: sends tasks, hears replies, and ends it when it takes too much."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stickslip.studies.executors import messages
from stickslip.studies.executors.base import Limits
from stickslip.studies.records import FAILED

TAIL = 8000
"""Bytes of what a process printed last that are kept."""
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Numbers of threads, which sums may depend on: one in each process, wherever it runs."""
START = 300.0
"""Time a process has to import what it needs [s]."""
_MODULE = "stickslip.studies.executors.worker"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Worker:
    """One process, which runs one task at a time.

    Args:
        folder: for the files of its cells
        device: of Warp, in the process
        limits: of a cell
        environment: variables that differ from the driver's
        known: digests of code, see `cell.trust`

    Attributes:
        task: the hash of what it runs; empty: nothing
    """

    def __init__(
        self, folder: Path, device: str, limits: Limits, environment: Mapping[str, str], known: list[dict[str, Any]]
    ) -> None:
        self._folder, self._device, self._limits, self._known = folder, device, limits, known
        self._environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self.task = ""
        self._begun = self._spent = 0.0  # of the present cell: since when it runs, and how long before that
        self._compiling = False

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        return None if self._process is None else self._process.pid

    def _start(self) -> subprocess.Popen[bytes]:
        found = os.pathsep.join(entry for entry in sys.path if entry)
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self._environment, "PYTHONPATH": found},
            start_new_session=True,  # Ctrl-C is for the driver, and all that cells start can be ended
            bufsize=0,
        )
        assert process.stdout is not None and process.stderr is not None
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
        self._process, self._inbox, self._said = process, messages.Inbox(), bytearray()
        self._ready, self._started = False, time.monotonic()
        path = [entry or os.getcwd() for entry in sys.path]
        self._write({"path": path, "folder": str(self._folder), "device": self._device, "known": self._known})
        return process

    def pipes(self) -> list[Any]:
        """What to wait for."""
        process = self._process
        return [] if process is None else [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]

    def send(self, task: Mapping[str, Any]) -> None:
        """Have a task run; starts the process if there is none."""
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._start()
        self.task = str(task["hash"])
        self._begun, self._spent, self._compiling = time.monotonic(), 0.0, False
        self._write(dict(task))

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended: `hear` tells why
            self._process.stdin.write(messages.packed(message))

    def hear(self) -> dict[str, Any] | None:
        """The reply to the present task, if there is one: of the process, or of what ended it."""
        if self._process is None:
            return None
        gone = self._process.poll() is not None  # before its last words are read
        self._listen(self._process.stderr, self._note)
        found: list[dict[str, Any]] = []
        try:
            gone |= self._listen(self._process.stdout, lambda data: found.extend(self._inbox.add(data)))
        except ValueError as error:  # a cell wrote into the pipe
            return self._failed("its process sent what is no reply", str(error)) if self.task else None
        for message in found:
            if "ready" in message:
                self._ready, self._begun = True, time.monotonic()
            elif "compiling" in message:
                self._clock(message["compiling"])
            elif message.get("hash") == self.task:
                return self._answered(message)
        if gone and self.task:
            return self._died()
        return self._over() if self.task else None

    def _answered(self, reply: dict[str, Any]) -> dict[str, Any]:
        """A reply as it is; after a failure on a GPU, whose context may be lost, the process is another one."""
        self.task = ""
        if reply["status"] != "done" and self._device != "cpu":
            self.end()
        return reply

    def _listen(self, pipe: Any, take: Any) -> bool:
        """Take what is there; True if the other end is closed."""
        while True:
            try:
                data = os.read(pipe.fileno(), 1 << 16)
            except BlockingIOError:
                return False
            if not data:
                return True
            take(data)
            if len(data) < 1 << 16:
                return False

    def _note(self, data: bytes) -> None:
        self._said += data
        del self._said[:-TAIL]

    def _clock(self, compiling: bool) -> None:
        """Time that kernels take to compile does not count."""
        now = time.monotonic()
        if compiling and not self._compiling:
            self._spent += now - self._begun
        self._compiling, self._begun = compiling, now

    def _died(self) -> dict[str, Any]:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        code = self._process.returncode
        if code is not None and code < 0:
            how = f"its process was ended by {_signal(-code)}"
        else:
            how = f"its process ended with exit status {code}"
        return self._failed(how, "")

    def _over(self) -> dict[str, Any] | None:
        """A failure if the task takes too long or too much."""
        now = time.monotonic()
        if not self._ready:
            if now - self._started > START:
                return self._failed("its process did not start", f"within {START:g} s")
            return None
        if not self._compiling and self._spent + now - self._begun > self._limits.timeout:
            return self._failed("it took too long", f"more than {self._limits.timeout:g} s; raise timeout in the study")
        used = self._memory()
        if used > self._limits.memory:
            limit = f"{used / 1e9:.3g} GB, and {self._limits.memory / 1e9:.3g} GB are allowed"
            return self._failed(
                "it took too much memory", f"{limit}; raise memory in the study, or run fewer at a time"
            )
        return None

    def _memory(self) -> int:
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE
        except (OSError, IndexError, ValueError):
            return 0

    def _failed(self, how: str, more: str) -> dict[str, Any]:
        """The reply of a task whose process is ended."""
        cell, self.task = self.task, ""
        spent = self._spent + time.monotonic() - self._begun
        if self._process is not None:
            self._kill()
            self._listen(self._process.stderr, self._note)
        said = self._said.decode(errors="replace").strip()
        self.end()
        text = f"{how}: {more}" if more else how
        error = f"{text}\n\nIt printed last:\n{said}" if said else text
        return {"hash": cell, "status": FAILED, "cause": how, "error": error, "wall_s": spent}

    def _kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)  # with all that the cell has started
        self._process.wait()

    def end(self) -> None:
        """End the process, if there is one, whatever it does."""
        if self._process is not None:
            self._kill()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        self._process, self.task = None, ""


def wait(workers: list[Worker], timeout: float) -> None:
    """Wait until one of the workers says something, for so long at most [s]."""
    with selectors.DefaultSelector() as selector:
        count = 0
        for worker in workers:
            for pipe in worker.pipes():
                selector.register(pipe, selectors.EVENT_READ)
                count += 1
        if count:
            selector.select(timeout)
        else:
            time.sleep(timeout)


def share_of_memory(processes: int) -> int:
    """What each of some processes may take, when all share the machine [bytes]."""
    whole = os.sysconf("SC_PHYS_PAGES") * _PAGE
    with contextlib.suppress(OSError, ValueError):  # the limit of a container
        whole = min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return int(0.85 * whole / max(processes, 1))


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
