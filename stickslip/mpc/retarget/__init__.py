"""Motion retargeting: from a kinematic motion to controls whose simulated motion stays close to it."""

from stickslip.mpc.retarget.contacts import detect_contacts
from stickslip.mpc.retarget.files import check, export, floating, grounded, load
from stickslip.mpc.retarget.made import MOTIONS, make
from stickslip.mpc.retarget.motion import Motion
from stickslip.mpc.retarget.problem import Problem, compile_problem
from stickslip.mpc.retarget.robots import ROBOTS, Options, Robot, from_file
from stickslip.mpc.retarget.rollout import Progress, Retargeted, motion_of, open_loop, run, save
from stickslip.mpc.retarget.score import Errors, Report, errors, reference_report, report
from stickslip.mpc.retarget.settings import Settings, Weights

__all__ = [
    "MOTIONS",
    "ROBOTS",
    "Errors",
    "Motion",
    "Options",
    "Problem",
    "Progress",
    "Report",
    "Retargeted",
    "Robot",
    "Settings",
    "Weights",
    "check",
    "compile_problem",
    "detect_contacts",
    "errors",
    "export",
    "floating",
    "from_file",
    "grounded",
    "load",
    "make",
    "motion_of",
    "open_loop",
    "reference_report",
    "report",
    "run",
    "save",
]
