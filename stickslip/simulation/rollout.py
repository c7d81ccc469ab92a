"""Rollouts: controls of many steps in, outputs after each step out, without the host in between."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip import arrays, capacity, compilation
from stickslip.errors import HealthWarning, InputError, Unsupported
from stickslip.simulation import tape as tapes
from stickslip.simulation import worlds
from stickslip.simulation.bar import Bar
from stickslip.simulation.tape import Controls, Tape
from stickslip.simulation.trajectory import Trajectory, about
from stickslip.state import State, as_numbers, check_finite

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation

_SHARE = 0.5  # of the free memory that a chunk takes


@dataclasses.dataclass
class Captured:
    """A step with its controls before and its outputs after it, in a graph.

    Attributes:
        tape: what to give and to store
        graph: the graph
        step: the graph of the step alone, which was there when this was captured
        data: the data of the capture
    """

    tape: Tape
    graph: wp.Graph
    step: wp.Graph
    data: Any


@dataclasses.dataclass
class _Plan:
    """A rollout that was checked.

    Attributes:
        steps: number of steps
        every: steps per sample
        chunk: steps from one copy to the host to the next
        given: controls, on the device or the host, (nworld or 1, steps, nu); None: those that there are
        fine: worlds that take them, on the device; None without controls
        sources: arrays to store, by name
        staged: whether samples are copied to the host after each chunk
    """

    steps: int
    every: int
    chunk: int
    given: wp.array | NDArray[np.float32] | None
    fine: wp.array | None
    sources: dict[str, wp.array]
    staged: bool

    @property
    def nsample(self) -> int:
        return self.steps // self.every


def rollout(
    sim: "Simulation",
    ctrl: Any,
    state: State | None,
    outputs: Iterable[str],
    every: int,
    device: bool,
    advance: bool,
    chunk: int | None,
    progress: bool,
) -> Trajectory:
    """See `Simulation.rollout`."""
    if sim.device.is_capturing:
        raise Unsupported("a rollout cannot be captured: call it outside, or capture step()")
    sources = tapes.outputs_of(sim, outputs)
    check_count("every", every, "steps")
    if chunk is not None:
        check_count("chunk", chunk, "steps")
    if state is not None:
        worlds.check(sim, state)
    steps, given = _controls(sim, ctrl)
    if every > steps:
        raise InputError(
            f"every is {every}: the rollout has {steps} steps, so that there would be no sample; choose a smaller one"
        )
    sim.compile()
    with sim._on_device():
        restore, warned = sim.physics.checkpoint(sim._m, sim.d), sim._warned
        forget = marked(sim, steps) if advance else None  # else no sample is recorded
        stay = False
        try:
            plan = _planned(sim, steps, every, chunk, given, sources, device)
            outs, host = _places(sim, plan)
            if state is not None:
                sim.set_state(state)
            with Bar(progress, steps, sim.device) as bar:
                _run(sim, plan, outs, host, bar, recorded=advance)
            messages = sim.health().messages
            stay = advance
        finally:
            if not stay:
                sim.d, sim._warned = restore(), warned
                if forget is not None:
                    forget()
    if messages:
        sim._warned = sim._warned or advance
        warnings.warn("; ".join(messages), HealthWarning, stacklevel=3)
    found: dict[str, Any] = {name: out if device else out.numpy() for name, out in outs.items()}
    return Trajectory(host or found, **about(sim, int(every)))


def marked(sim: "Simulation", n: int) -> Callable[[], None]:
    """A function that makes the recorders forget the samples of the next n steps."""
    marks: list[tuple[Any, Any]] = [(recorder, recorder.mark(n)) for recorder in sim._recorders]

    def rewind() -> None:
        for recorder, mark in marks:
            recorder.rewind(mark)

    return rewind


def check_count(name: str, value: Any, what: str) -> None:
    """Raise InputError unless a value is a whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} is {value!r}: it must be a whole number of {what}, at least 1")


def _controls(sim: "Simulation", ctrl: Any) -> tuple[int, wp.array | NDArray[np.float32] | None]:
    """The number of steps, and controls (nworld or 1, steps, nu): on the device, or checked on the host, or none."""
    if isinstance(ctrl, (bool, int, np.integer)):
        check_count("ctrl", ctrl, "steps, or an array")
        return int(ctrl), None
    nworld, nu = arrays.shape_of(sim.ctrl)
    given: Any = arrays.device_array("ctrl", ctrl, sim.device)
    if given is None:
        given = as_numbers("ctrl", arrays.host_array(ctrl), (nworld, "T", nu))  # type: ignore[arg-type]
        shape = given.shape
    else:
        shape = arrays.shape_of(given)
    whole = (1, *shape) if len(shape) == 2 else shape
    if len(whole) != 3 or whole[0] not in (1, nworld) or whole[1] < 1 or whole[2] != nu:
        raise InputError(
            f"ctrl has shape {shape}, expected ({nworld}, T, {nu}), or (T, {nu}) for all worlds, with T of 1 or more; "
            "or give a number of steps"
        )
    if not nu:
        return whole[1], None
    if isinstance(given, np.ndarray):
        check_finite("ctrl", given)
        return whole[1], given.reshape(whole).astype(np.float32)
    flat = arrays.scalars(given, whole[0])
    if flat.dtype is not wp.float32:
        single = wp.empty(flat.shape, dtype=float, device=sim.device)
        arrays.put("ctrl", single, flat, sim._refused, None)
        flat = single
    return whole[1], flat.reshape(whole)


