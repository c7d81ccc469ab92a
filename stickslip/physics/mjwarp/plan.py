"""The order of a step: named stages, what each of them needs, and on CUDA the stream it may run on.

A plan is written once, in an order that is valid one stage after another. Three things follow from it: the stages to be
timed one by one (`timed`), the step on a CPU, and the step on CUDA (`concurrent_order`), where stages that do not need
each other run on streams beside each other.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import warp as wp

from stickslip.physics.base import Stage

MAIN = "main"
"""The current stream."""


@dataclasses.dataclass(frozen=True)
class PlanStage:
    """A stage of a step.

    Attributes:
        name: of the stage; stages that need it say so in `after`
        run: launches its kernels
        after: names of the stages, or parts of stages, that must have run before
        stream: where it may run on CUDA
        parts: the same work in pieces with needs and streams of their own; used where streams are
    """

    name: str
    run: Callable[[], None]
    after: tuple[str, ...] = ()
    stream: str = MAIN
    parts: tuple["PlanStage", ...] = ()


@dataclasses.dataclass(frozen=True)
class StepPlan:
    """The stages of a step in an order in which they may run one after the other; the last one advances the state."""

    stages: tuple[PlanStage, ...]

    def __post_init__(self) -> None:
        known: set[str] = set()
        for stage in self.stages:
            for node in (*stage.parts, stage):
                missing = [name for name in node.after if name not in known]
                if missing:
                    raise ValueError(f"stage {node.name!r} comes after {', '.join(missing)}, which is not before it")
                if node.name in known:
                    raise ValueError(f"two stages are named {node.name!r}")
                known.add(node.name)

    def timed(self) -> list[Stage]:
        """The stages one after the other, each with its name."""
        return [(stage.name, stage.run) for stage in self.stages]

    def run(self, device: wp.Device) -> None:
        """Run the step, on CUDA with streams beside each other."""
        if device.is_cuda:
            _run_on_streams(self.concurrent_order(), self._parts(), device)
        else:
            for stage in self.stages:
                stage.run()

    def _parts(self) -> dict[str, tuple[str, ...]]:
        """What stands for a stage that is needed: its parts if it has some."""
        named = {stage.name: tuple(part.name for part in stage.parts) or (stage.name,) for stage in self.stages}
        return named | {part.name: (part.name,) for stage in self.stages for part in stage.parts}

    def concurrent_order(self) -> list[PlanStage]:
        """The order in which CUDA is given the stages, in parts.

        A stage beside the main stream is launched as soon as all that it needs has been; the others keep their order.
        """
        parts = self._parts()
        waiting = [part for stage in self.stages for part in stage.parts or (stage,)]
        launched: list[PlanStage] = []
        while waiting:
            done = {stage.name for stage in launched}
            ready = (s for s in waiting if all(part in done for name in s.after for part in parts[name]))
            stage = next((s for s in ready if s.stream != MAIN), None)
            if stage is None:
                stage = next(s for s in waiting if s.stream == MAIN)
            waiting.remove(stage)
            launched.append(stage)
        return launched


def _run_on_streams(order: Sequence[PlanStage], parts: dict[str, tuple[str, ...]], device: wp.Device) -> None:
    """Launch the stages on their streams. A stream waits for another where a stage needs one that ran there."""
    streams = {MAIN: wp.get_stream(device), **{name: _side_stream(device.alias, name) for name in _names(order)}}
    stream_of = {stage.name: stage.stream for stage in order}
    pending: dict[str, set[str]] = {name: set() for name in streams}  # streams that have not waited for it since

    def wait(stream: str, other: str) -> None:
        if stream in pending[other]:
            streams[stream].wait_stream(streams[other])
            pending[other].discard(stream)

    for stage in order:
        for name in stage.after:
            for part in parts[name]:
                wait(stage.stream, stream_of[part])
        if stage.stream == MAIN:
            stage.run()
        else:
            with wp.ScopedStream(streams[stage.stream]):  # waits for the main stream
                stage.run()
            pending[stage.stream] = set(streams) - {stage.stream}
    for name in streams:
        wait(MAIN, name)


def _names(order: Sequence[PlanStage]) -> tuple[str, ...]:
    return tuple(sorted({stage.stream for stage in order} - {MAIN}))


def make_streams(device: wp.Device, names: Sequence[str]) -> None:
    """Make side streams, with what they need to wait for each other, before a step is captured."""
    if device.is_cuda:
        for stream in (wp.get_stream(device), *(_side_stream(device.alias, name) for name in names)):
            _ = stream.cached_event  # made when it is first asked for


@functools.cache
def _side_stream(alias: str, name: str) -> wp.Stream:
    return wp.Stream(wp.get_device(alias))
