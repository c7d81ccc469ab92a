"""Stock MuJoCo Warp: the reference that every other physics is held against."""

import copy
import dataclasses
from typing import ClassVar, final

import mujoco
import mujoco_warp as mjw

from stickslip import compilation, parameters
from stickslip.parameters import parameter
from stickslip.physics.base import Stage, StagedPhysics
from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.data import Data
from stickslip.physics.mjwarp.model import without_autoreset
from stickslip.physics.mjwarp.physics import WarpPhysics, naming_unsupported
from stickslip.physics.mjwarp.plan import PlanStage
from stickslip.physics.mjwarp.stages import compose
from stickslip.physics.mjwarp.unfit import unfit_features

_SLEEP = "tree_asleep tree_awake body_awake ntree_awake nbody_awake nv_awake body_awake_ind dof_awake_ind".split()
"""What sleeps: a step reads it, and `mujoco_warp.forward` wakes what touches."""


@final
@parameters.checked
@dataclasses.dataclass(frozen=True)
class MuJoCo(WarpPhysics[mjw.Model, Data], StagedPhysics[mjw.Model, Data]):
    """MuJoCo Warp unchanged: solver and options are those of the model.

    Against creep its users set `<option cone="elliptic" impratio="100"/>`; `anti_creep=True` does that.
    """

    name: ClassVar[str] = "mujoco"
    anti_creep: bool = parameter(False, "elliptic friction cone and impratio 100, as recommended against creep")

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> mjw.Model:
        private.sum_in_one_order()
        with naming_unsupported(self.name, unfit_features(mjm)):
            m = mjw.put_model(without_autoreset(self._own_options(mjm)))
        m.opt.warn_overflow = False  # health() says it, once and with the number to raise
        return m

    def _own_options(self, mjm: mujoco.MjModel) -> mujoco.MjModel:
        if not self.anti_creep:
            return mjm
        mjm = copy.copy(mjm)
        mjm.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        mjm.opt.impratio = 100.0
        return mjm

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> Data:
        return Data.extend(mjw.make_data(self._own_options(mjm), nworld=nworld, nconmax=nconmax, njmax=njmax), mjm)

    def advance(self, m: mjw.Model, d: Data) -> None:
        mjw.step(m, d)

    def observe(self, m: mjw.Model, d: Data) -> None:
        sleeps = m.opt.enableflags & mjw.EnableBit.SLEEP
        with compilation.unchanged({name: getattr(d, name) for name in _SLEEP} if sleeps else {}):
            mjw.forward(m, d)

    def stages(self, m: mjw.Model, d: Data) -> list[Stage]:
        if m.opt.integrator not in (mjw.IntegratorType.EULER, mjw.IntegratorType.IMPLICITFAST) or (
            m.opt.enableflags & mjw.EnableBit.SLEEP
        ):
            return [("step", lambda: mjw.step(m, d))]
        integrator = mjw.euler if m.opt.integrator == mjw.IntegratorType.EULER else mjw.implicit
        return compose(
            m,
            d,
            rows=lambda: mjw.make_constraint(m, d),
            acceleration=lambda: mjw.fwd_acceleration(m, d, factorize=True),
            solve=(PlanStage("contact", lambda: mjw.solve(m, d), ("smooth acceleration", "collision")),),
            integration=PlanStage("integration", lambda: integrator(m, d), ("force sensors",)),
        ).timed()
