"""`soft-distance`: how near the soft distance of a cloud of points comes to the exact distance of its shape.

Shapes whose distance is known: sphere, box, capsule, and a torus that is given as a mesh. Distances are asked for at
random places within a band around the surface, for several numbers of points and for several temperatures (`blend`, in
squares of the distance between neighbours). More points and less blending come nearer to the shape; too little blending
shows the planes of single points, and too much makes an ellipsoid of everything. The picture shows a cut through
the box at each temperature. Of a mesh there may be more points than are asked for, up to four times as many where the
extra `quads` aligns them.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stickslip.bench.experiment import Experiment, Outcome, Score, Trial
from stickslip.bench.methods import has
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.errors import Unsupported
from stickslip.parameters import parameter
from stickslip.physics.base import Physics

RADIUS, TUBE = 0.1, 0.04
"""Of sphere and capsule, half an edge of the box and the ring of the torus; of its tube [m]."""
CUT = 0.16
"""How far a cut reaches [m]."""

Distance = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def sphere(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.linalg.norm(x, axis=1) - RADIUS


def box(x: NDArray[np.float64]) -> NDArray[np.float64]:
    q = np.abs(x) - RADIUS
    return np.linalg.norm(np.maximum(q, 0.0), axis=1) + np.minimum(q.max(axis=1), 0.0)


def capsule(x: NDArray[np.float64]) -> NDArray[np.float64]:
    beyond = x[:, 2] - np.clip(x[:, 2], -RADIUS, RADIUS)
    return np.hypot(np.hypot(x[:, 0], x[:, 1]), beyond) - RADIUS


def torus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.hypot(np.hypot(x[:, 0], x[:, 1]) - RADIUS, x[:, 2]) - TUBE


SHAPES: Mapping[str, tuple[str, Distance]] = {
    "sphere": (f'type="sphere" size="{RADIUS}"', sphere),
    "box": (f'type="box" size="{RADIUS} {RADIUS} {RADIUS}"', box),
    "capsule": (f'type="capsule" size="{RADIUS} {RADIUS}"', capsule),
    "torus": ('type="mesh" mesh="torus"', torus),
}


@dataclasses.dataclass(frozen=True)
class Settings:
    points: tuple[int, ...] = parameter((26, 100, 400, 1600), "points of a shape, about", low=6, high=100_000)
    blends: tuple[float, ...] = parameter(
        (0.1, 0.5, 2.0, 10.0, 50.0), "temperature, in squares of the spacing", low=1e-3, high=1e6
    )
    band: float = parameter(0.02, "how far from the surface distances are asked for [m]", low=1e-3, high=0.05)
    places: int = parameter(2000, "where they are asked for", low=10, high=1_000_000)
    cut: int = parameter(41, "places along each side of the cut", low=5, high=401)
    cut_points: int = parameter(150, "points of the box that is cut", low=6, high=100_000)


def model(shape: str) -> mujoco.MjModel:
    """A free body of that shape over a plane."""
    mesh = ""
    if shape == "torus":
        vertices, faces = _torus_mesh(96, 40)
        mesh = (
            f'<asset><mesh name="torus" vertex="{" ".join(f"{v:.6g}" for v in vertices.ravel())}" '
            f'face="{" ".join(map(str, faces.ravel()))}"/></asset>'
        )
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco model="{shape}">{mesh}<worldbody><geom name="floor" type="plane" size="1 1 1" pos="0 0 -1"/>
        <body><freejoint/><geom name="shape" {SHAPES[shape][0]} mass="1"/></body></worldbody></mujoco>"""
    )


