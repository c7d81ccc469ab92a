"""Live plots: step time, energy, deepest contact, contacts and a sensor over time, one line for each lane."""

import collections
from typing import Any

import mujoco
import numpy as np

from stickslip.physics import registry
from stickslip.viewer.lane import Shot

KEPT = 300
"""Samples in a plot."""
WINDOW = 10.0
"""Simulated time that plots show, up to now [s]."""
NAMES = {
    "step": "step time of all worlds [ms]",
    "energy": "energy of the world shown [J]",
    "depth": "deepest contact [mm]",
    "contacts": "contacts of all worlds",
}
NO_SENSOR = "none"


def colour(label: str) -> str:
    """Of a physics, as in all plots of the project."""
    entry = registry.entries().get(label.partition(":")[0])
    return entry.colour if entry else "#555555"


class Plots:
    """The plots, rebuilt when lanes change."""

    def __init__(self, gui: Any, mjm: mujoco.MjModel, labels: list[str]) -> None:
        self._mjm, self._labels = mjm, labels
        self._mjd = mujoco.MjData(mjm)
        self._samples: dict[str, list[collections.deque[float]]] = {}
        self._times: collections.deque[float] = collections.deque(maxlen=KEPT)
        self._plots: dict[str, Any] = {}
        self.sensor = NO_SENSOR
        self.handles: list[Any] = []
        """What was put on the page."""
        for name, title in NAMES.items():
            self._add(gui, name, title)
        sensors = [mjm.sensor(i).name or f"sensor {i}" for i in range(mjm.nsensor)]
        if sensors:
            chosen = gui.add_dropdown("sensor", (NO_SENSOR, *sensors), hint="the first number of the world shown")
            self.handles.append(chosen)
            self._add(gui, "sensor", "sensor", visible=False)

            @chosen.on_update
            def _(_event: Any) -> None:
                self.sensor = chosen.value
                for line in self._samples["sensor"]:
                    line.clear()
                    line.extend([np.nan] * len(self._times))
                self._plots["sensor"].title = self.sensor
                self._plots["sensor"].visible = self.sensor != NO_SENSOR

            self._sensors = {name: int(mjm.sensor_adr[i]) for i, name in enumerate(sensors)}

    def _add(self, gui: Any, name: str, title: str, visible: bool = True) -> None:
        self._samples[name] = [collections.deque(maxlen=KEPT) for _ in self._labels]
        lines = ({"label": "t"}, *({"label": label, "stroke": colour(label), "width": 2} for label in self._labels))
        none = np.array([0.0])
        # a range that stays: with one that follows the data, the page shows a part of it
        self._plots[name] = gui.add_uplot(
            data=(none, *(none for _ in self._labels)),
            series=lines,
            title=title,
            scales={"x": {"time": False, "range": (-WINDOW, 0.0)}, "y": {"auto": True}},
            legend={"show": len(self._labels) > 1 and name == "step"},
            height=130,
            visible=visible,
        )
        self.handles.append(self._plots[name])

    def sample(self, shots: tuple[Shot, ...], world: int) -> dict[str, list[float]]:
        """Take a sample; returns it."""
        start = shots[0].time
        if self._times and start < self._times[-1]:  # it was reset
            self._times.clear()
            for lines in self._samples.values():
                for line in lines:
                    line.clear()
        self._times.append(start)
        values = {
            "step": [shot.step_ms for shot in shots],
            "energy": [energy(self._mjm, self._mjd, shot, world) for shot in shots],
            "depth": [1e3 * shot.deepest for shot in shots],
            "contacts": [float(len(shot.contacts)) if shot.contacts else 0.0 for shot in shots],
        }
        if "sensor" in self._samples:
            values["sensor"] = [self._sensed(shot, world) for shot in shots]
        for name, numbers in values.items():
            for line, number in zip(self._samples[name], numbers, strict=True):
                line.append(number)
        return values

    def _sensed(self, shot: Shot, world: int) -> float:
        if self.sensor == NO_SENSOR or shot.sensordata is None:
            return np.nan
        return float(shot.sensordata[world, self._sensors[self.sensor]])

    def draw(self) -> None:
        """Send the plots."""
        times = np.array(self._times)
        times -= times[-1] if len(times) else 0.0
        for name, plot in self._plots.items():
            if name != "sensor" or self.sensor != NO_SENSOR:
                plot.data = (times, *(np.array(line) for line in self._samples[name]))


def energy(mjm: mujoco.MjModel, mjd: mujoco.MjData, shot: Shot, world: int) -> float:
    """Potential and kinetic energy of a world, J, as MuJoCo defines it."""
    if not np.isfinite(shot.qpos[world]).all() or not np.isfinite(shot.qvel[world]).all():
        return float("nan")
    mjd.qpos[:], mjd.qvel[:] = shot.qpos[world], shot.qvel[world]
    if shot.mocap_pos is not None and shot.mocap_quat is not None:
        mjd.mocap_pos[:], mjd.mocap_quat[:] = shot.mocap_pos[world], shot.mocap_quat[world]
    mujoco.mj_kinematics(mjm, mjd)
    mujoco.mj_comPos(mjm, mjd)
    mujoco.mj_tendon(mjm, mjd)
    mujoco.mj_makeM(mjm, mjd)
    mujoco.mj_energyPos(mjm, mjd)
    mujoco.mj_energyVel(mjm, mjd)
    return float(mjd.energy.sum())
