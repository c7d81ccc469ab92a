"""Watch: looks at all worlds after each step of a simulation, on the device, and keeps what replays an event."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip import compilation, provenance
from stickslip.errors import InputError, Unsupported
from stickslip.physics.base import GrowingPhysics
from stickslip.simulation.shards import Threaded
from stickslip.simulation.watching import checks, kinetics
from stickslip.simulation.watching.event import Event, Stored
from stickslip.simulation.watching.limits import (
    KINDS,
    LARGEST,
    Limits,
    energy_scale,
    energy_unwatched,
    thickness,
)
from stickslip.state import State, digest

if TYPE_CHECKING:
    from stickslip.simulation.simulation import Simulation

ROOM = 1024
"""Events that the device holds between two looks of the host; more are counted only."""
SPAN = 32
"""Most steps from the state that is kept to an event."""
_FORCES = ("qfrc_actuator", "qfrc_spring", "qfrc_gravcomp", "qfrc_fluid", "qfrc_adhesion", "qfrc_applied")
_PER_WORLD = {
    "qpos0": float,
    "body_pos": wp.vec3,
    "body_quat": wp.quat,
    "body_ipos": wp.vec3,
    "body_iquat": wp.quat,
    "body_mass": float,
    "body_inertia": wp.vec3,
    "jnt_pos": wp.vec3,
    "jnt_axis": wp.vec3,
    "dof_armature": float,
}
_FIXED = "body_parentid body_jntadr body_jntnum body_mocapid jnt_type jnt_qposadr jnt_dofadr".split()


@dataclasses.dataclass
class _Mark:
    """Where a watch is, for `rewind`."""

    step: int
    memory: dict[str, wp.array]
    events: int


class Watch:
    """What `Simulation.watch` gives: it watches until it is closed, at the end of a `with` block or by `close()`.

    Attributes:
        folder: where events are written; None: nowhere
        limits: what is allowed
        most: events that are kept and written; more are counted only
        events: those that are kept, in order
        unwatched: kinds that cannot be watched here, and why
        is_open: whether it still watches
    """

    def __init__(self, sim: "Simulation", folder: Any, limits: Limits | None, most: int) -> None:
        if sim.device.is_capturing:
            raise Unsupported("a watch cannot be opened while a graph is captured: open it before")
        if isinstance(sim.physics, Threaded):
            raise Unsupported("worlds that threads share cannot be watched: leave threads at 1")
        if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
            raise InputError(f"most is {most!r}: it must be a whole number of events, at least 1")
        self.limits = limits or Limits()
        if self.limits.twins is not None and sim.nworld % 2:
            raise InputError(f"twins are worlds 2k and 2k + 1, and nworld is {sim.nworld}: take an even number")
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        self.most = int(most)
        self.is_open = True
        self.unwatched: dict[str, str] = {}
        self._events: list[Event] = []
        self._sim = sim
        self._step = 0
        self._taken = 0  # events of the device that were looked at
        self._more = 0  # events that were not kept
        self._told = 0  # events that `health` has told
        self._meanings: dict[int, str] = {}
        self._base: State | None = None
        self._base_kept: dict[str, wp.array] = {}
        self._since: list[wp.array] = []  # controls of each step since the state that is kept
        with sim._on_device():
            self._allocate()
            self._bind()
            sim.compile()
        sim._recorders.append(self)
        sim._watches.append(self)

    def _allocate(self) -> None:
        sim = self._sim
        mjm, n = sim.mjm, sim.nworld
        self._energies = bool(self.limits.energy)
        if self._energies and (why := energy_unwatched(mjm)):
            self._energies = False
            self.unwatched["energy"] = why
        if self._energies and mjm.nv and any(sim.physics.field(sim._m, sim.d, name) is None for name in _needs(mjm)):
            self._energies = False
            self.unwatched["energy"] = f"{sim.physics.name} does not tell the forces of its actuators and springs"
        self._contacts = self.limits.depth is not None
        if self._contacts:
            try:
                sim.contacts(device=True)
            except Unsupported as error:
                self._contacts = False
                self.unwatched["penetration"] = str(error)
        nbody = mjm.nbody
        self._scratch = [
            wp.zeros((n, nbody), dtype=kind, device=sim.device) for kind in (wp.vec3, wp.quat, wp.vec3, wp.vec3)
        ]
        self._now, self._before = (
            [
                wp.zeros((n, nbody), dtype=float, device=sim.device),
                wp.zeros((n, nbody), dtype=wp.vec2, device=sim.device),
                wp.zeros(n, dtype=wp.float64, device=sim.device),
            ]
            for _ in range(2)
        )
        self._qvel = wp.zeros((n, mjm.nv), dtype=float, device=sim.device)
        self._found = wp.zeros(ROOM, dtype=checks.Found, device=sim.device)
        self._deepest = wp.zeros(n, dtype=float, device=sim.device)
        self._contact = wp.zeros(n, dtype=int, device=sim.device)
        self._clock = wp.zeros(1, dtype=int, device=sim.device)
        self._ignored = wp.zeros(1, dtype=int, device=sim.device)  # bits of `overflow` that are no events
        self._checked: wp.Graph | None = None
        self._launched = False
        self._arrays = {name: wp.zeros(n, dtype=int, device=sim.device) for name in ("active", "bits")}
        self._arrays |= {name: wp.zeros(n, dtype=float, device=sim.device) for name in ("lost", "excess", "peak")}
        self._arrays["time"] = wp.full(n, -1.0, dtype=float, device=sim.device)
        self._arrays["count"] = wp.zeros((n, len(KINDS)), dtype=int, device=sim.device)
        self._arrays["total"] = wp.zeros(1, dtype=int, device=sim.device)
        self._memory = checks.Memory()
        for name, array in self._arrays.items():
            setattr(self._memory, name, array)
        self._bounds = self._make_bounds()
        self._none = (wp.zeros(0, dtype=wp.vec2i, device=sim.device), wp.zeros(0, dtype=float, device=sim.device))

    def _make_bounds(self) -> Any:
        sim, limits = self._sim, self.limits
        mjm, bounds = sim.mjm, checks.Bounds()
        bounds.largest = LARGEST
        bounds.energy = float(limits.energy or 0.0) * energy_scale(mjm) if self._energies else 0.0
        bounds.depth = float(limits.depth or 0.0) if self._contacts else 0.0
        bounds.joint = float(limits.joint or 0.0)
        bounds.twins = -1.0 if limits.twins is None else limits.twins
        of_qpos = np.zeros(mjm.nq, dtype=np.int32)
        for joint, start in enumerate(mjm.jnt_qposadr):
            of_qpos[start:] = mjm.jnt_bodyid[joint]
        for name, value in (
            ("geom_bodyid", mjm.geom_bodyid),
            ("dof_bodyid", mjm.dof_bodyid),
            ("jnt_type", mjm.jnt_type),
            ("jnt_limited", mjm.jnt_limited),
            ("jnt_qposadr", mjm.jnt_qposadr),
            ("jnt_bodyid", mjm.jnt_bodyid),
            ("qpos_bodyid", of_qpos),
        ):
            setattr(bounds, name, wp.array(np.array(value, dtype=np.int32), dtype=int, device=sim.device))
        bounds.gap = wp.array(thickness(mjm), dtype=float, device=sim.device)
        return bounds

    def _field(self, name: str, kind: Any) -> wp.array:
        """A field of the model, with one row or one for each world."""
        sim = self._sim
        try:
            return sim.physics.model_field(sim._m, name)
        except (Unsupported, InputError):
            value = getattr(sim.mjm.opt if name in ("gravity", "timestep") else sim.mjm, name)
            return wp.array(np.array(value, dtype=np.float32)[None], dtype=kind, device=sim.device)

    def _bind(self) -> None:
        """Look up the arrays of the simulation, which may be others now."""
        sim = self._sim
        tree = kinetics.Tree()
        for name in _FIXED:
            setattr(
                tree, name, wp.array(np.array(getattr(sim.mjm, name), dtype=np.int32), dtype=int, device=sim.device)
            )
        for name, kind in _PER_WORLD.items():
            setattr(tree, name, self._field(name, kind))
        tree.gravity, tree.timestep = self._field("gravity", wp.vec3), self._field("timestep", float)
        self._tree, self._range = tree, self._field("jnt_range", wp.vec2)
        self._bound = (sim.d, sim.physics.captured(sim._m))
        self._checked, self._launched = None, False
        self._look_up()

    def _look_up(self) -> None:
        sim = self._sim
        own = sim.physics.arrays(sim._m, sim.d)
        self._time = sim.physics.field(sim._m, sim.d, "time")
        if self._time is None:
            raise Unsupported(f"{sim.physics.name} has no array of times: it cannot be watched")
        self._own = own
        none, none3 = (wp.zeros(0, dtype=kind, device=sim.device) for kind in (int, wp.vec3))
        self._overflow = own.get("overflow", none)
        self._mocap = own.get("mocap_pos"), own.get("mocap_quat")
        if self._mocap[0] is None or not self._mocap[0].size:
            self._mocap = none3.reshape((0, 0)), wp.zeros((0, 0), dtype=wp.quat, device=sim.device)
        empty = wp.zeros((0, 0), dtype=float, device=sim.device)
        forces = [sim.physics.field(sim._m, sim.d, name) for name in _FORCES]
        self._forces = [empty if force is None or not force.size else force for force in forces]
        xfrc = own["xfrc_applied"]
        self._xfrc = xfrc if xfrc.ndim == 2 else wp.array(
            ptr=xfrc.ptr, shape=xfrc.shape[:2], dtype=wp.spatial_vector, device=sim.device, copy=False
        )  # fmt: skip

    # What a simulation asks of its recorders

    @property
    def steps_to_sample(self) -> int:
        """Steps until the next look: every step."""
        return 1

    def mark(self, n: int) -> _Mark:
        """Called before steps: where it is, for `rewind`. The present state is kept as the one before."""
        self._begin()
        return _Mark(self._step, {name: wp.clone(array) for name, array in self._arrays.items()}, len(self._events))

    def rewind(self, mark: _Mark) -> None:
        """Forget the steps since a mark, which were undone."""
        for event in self._events[max(mark.events, self._told) :]:
            if event.file is not None:
                event.file.unlink(missing_ok=True)  # nobody has heard of it
        self._step = mark.step
        self._clock.fill_(mark.step)
        for name, copy in mark.memory.items():
            wp.copy(self._arrays[name], copy)
        self._taken = int(mark.memory["total"].numpy()[0])
        del self._events[mark.events :]
        self._told = min(self._told, mark.events)
        with self._sim._on_device():
            self._bind()  # buffers may have grown
        self._begin()

    def after(self, n: int) -> None:
        """Called after each step."""
        sim = self._sim
        self._step += 1
        self._since.append(wp.clone(sim.ctrl))
        with sim._on_device():
            if sim.d is not self._bound[0]:
                self._bind()
            elif not sim.physics.capturable:
                self._look_up()
            self._check()
        if len(self._since) >= SPAN:
            self._begin()

    def _begin(self) -> None:
        """Take the present state as that before the next step, after a look at the events until now."""
        sim = self._sim
        self._collect()
        with sim._on_device():
            if sim.d is not self._bound[0] or sim.physics.captured(sim._m) != self._bound[1]:
                self._bind()
            elif not sim.physics.capturable:
                self._look_up()
            self._measure()
            wp.launch(
                checks.begin_worlds,
                dim=sim.nworld,
                inputs=[self._time, self._overflow, self._own["qvel"], *self._now],
                outputs=[self._memory, self._qvel, *self._before],
            )
            self._base = sim.physics.get_state(sim._m, sim.d)
            self._base_kept = {name: wp.clone(self._arrays[name]) for name in ("lost", "excess", "peak", "active")}
        self._since = []

    def _measure(self) -> None:
        sim = self._sim
        if self._energies:
            wp.launch(
                kinetics.measure_energy,
                dim=sim.nworld,
                inputs=[self._tree, self._own["qpos"], self._own["qvel"], *self._mocap, *self._scratch],
                outputs=self._now,
            )

    def _check(self) -> None:
        """Launch the checks, or replay them: the second time that they are launched, they are captured."""
        sim = self._sim
        if self._checked is None and self._launched and sim.physics.capturable:
            self._checked = compilation.capture(self._launch, sim.device)
        if self._checked is not None:
            wp.capture_launch(self._checked)
        else:
            self._launch()
            self._launched = True

    def _launch(self) -> None:
        sim = self._sim
        self._measure()
        wp.launch(checks.start_check, dim=sim.nworld, outputs=[self._clock, self._deepest, self._contact])
        geom, dist = self._none
        if self._contacts:
            found = sim._device_contacts()
            geom, dist = found.geom, found.dist
            given = [self._bounds, found.count, found.world, geom, dist]
            wp.launch(checks.find_deepest, dim=found.capacity, inputs=given, outputs=[self._deepest])
            wp.launch(checks.find_contact, dim=found.capacity, inputs=[*given, self._deepest], outputs=[self._contact])
        wp.launch(
            checks.check_worlds,
            dim=sim.nworld,
            inputs=[
                self._clock,
                self._ignored,
                self._bounds,
                self._tree.timestep,
                self._time,
                self._own["qpos"],
                self._own["qvel"],
                self._range,
                self._overflow,
                *self._forces,
                self._xfrc,
                geom,
                dist,
                self._deepest,
                self._contact,
                *self._now,
                self._qvel,
                *self._before,
                self._memory,
            ],
            outputs=[self._found],
        )

    # What the host sees

    @property
    def events(self) -> list[Event]:
        """The events so far, at most `most`."""
        self._collect()
        return list(self._events)

    @property
    def counts(self) -> dict[str, NDArray[np.integer]]:
        """Number of events of each kind in every world, (nworld,); of those, too, that are not kept."""
        self._collect()
        count = self._arrays["count"].numpy()
        return {kind: count[:, index].copy() for index, kind in enumerate(KINDS)}

    @property
    def messages(self) -> tuple[str, ...]:
        """What `health` says of the events, one sentence each."""
        told = [f"{event}; replay it: stickslip replay {event.file}" if event.file else str(event)
                for event in self.events]  # fmt: skip
        self._told = len(self._events)
        if self._more:
            told.append(f"{self._more} more events are counted only: raise most from {self.most}, or clear() the watch")
        return tuple(told)

    def clear(self) -> None:
        """Forget the events so far; files stay."""
        self._collect()
        for name in ("count", "total"):
            self._arrays[name].zero_()
        self._events, self._taken, self._more, self._told = [], 0, 0, 0

    def close(self) -> None:
        """Stop watching; the events stay. Closed again, it does nothing."""
        if not self.is_open:
            return
        self._collect()
        self.is_open = False
        self._sim._recorders.remove(self)
        self._sim._watches.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _collect(self) -> None:
        """Look at the events that the device has found since the last look, and write them."""
        total = int(self._arrays["total"].numpy()[0])
        if total == self._taken or not self.is_open:
            return
        rows = self._found.numpy()[self._taken : min(total, ROOM)]
        self._more += max(0, total - max(self._taken, ROOM))
        self._taken = total
        state = None
        for row in rows:
            event = self._event(row)
            if event is None:
                continue
            if len(self._events) >= self.most:
                self._more += 1
                continue
            if self.folder is not None:
                state = state or (self._base.numpy() if self._base is not None else None)
                assert state is not None
                event = self._written(event, state)
            self._events.append(event)
        if self._taken >= ROOM // 2:
            self._arrays["total"].zero_()
            self._taken = 0

    def _event(self, row: Any) -> Event | None:
        kind, body = KINDS[int(row["kind"])], int(row["body"])
        world, why = int(row["world"]), ""
        if kind == "dropped":
            why = self._meaning(int(row["bits"]))
            if not why:  # nothing was dropped: not an event
                count = self._arrays["count"].numpy()
                count[world, KINDS.index(kind)] -= 1
                self._arrays["count"].assign(count)
                self._ignored.assign(self._ignored.numpy() | int(row["bits"]))
                return None
        name = "" if kind == "dropped" else self._sim.mjm.body(body).name or f"body {body}"
        return Event(kind, world, int(row["step"]), name, float(row["figure"]), float(row["limit"]), why)

    def _meaning(self, bits: int) -> str:
        """What `health` says of bits of `overflow`; "" if nothing was dropped."""
        if bits not in self._meanings:
            sim = self._sim
            kept = wp.clone(self._overflow)
            alone = np.zeros(kept.shape, dtype=np.int32)
            alone[0] = bits
            self._overflow.assign(alone)
            self._meanings[bits] = "; ".join(sim.physics.health(sim._m, sim.d).overflow)
            wp.copy(self._overflow, kept)
        return self._meanings[bits]

    def _written(self, event: Event, state: State) -> Event:
        sim = self._sim
        assert self.folder is not None
        worlds = [event.world - 1, event.world] if event.kind == "twins" else [event.world]
        first = self._step - len(self._since)  # steps before the state that is kept
        ctrl = np.stack([array.numpy()[worlds] for array in self._since[: event.step - first]])
        path = self.folder / (
            f"{sim.physics.name}-{event.kind.replace(' ', '-')}-world-{event.world}-step-{event.step}.npz"
        )
        sizes: dict[str, int] = {}
        if sim._growth is None and isinstance(sim.physics, GrowingPhysics):
            sizes = dict(zip(("nconmax", "njmax"), sim.physics.buffer_sizes(sim._m, sim.d), strict=True))
        stored = Stored(
            event=event,
            model=sim.mjm,
            physics=sim.physics.name,
            parameters=dataclasses.asdict(sim.physics) if dataclasses.is_dataclass(sim.physics) else {},  # type: ignore[arg-type]
            limits=dataclasses.asdict(self.limits),
            state=dataclasses.replace(state[worlds], model=digest(sim.mjm)),
            fields={name: self._rows(name, worlds) for name in sorted(sim._given)},
            ctrl=ctrl.astype(np.float32),
            kept={name: float(array.numpy()[event.world]) for name, array in self._base_kept.items()},
            sizes=sizes,
            device=sim.device.alias,
            versions=provenance.versions(),
        )
        return dataclasses.replace(event, file=stored.save(path))

    def _rows(self, name: str, worlds: list[int]) -> NDArray[Any]:
        """A field of the model in some worlds."""
        value = self._sim.physics.model_field(self._sim._m, name).numpy()
        return value[[world % len(value) for world in worlds]]

    def _continue(self, kept: dict[str, float]) -> None:
        """Put what was kept of a world back, for a replay; of all worlds alike."""
        for name, value in kept.items():
            self._arrays[name].fill_(int(value) if self._arrays[name].dtype is wp.int32 else value)
        wp.copy(self._arrays["time"], self._time)


def _needs(mjm: mujoco.MjModel) -> list[str]:
    """Forces that have to be known of a model."""
    springs = bool(mjm.jnt_stiffness.any() or mjm.tendon_stiffness.any())
    return ["qfrc_actuator"] * bool(mjm.nu) + ["qfrc_spring"] * springs
