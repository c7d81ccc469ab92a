"""The physics `ConeSweep`: contact that sticks, resolved pair by pair in a fixed number of sweeps."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, final

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip.errors import InputError
from stickslip.physics.base import Stage
from stickslip.physics.conesweep import model, pipeline
from stickslip.physics.conesweep.layout import Settings
from stickslip.physics.conesweep.rows import JOINT_FRICTION, TENDON_FRICTION
from stickslip.physics.rowfree import model as rowfree
from stickslip.physics.warp import Data, WarpPhysics, naming_unsupported
from stickslip.state import State

_LOSSES = {
    "dof_frictionloss": ("joint", int(JOINT_FRICTION)),
    "tendon_frictionloss": ("tendon", int(TENDON_FRICTION)),
}


@final
@dataclasses.dataclass(frozen=True)
class ConeSweep(WarpPhysics[model.Model]):
    """Rigid contact with friction that sticks: a fixed number of sweeps over pairs of bodies, forces carried over.

    Attributes:
        substeps: parts of a step; None: 6 up to a timestep of 3 ms, 16 above
        sweeps: sweeps over all pairs in a substep
        passes: passes over the contacts of a pair in a sweep; None: 4 up to a timestep of 3 ms, 8 above
        jump: most that a slow change is extrapolated, in changes of a sweep; at most 20 with joints; 0: not at all
        carry: whether forces are carried from step to step
        slop: depth that is left alone [m]; joints and tendons use the same number
        correction: share of the depth beyond it that a step takes out
        restitution: share of its approach that a contact bounces back with
        ahead: distance at which contacts are noticed before they touch, on top of the model's gap [m]
    """

    name: ClassVar[str] = "cone-sweep"
    substeps: int | None = None
    sweeps: int = 1
    passes: int | None = None
    jump: float = 200.0
    carry: bool = True
    slop: float = 5e-5
    correction: float = 0.25
    restitution: float = 0.0
    ahead: float = 0.001

    def __post_init__(self) -> None:
        for name, most in (("substeps", 1000), ("sweeps", 1000), ("passes", 1000)):
            value = getattr(self, name)
            if name != "sweeps" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise InputError(f"{name} is {value!r}: it must be a whole number from 1 to {most}")
        if not isinstance(self.carry, bool):
            raise InputError(f"carry is {self.carry!r}: it must be True or False")
        for name, most in (("jump", 1e4), ("slop", 1.0), ("correction", 1.0), ("restitution", 1.0), ("ahead", 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InputError(f"{name} is {value!r}: it must be a number from 0 to {most:g}")
            if not (math.isfinite(value) and 0.0 <= value <= most):
                raise InputError(f"{name} is {value}: it must be from 0 to {most:g}")

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> model.Model:
        parameters = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        m = put_model(mjm, stacklevel=4, **parameters)
        m.opt.warn_overflow = False  # health() says it, once and with the number to raise
        m.opt.run_qacc_smooth = False  # nothing here reads it: saves a solve where joints are damped
        return m

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> mjw.Data:
        return model.own_data(mjm, rowfree.make_data(mjm, nworld, njmax, nconmax=nconmax))

    def advance(self, m: model.Model, d: Data) -> None:
        pipeline.step(m, d)

    def stages(self, m: model.Model, d: Data) -> list[Stage]:
        return pipeline.stages(m, d)

    def arrays(self, m: model.Model, d: Data) -> Mapping[str, wp.array]:
        return {**super().arrays(m, d), **model.scratch_of(d).carried()}

    def set_state(self, m: model.Model, d: Data, state: State) -> Data:
        super().set_state(m, d, state)
        model.scratch_of(d).forget()
        return d

    def _reset(self, d: Data, mask: wp.array) -> Data:
        model.scratch_of(d).forget(mask)
        return super()._reset(d, mask)

    def set_model(self, m: model.Model, d: Data, fields: Mapping[str, Any]) -> model.Model:
        for name, (what, source) in _LOSSES.items():
            if name in fields:
                self._check_losses(m, name, what, source, fields[name])
        return super().set_model(m, d, fields)

    def _check_losses(self, m: model.Model, name: str, what: str, source: int, value: Any) -> None:
        """Dry friction has rows only where the model had some when it was made."""
        size = getattr(m, name).shape[-1]
        try:
            largest = np.asarray(value, dtype=float).reshape(-1, size).max(axis=0, initial=0.0)
        except (TypeError, ValueError):
            return  # unfit in other ways, which are told next
        having = [index for kind, index in m.sweep.source.numpy().tolist() if kind == source]
        without = np.setdiff1d(np.flatnonzero(largest > 0.0), having)
        if without.size:
            raise InputError(
                f"{name} of {what} {without[0]} is 0 in the model, so that it has no friction to set to "
                f"{largest[without[0]]:g}; give it a small positive frictionloss in the model"
            )


def put_model(
    mjm: mujoco.MjModel,
    batch_sizes: dict[str, int] | None = None,
    *,
    stacklevel: int = 3,
    substeps: int | None,
    passes: int | None,
    ahead: float,
    **parameters: float,
) -> model.Model:
    """The cone sweep's model; raises Unsupported naming what it cannot honour, warns of settings it has no use for."""
    settings = Settings()
    settings.substeps, settings.passes = substeps or 0, passes or 0
    for name, value in parameters.items():
        setattr(settings, name, value)
    with naming_unsupported("cone-sweep", rowfree.unsupported_features(mjm)):
        m = model.put_model(mjm, batch_sizes, settings, ahead)
    rowfree.warn_unused(mjm, "cone-sweep sticks without them", stacklevel)
    return m
