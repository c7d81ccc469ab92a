"""Cases in a process of their own: one that dies or hangs is told as such, and the next one gets a fresh process."""

import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from stickslip.bench.fuzzing.case import Case, Ending

PATIENCE = 600.0
"""Time of a case whose kernels may have to be compiled, on a slow machine [s]."""
IDLE = 10.0
"""How many times longer a case may take by the clock: its time is that of the processor, where others may run, too."""
LOOK = 0.5
"""Time between two looks at the processor time [s]."""


class Worker:
    """A process that runs cases, one after the other.

    Args:
        timeout: processor time of a case [s]; the first model of each structure has `PATIENCE`, and so have inputs and
            command lines, each of which may need kernels of its own
        command: what to start, which answers each line by a line
    """

    def __init__(self, timeout: float, command: list[str] | None = None) -> None:
        self.timeout = timeout
        self._command = command or [sys.executable, "-m", "stickslip.bench.fuzzing.process"]
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: set[Any] = set()
        self._rest = b""
        self.memory = 0  # most that any process had, bytes

    def run(self, case: Case) -> Ending:
        """Run a case there."""
        process = self._started()
        key = (case.kind, case.physics, case.structure, bool(case.xml))
        compiled = case.kind == "model" and key in self._seen
        patience = self.timeout if compiled else max(self.timeout, PATIENCE)
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(dataclasses.asdict(case)).encode() + b"\n")
            process.stdin.flush()
            answer = self._line(process, patience)
        except BrokenPipeError:
            answer = b""
        if answer is None:
            self.close()
            return Ending("hang", f"no answer in {patience:g} s of processor time")
        if not answer:
            code = process.wait()
            self.close()
            told = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            return Ending("crash", f"the process ended with {told}")
        self._seen.add(key)
        told = json.loads(answer)
        self.memory = max(self.memory, told.pop("memory"))
        return Ending(**told)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            environment = {**os.environ, "MPLBACKEND": "Agg"}
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
            self._rest = b""
        return self._process

    def _line(self, process: subprocess.Popen[bytes], patience: float) -> bytes | None:
        """The next line; empty if the process has ended, None if it took too long."""
        assert process.stdout is not None
        end, begun = time.monotonic() + IDLE * patience, _processor_time(process.pid)
        while b"\n" not in self._rest:
            ready, _, _ = select.select([process.stdout], [], [], min(LOOK, patience))
            if ready:
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    return b""
                self._rest += piece
            elif time.monotonic() > end or _processor_time(process.pid) - begun > patience:
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _processor_time(pid: int) -> float:
    """Processor time of a process so far [s]; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


def serve() -> None:
    """Answer each line on standard input, a case, by a line, its ending; nothing else is printed there."""
    import resource

    from stickslip.bench.fuzzing import case as cases

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed
    for line in sys.stdin:
        given: Mapping[str, Any] = json.loads(line)
        ending = cases.run(given)
        told = {**dataclasses.asdict(ending), "memory": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
        answers.write(json.dumps(told).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    serve()
