"""A fake physics that moves every world along a given path: its error is known, so a metric can be held to it."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import mujoco
import numpy as np

from stickslip.bench import runner
from stickslip.bench.baselines.host import HostPhysics
from stickslip.bench.experiment import Experiment
from stickslip.bench.result import Result, load


class Clock:
    """Seconds that pass only when told to, for step times that are known."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Scripted(HostPhysics):
    """Puts each world where `script` says. Not a dataclass: its parameters are functions, which no file can store.

    Args:
        script: called with the model and the data after its time has advanced; writes qpos and qvel. Contacts are
            then those that MuJoCo finds there, without force.
        clock: advanced by every step of all worlds, if given
        seconds: how long a step takes, of the number of contacts over all worlds
    """

    name: ClassVar[str] = "scripted"

    def __init__(
        self,
        script: Callable[[mujoco.MjModel, mujoco.MjData], None],
        clock: Clock | None = None,
        seconds: Callable[[int], float] = lambda ncon: 0.0,
    ) -> None:
        self.script, self.clock, self.seconds = script, clock, seconds

    def check(self, mjm: mujoco.MjModel) -> None:
        pass

    def advance(self, mjm: mujoco.MjModel, mjd: mujoco.MjData) -> np.ndarray:
        mjd.time += mjm.opt.timestep
        self.script(mjm, mjd)
        mujoco.mj_fwdPosition(mjm, mjd)
        return np.zeros((mjd.ncon, 6))

    def step(self, m: mujoco.MjModel, d: Any) -> Any:
        d = super().step(m, d)
        if self.clock is not None:
            self.clock.now += self.seconds(self.contact_count(m, d))
        return d


def run(experiment: Experiment[Any], physics: Mapping[str, HostPhysics], tmp_path: Any, **options: Any) -> Result:
    """Run an experiment with fake physics by label; also draws it."""
    return load(runner.run(experiment, tmp_path, methods=physics, device="cpu", **options))
