"""What has to happen before a graph is captured: kernels are loaded, and what a first step makes is made."""

import dataclasses
from typing import Any

import mujoco_warp as mjw
import warp as wp

from stickslip import compilation
from stickslip.mjlab.backend import owner_of


def prepare(m: mjw.Model, d: mjw.Data) -> None:
    """Run what mjlab captures once: step, forward and reset. The data is then as before, bit for bit.

    A model of MuJoCo Warp's own is left alone.
    """
    module: Any = owner_of(m)
    if module is mjw:
        return
    device = d.qpos.device
    with wp.ScopedDevice(device), compilation.unchanged(arrays_of(d)):
        mask = wp.zeros(d.nworld, dtype=bool)
        for run in (
            lambda: module.step(m, d),
            lambda: module.forward(m, d),
            lambda: module.reset_data(m, d, reset=mask),
        ):
            compilation.load_kernels(run, device)
            run()  # loads what that missed


def arrays_of(d: mjw.Data) -> dict[str, wp.array]:
    """All arrays of data by name: MuJoCo Warp's, contacts and rows, and what the physics remembers."""
    found = {}
    for owner, prefix in ((d, ""), (d.contact, "contact."), (d.efc, "efc.")):
        found |= {prefix + field.name: getattr(owner, field.name) for field in dataclasses.fields(owner)}
    memory = getattr(d, "memory", None)
    if memory is not None:
        found |= {f"memory.{name}": array for name, array in memory.arrays().items()}
    return {name: array for name, array in found.items() if isinstance(array, wp.array) and array.size}
