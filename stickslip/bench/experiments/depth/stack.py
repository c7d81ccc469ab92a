"""`stack`: towers of cubes that touch at the start and have only to stand, and a heavy cube on two light ones.

A rigid tower keeps its height, so what the top loses is the softness of all contacts below it. Tilt, drift and a speed
that does not die away are noise that a contact model adds. The cubes have friction 0.6: MuJoCo's pyramidal cone gets
stiffer with less friction, its elliptic one does not, so that the two differ here.

Collision detection shows up too. MuJoCo Warp's loses a pair of cubes now and then, for a step or a few, and the tower
gets a kick: that is the largest speed. The speed that is left is the median, which only lasting jitter moves.

The height lost is the root mean square over the end of the run: of a tower at rest that is what it has lost, and a
tower that swings about its height cannot hide it. A tower that fell has no other metric.

Under the heavy cube a micrometre decides what happens later. So that tower starts several times, its cubes a little
apart, and every metric is of the worst start.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems, state_of
from stickslip.bench.references import motion, timesteps
from stickslip.bench.report import series, style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

TILTED = 30.0
"""Tilt from which a cube counts as fallen [deg]."""
TOLD = 4
"""Decimals of tilt [deg] and drift [mm]: more is below single precision."""
HEAVY = 3
"""Cubes of the tower with the heavy one on top."""


@dataclasses.dataclass(frozen=True)
class Settings:
    towers: tuple[int, ...] = parameter((3, 5, 10), "cubes of each tower", low=3, high=10)
    half: float = parameter(0.05, "half of a cube's side [m]", low=0.005, high=1.0)
    mass: float = parameter(1.0, "mass of a cube [kg]", low=1e-3, high=1e3)
    heavy: float = parameter(100.0, "mass of the cube on top of two others, in one more tower [kg]", low=1e-3, high=1e4)
    starts: int = parameter(12, "starts of the tower with the heavy cube; the worst of them counts", low=1, high=1000)
    apart: float = parameter(
        1e-6, "standard deviation of the cubes' places between these starts [m]", low=0.0, high=0.01
    )
    mu: float = parameter(0.6, "coefficient of friction", low=0.0, high=5.0)
    duration: float = parameter(4.0, "simulated time [s]", low=0.01, high=100.0)
    timesteps: tuple[float, ...] = parameter((0.001, 0.002, 0.005, 0.01), "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    n: int
    top: float
    timestep: float
    starts: int = 1


def fell(pos: NDArray[np.float64], quat: NDArray[np.float64], half: float) -> float:
    """1 if a cube is tilted by 30 deg or more, or less than half a side above the one below it, else 0.

    Args:
        pos: middles of the cubes from the bottom up, (n, 3)
        quat: their orientations, (n, 4)
        half: half of a cube's side
    """
    if not (np.isfinite(pos).all() and np.isfinite(quat).all()):
        return math.nan
    steps = np.diff(pos[:, 2], prepend=-half)
    return float(bool((np.degrees(motion.tilt_of(quat)) >= TILTED).any() or (steps < half).any()))


def _tower(n: int, timestep: float) -> str:
    return f"{n} cubes, {timesteps.tick(timestep)}"


def _heavy(settings: Settings, timestep: float) -> str:
    return f"{settings.heavy:g} kg on two of {settings.mass:g} kg, {timesteps.tick(timestep)}"


class Stack(Experiment[Settings]):
    name = "stack"
    summary = (
        "towers of cubes that have only to stand: height lost, tilt, drift and jitter; and a heavy cube on two light"
    )
    source = "stickslip"
    settings = Settings
    quick = {"towers": (3,), "duration": 0.2, "timesteps": (0.002,), "starts": 2}

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        steps = settings.timesteps
        towers = {_tower(n, dt): Case(n, settings.mass, dt) for n in settings.towers for dt in steps}
        return towers | {_heavy(settings, dt): Case(HEAVY, settings.heavy, dt, settings.starts) for dt in steps}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        given = f"half={settings.half!r},mass={settings.mass!r},top={case.top!r},mu={settings.mu!r}"
        sim = trial.simulation(f"stack:n={case.n},{given}", physics, nworld=case.starts, timestep=case.timestep)
        if case.starts > 1:
            places = sim.qpos.numpy().astype(float).reshape(case.starts, case.n, 7)
            places[1:, :, :2] += trial.random().normal(0.0, settings.apart, (case.starts - 1, case.n, 2))
            sim.qpos = places.reshape(case.starts, -1)
        track = trial.record(sim, round(settings.duration / case.timestep), state_of)
        time = track["time"]
        pose = track["qpos"].reshape(len(time), case.starts, case.n, 7)
        speed = np.linalg.norm(track["qvel"].reshape(len(time), case.starts, case.n, 6)[..., :3], axis=-1).max(axis=2)
        lost = 1e3 * ((2 * case.n - 1) * settings.half - pose[:, :, -1, 2])
        late = timesteps.late(time)
        home = np.array([[0.0, 0.0, (2 * index + 1) * settings.half] for index in range(case.n)])
        aside = np.linalg.norm((pose[late, :, :, :3] - home)[..., :2], axis=-1)
        mean_square = np.mean(lost[late] ** 2, axis=0)
        worst = int(mean_square.argmax())
        metrics = {
            "height_lost_mm": math.copysign(math.sqrt(mean_square[worst]), lost[late, worst].mean()),
            "tilt_deg": round(math.degrees(motion.tilt_of(pose[late, :, :, 3:]).max()), TOLD),
            "drift_mm": round(1e3 * float(aside.max()), TOLD),
            "late_speed_mm_per_s": 1e3 * np.median(speed[late], axis=0).max(),
            "largest_late_speed_mm_per_s": 1e3 * speed[late].max(),
        }
        down = float(np.max([fell(end[:, :3], end[:, 3:], settings.half) for end in pose[-1]]))
        if down != 0.0:
            metrics = dict.fromkeys(metrics, math.nan)
        shown = {"time": time, "height_lost_mm": lost[:, worst], "speed_mm_per_s": 1e3 * speed[:, worst]}
        return Outcome({**metrics, "fell": down}, shown, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        tallest, steps = max(settings.towers), settings.timesteps
        usual = timesteps.usual(steps)

        def row(what: str, metric: str, unit: str, dt: float) -> Score:
            title = f"{what} a tower of {tallest}, {timesteps.tick(dt)}"
            return Score(title, _tower(tallest, dt), metric, unit, absent="fell")

        heavy, ends = _heavy(settings, usual), dict.fromkeys((usual, max(steps)))
        return [
            *(row("height lost by", "height_lost_mm", "mm", dt) for dt in steps),
            Score(f"height lost by {heavy}", heavy, "height_lost_mm", "mm", absent="fell"),
            *(row("tilt of", "tilt_deg", "deg", dt) for dt in ends),
            row("drift of", "drift_mm", "mm", usual),
            *(row("speed left in", "late_speed_mm_per_s", "mm/s", dt) for dt in ends),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        steps, tallest = settings.timesteps, max(settings.towers)
        usual = timesteps.usual(steps)
        fig, axes = style.figure("stack: towers of cubes that have only to stand (× fell)", 4, 2)
        for ax, case in ((axes[0, 0], _tower(tallest, usual)), (axes[1, 0], _heavy(settings, usual))):
            for method in result.ran(case):
                time = result.series(method, case, "time")
                style.line(ax, result, method, time, result.series(method, case, "height_lost_mm"))
            style.reference(ax, [0.0, settings.duration], [0.0, 0.0])
            ax.set_yscale("symlog", linthresh=1.0)
            style.label(ax, case, "time [s]", "height lost [mm]")
        ticks = [timesteps.tick(dt) for dt in steps]
        towers, heavy = [_tower(tallest, dt) for dt in steps], [_heavy(settings, dt) for dt in steps]
        sizes, names = [_tower(n, usual) for n in settings.towers], [f"{n} cubes" for n in settings.towers]
        lost, end = "height lost [mm]", f"in the last {settings.duration * timesteps.LATE:g} s"
        whole = f"{tallest} cubes: "
        panels = (
            (axes[0, 1], towers, ticks, "height_lost_mm", f"{whole}height lost, magnitude", lost),
            (axes[1, 1], heavy, ticks, "height_lost_mm", f"{heavy[0].split(',')[0]}: height lost, magnitude", lost),
            (axes[2, 0], sizes, names, "height_lost_mm", f"every tower, {timesteps.tick(usual)}: height lost", lost),
            (axes[2, 1], towers, ticks, "late_speed_mm_per_s", f"{whole}speed of the fastest {end}", "speed [mm/s]"),
            (axes[3, 0], towers, ticks, "tilt_deg", f"{whole}largest tilt {end}", "tilt [deg]"),
            (axes[3, 1], towers, ticks, "drift_mm", f"{whole}farthest sideways {end}", "drift [mm]"),
        )
        for ax, cases, marks, metric, title, unit in panels:
            series.bars(ax, result, cases, metric, marks, log=metric not in ("tilt_deg", "drift_mm"))  # often 0
            style.label(ax, title, "", unit)
        style.legend(fig, axes)
        return fig
