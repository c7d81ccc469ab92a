"""A tape: chosen arrays of a simulation, copied after a step into a place per sample, in one launch.

The launch reads addresses and sizes from the device, so that a graph which has it serves any outputs and lengths.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import warp as wp

from stickslip.errors import InputError, Unsupported, unknown

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation

wp.set_module_options({"enable_backward": False})

MOST_OUTPUTS = 64
"""Outputs of a rollout; its graph has room for so many."""
_LANES = 32
"""Threads that share the copy of a world on CUDA."""
ADVICE = "take fewer outputs or steps, or a larger `every`"
_LARGEST_AXIS = 2**31 - 1
_NOT_OUTPUTS = ("nacon", "ncollision", "peak", "efc_islandid", "map_efc2iefc", "map_iefc2efc")
"""Arrays of all worlds together, and of constraint rows."""


@wp.struct
class Output:
    """What one array has of each world, in words of `width` bytes, and where its samples go."""

    source: wp.uint64
    out: wp.uint64
    nword: int
    width: int


@wp.struct
class Plan:
    """What a tape does: which controls a step gets, and where a sample goes.

    Controls of step t are in row `(worldid % ncontrol) * length + t - first` of the array at `control`. Sample s of the
    k-th world is row `(s - start) * sample_stride + k * world_stride` of each output.
    """

    noutput: int
    every: int  # steps per sample
    start: int  # number of the first sample in the outputs
    sample_stride: int
    world_stride: int
    control: wp.uint64  # 0: controls stay as they are
    ncontrol: int
    first: int  # step of the first controls there
    length: int  # steps with controls there


@wp.kernel
def _put_controls(
    # In:
    step: int,
    plans: wp.array[Plan],
    fine: wp.array[bool],
    # Out:
    clock_out: wp.array[int],
    ctrl_out: wp.array2d[float],
):
    """Give each world the controls of a step; a clock counts the steps, if there is one.

    The clock is read at 0 and written at 1 here, and the other way round in `_store_worlds`: no thread reads what
    another writes.
    """
    worldid, i = wp.tid()
    t = step
    if clock_out.shape[0] > 0:
        t = clock_out[0]
        if worldid == 0 and i == 0:
            clock_out[1] = t + 1
    plan = plans[0]
    if plan.control == wp.uint64(0) or i >= ctrl_out.shape[1]:
        return
    if not fine[worldid]:
        return
    row = (worldid % plan.ncontrol) * plan.length + t - plan.first
    control = wp.array(ptr=plan.control, shape=(plan.ncontrol * plan.length, ctrl_out.shape[1]), dtype=wp.float32)
    ctrl_out[worldid, i] = control[row, i]


@wp.kernel
def _store_worlds(
    # In:
    nlane: int,
    sample: int,
    plans: wp.array[Plan],
    outputs: wp.array[Output],
    worlds: wp.array[int],
    nworld: int,
    # Out:
    clock_out: wp.array[int],
):
    """Store a sample of each world, of all of them or of those named; with a clock, after every so many steps."""
    thread = wp.tid()
    k = thread / nlane
    lane = thread - k * nlane
    plan = plans[0]
    s = sample
    if clock_out.shape[0] > 0:
        done = clock_out[1]
        if thread == 0:
            clock_out[0] = done
        s = done / plan.every - 1
        if done % plan.every != 0:
            return
    worldid = k
    if worlds.shape[0] > 0:
        worldid = worlds[k]
    row = (s - plan.start) * plan.sample_stride + k * plan.world_stride
    for j in range(plan.noutput):
        output = outputs[j]
        if output.width == 4:
            source = wp.array(ptr=output.source, shape=(nworld, output.nword), dtype=wp.int32)
            out = wp.array(ptr=output.out, shape=(row + 1, output.nword), dtype=wp.int32)
            for i in range(lane, output.nword, nlane):
                out[row, i] = source[worldid, i]
        else:
            source8 = wp.array(ptr=output.source, shape=(nworld, output.nword), dtype=wp.uint8)
            out8 = wp.array(ptr=output.out, shape=(row + 1, output.nword), dtype=wp.uint8)
            for i in range(lane, output.nword, nlane):
                out8[row, i] = source8[worldid, i]


def outputs_of(sim: "Simulation", names: Iterable[str]) -> dict[str, wp.array]:
    """The arrays of a simulation by name, (nworld, ...), time first; raises InputError for one that there is not."""
    names = (names,) if isinstance(names, str) else tuple(names)
    physics, m, d = sim.physics, sim._m, sim.d
    own = dict(physics.arrays(m, d))
    if not physics.promises.poses_only:  # else a step leaves no results
        own = {**physics.results(m, d), **{name: physics.field(m, d, name) for name in names}, **own}
    own = {name: array for name, array in own.items() if array is not None and _has_worlds(name, array, sim.nworld)}
    if "time" not in own:
        raise Unsupported(f"{physics.name} has no array of times: its steps cannot be recorded")
    for name in names:
        if name not in own:
            raise unknown("output", name, sorted(own))
    chosen = dict.fromkeys(("time", *names))
    if len(chosen) > MOST_OUTPUTS:
        raise InputError(f"{len(chosen)} outputs: take {MOST_OUTPUTS} at most")
    return {name: own[name] for name in chosen}


def _has_worlds(name: str, array: wp.array, nworld: int) -> bool:
    """Whether an array has an axis of worlds, and a shape that does not depend on the size of buffers."""
    fits = array.ndim < 4 and array.shape[0] == nworld and array.is_contiguous  # Warp has no more axes than four
    return fits and name.isidentifier() and name not in _NOT_OUTPUTS


def sample_bytes(sources: Mapping[str, wp.array], nworld: int) -> int:
    """Bytes of a sample of so many worlds."""
    return nworld * sum(_world_bytes(source) for source in sources.values())


def _world_bytes(array: wp.array) -> int:
    """Bytes of a world in a contiguous array."""
    return array.size // array.shape[0] * wp.types.type_size_in_bytes(array.dtype)


def places(sources: Mapping[str, wp.array], first: int, second: int, device: wp.Device) -> dict[str, wp.array]:
    """Memory for samples, (first, second, ...) by name; raises InputError if it does not suffice."""
    if first * second >= _LARGEST_AXIS:
        raise InputError(f"{first} x {second} samples and worlds: there may be {_LARGEST_AXIS} at most; {ADVICE}")
    shapes = {name: (first, second, *source.shape[1:]) for name, source in sources.items()}
    try:
        return {name: wp.empty(shape, dtype=sources[name].dtype, device=device) for name, shape in shapes.items()}
    except (MemoryError, RuntimeError) as error:
        need = first * second * sample_bytes(sources, 1)
        raise InputError(f"{need / 1e9:.3g} GB of outputs do not fit on {device.alias} ({error}); {ADVICE}") from None


@dataclasses.dataclass
class Controls:
    """Controls on the device.

    Attributes:
        array: floats, contiguous                                (nworld or 1, length, nu)
        first: step of the first of them
        fine: worlds that take them                              (nworld,)
    """

    array: wp.array
    first: int
    fine: wp.array


class Tape:
    """Launches that give controls to a simulation and store samples of it.

    Args:
        sim: the simulation
        worlds: numbers of the worlds to store, on the device; None: all
        clock: whether the device counts steps and samples; without it each launch is told
    """

    def __init__(self, sim: "Simulation", worlds: wp.array | None = None, *, clock: bool = False) -> None:
        device = sim.device
        nstored = sim.nworld if worlds is None else worlds.shape[0]
        nlane = _LANES if device.is_cuda else 1
        self._clock = wp.zeros(2, dtype=int, device=device) if clock else None
        plan = Plan()
        plan.every = 1
        self._plans = wp.array([plan], dtype=Plan, device=device)
        self._outputs = wp.array([Output() for _ in range(MOST_OUTPUTS)], dtype=Output, device=device)
        self._fine = wp.full(sim.nworld, True, dtype=bool, device=device)
        ctrl = sim.ctrl
        self._kept: tuple[Any, ...] = (ctrl, worlds)
        self._put = wp.launch(
            _put_controls,
            dim=(sim.nworld, max(1, sim.mjm.nu)),
            inputs=[0, self._plans, self._fine],
            outputs=[self._clock, ctrl],
            device=device,
            record_cmd=True,
        )
        self._store = wp.launch(
            _store_worlds,
            dim=nstored * nlane,
            inputs=[nlane, 0, self._plans, self._outputs, worlds, sim.nworld],
            outputs=[self._clock],
            device=device,
            record_cmd=True,
        )

    def set(
        self,
        sources: Mapping[str, wp.array],
        outs: Mapping[str, wp.array],
        *,
        every: int,
        start: int,
        strides: tuple[int, int],
        step: int = 0,
        controls: Controls | None = None,
    ) -> None:
        """Say what the next launches do.

        Args:
            sources: the arrays to store by name
            outs: where to
            every: steps per sample
            start: number of the first sample in the outputs
            strides: rows from a sample to the next, and from a world to the next
            step: number of the next step, for the clock
            controls: those to give; None: controls stay as they are
        """
        table = []
        for name, source in sources.items():
            size = _world_bytes(source)
            if size:
                output = Output()
                output.width = 4 if size % 4 == 0 else 1
                output.nword = size // output.width
                output.source, output.out = wp.uint64(source.ptr), wp.uint64(outs[name].ptr)
                table.append(output)
        plan = Plan()
        plan.noutput, plan.every, plan.start = len(table), every, start
        plan.sample_stride, plan.world_stride = strides
        if controls is not None and controls.array.size:
            plan.control = wp.uint64(controls.array.ptr)
            plan.ncontrol, plan.length = controls.array.shape[:2]
            plan.first = controls.first
            wp.copy(self._fine, controls.fine)
        table += [Output() for _ in range(MOST_OUTPUTS - len(table))]
        self._outputs.assign(table)
        self._plans.assign([plan])
        if self._clock is not None:
            self._clock.fill_(step)
        self._kept = (*self._kept[:2], sources, outs, controls)  # the device has their addresses only

    def put_controls(self, step: int = 0) -> None:
        """Give the controls of a step, or of the one that the clock has come to."""
        if self._clock is None:
            self._put.set_param_at_index(0, step)
        self._put.launch()

    def store(self, sample: int = 0) -> None:
        """Store a sample, or, with a clock, one if this step has one."""
        if self._clock is None:
            self._store.set_param_at_index(1, sample)
        self._store.launch()
