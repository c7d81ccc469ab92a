"""Robots that a motion can be retargeted to: a MuJoCo model with position servos, and the names that matter."""

import dataclasses
from collections.abc import Callable

import mujoco

from stickslip.parameters import checked, parameter

SERVOS = ("real", "stiff")
"""Servos of our own robots: with the robot's armatures and torque limits, or as in SPIDER, stiff and without limits."""


@checked
@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a robot."""

    servo: str = parameter("real", "servos: of the robot, or stiff and without torque limits", choices=SERVOS)
    self_collision: bool = parameter(False, "bodies of the robot touch each other")


@dataclasses.dataclass(frozen=True)
class Robot:
    """A robot.

    Attributes:
        name: name on the command line
        summary: one line
        build: returns its scene, with a floor and position servos, given the options
        base: name of the free joint of its base; empty: it is fixed
        object: name of the free body that it manipulates; empty: none
        feet: sites whose slide over the floor is reported
        contacts: sites that a motion may ask to touch something
    """

    name: str
    summary: str
    build: Callable[[Options], mujoco.MjSpec]
    base: str = ""
    object: str = ""
    feet: tuple[str, ...] = ()
    contacts: tuple[str, ...] = ()
