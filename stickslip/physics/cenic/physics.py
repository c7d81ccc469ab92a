"""The physics `Cenic`: the convex step under error control. The accuracy is chosen, not the step."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, final

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.base import Health, Stage, Stats
from stickslip.physics.cenic import integrator
from stickslip.physics.cenic.control import Bounds
from stickslip.physics.cenic.data import own_data, room_of
from stickslip.physics.cenic.integrator import Scheme
from stickslip.physics.convex import model
from stickslip.physics.convex.external import External
from stickslip.physics.convex.physics import ConvexPhysics
from stickslip.physics.settings import check_count, check_number
from stickslip.physics.warp import Data


@final
@dataclasses.dataclass(frozen=True)
class Cenic(ConvexPhysics):
    """Convex steps whose size follows from the accuracy asked for; every world takes its own.

    A step of the simulation lands exactly on the next multiple of the timestep, by as many steps as that takes.

    Attributes:
        accuracy: error of positions that a step may have [m, rad, components of quaternions]
        max_step: longest step [s]; up to a tenth longer where that meets the end of a timestep
        min_step: a world whose error asks for less is given up [s]
        scheme: "doubling", two half steps against a whole one, or "trapezoid", second order in energy and slower
        weights: of the error of each position, one for each of qpos; None: all 1
        stiffness: of every contact geom [N/m]; None: a geom's own, the model's, or what follows from solref and mass
        dissipation: Hunt and Crossley's, of every geom [s/m]; None: likewise
        stiction: velocity below which contacts stick [m/s]; None: the model's, or 1e-6
        ahead: distance at which contacts are noticed before they touch, on top of the model's gap [m]
        iterations: most of Newton's method in a solve
        reuse: whether a factor may serve two iterations, where that is enough
        passes: solves of a step, each with friction by the normal forces of the one before; the paper has 1
        trace: accepted steps of each world to remember for `stats`
        external: a system of your own that acts on the model
    """

    name: ClassVar[str] = "cenic"
    capturable: ClassVar[bool] = False
    accuracy: float = 1e-3
    max_step: float = 0.1
    min_step: float = 1e-9
    scheme: Scheme = "doubling"
    weights: Sequence[float] | None = None
    stiffness: float | None = None
    dissipation: float | None = None
    stiction: float | None = None
    ahead: float = 0.005
    iterations: int = 100
    reuse: bool = True
    passes: int = 2
    trace: int = 0
    external: External | None = None

    def __post_init__(self) -> None:
        check_number("accuracy", self.accuracy, 0.0, 1.0)
        check_number("max_step", self.max_step, 0.0, 1.0)
        check_number("min_step", self.min_step, 0.0, 1.0)
        if self.min_step >= self.max_step:
            raise InputError(f"min_step is {self.min_step}: it must be below max_step, {self.max_step}")
        if self.scheme not in ("doubling", "trapezoid"):
            raise InputError(f"scheme is {self.scheme!r}: use 'doubling' or 'trapezoid'")
        self.check_shared()
        check_count("trace", self.trace, 0)
        if not isinstance(self.reuse, bool):
            raise InputError(f"reuse is {self.reuse!r}: it must be True or False")
        if self.weights is not None:
            if not isinstance(self.weights, Iterable) or isinstance(self.weights, str):
                raise InputError(f"weights is {self.weights!r}: give one number for each of qpos, or None")
            object.__setattr__(self, "weights", tuple(self.weights))
            for i, weight in enumerate(self.weights):
                if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0.0 <= weight < float("inf"):
                    raise InputError(f"weights[{i}] is {weight!r}: it must be a number, at least 0")

    def put_model(self, mjm: mujoco.MjModel) -> model.Model:
        self._weights(mjm)
        return super().put_model(mjm)

    def _weights(self, mjm: mujoco.MjModel) -> NDArray[np.float64]:
        """The weight of each position in the error."""
        if self.weights is None:
            return np.ones(mjm.nq)
        if len(self.weights) != mjm.nq:
            raise InputError(f"weights has {len(self.weights)} numbers: the model has {mjm.nq} positions (nq)")
        return np.asarray(self.weights, dtype=float)

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> mjw.Data:
        d = model.make_data(mjm, nworld, nconmax, njmax)
        weights = wp.array(self._weights(mjm), dtype=wp.float64)
        return own_data(mjm, d, nconmax, njmax, self.trace, weights, self.external)

    def _settings(self) -> integrator.Settings:
        bounds = Bounds()
        bounds.accuracy, bounds.longest, bounds.shortest = self.accuracy, self.max_step, self.min_step
        return integrator.Settings(bounds, self.scheme, self.iterations, self.reuse, self.passes)

    def advance(self, m: model.Model, d: Data) -> None:
        integrator.run(m, d, self._settings(), 1)

    def run(self, m: model.Model, d: Data, n: int) -> Data:
        if n:
            integrator.run(m, d, self._settings(), n)
        return d

    def compile(self, m: model.Model, d: Data) -> None:
        integrator.compile_step(m, d, self._settings())

    def stages(self, m: model.Model, d: Data) -> list[Stage]:
        return [("step", lambda: self.advance(m, d))]

    def set_model(self, m: model.Model, d: Data, fields: Mapping[str, Any]) -> model.Model:
        room_of(d).graphs.clear()
        return super().set_model(m, d, fields)

    def stats(self, m: model.Model, d: Data) -> Stats:
        room = room_of(d)
        clock = room.clock
        count = clock.steps.numpy().copy()
        traces = []
        for world in range(d.nworld if self.trace else 0):
            last = np.arange(max(0, count[world] - self.trace), count[world]) % max(self.trace, 1)
            traces.append((room.trace.time.numpy()[world, last], room.trace.dt.numpy()[world, last]))
        return Stats(
            steps=count,
            rejections=clock.rejections.numpy().copy(),
            **room.counted(),
            smallest_dt=clock.least.numpy().copy(),
            dt=clock.next.numpy().copy(),
            trace=tuple(traces),
        )

    def health(self, m: model.Model, d: Data) -> Health:
        health = super().health(m, d)
        clock = room_of(d).clock
        failed, left = clock.failed.numpy(), clock.failed_at.numpy()
        time = d.time.numpy() + np.asarray(m.opt.timestep.numpy())[np.arange(d.nworld) % m.opt.timestep.shape[0]] - left
        broken = np.flatnonzero(failed)
        told = tuple(
            f"world {w} stopped at time {time[w]:.6g} s at a step of {failed[w]:.3g} s: it cannot keep the accuracy of "
            f"{self.accuracy:g} (min_step {self.min_step:g} s, at most {integrator.ATTEMPTS} steps a timestep); "
            "ask for less accuracy, softer contact, or check the state"
            for w in broken[:8]
        )
        return dataclasses.replace(health, failures=(*health.failures, *told))
