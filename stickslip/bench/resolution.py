"""`resolution`: how the error of bodies made of spheres depends on how many there are.

Five of the seven tests, without noise: a box that is pushed, one that a torque turns, one that a rod pushes off its
middle, and a bunny (or its stand-in) that is pushed or turned. Boxes have more and more spheres along an edge, the
bunny along the shortest side of its bounding box. Two mechanisms are looked at: where a body touches, and its inertia.
Spheres as points have another inertia than the body: a grid of n^3 of them has 1 - 1/n^2 of a cube's. A method that
takes the body's own has no such error at any resolution.

With every test stand how many spheres there are, how much of the volume they fill, and the share of the true inertia
about the vertical that they have as points. A physics that knows no spheres can be run beside (`--physics`): it gives a
level line. The bunny is simulated for a shorter time than the boxes, since it takes thousands of spheres. Its spheres
need not reach as low as it does: few of them fall by millimetres first, and that is among the errors of its way.

The picture begins with what bodies are made of. With their true inertia, bodies other than boxes and meshes have their
outer spheres moved to the surface; with that of their spheres these are left in their lattice.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import stickslip
from stickslip.bench import contenders, seven_tests, spheres, style
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial, setting
from stickslip.bench.result import Result
from stickslip.bench.spheres import Spheres
from stickslip.physics.base import Physics
from stickslip.scenes import bunny

BOX, ROD = "box", "box pushed by a rod"
GEOMS = {
    "box": '<geom type="box" size="0.1 0.1 0.1"/>',
    "capsule": '<geom type="capsule" size="0.05 0.1"/>',
    "cylinder": '<geom type="cylinder" size="0.1 0.06"/>',
}
"""Shapes that are drawn, besides the mesh."""
USUAL, USUAL_MESH = stickslip.PbdR.resolution, stickslip.PbdR.mesh_resolution
"""Resolutions that the physics has by default."""
KINDS = ("push", "torque", "rod")


@dataclasses.dataclass(frozen=True)
class Settings:
    resolutions: tuple[int, ...] = setting((2, 3, 4, 6, 8, 12), "spheres along an edge of a box", low=1, high=200)
    mesh_resolutions: tuple[int, ...] = setting(
        (8, 12, 16, 24), "spheres along the shortest side of the mesh's bounding box", low=2, high=200
    )
    drawn: tuple[int, ...] = setting((8, 16), "the same, of the meshes that are drawn", low=2, high=200)
    mesh: str = setting(
        "auto",
        "bunny; stand-in: a shape of our own in its place; auto: the bunny, or its stand-in where it cannot be read",
    )
    offset: float = setting(0.01, "of the rod from the box's middle [m]", low=-0.1, high=0.1)
    duration: float = setting(10.0, "simulated time of a box [s]", low=0.01, high=100.0)
    mesh_duration: float = setting(5.0, "simulated time of a mesh [s]", low=0.01, high=100.0)
    timestep: float = setting(0.001, "length of a step [s]", low=1e-5, high=0.1)


@dataclasses.dataclass(frozen=True)
class Case:
    """A shape of so many spheres, and what is done to it.

    Attributes:
        shape: a key of GEOMS, or the mesh
        resolution: spheres along an edge
        test: of the seven; None: its spheres are told, and nothing is done
    """

    shape: str
    resolution: int
    test: seven_tests.Case | None = None


def done_label(kind: str, shape: str, resolution: int) -> str:
    """Of a case in which something is done."""
    what = {"push": f"pushed {shape}", "torque": f"{shape} with torque", "rod": ROD}[kind]
    return f"{what}, {resolution} along an edge" if shape == BOX else f"{what}, {resolution} across"


def shape_label(shape: str, resolution: int) -> str:
    """Of a case in which nothing is done."""
    return f"spheres of the {shape}, {resolution}"


class Resolution(Experiment[Settings]):
    name = "resolution"
    summary = "error of a box and a bunny that are pushed or turned, against the number of spheres they are made of"
    source = "Physically Accurate Rigid-Body Dynamics in Particle-Based Simulation, Figs. 6 and 9"
    settings = Settings
    quick = {
        "resolutions": (2, 3),
        "mesh_resolutions": (4, 5),
        "drawn": (4, 6),
        "mesh": "stand-in",
        "duration": 0.05,
        "mesh_duration": 0.01,
    }
    only = ("pbd-r", contenders.PAPER)

    def make_settings(
        self, given: Mapping[str, Any] | None = None, *, quick: bool = False, device: str | None = None
    ) -> Settings:
        """As in `Experiment`, but with the mesh there is in the place of "auto", so that results store which it was."""
        made = super().make_settings(given, quick=quick, device=device)
        return dataclasses.replace(made, mesh=seven_tests.SevenTests().make_settings({"mesh": made.mesh}).mesh)

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        tests = seven_tests.Settings()
        values = {"push": tests.box_force, "torque": tests.torque, "rod": settings.offset}
        found: dict[str, Case] = {}
        shapes = {BOX: settings.resolutions, settings.mesh: settings.mesh_resolutions}
        for shape, kind in [(BOX, "push"), (BOX, "torque"), (BOX, "rod"), *((settings.mesh, k) for k in KINDS[:2])]:
            value = tests.bunny_force if (shape, kind) == (settings.mesh, "push") else values[kind]
            mu = 0.0 if kind == "torque" else tests.mu
            test = seven_tests.Case(kind, shape, mu, value, settings.timestep, noise=False)  # type: ignore[arg-type]
            found |= {done_label(kind, shape, n): Case(shape, n, test) for n in sorted(set(shapes[shape]))}
        drawn = [(shape, USUAL) for shape in GEOMS] + [(settings.mesh, n) for n in sorted(set(settings.drawn))]
        return found | {shape_label(shape, n): Case(shape, n) for shape, n in drawn}

    def measure(self, case: Case, physics: Physics[Any, Any], settings: Settings, trial: Trial) -> Outcome:
        if spheres.known(physics):
            field = "resolution" if case.shape in GEOMS else "mesh_resolution"
            physics = dataclasses.replace(physics, **{field: case.resolution})  # type: ignore[type-var]
        if case.test is None:
            body = _spheres(physics, case.shape)
            centre = {f"centre_{axis}": body.centre[:, i] for i, axis in enumerate("xyz")}
            return Outcome(_describe(body), {**centre, "radius": body.radius})
        duration = settings.duration if case.shape == BOX else settings.mesh_duration
        tests = seven_tests.Settings(mesh=settings.mesh, duration=duration, runs=1)
        outcome = seven_tests.SevenTests().measure(case.test, physics, tests, trial)
        told = _describe(_spheres(physics, case.shape)) if spheres.known(physics) else {}
        return dataclasses.replace(outcome, figures={**outcome.figures, **told})

    def scores(self, settings: Settings) -> Sequence[Score]:
        usual = min(settings.resolutions, key=lambda n: abs(n - USUAL))
        across = min(settings.mesh_resolutions, key=lambda n: abs(n - USUAL_MESH))
        way, turn = (
            ("error of its way", "position_error_m", "m"),
            ("error of its rotation", "rotation_error_deg", "deg"),
        )
        rows = [
            (BOX, "push", usual, way),
            (BOX, "torque", usual, turn),
            (BOX, "rod", usual, way),
            (BOX, "rod", max(settings.resolutions), way),
            (settings.mesh, "push", across, way),
            (settings.mesh, "torque", across, turn),
        ]
        labels = {done_label(kind, shape, n): figure for shape, kind, n, figure in rows}
        return [
            Score(f"{label}: {what}", label, figure, unit, absent="lost" if label.startswith(ROD) else "no value")
            for label, (what, figure, unit) in labels.items()
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        settings = self.make_settings(result.settings)

        def ours(kind: str, figure: str) -> str:
            def told(contender: str) -> str:
                labels = {n**3: done_label(kind, BOX, n) for n in sorted(set(settings.resolutions))}
                values = {count: result.figure(contender, label, figure) for count, label in labels.items()}
                return ", ".join(f"{style.number(x)} ({count})" for count, x in values.items() if np.isfinite(x))

            return "; ".join(f"{style.short(c)} {told(c)}" for c in result.contenders if told(c))

        rows = [
            Reported(
                "box with torque: error of its rotation [deg] (spheres)",
                "falls with spheres (Fig. 6, left)",
                ours("torque", "rotation_error_deg"),
            ),
            Reported(
                "box pushed by a rod: error of its way [m] (spheres)",
                "falls with spheres, below MuJoCo's from about 216 on (Fig. 9)",
                ours("rod", "position_error_m"),
            ),
        ]
        return [row for row in rows if row.measured]

    def draw(self, result: Result) -> Any:
        from stickslip.bench import resolution_picture

        return resolution_picture.draw(result, self.make_settings(result.settings))


def _spheres(physics: Physics[Any, Any], shape: str) -> Spheres:
    """What a physics makes a shape of; raises Unsupported if it knows no spheres."""
    if shape in GEOMS:
        return spheres.of(physics, GEOMS[shape])
    mesh = bunny.shape(bunny.BUNNY if shape == "bunny" else bunny.STAND_IN)
    return spheres.of(physics, '<geom type="mesh" mesh="shape"/>', mesh.asset("shape"))


def _describe(body: Spheres) -> dict[str, float]:
    return {
        "spheres": float(len(body.radius)),
        "coverage_percent": 100.0 * body.coverage,
        "inertia_percent": 100.0 * float(body.points_inertia[2, 2] / body.inertia[2, 2]),
    }
