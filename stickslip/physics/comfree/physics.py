"""The physics `ComFree`: contact forces in closed form in the dual cone of friction."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, final

import mujoco
import mujoco_warp as mjw

from stickslip.errors import InputError
from stickslip.physics.base import Stage
from stickslip.physics.comfree import model, pipeline
from stickslip.physics.rowfree.model import make_data, unsupported_features, warn_unused
from stickslip.physics.warp import Data, WarpPhysics, naming_unsupported


@final
@dataclasses.dataclass(frozen=True)
class ComFree(WarpPhysics[model.Model]):
    """Closed-form contact: one pass over the contacts, no solver, cost linear in contacts. It creeps.

    Attributes:
        stiffness: k_user, one number or one a world (`value[world % len]`)
        damping: d_user, likewise
        impedance: "heuristic", equations (11)-(13), or "exact", the diagonal of (10) for every facet
        smoothing: sharpness of a softplus in the place of max(0, .), in 1/N; None for the hard form
    """

    name: ClassVar[str] = "comfree"
    stiffness: float | Sequence[float] = model.DEFAULT_STIFFNESS
    damping: float | Sequence[float] = model.DEFAULT_DAMPING
    impedance: Literal["heuristic", "exact"] = "heuristic"
    smoothing: float | None = None

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            values = model.impedance_values(name, getattr(self, name))
            object.__setattr__(self, name, values[0] if len(values) == 1 else values)
        if self.impedance not in ("heuristic", "exact"):
            raise InputError(f"impedance is {self.impedance!r}: use 'heuristic' or 'exact'")
        if self.smoothing is not None and not (math.isfinite(self.smoothing) and self.smoothing > 0):
            raise InputError(f"smoothing is {self.smoothing}: it must be positive (1/N), or None for the hard form")

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> model.Model:
        m = put_model(
            mjm,
            stiffness=self.stiffness,
            damping=self.damping,
            exact=self.impedance == "exact",
            smoothing=self.smoothing or 0.0,
        )
        m.opt.warn_overflow = False  # health() says it, once and with the number to raise
        m.opt.run_qacc_smooth = False  # nothing here reads it: saves a solve where joints are damped
        return m

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> mjw.Data:
        return make_data(mjm, nworld, njmax, nconmax=nconmax)

    def advance(self, m: model.Model, d: Data) -> None:
        pipeline.step(m, d)

    def stages(self, m: model.Model, d: Data) -> list[Stage]:
        return pipeline.stages(m, d)


def put_model(
    mjm: mujoco.MjModel, batch_sizes: dict[str, int] | None = None, *, stacklevel: int = 4, **parameters: Any
) -> model.Model:
    """ComFree's model; raises Unsupported naming what it cannot honour, warns of settings it has no use for."""
    with naming_unsupported("comfree", unsupported_features(mjm)):
        m = model.put_model(mjm, batch_sizes, **parameters)
    warn_unused(mjm, "comfree has no solver", stacklevel)
    return m
