"""Every physics by its name on the command line and in results."""

from typing import Any

from stickslip.physics.base import Physics
from stickslip.physics.cenic.physics import Cenic
from stickslip.physics.comfree.physics import ComFree
from stickslip.physics.conesweep.physics import ConeSweep
from stickslip.physics.icf.physics import Icf
from stickslip.physics.mujoco import MuJoCo
from stickslip.physics.pbd.physics import Pbd, PbdR
from stickslip.physics.scm.physics import Scm

PHYSICS: dict[str, type[Physics[Any, Any]]] = {
    physics.name: physics for physics in (MuJoCo, ComFree, ConeSweep, Icf, Cenic, Pbd, PbdR, Scm)
}

DEFAULT: type[Physics[Any, Any]] = ConeSweep
"""The physics of a simulation that names none."""
