"""The physics `ConeSweep`: contact that sticks, resolved in a fixed number of sweeps."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, final

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip import parameters
from stickslip.parameters import parameter
from stickslip.physics.base import Stage, StagedPhysics
from stickslip.physics.conesweep import model, pipeline
from stickslip.physics.conesweep.layout import Settings
from stickslip.physics.conesweep.model import Data
from stickslip.physics.conesweep.workspace import lend_to_factor
from stickslip.physics.mjwarp import model as rowfree
from stickslip.physics.mjwarp.physics import WarpPhysics, naming_unsupported


@final
@parameters.checked
@dataclasses.dataclass(frozen=True)
class ConeSweep(WarpPhysics[model.Model, Data], StagedPhysics[model.Model, Data]):
    """Rigid contact with stick-slip friction: a fixed number of warm-started sweeps over all contacts."""

    name: ClassVar[str] = "cone-sweep"
    reads_weights: ClassVar[bool] = False
    rows_are_reported_only: ClassVar[bool] = Data.rows_are_reported_only
    records_peak: ClassVar[bool] = True
    substeps: int | None = parameter(
        None,
        "substeps of a step; None: 6 up to a timestep of 3 ms, 16 above; in contact space one per 0.5 ms, 6 to 16",
        1,
        1000,
        kind=int,
    )
    sweeps: int = parameter(1, "sweeps over all contacts in a substep", 1, 1000)
    passes: int | None = parameter(
        None,
        "passes over the contacts of a pair in a sweep, None: 4 up to a timestep of 3 ms, 8 above; in contact space, "
        "over all rows and contacts of a world, None: 2, or 4 where free bodies touch each other",
        1,
        1000,
        kind=int,
    )
    jump: float = parameter(
        200.0,
        "most that a slow change is extrapolated, in changes per sweep; at most 20 with joints; 0: none",
        0.0,
        1e4,
    )
    warm_start: bool = parameter(True, "start from the contact forces of the last step", was="carry")
    slop: float = parameter(5e-5, "depth that is not corrected [m]; joints and tendons use the same number", 0.0, 1.0)
    correction: float = parameter(0.25, "share of the depth beyond `slop` that a step removes", 0.0, 1.0)
    restitution: float = parameter(0.0, "rebound speed of a contact, as a share of its approach speed", 0.0, 1.0)
    speculative_margin: float = parameter(
        0.001,
        "distance at which contacts are found before they touch, added to the model's gap [m]",
        0.0,
        1.0,
        was="ahead",
    )
    deterministic: bool = parameter(
        False,
        "the same bits on a GPU whatever the number of worlds, from run to run too; on a CPU they always are",
    )

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> model.Model:
        m = put_model(self, mjm, stacklevel=4)
        m.opt.warn_overflow = False  # health() says it, once and with the number to raise
        m.opt.run_qacc_smooth = False  # nothing here reads it: saves a solve where joints are damped
        return m

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> Data:
        d = model.make_data(mjm, rowfree.make_data(mjm, nworld, njmax, nconmax=nconmax))
        lend_to_factor(d, d.workspace)
        return d

    def results(self, m: model.Model, d: Data) -> Mapping[str, wp.array]:
        return {name: array for name, array in super().results(m, d).items() if name != "qLD"}  # see `lend_to_factor`

    def advance(self, m: model.Model, d: Data) -> None:
        pipeline.step(m, d)

    def stages(self, m: model.Model, d: Data) -> list[Stage]:
        return pipeline.plan(m, d).timed()

    def friction_dofs(self, m: model.Model) -> NDArray[np.integer]:
        return m.sweep.friction_dofs


def put_model(
    physics: ConeSweep, mjm: mujoco.MjModel, batch_sizes: dict[str, int] | None = None, *, stacklevel: int = 3
) -> model.Model:
    """The cone sweep's model; raises Unsupported naming what it cannot honour, warns of settings without effect."""
    settings = Settings()
    settings.substeps = physics.substeps or 0
    settings.sweeps = physics.sweeps
    settings.passes = physics.passes or 0
    settings.jump = physics.jump
    settings.warm_start = physics.warm_start
    settings.slop = physics.slop
    settings.correction = physics.correction
    settings.restitution = physics.restitution
    features = rowfree.unsupported_features(mjm)
    if physics.deterministic and np.any(mjm.actuator_trntype == int(mujoco.mjtTrn.mjTRN_BODY)):
        features.append("adhesion actuators with deterministic=True (their pulls are summed by atomics; leave it out)")
    with naming_unsupported("cone-sweep", features):
        m = model.put_model(mjm, batch_sizes, settings, physics.speculative_margin, physics.deterministic)
    rowfree.warn_unused(mjm, "cone-sweep sticks without them", stacklevel)
    return m