def _torus_mesh(around: int, across: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Vertices and triangles of a torus."""
    u, v = np.meshgrid(np.arange(around) / around, np.arange(across) / across, indexing="ij")
    u, v = 2.0 * np.pi * u.ravel(), 2.0 * np.pi * v.ravel()
    ring = RADIUS + TUBE * np.cos(v)
    i, j = np.divmod(np.arange(around * across), across)
    a, b = i * across + j, (i + 1) % around * across + j
    c, d = (i + 1) % around * across + (j + 1) % across, i * across + (j + 1) % across
    faces = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    return np.stack([ring * np.cos(u), ring * np.sin(u), TUBE * np.sin(v)], axis=1), faces


@runtime_checkable
class SoftField(Protocol):
    """A physics that gives the signed distance of points to a geom."""

    def signed_distance(self, mjm: mujoco.MjModel, geom: int, places: ArrayLike) -> NDArray[np.floating]: ...


class SoftDistance(Experiment[Settings]):
    name = "soft-distance"
    summary = "soft distance to a sphere, a box, a capsule and a torus against the exact one, by points and temperature"
    source = "A Smooth Analytical Formulation of Collision Detection and Rigid Body Dynamics With Contact, Fig. 4"
    settings = Settings
    quick = {"points": (26,), "blends": (0.5,), "places": 20, "cut": 5, "cut_points": 26}
    only = ("scm",)

    def cases(self, settings: Settings) -> Mapping[str, str]:
        return {shape: shape for shape in SHAPES}

    def measure(self, case: str, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        if not (has(physics, "blend") and isinstance(physics, SoftField)):
            raise Unsupported(f"{physics.name} knows no soft distance")
        mjm, exact = model(case), SHAPES[case][1]
        geom = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_GEOM, "shape")
        random = trial.random()
        x = random.uniform(-0.25, 0.25, (400 * settings.places, 3))
        x = x[np.abs(exact(x)) < settings.band][: settings.places]
        turned = _unframed(mjm, geom, x)
        metrics, rows = {}, {}
        for blend in settings.blends:
            errors = []
            for points in settings.points:
                own = dataclasses.replace(physics, points=points, mesh_points=points, blend=blend)  # type: ignore[type-var]
                error = own.signed_distance(mjm, geom, turned) - exact(x)  # type: ignore[attr-defined]
                errors.append(1e3 * float(np.sqrt(np.mean(error**2))))
            rows[f"error_mm blend {blend:g}"] = errors
            metrics[f"error_mm blend {blend:g}"] = errors[-1]
            trial.progress((settings.blends.index(blend) + 1) / len(settings.blends))
        if case == "box":
            rows |= self._cuts(mjm, geom, physics, settings)
        return Outcome(metrics, rows)

    def _cuts(
        self, mjm: mujoco.MjModel, geom: int, physics: Physics[Any, Any], settings: Settings
    ) -> dict[str, NDArray[np.float64]]:
        """Soft distance over a cut through the middle of the box, at each temperature."""
        side = np.linspace(-CUT, CUT, settings.cut)
        x, y = np.meshgrid(side, side, indexing="ij")
        at = _unframed(mjm, geom, np.stack([x.ravel(), y.ravel(), 0.0 * x.ravel()], axis=1))
        out = {}
        for blend in settings.blends:
            own = dataclasses.replace(physics, points=settings.cut_points, blend=blend)  # type: ignore[type-var]
            out[f"cut {blend:g}"] = own.signed_distance(mjm, geom, at)  # type: ignore[attr-defined]
        return out

    def scores(self, settings: Settings) -> Sequence[Score]:
        blend = min(settings.blends, key=lambda each: abs(np.log(each / 0.5)))
        what = f"error of soft distance, {max(settings.points)} points, blend {blend:g}, rms"
        return [Score(f"{shape}: {what}", shape, f"error_mm blend {blend:g}", "mm") for shape in SHAPES]

    def draw(self, result: Result) -> Any:
        import matplotlib

        settings = self.make_settings(result.settings)
        fig, axes = style.figure("soft-distance: points with normals, and how far they melt", 2, 1, width=15.0)
        top, bottom = style.split(axes[0, 0], len(settings.blends)), style.split(axes[1, 0], len(SHAPES))
        method = next(iter(result.ran("box")), "")
        for ax, blend in zip(top, settings.blends, strict=True):
            _draw_cut(ax, result.series(method, "box", f"cut {blend:g}"), settings.cut)
            style.label(ax, f"box, {settings.cut_points} points, blend {blend:g}", "x [m]", "y [m]")
        shades = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.85, len(settings.blends)))
        for ax, shape in zip(bottom, SHAPES, strict=True):
            for shade, blend in zip(shades, settings.blends, strict=True):
                error = result.series(method, shape, f"error_mm blend {blend:g}") if method else np.zeros(0)
                if error.size and np.isfinite(error).any():
                    ax.plot(settings.points, error, "o-", ms=3.5, lw=1.4, color=shade, label=f"blend {blend:g}")
            style.plain_logs(ax, "x", "y")
            style.label(ax, f"{shape}: within {100 * settings.band:g} cm of its surface", "points", "error, rms [mm]")
        style.legend(fig, bottom)
        return fig


def _unframed(mjm: mujoco.MjModel, geom: int, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points of the body in the frame of its geom: MuJoCo moves and turns meshes into their principal axes."""
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, mjm.geom_quat[geom])
    return (x - mjm.geom_pos[geom]) @ turn.reshape(3, 3)


def _draw_cut(ax: Any, values: NDArray[np.float64], side: int) -> None:
    """Levels of the distance in a cut, its zero, and the box."""
    ax.set_aspect("equal")
    ax.grid(False)
    if values.size == side * side and np.isfinite(values).all():
        at = np.linspace(-CUT, CUT, side)
        picture = values.reshape(side, side).T
        ax.contourf(at, at, picture, levels=np.linspace(-0.1, 0.1, 21), cmap="RdBu", extend="both")
        ax.contour(at, at, picture, levels=[0.0], colors=["#0b3d91"], linewidths=[2.0])
    square = RADIUS * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
    ax.plot(square[:, 0], square[:, 1], "--", color=style.INK, lw=1.0)
