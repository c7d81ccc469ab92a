"""Motions from files and to files.

`formats` tells a format by suffix and content; readers are in `qpos_files`, `body_files` and `deepmimic`, and what they
share is in `given` and `arrays`. `export` writes. `checks` and `ground` hold a motion against a model.
"""

from stickslip.mpc.retarget.files.checks import check
from stickslip.mpc.retarget.files.deepmimic import human_targets
from stickslip.mpc.retarget.files.export import export, save
from stickslip.mpc.retarget.files.formats import load
from stickslip.mpc.retarget.ground import floating, grounded, lowest

__all__ = ["check", "export", "floating", "grounded", "human_targets", "load", "lowest", "save"]
