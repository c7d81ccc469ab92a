"""`resolution`: how the error of bodies made of spheres depends on how many there are.

Five of the seven tests, without noise: a box that is pushed, one that a torque turns, one that a rod pushes off its
middle, and a bunny (or its stand-in) that is pushed or turned. Boxes have more and more spheres along an edge, the
bunny along the shortest side of its bounding box. Two mechanisms are looked at: where a body touches, and its inertia.
Spheres as points have another inertia than the body: a grid of n^3 of them has 1 - 1/n^2 of a cube's. A method that
takes the body's own has no such error at any resolution.

With every test stand how many spheres there are, how much of the volume they fill, and the share of the true inertia
about the vertical that they have as points. A physics that knows no spheres can be run beside (`--physics`): it gives a
level line. The bunny is simulated for a shorter time than the boxes, since it takes thousands of spheres. Its spheres
need not reach as low as it does: few of them fall by millimetres first, and that is part of the position error.

The picture begins with what bodies are made of. With their true inertia, bodies other than boxes and meshes have their
outer spheres moved to the surface; with that of their spheres these are left in their lattice.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stickslip.bench import methods
from stickslip.bench.experiment import Experiment, Outcome, Reported, Score, Trial
from stickslip.bench.experiments.free_bodies import body_tests
from stickslip.bench.experiments.free_bodies.resolution_cases import (
    BOX,
    GEOMS,
    KINDS,
    ROD,
    USUAL,
    USUAL_MESH,
    Case,
    Settings,
    done_label,
    shape_label,
)
from stickslip.bench.references import spheres
from stickslip.bench.references.spheres import Spheres
from stickslip.bench.report import style
from stickslip.bench.result import Result
from stickslip.physics.base import Physics
from stickslip.scenes import bunny


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
    only = ("pbd-r", methods.PAPER)

    def make_settings(
        self, given: Mapping[str, Any] | None = None, *, quick: bool = False, device: str | None = None
    ) -> Settings:
        """As in `Experiment`, but with the mesh there is in the place of "auto", so that results store which it was."""
        made = super().make_settings(given, quick=quick, device=device)
        return dataclasses.replace(made, mesh=body_tests.mesh_of(body_tests.Settings(mesh=made.mesh)))

    def cases(self, settings: Settings) -> Mapping[str, Case]:
        tests = body_tests.Settings()
        values = {"push": tests.box_force, "torque": tests.torque, "rod": settings.offset}
        found: dict[str, Case] = {}
        shapes = {BOX: settings.resolutions, settings.mesh: settings.mesh_resolutions}
        for shape, kind in [(BOX, "push"), (BOX, "torque"), (BOX, "rod"), *((settings.mesh, k) for k in KINDS[:2])]:
            value = tests.bunny_force if (shape, kind) == (settings.mesh, "push") else values[kind]
            mu = 0.0 if kind == "torque" else tests.mu
            test = body_tests.Case(kind, shape, mu, value, settings.timestep, noise=False)  # type: ignore[arg-type]
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
        tests = body_tests.Settings(mesh=settings.mesh, duration=duration, runs=1)
        outcome = body_tests.measure(case.test, physics, tests, trial)
        described = _describe(_spheres(physics, case.shape)) if spheres.known(physics) else {}
        return dataclasses.replace(outcome, metrics={**outcome.metrics, **described})

    def scores(self, settings: Settings) -> Sequence[Score]:
        usual = min(settings.resolutions, key=lambda n: abs(n - USUAL))
        across = min(settings.mesh_resolutions, key=lambda n: abs(n - USUAL_MESH))
        way, turn = (
            ("position error", "position_error_m", "m"),
            ("rotation error", "rotation_error_deg", "deg"),
        )
        rows = [
            (BOX, "push", usual, way),
            (BOX, "torque", usual, turn),
            (BOX, "rod", usual, way),
            (BOX, "rod", max(settings.resolutions), way),
            (settings.mesh, "push", across, way),
            (settings.mesh, "torque", across, turn),
        ]
        labels = {done_label(kind, shape, n): metric for shape, kind, n, metric in rows}
        return [
            Score(f"{label}: {what}", label, metric, unit, absent="lost" if label.startswith(ROD) else "no value")
            for label, (what, metric, unit) in labels.items()
        ]

    def reported(self, result: Result) -> Sequence[Reported]:
        settings = self.make_settings(result.settings)

        def ours(kind: str, metric: str) -> str:
            def value(method: str) -> str:
                labels = {n**3: done_label(kind, BOX, n) for n in sorted(set(settings.resolutions))}
                values = {count: result.metric(method, label, metric) for count, label in labels.items()}
                return ", ".join(f"{style.number(x)} ({count})" for count, x in values.items() if np.isfinite(x))

            return "; ".join(f"{style.short(c)} {value(c)}" for c in result.methods if value(c))

        rows = [
            Reported(
                "box with torque: rotation error [deg] (spheres)",
                "falls with spheres (Fig. 6, left)",
                ours("torque", "rotation_error_deg"),
            ),
            Reported(
                "box pushed by a rod: position error [m] (spheres)",
                "falls with spheres, below MuJoCo's from about 216 on (Fig. 9)",
                ours("rod", "position_error_m"),
            ),
        ]
        return [row for row in rows if row.measured]

    def draw(self, result: Result) -> Any:
        from stickslip.bench.experiments.free_bodies import resolution_picture

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
