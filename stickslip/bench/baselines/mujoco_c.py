"""MuJoCo in C as a method: what a user of one core would take instead. It is here to be compared with.

One thread advances the worlds one after another. Each world has its own `MjData` and takes all steps of a call in one
call of C, `mj_step(m, d, n)`. With ten steps in a call that was as fast as, or faster than, one call a step on each
scene of `speed`, and `mujoco.rollout` with one thread, which also copies the state of every step and keeps no contacts.
"""

import copy
import dataclasses
from typing import ClassVar, final

import mujoco
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.bench.baselines.host import STATE, HostData, HostWorlds, write
from stickslip.errors import Unsupported
from stickslip.parameters import checked


@final
@checked
@dataclasses.dataclass(frozen=True)
class MujocoC(HostWorlds):
    """MuJoCo in C, float64, with the options of the model. A world that is no longer finite stays as it is."""

    name: ClassVar[str] = "mujoco-c"

    def check(self, mjm: mujoco.MjModel) -> None:
        device = wp.get_device()
        if not device.is_cpu:
            raise Unsupported(f"{self.name} runs on the CPU, and the device is {device.alias}: take the device cpu")

    def put_model(self, mjm: mujoco.MjModel) -> mujoco.MjModel:
        self.check(mjm)
        own = copy.copy(mjm)
        own.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET  # a world that breaks is told, not reset
        return own

    def step(self, m: mujoco.MjModel, d: HostData) -> HostData:
        return self.run(m, d, 1)

    def run(self, m: mujoco.MjModel, d: HostData, n: int) -> HostData:
        if n == 0:
            return d
        if not d.views:
            d.views = {name: array.numpy() for name, array in d.arrays.items()}
        _read(d)
        finite: list[bool] = np.isfinite(d.views["qpos"].sum(axis=1) + d.views["qvel"].sum(axis=1)).tolist()
        for mjd, sound in zip(d.worlds, finite, strict=True):
            if sound:
                mujoco.mj_step(m, mjd, n)
        d.ncon_peak = max(d.ncon_peak, self.contact_count(m, d))
        _show(d)
        return d

    def forces(self, m: mujoco.MjModel, d: HostData) -> list[NDArray[np.float64]]:
        found = [np.zeros((mjd.ncon, 6)) for mjd in d.worlds]
        for mjd, rows in zip(d.worlds, found, strict=True):
            for index, row in enumerate(rows):
                mujoco.mj_contactForce(m, mjd, index, row)
        return found

    def contact_count(self, m: mujoco.MjModel, d: HostData) -> int:
        return sum(mjd.ncon for mjd in d.worlds)


def _read(d: HostData) -> None:
    """Give the worlds what was written into the arrays from outside; comparing bytes takes a tenth of a microsecond."""
    for name, view in d.views.items():
        given = view.tobytes()
        if given == d.seen.get(name):
            continue
        d.seen[name] = given
        for mjd, row in zip(d.worlds, view, strict=True):
            own = np.asarray(getattr(mjd, name), dtype=np.float32)
            if not np.array_equal(row, own):  # else the world has it in double precision
                write(mjd, name, row)


def _show(d: HostData) -> None:
    """Put the state of the worlds into the arrays."""
    for name in STATE:
        view = d.views[name]
        for index, mjd in enumerate(d.worlds):
            view[index] = getattr(mjd, name)
        d.seen[name] = view.tobytes()
