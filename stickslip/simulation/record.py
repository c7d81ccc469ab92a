"""Steps of a simulation, and what it goes through as arrays: rollouts of given controls, recorders of its own steps."""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import warp as wp
from numpy.typing import ArrayLike

from stickslip import compilation
from stickslip.errors import Unsupported
from stickslip.simulation import rollout
from stickslip.simulation.bar import Bar
from stickslip.simulation.growth import Growth
from stickslip.simulation.observation import Observation
from stickslip.simulation.recorder import Recorder, recorded
from stickslip.simulation.trajectory import Trajectory
from stickslip.simulation.watching.limits import Limits
from stickslip.simulation.watching.watch import Watch
from stickslip.state import State

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation


class Recording(Observation):
    """The part of `Simulation` that advances its worlds, and keeps what they go through."""

    __slots__ = ("_captured_rollout", "_given", "_growth", "_recorders", "_watches")

    def __init__(self) -> None:
        Observation.__init__(self)
        self._captured_rollout: rollout.Captured | None = None
        self._growth: Growth | None = None
        self._recorders: list[Recorder | Watch] = []
        self._watches: list[Watch] = []
        self._given: set[str] = set()  # fields of the model that were set

    def _advance(self, n: int, progress: bool = False) -> None:
        """Take n steps, with samples for open recorders."""
        capturing = self.device.is_capturing
        if capturing and self._recorders:
            raise Unsupported("steps cannot be recorded while a graph is captured: close the recorder before")
        with Bar(progress and not capturing, n, self.device) as bar:
            for piece in bar.pieces(n):
                self._grown(piece, recorded(cast("Simulation", self), piece) if self._recorders else self._run)

    def _grown(self, n: int, run: Callable[[int], None]) -> None:
        """Take n steps by `run(n)`, and if buffers were too small, undone, by another `run(n)` with larger ones."""
        if self._growth is None or n == 0 or self.device.is_capturing:
            run(n)
        else:
            self._growth.advance(cast("Simulation", self), n, run)

    def _run(self, n: int) -> None:
        """Take n steps and nothing else."""
        capturing = self.device.is_capturing  # a graph of the caller's: a graph cannot be launched into it
        if capturing and not self.physics.capturable:
            raise Unsupported(f"{self.physics.name} cannot be captured: its steps loop on the host")
        if self._graph is None or capturing:
            with compilation.quiet():
                self.d = self.physics.run(self._m, self.d, n)
        else:
            for _ in range(n):
                wp.capture_launch(self._graph)

    def rollout(
        self,
        ctrl: Any,
        *,
        state: State | None = None,
        outputs: Iterable[str] = ("qpos", "qvel"),
        every: int = 1,
        device: bool = False,
        advance: bool = False,
        chunk: int | None = None,
        progress: bool = False,
    ) -> Trajectory:
        """Outputs after each of T steps with given controls, (nworld, T, ...) by name; open loop.

        Unless `advance` is set, the simulation is afterwards where it was, bit for bit. Controls on the device that are
        not finite are not given to their world, which keeps those it has; `health()` counts it.

        Args:
            ctrl: controls of T steps, (nworld, T, nu), or (T, nu) for all worlds, of any array library; or a number of
                steps with the present controls
            state: where to start, as in `set_state`; None: the present state
            outputs: names of arrays with an axis of worlds, such as `sensordata` or `xpos`; `time` is always there
            every: steps per sample
            device: leave the outputs on the device
            advance: stay at the end
            chunk: steps from one copy to the host to the next; None: as many as memory allows
            progress: show a bar
        """
        sim = cast("Simulation", self)
        return rollout.rollout(sim, ctrl, state, outputs, every, device, advance, chunk, progress)

    def record(
        self,
        path: str | os.PathLike[str] | None = None,
        outputs: Iterable[str] = ("qpos", "qvel"),
        *,
        every: int = 1,
        last: int | None = None,
        worlds: int | slice | ArrayLike | None = None,
        buffer: int | None = None,
    ) -> Recorder:
        """Record the steps from now on, until the end of a `with` block or `close()` of what this gives.

        `with sim.record("run.npz", ("qpos", "sensordata")) as recorder: sim.step(1000)`. After an exception, what was
        recorded until then is written. `Trajectory.load` reads the file.

        Args:
            path: `.npz` or `.zarr`; None: `recorder.trajectory` has the samples
            outputs: names as for `rollout`
            every: steps per sample
            last: keep only so many samples, the last ones
            worlds: numbers of the worlds to record; None: all
            buffer: samples that the device holds before they are copied to the host
        """
        return Recorder(cast("Simulation", self), path, outputs, every=every, last=last, worlds=worlds, buffer=buffer)

    def watch(
        self, folder: str | os.PathLike[str] | None = None, *, limits: Limits | None = None, most: int = 64
    ) -> Watch:
        """Watch all worlds from now on, until the end of a `with` block or `close()` of what this gives.

        After each step every world is checked on the device: whether it is finite, gains energy from nothing, is deeper
        in something than it is thick, has joints beyond their limits, or dropped contacts. `health()` has what was
        found at the step where it happened, with world and body. Steps and rollouts that `advance` are watched, one
        step at a time; open-loop rollouts that go back are not.

        Args:
            folder: where each event is written as a file for `stickslip replay`; None: nowhere
            limits: what is allowed
            most: events that are kept and written; more are counted only
        """
        return Watch(cast("Simulation", self), folder, limits, most)
