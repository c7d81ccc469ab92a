"""Steps an event again from its file, and says whether it comes again."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from stickslip import parameters
from stickslip.errors import InputError
from stickslip.physics.base import Physics
from stickslip.simulation.watching.event import Event, load
from stickslip.simulation.watching.limits import Limits


@dataclasses.dataclass(frozen=True)
class Replayed:
    """What came of an event that was stepped again.

    Attributes:
        event: the event as it is stored
        found: the event as it came again, at the same step in the same body; None if it did not
        steps: that were taken
        others: other events on the way
        physics, device: that it was stepped with
        versions: packages that have another version now: (then, now) by name
    """

    event: Event
    found: Event | None
    steps: int
    others: tuple[Event, ...]
    physics: str
    device: str
    versions: dict[str, tuple[str, str]]

    @property
    def same(self) -> bool:
        """Whether it came again with the same figure, bit for bit."""
        return self.found is not None and np.array_equal(self.found.figure, self.event.figure, equal_nan=True)


def replay(path: str | os.PathLike[str], *, device: str | None = None, physics: Any = None) -> Replayed:
    """Step an event again.

    Args:
        path: the file that a watch has written
        device: where; None: the device that it happened on, or the CPU if there is none such
        physics: another physics; None: that of the event
    """
    import warp as wp

    from stickslip.provenance import versions
    from stickslip.simulation import worlds
    from stickslip.simulation.simulation import Simulation, resolve_device

    stored = load(path)
    if device is None:
        device = stored.device if stored.device in [d.alias for d in wp.get_devices()] else "cpu"
    chosen: Physics[Any, Any] = physics if physics is not None else _physics(stored.physics, stored.parameters, path)
    own = physics is None
    nworld = stored.state.nworld
    sim = Simulation(stored.model, chosen, nworld=nworld, device=device, **(dict(stored.sizes) if own else {}))
    if stored.fields:
        sim.set_model(**{name: value if len(value) == nworld else value[0] for name, value in stored.fields.items()})
    state = stored.state if own else stored.state.without_memory()
    worlds.check_structure(sim, state)
    with sim._on_device():
        sim.d = chosen.set_state(sim._m, sim.d, state)  # not sim.state: a state that is not finite is replayed too
    limits = Limits(**{**stored.limits, "twins": stored.limits["twins"] if nworld > 1 else None})
    event, first = stored.event, stored.event.step - len(stored.ctrl)
    with sim.watch(limits=limits) as watch:
        watch._continue(dict(stored.kept))
        for ctrl in stored.ctrl:
            sim.ctrl.assign(ctrl.reshape(sim.ctrl.shape))
            sim.step()
        events = [dataclasses.replace(e, step=e.step + first) for e in watch.events]
    world = nworld - 1  # of twins, the second one
    again = [e for e in events if (e.kind, e.step, e.world) == (event.kind, event.step, world) and e.body == event.body]
    now = versions()
    return Replayed(
        event=event,
        found=again[0] if again else None,
        steps=len(stored.ctrl),
        others=tuple(e for e in events if e not in again),
        physics=chosen.name,
        device=resolve_device(device).alias,
        versions={name: (was, now.get(name, "none")) for name, was in stored.versions.items() if now.get(name) != was},
    )


def _physics(name: str, given: Any, path: str | os.PathLike[str]) -> Physics[Any, Any]:
    """The physics of an event."""
    from stickslip.physics.registry import PHYSICS

    if name not in PHYSICS:
        raise InputError(
            f"{str(Path(path))!r} was found with the physics {name!r}, which is not registered here: install its "
            "package, or name another physics"
        )
    kind = PHYSICS[name]
    read = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return kind(**parameters.values(kind, read, name))
