"""What the physics with a convex step share: parameters of contact, model, memory, health."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import mujoco
import warp as wp

from stickslip.errors import InputError
from stickslip.physics.base import CountingPhysics, Health
from stickslip.physics.convex import model
from stickslip.physics.convex.data import factor_overflow, limit_notes, room_of
from stickslip.physics.convex.external import External
from stickslip.physics.rowfree.model import warn_unused
from stickslip.physics.settings import check_count, check_number
from stickslip.physics.warp import Data, WarpPhysics, naming_unsupported
from stickslip.state import State


class ConvexPhysics(WarpPhysics[model.Model], CountingPhysics[model.Model, Data], abc.ABC):
    """A physics whose steps are convex problems; the fields here are those that every one of them has."""

    name: ClassVar[str]
    stiffness: float | None
    dissipation: float | None
    stiction: float | None
    ahead: float
    iterations: int
    passes: int
    external: External | None

    def check_shared(self) -> None:
        """Raise InputError unless the fields that all have are fit."""
        check_number("stiffness", self.stiffness, 0.0, 1e15, optional=True)
        check_number("dissipation", self.dissipation, 0.0, 1e6, optional=True, included=True)
        check_number("stiction", self.stiction, 0.0, 1.0, optional=True)
        check_number("ahead", self.ahead, 0.0, 1.0, included=True)
        check_count("iterations", self.iterations, 1)
        check_count("passes", self.passes, 1)
        if self.external is not None and not isinstance(self.external, External):
            raise InputError(f"external is {self.external!r}: it must be a stickslip.External, or None")

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> model.Model:
        if self.external is not None:
            self.external.check(mjm)
        with naming_unsupported(self.name, model.unsupported_features(mjm)):
            m = model.put_model(
                mjm,
                ahead=self.ahead,
                stiction=self.stiction,
                stiffness=self.stiffness,
                dissipation=self.dissipation,
                external=self.external.dofs if self.external else (),
            )
        warn_unused(mjm, f"{self.name} sticks without them", 3)
        m.opt.warn_overflow = False  # health() says it, once and with the number to raise
        return m

    def arrays(self, m: model.Model, d: Data) -> Mapping[str, wp.array]:
        return {**super().arrays(m, d), **room_of(d).carried()}

    def set_state(self, m: model.Model, d: Data, state: State) -> Data:
        super().set_state(m, d, state)
        room_of(d).forget(wp.ones(d.nworld, dtype=bool))
        return d

    def _reset(self, d: Data, mask: wp.array) -> Data:
        room_of(d).forget(mask)
        return super()._reset(d, mask)

    def health(self, m: model.Model, d: Data) -> Health:
        health, room = super().health(m, d), room_of(d)
        overflow, notes = (*health.overflow, *factor_overflow(room)), (*health.notes, *limit_notes(room))
        return dataclasses.replace(health, overflow=overflow, notes=notes)
