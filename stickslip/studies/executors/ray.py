"""Ray: an existing cluster, or one on this machine.

An actor of Ray is a slot. It starts a worker process of its own for the cells, as a local driver does, so that
time-outs and cells that crash are the same in both. Files of cells come back through Ray: nodes need no common disk.
"""

import contextlib
import os
import shutil
import socket
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stickslip.errors import InputError, MissingExtra, StickslipError
from stickslip.studies.cell import known_code
from stickslip.studies.executors.base import Event, Limits
from stickslip.studies.executors.process import Worker, share_of_memory, wait

AHEAD = 2
"""Tasks that an actor has at a time: the next one is there when one ends."""
GROW = 2.0
"""Time between two looks at whether nodes have come or gone [s]."""
PATIENCE = 120.0
"""Time without any slot after which a study gives up [s]."""
REACH = 10.0
"""Time in which a cluster has to answer [s]."""
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Variable of Ray, read when it is imported: "0" makes a new cluster listen on the loopback address alone."""
_FOLDER = "stickslip-study-"


def package(*, alone: bool) -> Any:
    """Ray; `alone`: for a cluster that nobody else is to reach. Raises MissingExtra without it."""
    if alone and "ray" not in sys.modules:
        os.environ.setdefault(LOOPBACK, "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # pyright: ignore[reportMissingImports]
        import ray.exceptions  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("the executor ray needs Ray: pip install 'stickslip[study,ray]'") from None
    return ray


class Cells:
    """The actor: runs one task after another in a worker process.

    Args:
        device: "cpu" or "cuda"
        limits: of a cell
        path: folders of modules that the driver has and an installation has not
        known: digests of code, see `cell.trust`
    """

    def __init__(self, device: str, limits: Limits, path: Sequence[str], known: list[dict[str, Any]]) -> None:
        sys.path += [entry for entry in path if entry not in sys.path and os.path.isdir(entry)]
        _tidy()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))
        environment = {} if device == "cuda" else {"CUDA_VISIBLE_DEVICES": ""}
        self._worker = Worker(self._folder, "cuda:0" if device == "cuda" else "cpu", limits, environment, known)

    def ready(self) -> tuple[int, str]:
        """Process and node of the actor."""
        return os.getpid(), os.uname().nodename

    def run(self, task: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Run a task; its reply, and the content of its files."""
        self._worker.send(task)
        while (reply := self._worker.hear()) is None:
            wait([self._worker], 0.2)
        folder = self._folder / reply["hash"]
        found = {name: (folder / name).read_bytes() for name in reply.get("files", [])}
        shutil.rmtree(folder, ignore_errors=True)
        return reply, found


def _tidy() -> None:
    """Remove folders of actors of this node that were killed."""
    for old in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        with contextlib.suppress(OSError, ValueError):
            if not os.path.exists(f"/proc/{int(old.name.removeprefix(_FOLDER).partition('-')[0])}"):
                shutil.rmtree(old)


