"""MuJoCo in C as a plant for policies: the comparison method of `bench`, with what observations read."""

import dataclasses
from typing import Any, final

import mujoco
import numpy as np
import warp as wp

from stickslip.bench.baselines.host import HostData
from stickslip.bench.baselines.mujoco_c import MujocoC
from stickslip.parameters import checked

_MATRICES = ("xmat", "ximat", "geom_xmat", "site_xmat")


@dataclasses.dataclass
class PlantData(HostData):
    """Worlds on the host, and arrays of what was found of them.

    Attributes:
        found: arrays that someone asked for, by MuJoCo's name, float32, (nworld, ...)
    """

    found: dict[str, wp.array] = dataclasses.field(default_factory=dict)


@final
@checked
@dataclasses.dataclass(frozen=True)
class Plant(MujocoC):  # pyright: ignore[reportGeneralTypeIssues] - the same method, with results on the device
    """MuJoCo in C, one thread; poses, velocities and sensors are those of the present state after `kinematics`."""

    def make_data(
        self, mjm: mujoco.MjModel, nworld: int, *, nconmax: int | None = None, njmax: int | None = None
    ) -> PlantData:
        made = super().make_data(mjm, nworld, nconmax=nconmax, njmax=njmax)
        return PlantData(**{field.name: getattr(made, field.name) for field in dataclasses.fields(made)})

    def field(self, m: mujoco.MjModel, d: HostData, name: str) -> Any:
        own = self.arrays(m, d)
        if name in own:
            return own[name]
        assert isinstance(d, PlantData)
        if name not in d.found:
            if not isinstance(getattr(d.worlds[0], name, None), np.ndarray):
                return None
            d.found[name] = wp.array(_rows(d, name), dtype=float)
        return d.found[name]

    def kinematics(self, m: mujoco.MjModel, d: HostData, worlds: Any = None) -> None:
        assert isinstance(d, PlantData)
        for index, mjd in enumerate(d.worlds):
            for name, array in d.arrays.items():
                row = array.numpy()[index]
                own = getattr(mjd, name)
                if not np.array_equal(row, np.asarray(own, dtype=np.float32), equal_nan=True):
                    if name == "time":
                        mjd.time = float(row)
                    else:
                        own[:] = row
            if np.isfinite(mjd.qpos.sum() + mjd.qvel.sum()):
                mujoco.mj_forward(m, mjd)
        for name, array in d.found.items():
            array.assign(_rows(d, name))


def _rows(d: HostData, name: str) -> Any:
    rows = np.stack([np.asarray(getattr(mjd, name)) for mjd in d.worlds]).astype(np.float32)
    return rows.reshape(*rows.shape[:-1], 3, 3) if name in _MATRICES else rows
