"""Run one cell in this process: what a worker does with a task."""

import contextlib
import errno
import json
import re
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from stickslip import compilation, files, npz, provenance
from stickslip.errors import InputError, StickslipError
from stickslip.studies import records, work
from stickslip.studies.cell import digest_of, versions_of
from stickslip.studies.work.base import Outcome, Place

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk that is full: the cell is not to blame."""
MOST_TEXT = 20_000
"""Characters of an error that are kept, its end."""

_machines: dict[str, str] = {}


def execute(task: dict[str, Any], folder: Path, device: str) -> dict[str, Any]:
    """Run a task in an empty folder for its files; the reply, which JSON can hold.

    A reply has a status: "done", "failed", "full" (the disk), or "other" (this is not the code that the task is for).
    """
    began = datetime.now(UTC).isoformat(timespec="seconds")
    started = time.perf_counter()
    reply: dict[str, Any] = {"hash": task["hash"], "began": began}
    try:
        parameters = json.loads(task["parameters"])
        subject = work.find(task["run"])
        versions = versions_of(subject.packages)
        resolved = subject.resolve(parameters, task["device"])
        if digest_of(task, resolved, versions)[0] != task["hash"]:
            return reply | {"status": "other", "error": _difference(task, resolved, versions)}
        outcome = subject.run(parameters, Place(device, folder))
        reply |= _kept(outcome, parameters, folder) | {"status": records.DONE}
        reply["versions"] = json.dumps(versions, sort_keys=True)
        reply["machine"] = machine_of(device)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in FULL:
            return reply | {"status": "full", "error": str(error)}
        reply |= {"status": records.FAILED, "cause": cause_of(error), "error": _told(error)}
    return reply | {"wall_s": time.perf_counter() - started}


def _kept(outcome: Outcome, parameters: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What is stored of an outcome; arrays go into a file."""
    metrics = records.metrics_of(outcome.metrics)
    names = [*metrics, *outcome.labels]
    records.check_names(names, parameters)
    if len(set(names)) < len(names):
        raise InputError(
            f"{sorted(set(metrics) & set(outcome.labels))[0]!r} is a metric and a label: name one otherwise"
        )
    if outcome.arrays:
        arrays: dict[str, Any] = {name.replace("/", "_"): np.asarray(a) for name, a in outcome.arrays.items()}
        npz.write(folder / "arrays.npz", arrays, compressed=False)
    found = {
        "metrics": metrics,
        "labels": {name: str(value) for name, value in outcome.labels.items()},
        "messages": list(outcome.messages),
        "files": sorted(path.name for path in folder.iterdir() if path.is_file()),
    }
    return found


def cause_of(error: BaseException) -> str:
    """What failed, in short: the kind of the error and the first line of its message, with # for numbers."""
    first = plain_numbers(str(error).strip().partition("\n")[0])
    return f"{type(error).__name__}: {first[:160]}" if first else type(error).__name__


def plain_numbers(text: str) -> str:
    """A text with # for each number, so that what differs in numbers alone is the same."""
    return re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "#", text)


def _told(error: BaseException) -> str:
    """The message of an error that stickslip raised on purpose, the traceback of another one."""
    if isinstance(error, StickslipError):
        return f"{type(error).__name__}: {error}"[-MOST_TEXT:]
    return "".join(traceback.format_exception(error))[-MOST_TEXT:]


def _difference(task: dict[str, Any], resolved: Any, versions: dict[str, str]) -> str:
    """Why a process does not have what a task is for."""
    _, source, model = digest_of(task, resolved, versions)
    if source != task["source"]:
        return f"the code has the digest {source} here, and {task['source']} where the study was begun"
    if model != task["model"]:
        return "a model or a file has another content here than where the study was begun"
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"versions or defaults differ from those where the study was begun; here: {told}"


def machine_of(device: str) -> str:
    """This machine, as JSON."""
    if device not in _machines:
        import os

        about = {**provenance.machine(device), "node": os.uname().nodename}
        _machines[device] = records.machine_text(about)
    return _machines[device]


@contextlib.contextmanager
def compiling(told: Callable[[bool], None]) -> Iterator[None]:
    """Within this, one process of those that share a cache of kernels compiles at a time, and `told` hears of it.

    So each kernel is compiled once a node: who waited finds it in the cache.
    """
    import warp as wp

    original = compilation.load_kernels

    def alone(step: Callable[[], Any], device: Any) -> None:
        wp.init()
        told(True)
        try:
            with files.locked(Path(wp.config.kernel_cache_dir) / ".stickslip-study"):
                original(step, device)
        finally:
            told(False)

    compilation.load_kernels = alone
    try:
        yield
    finally:
        compilation.load_kernels = original
