"""Processes on this machine: one a GPU, or one a core."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stickslip.errors import InputError
from stickslip.studies.cell import known_code
from stickslip.studies.executors.base import Event, Limits
from stickslip.studies.executors.process import Worker, share_of_memory, wait

BEAT = 0.2
"""Time between two looks at the limits of cells [s]."""


class Local:
    """Runs cells in processes of this machine, which stay warm from cell to cell.

    Args:
        scratch: folder for the files of cells, on the disk of the store
        device: "cpu" or "cuda"
        timeout: of a cell [s]
        memory: of a process [bytes]; None: its share
        workers: processes; None: one a core, or one a GPU
    """

    name = "local"

    def __init__(
        self, scratch: Path, device: str, timeout: float, memory: int | None, workers: int | None = None
    ) -> None:
        gpus = visible_gpus() if device == "cuda" else []
        if device == "cuda" and not gpus:
            raise InputError('device is "cuda", and there is no GPU: write device = "cpu" in the study')
        count = workers if workers is not None else len(gpus) or len(os.sched_getaffinity(0))
        if count < 1:
            raise InputError(f"workers is {count}: it must be at least 1")
        known = known_code()
        limits = Limits(timeout, share_of_memory(count) if memory is None else memory)
        self._workers: dict[str, Worker] = {}
        for place in range(count):
            environment = {"CUDA_VISIBLE_DEVICES": gpus[place % len(gpus)] if gpus else ""}
            name = f"process {place + 1}"
            where = "cuda:0" if gpus else "cpu"
            self._workers[name] = Worker(scratch / str(place), where, limits, environment, known)
        self._scratch = {name: scratch / str(place) for place, name in enumerate(self._workers)}

    def slots(self) -> Sequence[str]:
        return list(self._workers)

    def room(self, slot: str) -> int:
        return 0 if self._workers[slot].task else 1

    def submit(self, slot: str, task: Mapping[str, Any]) -> None:
        self._workers[slot].send(task)

    def poll(self, timeout: float) -> list[Event]:
        busy = [worker for worker in self._workers.values() if worker.task]
        wait(busy, min(timeout, BEAT))
        found = []
        for name, worker in self._workers.items():
            if worker.task and (reply := worker.hear()) is not None:
                folder = self._scratch[name] / reply["hash"]
                beside: dict[str, Path | bytes] = {file: folder / file for file in reply.get("files", [])}
                found.append(Event(reply["hash"], reply, beside))
        return found

    def pids(self) -> list[int]:
        """Of the processes."""
        return [worker.pid for worker in self._workers.values() if worker.pid is not None]

    def close(self) -> None:
        for worker in self._workers.values():
            worker.end()


def visible_gpus() -> list[str]:
    """The GPUs of this process, as CUDA_VISIBLE_DEVICES names them."""
    import warp as wp

    count = len(wp.get_cuda_devices())
    given = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return given[:count] if len(given) >= count else [str(place) for place in range(count)]