def _planned(
    sim: "Simulation",
    steps: int,
    every: int,
    chunk: int | None,
    given: wp.array | NDArray[np.float32] | None,
    sources: dict[str, wp.array],
    device: bool,
) -> _Plan:
    """How many steps there are to a chunk, by the memory that is free."""
    size = tapes.sample_bytes(sources, sim.nworld)
    if not device:
        whole, free = size * (steps // every), capacity.free_memory(wp.get_device("cpu"))
        if whole > free:
            raise InputError(f"outputs take {whole / 1e9:.3g} GB, {free / 1e9:.3g} GB are free; {tapes.ADVICE}")
    staged = not device and (sim.device.is_cuda or chunk is not None)
    if chunk is None:
        uploaded = 4 * given.shape[0] * given.shape[2] if isinstance(given, np.ndarray) else 0
        free = _SHARE * capacity.free_memory(sim.device) - (size * (steps // every) if device else 0)
        chunk = max(every, int(max(0.0, free) / max(1.0, uploaded + (size / every if staged else 0))))
    fine = None
    if isinstance(given, np.ndarray):
        fine = wp.full(sim.nworld, True, dtype=bool, device=sim.device)
    elif given is not None:
        fine = arrays.finite_worlds([given], None, sim.nworld, sim._refused)
    return _Plan(steps, int(every), min(int(chunk), steps), given, fine, sources, staged)


def _places(sim: "Simulation", plan: _Plan) -> tuple[dict[str, wp.array], dict[str, NDArray[Any]]]:
    """Where samples go on the device, and on the host if they are copied there."""
    room = min(plan.nsample, plan.chunk // plan.every + 1) if plan.staged else plan.nsample
    outs = tapes.places(plan.sources, sim.nworld, room, sim.device)
    if not plan.staged:
        return outs, {}
    shapes = {name: (sim.nworld, plan.nsample, *arrays.shape_of(out)[2:]) for name, out in outs.items()}
    host = {name: np.empty(shape, dtype=arrays.numpy_type(outs[name])) for name, shape in shapes.items()}
    return outs, host


def _run(
    sim: "Simulation",
    plan: _Plan,
    outs: dict[str, wp.array],
    host: dict[str, NDArray[Any]],
    bar: Bar,
    *,
    recorded: bool,
) -> None:
    """Take the steps, chunk by chunk."""
    for begin in range(0, plan.steps, plan.chunk):
        end = min(plan.steps, begin + plan.chunk)
        samples = slice(begin // plan.every, end // plan.every)
        controls = _part(sim, plan, begin, end)
        done = begin
        for piece in bar.pieces(end - begin):
            sim._grown(piece, _runner(sim, plan, outs, controls, samples.start, done, recorded=recorded))
            done += piece
        for name, array in host.items():
            array[:, samples] = outs[name].numpy()[:, : samples.stop - samples.start]


def _runner(
    sim: "Simulation",
    plan: _Plan,
    outs: dict[str, wp.array],
    controls: Controls | None,
    start: int,
    begin: int,
    *,
    recorded: bool,
) -> Callable[[int], None]:
    """A function that takes n steps from `begin` on; called again, after they were undone, if buffers had to grow."""
    forget = marked(sim, 0) if recorded else None
    strides = (1, outs["time"].shape[1])

    def run(n: int) -> None:
        if forget is not None:
            forget()
        captured = _captured(sim) if sim._graph is not None else None
        tape = captured.tape if captured else Tape(sim)
        sources = tapes.outputs_of(sim, plan.sources)
        first = start if plan.staged else 0
        tape.set(sources, outs, every=plan.every, start=first, strides=strides, step=begin, controls=controls)
        _advance(sim, tape, captured, plan, begin, begin + n, recorded)

    return run


def _part(sim: "Simulation", plan: _Plan, begin: int, end: int) -> Controls | None:
    """The controls of some steps, on the device."""
    if plan.given is None or plan.fine is None:
        return None
    if isinstance(plan.given, np.ndarray):
        part = np.ascontiguousarray(plan.given[:, begin:end])
        return Controls(wp.array(part, dtype=float, device=sim.device), begin, plan.fine)
    return Controls(plan.given, 0, plan.fine)


def _captured(sim: "Simulation") -> Captured:
    """The step with its controls and outputs as a graph; it serves until the step itself is captured again."""
    found = sim._captured_rollout
    if found is not None and found.step is sim._graph and found.data is sim.d:
        return found
    physics, m, d = sim.physics, sim._m, sim.d
    tape = Tape(sim, clock=True)

    def one() -> None:
        tape.put_controls()
        physics.step(m, d)
        tape.store()

    tape.put_controls()  # loads the kernels: nothing can be loaded while capturing
    tape.store()
    with compilation.unchanged({**physics.results(m, d), **physics.arrays(m, d)}):
        graph = compilation.capture(one, sim.device)
    assert sim._graph is not None
    sim._captured_rollout = Captured(tape, graph, sim._graph, d)
    return sim._captured_rollout


def _advance(
    sim: "Simulation", tape: Tape, captured: Captured | None, plan: _Plan, begin: int, end: int, recorded: bool
) -> None:
    """Take the steps from `begin` to `end`, each with its controls, and store their outputs; nothing else advances."""
    recorders = sim._recorders if recorded else []
    if captured is not None:
        for _ in range(begin, end):
            wp.capture_launch(captured.graph)
            for recorder in recorders:
                recorder.after(1)
        return
    step = begin
    while step < end:
        # without controls, steps between two samples are one run: `cenic` takes less time for it
        n = 1 if plan.given is not None or recorders else min(end - step, plan.every - step % plan.every)
        tape.put_controls(step)
        with compilation.quiet():
            sim.d = sim.physics.run(sim._m, sim.d, n)
        step += n
        for recorder in recorders:
            recorder.after(1)
        if step % plan.every == 0:
            tape.store(step // plan.every - 1)
