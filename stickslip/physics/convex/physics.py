"""What the physics with a convex step share: parameters of contact, model, memory, health."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import CountingPhysics, Health
from stickslip.physics.convex import material
from stickslip.physics.convex.hydro.pairs import Room, room_of
from stickslip.physics.convex.hydro.report import sum_patches
from stickslip.physics.convex.step import model
from stickslip.physics.convex.step.data import Data, factor_overflow, limit_notes, patch_overflow, workspace_of
from stickslip.physics.convex.step.external import External
from stickslip.physics.mjwarp import sizes
from stickslip.physics.mjwarp.fields import Limits
from stickslip.physics.mjwarp.model import warn_unused
from stickslip.physics.mjwarp.physics import WarpPhysics, naming_unsupported
from stickslip.readout import Patches

LEAST_MARGIN, MOST_MARGIN = 1e-4, 1e-3
"""How far ahead of touch there are points of hydroelastic patches, m."""
PATCH_ROOM = 4
"""How many times the contacts of a model with points only one with patches has, about."""
_SHAPES = frozenset(("geom_size", "geom_dataid"))


@dataclasses.dataclass(frozen=True)
class ConvexPhysics(WarpPhysics[model.Model, Data], CountingPhysics[model.Model, Data], abc.ABC):
    """A physics whose steps are convex problems, with the parameters that all of them have."""

    name: ClassVar[str]
    stiffness: float | None = parameter(
        None,
        "stiffness of every contact geom [N/m]; None: the geom's or model's own, or from solref and mass",
        0.0,
        1e15,
        above=True,
        kind=float,
    )
    dissipation: float | None = parameter(
        None,
        "Hunt-Crossley dissipation of every contact geom [s/m]; None: the geom's or model's own, or from solref",
        0.0,
        1e6,
        kind=float,
    )
    hydroelastic: float | None = parameter(
        None,
        "hydroelastic modulus of every geom of a moving body [Pa]; None: the geom's or model's own, or point contact",
        0.0,
        1e15,
        above=True,
        kind=float,
    )
    stiction: float | None = parameter(
        None, "velocity below which contacts stick [m/s]; None: the model's, or 1e-6", 0.0, 1.0, above=True, kind=float
    )
    speculative_margin: float = parameter(
        0.005,
        "distance at which contacts are found before they touch, added to the model's gap [m]",
        0.0,
        1.0,
        was="ahead",
    )
    iterations: int = parameter(100, "most iterations of Newton's method in a solve", 1)
    passes: int = parameter(
        2, "solves per step, each with friction from the normal forces of the one before; the paper has 1", 1
    )
    external: External | None = parameter(None, "an external system coupled to the model", kind=object)

    def __post_init__(self) -> None:
        if self.external is not None and not isinstance(self.external, External):
            raise InputError(f"external is {self.external!r}: it must be a stickslip.External, or None")

    @abc.abstractmethod
    def look_ahead(self, mjm: mujoco.MjModel) -> float:
        """How far ahead of touch a step has to see hydroelastic patches, m."""

    def room(self, mjm: mujoco.MjModel) -> Room | None:
        """Pairs of geoms that can touch in patches; None: there are none."""
        return room_of(mjm, self.hydroelastic)

    def default_sizes(self, mjm: mujoco.MjModel) -> tuple[int | None, int | None]:
        usual, room = sizes.default_sizes(mjm), self.room(mjm)
        if room is None:
            return usual
        more = sizes.rounded(max(PATCH_ROOM, room.points / 4) * usual[0])
        return more, sizes.rounded(usual[1] + 3 * (more - usual[0]))

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> model.Model:
        if self.external is not None:
            self.external.check(mjm)
        with naming_unsupported(self.name, model.unsupported_features(mjm)):
            m = model.put_model(
                mjm,
                ahead=self.speculative_margin,
                stiction=self.stiction,
                stiffness=self.stiffness,
                dissipation=self.dissipation,
                hydroelastic=self.hydroelastic,
                patch_margin=min(self.speculative_margin, self.look_ahead(mjm), MOST_MARGIN),
                external=self.external.dofs if self.external else (),
            )
        warn_unused(mjm, f"{self.name} sticks without them", 3)
        m.opt.warn_overflow = False  # health() says it, once and with the number to raise
        return m

    def friction_dofs(self, m: model.Model) -> NDArray[np.integer]:
        return m.convex.friction_dofs

    def parameters_per_world(self, m: model.Model) -> Mapping[str, Any]:
        return material.owners(m.convex.material, m.convex.hydro)

    def limits(self, m: model.Model) -> Mapping[str, Limits]:
        return m.convex.limits

    def check_fields(self, m: model.Model, fields: Mapping[str, Any], nworld: int) -> Mapping[str, wp.array]:
        fixed = sorted(_SHAPES & fields.keys())
        if fixed and m.convex.hydro is not None:
            raise InputError(
                f"{', '.join(fixed)} cannot change with hydroelastic contact: the pressure fields are those of the "
                "model; build another simulation"
            )
        if material.HYDROELASTIC in fields and m.convex.hydro is None:
            raise InputError(
                f"{material.HYDROELASTIC}: no two geoms touch in patches; give one of them a hydroelastic modulus in "
                "the model, or the physics hydroelastic=..., and build another simulation"
            )
        return super().check_fields(m, fields, nworld)

    def results(self, m: model.Model, d: Data) -> Mapping[str, wp.array]:
        patches = workspace_of(d).problem.patches
        own = {f"patches.{name}": getattr(patches, name) for name in ("patch", "area")} if patches is not None else {}
        return {**super().results(m, d), **own}

    def patches(self, m: model.Model, d: Data) -> Patches:
        found = self.make_contacts(m, d)
        self.fill_contacts(m, d, found)
        return sum_patches(found, workspace_of(d).problem.patches)

    def health(self, m: model.Model, d: Data) -> Health:
        health, work = super().health(m, d), workspace_of(d)
        overflow = (*health.overflow, *patch_overflow(work), *factor_overflow(work))
        notes = (*health.notes, *limit_notes(work))
        return dataclasses.replace(health, overflow=overflow, notes=notes)
