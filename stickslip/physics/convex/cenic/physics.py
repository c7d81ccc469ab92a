"""The physics `Cenic`: the convex step under error control. The accuracy is chosen, not the step."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, final

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip import compilation, parameters
from stickslip.errors import InputError
from stickslip.parameters import parameter
from stickslip.physics.base import Health, Stats
from stickslip.physics.convex.cenic import integrator
from stickslip.physics.convex.cenic.control import Bounds
from stickslip.physics.convex.cenic.data import own_data, workspace_of
from stickslip.physics.convex.cenic.integrator import Scheme
from stickslip.physics.convex.physics import LEAST_MARGIN, ConvexPhysics
from stickslip.physics.convex.step import model
from stickslip.physics.convex.step.data import Data


@final
@parameters.checked
@dataclasses.dataclass(frozen=True)
class Cenic(ConvexPhysics):
    """Convex steps whose size follows from the requested accuracy, independently per world.

    A step of the simulation lands exactly on the next multiple of the timestep, by as many steps as that takes.
    """

    name: ClassVar[str] = "cenic"
    capturable: ClassVar[bool] = False
    accuracy: float = parameter(
        1e-3, "largest position error per step [m, rad, or components of quaternions]", 0.0, 1.0, above=True
    )
    max_step: float = parameter(
        0.1, "longest step [s]; up to a tenth longer where that meets the end of a timestep", 0.0, 1.0, above=True
    )
    min_step: float = parameter(
        1e-9, "shortest step [s]; a world that needs a shorter one is given up", 0.0, 1.0, above=True
    )
    attempts: int = parameter(
        10_000, "most steps and rejections of a timestep; a world that needs more is given up", 1, 1_000_000_000
    )
    scheme: Scheme = parameter(
        "doubling",
        "doubling: two half steps against a whole one; trapezoid: second order in energy, and slower",
        choices=("doubling", "trapezoid"),
    )
    weights: Sequence[float] | None = parameter(
        None, "weight of each position's error, one per entry of qpos; None: all 1", 0.0, kind=float, several=True
    )
    reuse: bool = parameter(True, "use a factorization for two iterations where that is enough")
    trace: int = parameter(0, "accepted steps per world to record for `stats`", 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.weights, Iterable) and not isinstance(self.weights, str):
            object.__setattr__(self, "weights", tuple(self.weights))
        parameters.check(self)
        if self.min_step >= self.max_step:
            raise InputError(f"min_step is {self.min_step}: it must be below max_step, {self.max_step}")

    def put_model(self, mjm: mujoco.MjModel) -> model.Model:
        self._weights(mjm)
        return super().put_model(mjm)

    def _weights(self, mjm: mujoco.MjModel) -> NDArray[np.float64]:
        """The weight of each position in the error."""
        if self.weights is None:
            return np.ones(mjm.nq)
        if len(self.weights) != mjm.nq:
            raise InputError(
                f"weights has {len(self.weights)} numbers: the model has {mjm.nq} positions (nq); give one for each"
            )
        return np.asarray(self.weights, dtype=float)

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> Data:
        d = model.make_data(mjm, nworld, nconmax, njmax)
        weights = wp.array(self._weights(mjm), dtype=wp.float64)
        return own_data(mjm, d, nconmax, njmax, self.trace, weights, self.external, self.room(mjm))

    def look_ahead(self, mjm: mujoco.MjModel) -> float:
        return LEAST_MARGIN

    def _settings(self) -> integrator.Settings:
        bounds = Bounds()
        bounds.accuracy, bounds.longest, bounds.shortest = self.accuracy, self.max_step, self.min_step
        return integrator.Settings(bounds, self.scheme, self.iterations, self.reuse, self.passes, self.attempts)

    def advance(self, m: model.Model, d: Data) -> None:
        integrator.run(m, d, self._settings(), 1)

    def run(self, m: model.Model, d: Data, n: int) -> Data:
        if n:
            integrator.run(m, d, self._settings(), n)
        return d

    def observe(self, m: model.Model, d: Data) -> None:
        integrator.observe(m, d, self._settings())

    def compile(self, m: model.Model, d: Data) -> None:
        if not workspace_of(d).graphs:
            with compilation.unchanged(self.results(m, d)):
                integrator.compile_step(m, d, self._settings())

    def set_model(
        self,
        m: model.Model,
        d: Data,
        fields: Mapping[str, Any],
        mask: wp.array | None = None,
        refused: wp.array | None = None,
    ) -> model.Model:
        before = self.captured(m)
        m = super().set_model(m, d, fields, mask, refused)
        if self.captured(m) != before:
            workspace_of(d).graphs.clear()
        return m

    def results(self, m: model.Model, d: Data) -> Mapping[str, wp.array]:
        trace = workspace_of(d).trace
        own = {"trace.time": trace.time, "trace.dt": trace.dt} if self.trace else {}
        return {**super().results(m, d), **own}

    def stats(self, m: model.Model, d: Data) -> Stats:
        work = workspace_of(d)
        clock = work.clock
        count = clock.steps.numpy().copy()
        traces = []
        for world in range(d.nworld if self.trace else 0):
            last = np.arange(max(0, count[world] - self.trace), count[world]) % max(self.trace, 1)
            traces.append((work.trace.time.numpy()[world, last], work.trace.dt.numpy()[world, last]))
        return Stats(
            steps=count,
            rejections=clock.rejections.numpy().copy(),
            **work.counted(),
            smallest_dt=clock.least.numpy().copy(),
            dt=clock.next.numpy().copy(),
            trace=tuple(traces),
        )

    def health(self, m: model.Model, d: Data) -> Health:
        health = super().health(m, d)
        clock = workspace_of(d).clock
        failed, left = clock.failed.numpy(), clock.failed_at.numpy()
        time = d.time.numpy() + np.asarray(m.opt.timestep.numpy())[np.arange(d.nworld) % m.opt.timestep.shape[0]] - left
        broken = np.flatnonzero(failed)
        failures = tuple(
            f"world {w} stopped at time {time[w]:.6g} s at a step of {failed[w]:.3g} s: it cannot keep the accuracy of "
            f"{self.accuracy:g} (min_step {self.min_step:g} s, attempts={self.attempts} a timestep); "
            "ask for less accuracy, softer contact or more attempts, or check the state"
            for w in broken[:8]
        )
        return dataclasses.replace(health, failures=(*health.failures, *failures))
