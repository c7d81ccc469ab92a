"""stickslip: contact-rich robot simulation from one MuJoCo model; the contact physics is an argument."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from stickslip.errors import BufferOverflow as BufferOverflow
    from stickslip.errors import DeviceError as DeviceError
    from stickslip.errors import Diverged as Diverged
    from stickslip.errors import HealthWarning as HealthWarning
    from stickslip.errors import InputError as InputError
    from stickslip.errors import MissingExtra as MissingExtra
    from stickslip.errors import SceneError as SceneError
    from stickslip.errors import StickslipError as StickslipError
    from stickslip.errors import Unsupported as Unsupported
    from stickslip.mjcf import load as load
    from stickslip.physics.base import Contacts as Contacts
    from stickslip.physics.base import DifferentiablePhysics as DifferentiablePhysics
    from stickslip.physics.base import Health as Health
    from stickslip.physics.base import Physics as Physics
    from stickslip.physics.base import Stats as Stats
    from stickslip.physics.catalogue import PHYSICS as PHYSICS
    from stickslip.physics.cenic.physics import Cenic as Cenic
    from stickslip.physics.comfree.physics import ComFree as ComFree
    from stickslip.physics.conesweep.physics import ConeSweep as ConeSweep
    from stickslip.physics.convex.external import External as External
    from stickslip.physics.icf.physics import Icf as Icf
    from stickslip.physics.mujoco import MuJoCo as MuJoCo
    from stickslip.physics.pbd.physics import Pbd as Pbd
    from stickslip.physics.pbd.physics import PbdR as PbdR
    from stickslip.physics.scm.physics import Scm as Scm
    from stickslip.simulation import Simulation as Simulation
    from stickslip.state import State as State

_WHERE = {
    "BufferOverflow": "stickslip.errors",
    "DeviceError": "stickslip.errors",
    "Diverged": "stickslip.errors",
    "HealthWarning": "stickslip.errors",
    "InputError": "stickslip.errors",
    "MissingExtra": "stickslip.errors",
    "Scm": "stickslip.physics.scm.physics",
    "SceneError": "stickslip.errors",
    "Unsupported": "stickslip.errors",
    "Cenic": "stickslip.physics.cenic.physics",
    "ComFree": "stickslip.physics.comfree.physics",
    "ConeSweep": "stickslip.physics.conesweep.physics",
    "Contacts": "stickslip.physics.base",
    "DifferentiablePhysics": "stickslip.physics.base",
    "External": "stickslip.physics.convex.external",
    "Health": "stickslip.physics.base",
    "Icf": "stickslip.physics.icf.physics",
    "MuJoCo": "stickslip.physics.mujoco",
    "PHYSICS": "stickslip.physics.catalogue",
    "Pbd": "stickslip.physics.pbd.physics",
    "PbdR": "stickslip.physics.pbd.physics",
    "Physics": "stickslip.physics.base",
    "Simulation": "stickslip.simulation",
    "State": "stickslip.state",
    "Stats": "stickslip.physics.base",
    "StickslipError": "stickslip.errors",
    "load": "stickslip.mjcf",
}

__all__ = ["__version__", *sorted(_WHERE)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'stickslip' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return __all__
