"""Where mjlab calls MuJoCo Warp, and the backend in its place."""

import functools
import importlib
import sys
from types import ModuleType
from typing import Any

import mujoco_warp as mjw

from stickslip.errors import Unsupported
from stickslip.mjlab.capture import prepare

CALLERS = (
    "mjlab.sim.sim",
    "mjlab.entity.variants",
    "mjlab.envs.mdp.actions.differential_ik",
    "mjlab.sensor.sensor_context",
)
"""Modules of mjlab that call MuJoCo Warp: for steps, meshes per world, inverse kinematics, render contexts."""
SIMULATION = "mjlab.sim.sim"


def replace(backend: ModuleType) -> None:
    """Put the backend in the place of MuJoCo Warp in all modules of mjlab, those it has loaded and those that call it.

    Raises Unsupported if one of them has another form than expected.
    """
    callers = [_load(name) for name in CALLERS]
    loaded = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "mjlab"]
    for module in loaded:
        for name, value in list(vars(module).items()) if isinstance(module, ModuleType) else ():
            if value is mjw:
                setattr(module, name, backend)
    for module in callers:
        if not any(value is backend for value in vars(module).values()):
            raise Unsupported(f"{module.__name__} does not import mujoco_warp as a module: {_OTHER}")
    simulation = getattr(sys.modules[SIMULATION], "Simulation", None)
    if not hasattr(simulation, "create_graph"):
        raise Unsupported(f"{SIMULATION} has no Simulation with a method create_graph: {_OTHER}")
    _prepare_before_capture(simulation)


_OTHER = "this mjlab has another form than the versions that were tested; pip install --no-deps mjlab==1.6.0"


def _load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise Unsupported(f"mjlab has no module {name}: {_OTHER}") from error
        raise


def _prepare_before_capture(simulation: Any) -> None:
    """Load what a graph needs before mjlab captures it; done once."""
    original = simulation.create_graph
    if getattr(original, "prepares", False):
        return

    @functools.wraps(original)
    def create_graph(self: Any) -> None:
        if self.use_cuda_graph:
            prepare(self.wp_model, self.wp_data)
        original(self)

    setattr(create_graph, "prepares", True)  # noqa: B010 - a wrapped function declares no attributes
    simulation.create_graph = create_graph
