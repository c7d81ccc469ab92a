"""What a command or a study starts from and ends with: a motion with its robot, and the numbers of a run."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import mujoco

from stickslip.errors import InputError
from stickslip.mpc.retarget import files as motions
from stickslip.mpc.retarget import g1, made, rollout, score
from stickslip.mpc.retarget.contacts import detect_contacts
from stickslip.mpc.retarget.ground import FLOATS, object_height
from stickslip.mpc.retarget.motion import Motion
from stickslip.mpc.retarget.robots import Options, Robot, find
from stickslip.mpc.retarget.rollout import Retargeted

SUNK = 0.1
"""Depth of an object in the floor, in the first frame, from which it is refused [m]."""


def load(
    name: str,
    *,
    robot: str | None = None,
    servo: Literal["real", "stiff"] = "real",
    self_collision: Literal["on", "off"] | None = None,
    box: tuple[float, float, float] | None = None,
    fps: float | None = None,
    quat: Literal["wxyz", "xyzw"] | None = None,
    begin: float | None = None,
    end: float | None = None,
    ground: bool = False,
    progress: Callable[[float], None] | None = None,
) -> tuple[Motion, Robot, Options]:
    """A motion by name or from a file, the robot for it, and its options; see `stickslip retarget`.

    `progress` is that of inverse kinematics.
    """
    chosen = None if robot is None else find(robot)
    if made.known(name):
        motion, usual = made.make(name), made.find(name).robot
        if begin is not None or end is not None:
            motion = motion.clip(begin or 0.0, end)
    else:
        path = Path(name)
        if not path.exists():
            known = ", ".join(made.MOTIONS)
            raise InputError(f"{name!r} is neither a file nor one of our motions: {known}")
        motion = motions.load(path, fps=fps, quat=quat, begin=begin, end=end, robot=chosen, progress=progress)
        usual = "g1-box" if motion.objects else "g1"
    chosen = chosen or find(usual)
    options = Options(
        servo,
        None if self_collision is None else self_collision == "on",
        **({} if box is None else {"box": box}),
    )
    mjm = chosen.build(options).compile()
    motion = _with_object_of(motion, chosen, mjm)
    if ground and motion.base is not None:
        motion = motions.grounded(motion, mjm, chosen.base)
    motion = motions.check(motion, mjm, chosen.base)
    if motion.base is not None and chosen.contacts and not motion.contacts:
        motion = detect_contacts(motion, mjm, chosen.contacts, chosen.base)
    return motion, chosen, options


def _with_object_of(motion: Motion, robot: Robot, mjm: mujoco.MjModel) -> Motion:
    """The motion with the robot's name for its object; raises InputError if the robot has none, or it does not fit."""
    if not motion.objects:
        return motion
    if not robot.object:
        raise InputError(
            f"motion {motion.name!r} moves the object {next(iter(motion.objects))!r}, and the robot {robot.name} has "
            "none; choose --robot g1-box with --box LENGTHS, or an MJCF file with a free body"
        )
    if len(motion.objects) == 1 and robot.object not in motion.objects:
        ((name, pose),) = motion.objects.items()
        note = f"the object {name!r} of the file is the robot's {robot.object!r}"
        motion = dataclasses.replace(motion, objects={robot.object: pose}, notes=(*motion.notes, note))
    depth = -object_height(motion, mjm, robot.object, robot.base) if robot.object in motion.objects else 0.0
    if depth > SUNK:
        fix = "give --box with the lengths of the file's" if robot.object == g1.BOX else "choose a model of its size"
        raise InputError(
            f"motion {motion.name!r}: the object {robot.object!r} of the robot {robot.name} is {depth:.3f} m in the "
            f"floor in the first frame, and more than {SUNK:g} m cannot be right; {fix}"
        )
    if depth > FLOATS:
        note = f"the object is {100.0 * depth:.1f} cm in the floor in the first frame, and starts above it"
        motion = dataclasses.replace(motion, notes=(*motion.notes, note))
    return motion


def row(ran: Retargeted) -> dict[str, Any]:
    """A run as it is stored: errors by both metrics, physics beside the reference's, times."""
    report, given = score.report(ran), score.reference_report(ran.problem)
    without = rollout.open_loop(ran.problem)
    aligned, spider, bare = score.errors(ran), score.errors(ran, "spider"), score.errors(without)
    return {
        "reason": ran.reason,
        "steps": len(ran.ctrl),
        **dataclasses.asdict(aligned),
        **{f"spider_{name}": value for name, value in dataclasses.asdict(spider).items()},
        **{f"open_loop_{name}": value for name, value in dataclasses.asdict(bare).items()},
        **dataclasses.asdict(report),
        "reference_foot_slide": given.foot_slide,
        "reference_penetration": given.penetration,
        "seconds": float(ran.seconds.mean()) if len(ran.seconds) else math.nan,
        "seconds_std": float(ran.seconds.std()) if len(ran.seconds) else math.nan,
        "rounds": float(ran.rounds.mean()) if len(ran.rounds) else math.nan,
        "notes": list(ran.notes),
    }