class Ray:
    """Runs cells on a cluster of Ray.

    Args:
        device: "cpu" or "cuda"
        timeout: of a cell [s]
        memory: of a process [bytes]; None: its share of its node
        address: of the cluster, or "auto"; None: a cluster on this machine, for this study alone
        workers: actors at most; None: as many as there are cores, or GPUs
        gpus: of an actor, on CUDA; may be a fraction
    """

    name = "ray"

    def __init__(
        self,
        device: str,
        timeout: float,
        memory: int | None,
        *,
        address: str | None = None,
        workers: int | None = None,
        gpus: float = 1.0,
    ) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"workers is {workers}: it must be at least 1")
        if not 0.0 < gpus <= 8.0 or (gpus > 1.0 and gpus != int(gpus)):
            raise InputError(f"gpus is {gpus:g}: give a share of one, such as 0.25, or a whole number")
        self._device, self._most, self._gpus, self._known = device, workers, gpus, known_code()
        self._ray = ray = package(alone=address is None)
        self._own = not ray.is_initialized()
        if self._own:
            _begin(ray, address, workers)
        self._limits = Limits(timeout, share_of_memory(self._per_node()) if memory is None else memory)
        resources: dict[str, Any] = {"num_cpus": 1} if device == "cpu" else {"num_cpus": 0, "num_gpus": gpus}
        environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(_own_path())}}
        self._kind: Any = ray.remote(**resources, runtime_env=environment, max_restarts=0)(Cells)
        self._actors: dict[str, Any] = {}
        self._starting: dict[Any, tuple[str, Any]] = {}
        self._tasks: dict[Any, tuple[str, str]] = {}  # slot and cell by reference
        self._count = 0
        self._looked = 0.0
        self._idle_since: float | None = None
        self._why = ""

    def _per_node(self) -> int:
        """Actors of the node with the most."""
        name, each = ("CPU", 1.0) if self._device == "cpu" else ("GPU", self._gpus)
        counts = [int(node["Resources"].get(name, 0) / each) for node in self._ray.nodes() if node["Alive"]]
        return max([1, *counts])

    def _room(self) -> int:
        """Actors that the cluster has room for."""
        found: dict[str, float] = self._ray.cluster_resources()
        most = found.get("CPU", 0.0) if self._device == "cpu" else found.get("GPU", 0.0) / self._gpus
        return int(most) if self._most is None else min(int(most), self._most)

    def _grow(self) -> None:
        """Start actors where there is room, and see which are there."""
        now = time.monotonic()
        if now - self._looked > GROW:
            self._looked = now
            for _ in range(self._room() - len(self._actors) - len(self._starting)):
                self._count += 1
                actor = self._kind.remote(self._device, self._limits, _own_path(), self._known)
                self._starting[actor.ready.remote()] = (f"actor {self._count}", actor)
        if not self._starting:
            return
        for reference in self._ray.wait(list(self._starting), num_returns=len(self._starting), timeout=0)[0]:
            name, actor = self._starting.pop(reference)
            try:
                self._ray.get(reference)
                self._actors[name] = actor
            except self._ray.exceptions.RayError as error:  # its node is gone: the next look starts another
                self._why = str(error).strip().splitlines()[0]

    def slots(self) -> Sequence[str]:
        with self._reached():
            self._grow()
        now = time.monotonic()
        self._idle_since = None if self._actors else self._idle_since or now
        if self._idle_since is not None and now - self._idle_since > PATIENCE:
            what = "cores" if self._device == "cpu" else "GPUs"
            raise StickslipError(
                f"Ray gave no worker for {PATIENCE:g} s: {self._ray.cluster_resources()}; "
                f"check that there are nodes with free "
                f"{what}, and that stickslip is installed on them. {self._why} All that was stored is whole"
            )
        return list(self._actors)

    def room(self, slot: str) -> int:
        return AHEAD - sum(name == slot for name, _ in self._tasks.values())

    def submit(self, slot: str, task: Mapping[str, Any]) -> None:
        self._tasks[self._actors[slot].run.remote(dict(task))] = (slot, str(task["hash"]))

    def poll(self, timeout: float) -> list[Event]:
        if not self._tasks:
            time.sleep(min(timeout, 0.05))
            return []
        with self._reached():
            ready, rest = self._ray.wait(list(self._tasks), num_returns=1, timeout=timeout)
            if ready and rest:
                ready += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
            return [self._event(reference) for reference in ready]

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn errors of a cluster that is gone as a whole into one that says so."""
        try:
            yield
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise StickslipError(
                f"the cluster of Ray is gone ({str(error).strip().splitlines()[0]}); all that was stored is whole: run "
                "the study again, which goes on from there"
            ) from error

    def _event(self, reference: Any) -> Event:
        slot, cell = self._tasks.pop(reference)
        try:
            reply, files = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            if self._actors.pop(slot, None) is not None:
                self._looked = 0.0
            return Event(cell, None, lost=f"Ray lost its worker ({type(error).__name__})")
        return Event(cell, reply, files)

    def close(self) -> None:
        if not self._ray.is_initialized():
            return
        for actor in [*self._actors.values(), *(actor for _, actor in self._starting.values())]:
            with contextlib.suppress(Exception):  # whatever is left of the cluster
                self._ray.kill(actor)
        self._actors.clear()
        self._starting.clear()
        self._tasks.clear()
        if self._own:
            self._ray.shutdown()


def _begin(ray: Any, address: str | None, workers: int | None) -> None:
    """Connect to a cluster, or start one on this machine."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    try:
        if address is not None:
            host, colon, port = address.rpartition(":")
            if colon and port.isdigit():
                socket.create_connection((host, int(port)), timeout=REACH).close()  # Ray itself would try for minutes
            ray.init(address=address, **quiet)
            return
        ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"Ray cannot be reached at {address or 'this machine'}: {str(error).strip().splitlines()[0]}; start a "
            "cluster with `ray start --head`, or leave --ray out for a local one"
        ) from None
    addresses = {str(node["NodeManagerAddress"]) for node in ray.nodes()}
    if not addresses <= {"127.0.0.1", "::1"}:
        warnings.warn(
            f"Ray listens at {', '.join(sorted(addresses))}, which others may reach: it was imported before this study "
            f"with {LOOPBACK} unset or 1; set it to 0 before Ray is imported",
            stacklevel=2,
        )


def _own_path() -> list[str]:
    """Folders of modules that the driver has besides those of its installation."""
    installed = {os.path.realpath(path) for path in sysconfig.get_paths().values()}
    found = [os.path.abspath(entry or os.getcwd()) for entry in sys.path]
    return [
        entry for entry in dict.fromkeys(found) if os.path.isdir(entry) and os.path.realpath(entry) not in installed
    ]
