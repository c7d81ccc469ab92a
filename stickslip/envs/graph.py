"""One graph of a control step on CUDA: physics, terms, resets and observations, launched at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import warp as wp

from stickslip.envs.observe import called
from stickslip.envs.state import State
from stickslip.envs.task import Task
from stickslip.errors import InputError


class Recorded:
    """Launches of torch and Warp, recorded once.

    Args:
        run: what to record; it must have run before, since nothing can be compiled or uploaded while it is recorded
        device: a CUDA device
    """

    def __init__(self, run: Callable[[], None], device: torch.device) -> None:
        self._graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(device)
        stream = torch.cuda.Stream(device)
        ours = wp.stream_from_torch(stream)
        with (
            torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"),
            wp.ScopedStream(ours, sync_enter=False, sync_exit=False),
            wp.ScopedCapture(stream=ours, external=True) as capture,
        ):
            run()
        self._kept = capture  # memory that Warp allocated for the graph

    def replay(self) -> None:
        """Run what was recorded."""
        self._graph.replay()


@contextmanager
def no_host_reads(what: str) -> Iterator[None]:
    """Raise InputError if something inside waits for a CUDA device, which a graph cannot record."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        raise InputError(
            f"{what} reads values on the host, or uploads them in each step: use tensor operations only, "
            "state.constant(...) for constants, or Env(..., record=False)"
        ) from error
    finally:
        torch.cuda.set_sync_debug_mode(before)


def check_host_reads(task: Task, state: State) -> None:
    """Raise InputError naming a term that a graph cannot record."""
    named: dict[str, Any] = {
        **{f"observation {name!r}": part.value for name, part in {**task.observations, **task.critic}.items()},
        **{f"reward {name!r}": part.value for name, part in task.rewards.items()},
        **{f"termination {name!r}": term for name, term in task.terminations.items()},
        "success": task.success,
    }
    for what, term in named.items():
        if term is not None:
            with no_host_reads(f"task {task.name!r}: {what}"):
                called(what, term, state)
    for what, other in (("start", task.start), ("update", task.update), ("curriculum", task.curriculum)):
        if other is not None:
            with no_host_reads(f"task {task.name!r}: {what}"):
                other(state)
