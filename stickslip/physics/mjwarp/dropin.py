"""The functions of MuJoCo Warp that a row-free physics replaces, with MuJoCo Warp's own parameters.

A drop-in module takes all names of `mujoco_warp`, makes one `DropIn` and gives its methods MuJoCo Warp's names.
"""

import dataclasses
from collections.abc import Callable
from typing import Generic, NoReturn, Protocol, TypeVar, final

import mujoco
import mujoco_warp as mjw
import warp as wp

from stickslip.errors import Unsupported
from stickslip.physics.mjwarp import adhesion, host, model, pipeline, stages
from stickslip.physics.mjwarp.data import Data, record_peak
from stickslip.physics.mjwarp.model import ModelT
from stickslip.physics.mjwarp.pipeline import Prediction
from stickslip.physics.mjwarp.plan import StepPlan, make_streams

_M = TypeVar("_M", bound=model.Model, contravariant=True)
_D = TypeVar("_D", bound=mjw.Data, contravariant=True)
DataT = TypeVar("DataT", bound=Data)


class Pipeline(Protocol[_M, _D]):
    """What the module `pipeline` of a row-free physics has to hold."""

    def check_options(self, m: _M) -> None:
        """Raise Unsupported for options that the physics cannot honour."""

    def make_rows(self, m: _M, d: _D) -> None:
        """Clear the rows, and write those that sensors read before the solve."""

    def solve(self, m: _M, d: _D) -> Prediction:
        """Constraint forces and qacc."""
        ...

    def integrate(self, m: _M, d: _D, prediction: Prediction) -> None:
        """Advance the state by what `solve` found."""

    def plan(self, m: _M, d: _D) -> StepPlan:
        """The stages of a step; the last one advances the state."""
        ...

    def step(self, m: _M, d: _D) -> None:
        """Advance every world by its timestep."""


