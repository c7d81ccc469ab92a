"""Candidates as worlds: all of them at once through all trials, and how far they are from the measurements."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import HealthWarning, InputError
from stickslip.identification import measure
from stickslip.identification.measure import Measure
from stickslip.identification.parameter import Fields, Parameter
from stickslip.identification.parameters import Delay
from stickslip.identification.trial import Trial
from stickslip.physics.base import Physics
from stickslip.simulation import Simulation

LOST = 1e4
"""What a measurement is off by, over its noise, in a world that is not finite."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Samples:
    """The measurements of a trial that count; one row for each time, one column for each channel.

    Attributes:
        time: s                                   (n,)
        measured, noise: as in the trial          (n, ny)
        used: which were measured                 (n, ny)
    """

    time: NDArray[np.floating]
    measured: NDArray[np.floating]
    noise: NDArray[np.floating]
    used: NDArray[np.bool_]


class Rollouts:
    """Simulates candidates, a row of parameter values each, through every trial.

    Args:
        mjm: the model
        physics: the contact physics
        trials: what was measured; all with the same channels, unless `what` is given
        parameters: what the columns of candidates are
        what: what is measured, as names of channels or a `Measure`; None: the channels of the trials
        nworld: worlds at a time, rounded to whole candidates
        device: where
        threads: that share the worlds, on a CPU
    """

    def __init__(
        self,
        mjm: mujoco.MjModel,
        physics: Physics[Any, Any],
        trials: Sequence[Trial],
        parameters: Sequence[Parameter],
        what: Measure | Sequence[str] | str | None,
        nworld: int,
        device: str | None,
        threads: int = 1,
    ) -> None:
        self.mjm, self.trials, self.parameters = mjm, tuple(trials), tuple(parameters)
        self.measure = what if isinstance(what, Measure) else measure.find(mjm, _channels(trials, what))
        self.candidates = max(1, nworld // len(trials))
        self.sim = Simulation(mjm, physics, nworld=self.candidates * len(trials), device=device, threads=threads)
        self.count = self.lost = 0
        self._steps = 2 + max(int(np.ceil(trial.duration / mjm.opt.timestep)) for trial in trials)
        self._start = _starts(mjm, trials)
        self._ctrl = np.stack([_held(mjm, trial, self._steps) for trial in trials])
        self._given: wp.array | None = None
        self._fields: dict[str, NDArray[Any]] = {}
        starts = {name: np.tile(part, (self.candidates, 1)) for name, part in self._start.items()}
        self._state = dataclasses.replace(self.sim.get_state().without_memory(), **starts)
        self._samples = [
            _Samples(trial.time, trial.measured, trial.noise, np.isfinite(trial.noise)) for trial in trials
        ]
        for parameter in parameters:
            parameter.check(mjm)
        self._write(np.array([[0.5 * (p.low + p.high) for p in parameters]]))  # says now what cannot be written

    @property
    def nresidual(self) -> int:
        """Number of measurements over all trials."""
        return sum(int(samples.used.sum()) for samples in self._samples)

    def residuals(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """What measurements are off by, over their noise, for candidates (n, nparameter): (n, nresidual)."""
        out = []
        for first in range(0, len(values), self.candidates):
            part = values[first : first + self.candidates]
            found = self._compare(self._simulate(part), part)
            out.append(found[: len(part)])
        return np.concatenate(out)

    def predict(self, values: NDArray[np.floating]) -> list[NDArray[np.floating]]:
        """What one candidate, (nparameter,), would measure in each trial: (n, ny) each."""
        row = values[None]
        found = self._simulate(row)
        return [self._at(found[:, k], samples.time, row)[0] for k, samples in enumerate(self._samples)]

    def _simulate(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """What candidates measure after each timestep and at the start, (candidates, ntrial, steps, ny)."""
        ntrial, sim = len(self.trials), self.sim
        self._write(values)
        sim.reset()
        sim.set_state(self._state)
        begin = self._begin()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HealthWarning)  # a candidate may be beyond what the physics can do
            run = sim.rollout(self._controls(values), outputs=self.measure.outputs, advance=True)
        outputs = {}
        for name, array in run.outputs.items():  # those of the end of a step move on, behind the start
            outputs[name] = np.concatenate([begin[name], array[:, :-1]], axis=1) if name in begin else array
        found = np.asarray(self.measure.function(outputs), dtype=float)
        if found.ndim != 3 or found.shape[:2] != (sim.nworld, self._steps):
            raise InputError(
                f"what is measured has shape {found.shape}, expected ({sim.nworld}, {self._steps}, ny): a row for each "
                "world and moment"
            )
        for trial in self.trials:
            if trial.measured.shape[1] != found.shape[2]:
                raise InputError(
                    f"measured of {trial.name} has {trial.measured.shape[1]} columns, "
                    f"its channels have {found.shape[2]}"
                )
        self.count += len(values) * ntrial
        return found.reshape(self.candidates, ntrial, self._steps, -1)

    def _begin(self) -> dict[str, NDArray[Any]]:
        """Outputs that a step leaves at its end, as they are at the start, (nworld, 1, ...)."""
        names = ["time", *self.measure.outputs]
        if self.sim.physics.promises.poses_only:
            self.sim.forward()
        else:
            names = [name for name in names if name in measure.STATE]
        return {name: self.sim.find_field(name).numpy()[:, None].copy() for name in names}

    def _write(self, values: NDArray[np.floating]) -> None:
        """Write candidates into their worlds; if there are fewer than worlds, the last one is repeated."""
        rows = np.minimum(np.arange(self.candidates), len(values) - 1)
        per_world = np.repeat(values[rows], len(self.trials), axis=0)
        sim = self.sim
        fields = Fields(self.mjm, self._nominal, sim.nworld)
        for k, parameter in enumerate(self.parameters):
            parameter.write(fields, per_world[:, k])
        if fields.arrays:
            sim.set_model(**fields.arrays)

    def _nominal(self, name: str) -> NDArray[Any]:
        """A field of the model as it is without candidates, (1, ...)."""
        if name not in self._fields:
            self._fields[name] = self.sim.physics.model_field(self.sim.m, name).numpy()[:1].copy()
        return self._fields[name]

    def _controls(self, values: NDArray[np.floating]) -> Any:
        """Controls of every world and step; a step takes the mean of what a delayed control would be in it."""
        delay = self._delay("controls", values)
        if not self._ctrl.shape[2]:
            return self._steps
        if delay is None:
            if self._given is None:
                every = np.tile(self._ctrl, (self.candidates, 1, 1)).astype(np.float32)
                self._given = wp.array(every, dtype=float, device=self.sim.device)
            return self._given
        steps = delay / self.mjm.opt.timestep
        whole = np.floor(steps).astype(int)
        moments: NDArray[np.integer] = np.arange(self._steps)[None] - np.reshape(whole, (-1, 1))
        after: NDArray[np.integer] = np.maximum(moments, 0)
        before: NDArray[np.integer] = np.maximum(moments - 1, 0)
        share = np.asarray(steps - whole)[:, None, None, None]
        out = (1.0 - share) * self._ctrl[:, after].swapaxes(0, 1) + share * self._ctrl[:, before].swapaxes(0, 1)
        return out.reshape(-1, *self._ctrl.shape[1:]).astype(np.float32)

    def _delay(self, of: str, values: NDArray[np.floating]) -> NDArray[np.floating] | None:
        """The delay of each candidate, (candidates,), if it is a parameter."""
        rows = np.minimum(np.arange(self.candidates), len(values) - 1)
        for k, parameter in enumerate(self.parameters):
            if isinstance(parameter, Delay) and parameter.of == of:
                return values[rows, k]
        return None

    def _at(
        self, found: NDArray[np.floating], time: NDArray[np.floating], values: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Simulated measurements, (candidates, steps, ny), at some times: (candidates, n, ny)."""
        delay = self._delay("measurements", values)
        late = np.zeros(self.candidates) if delay is None else delay
        at = np.maximum(time[None] - late[:, None], 0.0) / self.mjm.opt.timestep
        whole = np.minimum(np.floor(at + 1e-9).astype(int), self._steps - 2)
        share = np.asarray(np.clip(at - whole, 0.0, 1.0))[..., None]
        rows = np.arange(self.candidates)[:, None]
        return (1.0 - share) * found[rows, whole] + share * found[rows, whole + 1]

    def _compare(self, found: NDArray[np.floating], values: NDArray[np.floating]) -> NDArray[np.floating]:
        parts = []
        for k, samples in enumerate(self._samples):
            off = (self._at(found[:, k], samples.time, values) - samples.measured) / samples.noise
            parts.append(off[:, samples.used])
        out = np.concatenate(parts, axis=1)
        fine = np.asarray(np.isfinite(out).all(axis=1))
        self.lost += int((~fine[: len(values)]).sum())
        return np.where(fine[:, None], np.clip(out, -LOST, LOST), LOST)


def _channels(trials: Sequence[Trial], what: Sequence[str] | str | None) -> Sequence[str]:
    if what is not None:
        return (what,) if isinstance(what, str) else what
    channels = trials[0].channels
    for trial in trials:
        if trial.channels != channels:
            raise InputError(
                f"{trial.name} measures {', '.join(trial.channels)}, {trials[0].name} measures {', '.join(channels)}: "
                "all trials have to measure the same"
            )
    return channels


def _starts(mjm: mujoco.MjModel, trials: Sequence[Trial]) -> dict[str, NDArray[np.floating]]:
    """Where trials start, by part of the state, (ntrial, ...)."""
    mjd = mujoco.MjData(mjm)
    if mjm.nkey:
        mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    own = {"qpos": mjd.qpos.copy(), "qvel": mjd.qvel.copy(), "act": mjd.act.copy()}
    rows: dict[str, list[NDArray[np.floating]]] = {name: [] for name in own}
    for trial in trials:
        for name, default in own.items():
            given = getattr(trial, name)
            if given is not None and given.shape != default.shape:
                raise InputError(
                    f"{name} of {trial.name} has {len(given)} numbers, that of the model has {len(default)}"
                )
            rows[name].append(default if given is None else given)
    return {name: np.stack(parts) for name, parts in rows.items() if own[name].size}


def _held(mjm: mujoco.MjModel, trial: Trial, steps: int) -> NDArray[np.floating]:
    """The controls of a trial for each timestep, (steps, nu): each is held until the next."""
    if trial.ctrl is None:
        start = mjm.key_ctrl[0] if mjm.nkey else np.zeros(mjm.nu)
        return np.tile(start, (steps, 1))
    if trial.ctrl.shape[1] != mjm.nu:
        raise InputError(f"ctrl of {trial.name} has {trial.ctrl.shape[1]} columns, the model has {mjm.nu} actuators")
    if trial.ctrl_time is None:
        row = np.minimum(np.arange(steps), len(trial.ctrl) - 1)
        return trial.ctrl[row]
    moments = np.arange(steps) * mjm.opt.timestep
    row = np.searchsorted(trial.ctrl_time, moments + 1e-9, side="right") - 1
    return trial.ctrl[np.maximum(row, 0)]
