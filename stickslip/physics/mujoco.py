"""Stock MuJoCo Warp: the reference that every other physics is held against."""

import copy
import dataclasses
from typing import ClassVar, final

import mujoco
import mujoco_warp as mjw

from stickslip.errors import InputError
from stickslip.physics.base import Stage
from stickslip.physics.stages import compose
from stickslip.physics.warp import Data, WarpPhysics, naming_unsupported


@final
@dataclasses.dataclass(frozen=True)
class MuJoCo(WarpPhysics[mjw.Model]):
    """MuJoCo Warp as it is: its solver, its options, all taken from the model.

    Against creep its users set `<option cone="elliptic" impratio="100"/>`; `anti_creep=True` does that.
    """

    name: ClassVar[str] = "mujoco"
    anti_creep: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.anti_creep, bool):
            raise InputError(f"anti_creep is {self.anti_creep!r}: it must be True or False")

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> mjw.Model:
        with naming_unsupported(self.name, []):
            m = mjw.put_model(self._own_options(mjm))
        m.opt.warn_overflow = False  # health() says it, once and with the number to raise
        return m

    def _own_options(self, mjm: mujoco.MjModel) -> mujoco.MjModel:
        if not self.anti_creep:
            return mjm
        mjm = copy.copy(mjm)
        mjm.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        mjm.opt.impratio = 100.0
        return mjm

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> mjw.Data:
        return mjw.make_data(self._own_options(mjm), nworld=nworld, nconmax=nconmax, njmax=njmax)

    def advance(self, m: mjw.Model, d: Data) -> None:
        mjw.step(m, d)

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
            solve=[("contact", lambda: mjw.solve(m, d))],
            integration=lambda: integrator(m, d),
        )
