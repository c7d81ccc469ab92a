"""The physics `ComFree`: contact forces in closed form in the dual cone of friction."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, final

import mujoco

from stickslip import parameters
from stickslip.parameters import parameter
from stickslip.physics.base import Stage, StagedPhysics
from stickslip.physics.comfree import model, pipeline
from stickslip.physics.comfree.model import Data
from stickslip.physics.mjwarp.model import make_data, unsupported_features, warn_unused
from stickslip.physics.mjwarp.physics import WarpPhysics, naming_unsupported


@final
@parameters.checked
@dataclasses.dataclass(frozen=True)
class ComFree(WarpPhysics[model.Model, Data], StagedPhysics[model.Model, Data]):
    """Closed-form contact: one pass over the contacts, no solver, cost linear in contacts. It creeps."""

    name: ClassVar[str] = "comfree"
    rows_are_reported_only: ClassVar[bool] = Data.rows_are_reported_only
    records_peak: ClassVar[bool] = True
    stiffness: float | Sequence[float] = parameter(
        model.DEFAULT_STIFFNESS, "k_user of the paper; more is stiffer", 0.0, per_world=True
    )
    damping: float | Sequence[float] = parameter(
        model.DEFAULT_DAMPING, "d_user of the paper; more damps the approach more", 0.0, per_world=True
    )
    impedance: Literal["heuristic", "exact"] = parameter(
        "heuristic",
        "heuristic: equations (11)-(13); exact: the diagonal of (10) for every facet",
        choices=("heuristic", "exact"),
    )
    smoothing: float | None = parameter(
        None, "sharpness of the softplus that replaces max(0, .) [1/N]; None: max(0, .)", 0.0, above=True, kind=float
    )

    tangential: float | None = parameter(
        None,
        "gain of a contact along the surface, over that along its normal; None: the paper's facets, one gain for both",
        0.0,
        100.0,
        above=True,
        kind=float,
    )

    def __post_init__(self) -> None:
        for name in ("stiffness", "damping"):
            values = model.impedance_values(name, getattr(self, name))
            object.__setattr__(self, name, values[0] if len(values) == 1 else values)

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> model.Model:
        m = put_model(
            mjm,
            stiffness=self.stiffness,
            damping=self.damping,
            exact=self.impedance == "exact",
            smoothing=self.smoothing or 0.0,
            tangential=self.tangential,
        )
        m.opt.warn_overflow = False  # health() says it, once and with the number to raise
        m.opt.run_qacc_smooth = False  # nothing here reads it: saves a solve where joints are damped
        return m

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> Data:
        return Data.extend(make_data(mjm, nworld, njmax, nconmax=nconmax), mjm)

    def parameters_per_world(self, m: model.Model) -> Mapping[str, Any]:
        return dict.fromkeys(("stiffness", "damping"), m.comfree)

    def advance(self, m: model.Model, d: Data) -> None:
        pipeline.step(m, d)

    def stages(self, m: model.Model, d: Data) -> list[Stage]:
        return pipeline.plan(m, d).timed()


def put_model(
    mjm: mujoco.MjModel, batch_sizes: dict[str, int] | None = None, *, stacklevel: int = 4, **parameters: Any
) -> model.Model:
    """ComFree's model; raises Unsupported naming what it cannot honour, warns of settings it has no use for."""
    with naming_unsupported("comfree", unsupported_features(mjm)):
        m = model.put_model(mjm, batch_sizes, **parameters)
    warn_unused(mjm, "comfree has no solver", stacklevel)
    return m
