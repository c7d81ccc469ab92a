"""Retargeted motions as the work of cells."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from stickslip import spec
from stickslip.errors import InputError
from stickslip.mpc.retarget import compile_problem, film, made, prepare, rollout
from stickslip.mpc.retarget.batch import check_physics
from stickslip.mpc.retarget.robots import find
from stickslip.mpc.retarget.settings import Settings
from stickslip.parameters import checked as checked_class
from stickslip.parameters import fields, parameter
from stickslip.physics.registry import DEFAULT, PHYSICS
from stickslip.studies.work import base
from stickslip.studies.work.base import Outcome, Place, Resolved, Work

TIMES = ("seconds", "seconds_std")
"""Of a run, that are about time."""
ON = {"cuda": {"samples": 2048, "iterations": 16}, "cpu": {"samples": 192, "iterations": 8}}
"""What is not given, by device."""


@checked_class
@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters of a run, besides those of the physics and `settings`, those of the optimisation."""

    motion: str = parameter("", "a motion, as `stickslip motions` lists them, or a file of one")
    robot: str | None = parameter(None, "a robot; none: the motion's", kind=str)
    servo: str = parameter("real", "servos of the robot, or stiff ones", choices=("real", "stiff"))
    self_collision: str | None = parameter(None, "bodies of the robot touch", kind=str, choices=("on", "off"))
    box: float | None = parameter(None, "lengths of the box of g1-box [m]", 0.0, kind=float, several=True)
    physics: str = parameter(DEFAULT, "contact physics of the rollouts")
    seed: int = parameter(0, "of the noise", 0)
    plant_dt: float | None = parameter(None, "time step of the plant, at most [s]", 0.0, above=True, kind=float)
    fps: float | None = parameter(None, "frames per second, where a file does not say them", 0.0, kind=float)
    quat: str | None = parameter(None, "order of quaternions in a file", kind=str, choices=("wxyz", "xyzw"))
    begin: float | None = parameter(None, "where to begin in the motion [s]", 0.0, kind=float)
    end: float | None = parameter(None, "where to end [s]", 0.0, kind=float)
    ground: bool = parameter(False, "shift the motion so that the robot stands on the floor")
    keep_going: bool = parameter(False, "go on when the robot has lost the motion")
    film: bool = parameter(False, "write a film")


class Retarget(Work):
    """A motion on a robot: errors against the motion, and how physical it is."""

    name = "retarget"

    def resolve(self, given: Mapping[str, Any], device: str) -> Resolved:
        chosen, physics, settings = _chosen(given, device)
        method, modules, kind = base.physics_of(physics)
        values = base.listed(dataclasses.asdict(chosen)) | {"physics": method, "settings": base.listed(settings)}
        contents = {}
        if not made.known(chosen.motion):
            contents["motion"] = base.file_digest(chosen.motion)
        if chosen.robot is not None:
            find(chosen.robot)
            if chosen.robot.endswith(".xml"):
                contents["robot"] = base.scene_of(chosen.robot)[2]["scene"]
        return Resolved(
            values, f"{chosen.robot} {chosen.motion} {kind}", (type(self).__module__, *modules), contents
        )  # fmt: skip

    def run(self, given: Mapping[str, Any], place: Place) -> Outcome:
        chosen, physics, settings = _chosen(given, "cpu" if place.device == "cpu" else "cuda")
        motion, robot, options = prepare.load(
            chosen.motion,
            robot=chosen.robot,
            servo=chosen.servo,
            self_collision=chosen.self_collision,
            box=chosen.box,
            fps=chosen.fps,
            quat=chosen.quat,
            begin=chosen.begin,
            end=chosen.end,
            ground=chosen.ground,
        )
        settings.setdefault("guidance", float(bool(motion.objects)))
        optimisation = Settings(**settings)
        problem = compile_problem(robot, motion, options=options, dt=optimisation.dt, plant_dt=chosen.plant_dt)
        (ran,) = rollout.run(
            problem,
            spec.resolve(physics, PHYSICS, "physics"),
            optimisation,
            device=place.device,
            seeds=[chosen.seed],
            keep_going=chosen.keep_going,
        )
        row = prepare.row(ran)
        numbers = {name: value for name, value in row.items() if isinstance(value, int | float) and name not in TIMES}
        if chosen.film:
            shown, _ = film.pictures(ran)
            (place.folder / "film.gif").write_bytes(film.gif(ran, shown))
        metrics = {name: math.nan if value is None else value for name, value in numbers.items()}
        return Outcome(
            metrics, {"reason": ran.reason}, {"qpos": ran.qpos, "qvel": ran.qvel, "ctrl": ran.ctrl}, row["notes"]
        )


def _chosen(given: Mapping[str, Any], device: str) -> tuple[Any, str, dict[str, Any]]:
    """Parameters, the spec of the physics, and the settings of the optimisation that are given or the device's."""
    plain, of = base.split(given, ("physics", "settings"))
    chosen = base.checked(Parameters, plain, "retarget", ["motion"])
    if chosen.box is not None and len(chosen.box) != 3:
        raise InputError(f"box is {chosen.box}: give three lengths")
    physics = base.joined(chosen.physics, of["physics"], "physics")
    check_physics(spec.resolve(physics, PHYSICS, "physics"))
    made_of = spec.make(Settings, {**ON[device], **of["settings"]}, "retarget")
    given_names = {*ON[device], *of["settings"]}
    return chosen, physics, {name: getattr(made_of, name) for name in fields(Settings) if name in given_names}