@final
@dataclasses.dataclass(frozen=True)
class DropIn(Generic[ModelT, DataT]):
    """One row-free physics behind MuJoCo Warp's names.

    Attributes:
        name: of the physics, for messages
        pipeline: its module of that name
        extend: makes the physics' data from MuJoCo Warp's, which has no Jacobian by then
        velocity: what moved the positions in the last step
    """

    name: str
    pipeline: Pipeline[ModelT, DataT]
    extend: Callable[[mujoco.MjModel, mjw.Data], DataT]
    velocity: Callable[[DataT], wp.array] = lambda d: d.qvel

    def make_data(
        self,
        mjm: mujoco.MjModel,
        nworld: int = 1,
        nconmax: int | None = None,
        nccdmax: int | None = None,
        njmax: int | None = None,
        njmax_nnz: int | None = None,
        naconmax: int | None = None,
        naccdmax: int | None = None,
        nvmax: int | None = None,
    ) -> DataT:
        """Creates a data object on device; it holds no constraint Jacobian."""
        d = model.make_data(
            mjm,
            nworld,
            njmax,
            nconmax=nconmax,
            nccdmax=nccdmax,
            njmax_nnz=njmax_nnz,
            naconmax=naconmax,
            naccdmax=naccdmax,
            nvmax=nvmax,
        )
        return self._own(mjm, d)

    def put_data(
        self,
        mjm: mujoco.MjModel,
        mjd: mujoco.MjData,
        nworld: int = 1,
        nconmax: int | None = None,
        nccdmax: int | None = None,
        njmax: int | None = None,
        njmax_nnz: int | None = None,
        naconmax: int | None = None,
        naccdmax: int | None = None,
        nvmax: int | None = None,
    ) -> DataT:
        """Moves data from host to a device; it holds no constraint Jacobian."""
        sizes = (nworld, nconmax, nccdmax, njmax, njmax_nnz, naconmax, naccdmax, nvmax)
        return self._own(mjm, model.without_jacobian(mjm, mjw.put_data(mjm, mjd, *sizes)))

    def _own(self, mjm: mujoco.MjModel, d: mjw.Data) -> DataT:
        make_streams(d.qpos.device, stages.SIDE_STREAMS)  # the first step may be one that is captured
        return self.extend(mjm, d)

    def get_data_into(self, result: mujoco.MjData, mjm: mujoco.MjModel, d: DataT, world_id: int = 0) -> None:
        """Gets data from a device into an existing mujoco.MjData; forms the Jacobian rows of that world."""
        host.get_data_into(result, mjm, d, world_id, self.velocity(d))

    def make_constraint(self, m: ModelT, d: DataT) -> None:
        """Clears the rows: they are made in `solve`, with their forces; only limits that sensors read come now."""
        self.pipeline.make_rows(m, d)

    def fwd_position(self, m: ModelT, d: DataT, factorize: bool = True) -> None:
        """Position-dependent computations."""
        pipeline.fwd_position(m, d, factorize, self.pipeline.make_rows)

    def transmission(self, m: ModelT, d: DataT) -> None:
        """Computes actuator/transmission lengths and moments."""
        adhesion.transmission(m, d)

    def fwd_acceleration(self, m: ModelT, d: DataT, factorize: bool = False) -> None:
        """Add up all non-constraint forces, compute qacc_smooth."""
        pipeline.fwd_acceleration(m, d, factorize)

    def solve(self, m: ModelT, d: DataT) -> None:
        """Finds constraint forces."""
        self.pipeline.check_options(m)
        self.pipeline.solve(m, d)

    def forward(self, m: ModelT, d: DataT) -> None:
        """Forward dynamics."""
        for stage in self.pipeline.plan(m, d).stages[:-1]:
            stage.run()
        if isinstance(d, Data):  # data of MuJoCo Warp's own has no record for `health`
            record_peak(d)

    def step(self, m: ModelT, d: DataT) -> None:
        """Advance simulation."""
        self.pipeline.step(m, d)

    def step1(self, m: ModelT, d: DataT) -> None:
        """Advance simulation in two phases: before input is set by user."""
        self.pipeline.check_options(m)
        self.fwd_position(m, d)
        stages.sense_position(m, d)
        mjw.fwd_velocity(m, d)
        stages.sense_velocity(m, d)
        stages.control(m, d)

    def step2(self, m: ModelT, d: DataT) -> None:
        """Advance simulation in two phases: after input is set by user."""
        mjw.fwd_actuation(m, d)
        self.fwd_acceleration(m, d)
        prediction = self.pipeline.solve(m, d)
        stages.sense_touches(m, d)
        stages.sense_force(m, d)
        self.pipeline.integrate(m, d, prediction)

    def implicit(self, m: ModelT, d: DataT) -> None:
        """Integrates implicitly in velocity; the data has no room for the factors of the integrator `implicit`."""
        self.pipeline.check_options(m)
        mjw.implicit(m, d)

    def rungekutta4(self, m: ModelT, d: DataT) -> NoReturn:
        """Not available: it would use MuJoCo's solver at each of its four stages."""
        raise Unsupported(f"{self.name} does not support rungekutta4: use euler or implicit (implicitfast)")

    def discrete(self, m: ModelT, d: DataT) -> NoReturn:
        """Not available: its effective metric belongs to MuJoCo's solver."""
        raise Unsupported(f"{self.name} does not support the discrete integrator: use euler or implicit (implicitfast)")

    def inverse(self, m: ModelT, d: DataT) -> NoReturn:
        """Not available: it inverts MuJoCo's contact model."""
        raise Unsupported(
            f"{self.name} does not support inverse: it inverts MuJoCo's contact model; call mujoco_warp.inverse"
        )

    def island(self, m: ModelT, d: DataT) -> NoReturn:
        """Not available: islands are found from contact rows, which are not formed."""
        raise Unsupported(f"{self.name} does not support island: it forms no contact rows; call mujoco_warp.island")
