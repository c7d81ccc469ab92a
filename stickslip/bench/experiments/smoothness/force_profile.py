"""`force-profile`: the force on a small sphere that is put anywhere around and inside a large one.

The large sphere is fixed, the small one is at rest; there is no gravity. Its velocity after one step, times its mass
over the step, is the force that the contact gives. It is looked at along a line through both centres, in steps of a few
mm, and over a whole plane. There is one world per place.

Who plans through contact wants a force that changes little where the state changes little, and that acts before
things touch. `jump` is the largest change between neighbouring places on the line over the largest force: a force that
is smooth has smaller ones the denser the places are, one that turns round at the centre does not. `apart` is the force
at the gap asked for over the largest force: zero means that a gradient there knows nothing of the other sphere.

How large forces are differs by orders of magnitude, since here nothing gives way and each physics has a stiffness of
its own: only shares of the largest are compared.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.bench.experiment import Experiment, Outcome, Score, Trial, problems
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

LINE, PLANE = "along a line", "over a plane"


@dataclasses.dataclass(frozen=True)
class Settings:
    large: float = parameter(0.1, "radius of the sphere that is fixed [m]", low=0.01, high=1.0)
    small: float = parameter(0.05, "radius of the other [m]", low=0.01, high=1.0)
    mass: float = parameter(1.0, "its mass [kg]", low=1e-3, high=1e3)
    timestep: float = parameter(0.001, "length of a step [s]", low=1e-5, high=0.1)
    gap: float = parameter(0.002, "distance of surfaces at which force is asked for [m]", low=1e-5, high=0.1)
    line: int = parameter(201, "places on the line", low=5, high=10_001)
    plane: int = parameter(41, "places along each side of the plane", low=5, high=501)


def model(settings: Settings) -> mujoco.MjModel:
    """Two spheres, one of them free, without gravity."""
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco model="two spheres"><option gravity="0 0 0" timestep="{settings.timestep!r}"/><worldbody>
        <geom name="large" type="sphere" size="{settings.large!r}"/>
        <body name="small" pos="0 0 1"><freejoint/>
        <geom name="small" type="sphere" size="{settings.small!r}" mass="{settings.mass!r}"/></body>
        </worldbody></mujoco>"""
    )


def reach(settings: Settings) -> float:
    """How far out places lie [m]."""
    return 1.25 * (settings.large + settings.small)


def places(case: str, settings: Settings) -> NDArray[np.float64]:
    """Where the small sphere is put, (n, 3)."""
    far = reach(settings)
    if case == LINE:
        y = np.linspace(-far, far, settings.line)
        return np.stack([0.0 * y, y, 0.0 * y], axis=1)
    side = np.linspace(-far, far, settings.plane)
    x, y = np.meshgrid(side, side, indexing="ij")
    return np.stack([x.ravel(), y.ravel(), 0.0 * x.ravel()], axis=1)


class ForceProfile(Experiment[Settings]):
    name = "force-profile"
    summary = "the force on a sphere that is put anywhere around and inside another: where it jumps, where it is zero"
    source = "A Smooth Analytical Formulation of Collision Detection and Rigid Body Dynamics With Contact, Fig. 1 and 5"
    settings = Settings
    quick = {"line": 9, "plane": 5}
    only = ("mujoco", "comfree", "mjx", "scm", "scm:reach=0.01")

    def cases(self, settings: Settings) -> Mapping[str, str]:
        return {LINE: LINE, PLANE: PLANE}

    def measure(self, case: str, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        at = places(case, settings)
        if case == LINE:  # and where the surfaces are as far apart as asked
            at = np.concatenate([at, [[0.0, settings.large + settings.small + settings.gap, 0.0]]])
        sim = trial.simulation(model(settings), physics, nworld=len(at), nconmax=8, njmax=64)
        qpos = np.zeros((len(at), 7))
        qpos[:, :3], qpos[:, 3] = at, 1.0
        sim.qpos = qpos
        sim.step()
        force = settings.mass / settings.timestep * sim.qvel.numpy()[:, :3].astype(float)
        size = np.linalg.norm(force, axis=1)
        metrics = {"largest_n": float(size.max())}
        if case == PLANE:
            return Outcome(metrics, {"force_n": size}, problems(sim))
        along, apart = force[:-1, 1], size[-1]
        peak = np.abs(along).max()
        metrics |= {
            "jump": float(np.abs(np.diff(along)).max() / peak) if peak > 0.0 else float("nan"),
            "apart": float(apart / peak) if peak > 0.0 else float("nan"),
            "largest_n": float(peak),
        }
        return Outcome(metrics, {"y": at[:-1, 1], "force_n": along}, problems(sim))

    def scores(self, settings: Settings) -> Sequence[Score]:
        apart = f"force on a sphere {1e3 * settings.gap:g} mm off another, over the largest"
        return [
            Score("largest jump of the force between two spheres, over the largest force", LINE, "jump", ""),
            Score(apart, LINE, "apart", "", best="high"),
        ]

    def draw(self, result: Result) -> Any:
        settings = self.make_settings(result.settings)
        shown = result.ran(PLANE)
        fig, axes = style.figure("force-profile: a small sphere around and inside a large one", 2, 1, width=15.0)
        top = style.split(axes[0, 0], 2)
        for method in result.ran(LINE):
            y, force = (result.series(method, LINE, name) for name in ("y", "force_n"))
            if not np.isfinite(force).any():
                continue
            peak = np.nanmax(np.abs(force)) or 1.0
            style.line(top[0], result, method, y, force / peak)
            style.line(top[1], result, method, y, np.abs(force) / peak)
        touch = settings.large + settings.small
        for ax in top:
            ax.axvline(touch, color=style.REFERENCE, lw=0.8, ls=":", label="surfaces touch")
        top[1].set_xlim(0.93 * touch, reach(settings))
        top[1].set_yscale("log")
        top[1].set_ylim(1e-7, 2.0)
        style.label(top[0], "along a line through the centres", "centre of the small one [m]", "force over the largest")
        style.label(top[1], "the same near the surface", "centre of the small one [m]", "force over the largest")
        for ax, method in zip(style.split(axes[1, 0], max(len(shown), 1)), shown, strict=False):
            force = result.series(method, PLANE, "force_n")
            side = round(len(force) ** 0.5)
            if side * side == len(force) and np.isfinite(force).all():
                far = reach(settings)
                picture = force.reshape(side, side).T / (force.max() or 1.0)
                ax.imshow(picture, origin="lower", extent=(-far, far, -far, far), cmap="magma", vmin=0.0, vmax=1.0)
                turn = np.linspace(0.0, 2.0 * np.pi, 100)
                ax.plot(touch * np.cos(turn), touch * np.sin(turn), color="white", lw=0.8, ls=":")
            ax.grid(False)
            style.label(ax, style.short(method), "x [m]", "y [m]" if method == shown[0] else "")
        style.legend(fig, top)
        return fig
