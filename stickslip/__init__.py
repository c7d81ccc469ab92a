"""stickslip: contact-rich robot simulation from one MuJoCo model; the contact physics is an argument."""

import importlib
from typing import TYPE_CHECKING, Any

from stickslip.physics import registry as _registry

__version__ = "0.1.0"

if TYPE_CHECKING:
    from stickslip.decomposition import decompose as decompose
    from stickslip.errors import BufferOverflow as BufferOverflow
    from stickslip.errors import DamagedFile as DamagedFile
    from stickslip.errors import DeviceError as DeviceError
    from stickslip.errors import Diverged as Diverged
    from stickslip.errors import HealthWarning as HealthWarning
    from stickslip.errors import InputError as InputError
    from stickslip.errors import MissingExtra as MissingExtra
    from stickslip.errors import SceneError as SceneError
    from stickslip.errors import StickslipError as StickslipError
    from stickslip.errors import Unsupported as Unsupported
    from stickslip.identification.identify import identify as identify
    from stickslip.identification.trial import Trial as Trial
    from stickslip.mjcf import load as load
    from stickslip.physics.base import Contacts as Contacts
    from stickslip.physics.base import DifferentiablePhysics as DifferentiablePhysics
    from stickslip.physics.base import Health as Health
    from stickslip.physics.base import Physics as Physics
    from stickslip.physics.base import Stats as Stats
    from stickslip.physics.comfree.physics import ComFree as ComFree
    from stickslip.physics.conesweep.physics import ConeSweep as ConeSweep
    from stickslip.physics.contacts import DeviceContacts as DeviceContacts
    from stickslip.physics.convex.cenic.physics import Cenic as Cenic
    from stickslip.physics.convex.icf.physics import Icf as Icf
    from stickslip.physics.convex.step.external import External as External
    from stickslip.physics.mujoco import MuJoCo as MuJoCo
    from stickslip.physics.pbd.physics import PbdR as PbdR
    from stickslip.physics.registry import PHYSICS as PHYSICS
    from stickslip.physics.scm.physics import Scm as Scm
    from stickslip.readout import Patches as Patches
    from stickslip.simulation import Offset as Offset
    from stickslip.simulation import Scale as Scale
    from stickslip.simulation import Simulation as Simulation
    from stickslip.simulation import Trajectory as Trajectory
    from stickslip.simulation import Uniform as Uniform
    from stickslip.state import State as State
    from stickslip.studies.study import study as study
    from stickslip.viewer import Viewer as Viewer
    from stickslip.viewer import view as view

_WHERE = {
    "stickslip.decomposition": "decompose",
    "stickslip.errors": "BufferOverflow DamagedFile DeviceError Diverged HealthWarning InputError MissingExtra "
    "SceneError StickslipError Unsupported",
    "stickslip.identification.identify": "identify",
    "stickslip.identification.trial": "Trial",
    "stickslip.mjcf": "load",
    "stickslip.physics.base": "Contacts DifferentiablePhysics Health Physics Stats",
    "stickslip.physics.contacts": "DeviceContacts",
    "stickslip.physics.convex.step.external": "External",
    "stickslip.physics.registry": "PHYSICS",
    "stickslip.readout": "Patches",
    "stickslip.simulation": "Offset Scale Simulation Trajectory Uniform",
    "stickslip.state": "State",
    "stickslip.studies.study": "study",
    "stickslip.viewer": "Viewer view",
}
"""Public names by module; the classes of the built-in physics come from their registry."""
_MODULES = {name: module for module, names in _WHERE.items() for name in names.split()} | _registry.public()

__all__ = ["__version__", *sorted(_MODULES)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'stickslip' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
