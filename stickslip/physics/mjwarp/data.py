"""MuJoCo Warp's data with what every physics here adds to it: a start to reset to, buffer peaks, a memory."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.copies import Prepared, copy_worlds
from stickslip.physics.base import Health
from stickslip.physics.mjwarp.constants import Constants
from stickslip.physics.mjwarp.health import health_of
from stickslip.physics.mjwarp.memory import Memory
from stickslip.state import PARTS

wp.set_module_options({"enable_backward": False})

T = TypeVar("T")

_STARTING = ("time", "qpos", "qvel", "act", "ctrl", "mocap_pos", "mocap_quat", "history", "plastic", "eq_active")
"""What a reset takes from the model's start."""
_CLEARED = (
    "qacc_warmstart qacc qfrc_applied xfrc_applied sensordata userdata energy cvel cdof_dot ne nf nl nefc overflow"
).split()
"""What a reset sets to zero."""
_FORGOTTEN = ("qacc_warmstart", "cvel", "cdof_dot", "overflow")
"""What a state without a warm start sets to zero, as in fresh data."""
_REMEMBERED = ("cvel", "cdof_dot")
"""What a step of MuJoCo Warp takes from the last one, besides the parts of a state: for connects and welds."""


def extended(cls: type[T], base: Any, **own: Any) -> T:
    """A `cls` with all fields of `base`, whose dataclass it extends, and its own."""
    return cls(**{field.name: getattr(base, field.name) for field in dataclasses.fields(base)}, **own)


@dataclasses.dataclass
class Data(mjw.Data):
    """MuJoCo Warp's data; every MuJoCo Warp function takes it. A physics adds its workspace in a class of its own.

    Attributes:
        start: what a reset brings a world back to, by name; each array has one world
        peak: most contacts and geom pairs over all worlds, most rows of a world       (3,)
        memory: what the physics remembers from step to step
        mjm: the model on the host
        copies: prepared copies of worlds, by what they are for
        constants: what is derived from fields of the model; None until one has changed
    """

    rows_are_reported_only: ClassVar[bool] = False
    """Whether constraint rows serve sensors and users only, so that the motion does not depend on `njmax`."""
    start: dict[str, wp.array]
    peak: wp.array
    memory: Memory
    mjm: mujoco.MjModel
    copies: dict[str, Prepared] = dataclasses.field(
        default_factory=lambda: {"reset": Prepared(), "forget": Prepared()}, kw_only=True, repr=False
    )
    constants: Constants | None = dataclasses.field(default=None, kw_only=True, repr=False)

    @classmethod
    def extend(cls, base: mjw.Data, mjm: mujoco.MjModel, memory: Memory | None = None, **own: Any) -> Self:
        """MuJoCo Warp's data with these additions; key frame 0 is the start if the model has one."""
        memory = Memory() if memory is None else memory
        return extended(cls, base, start=_start(base, mjm), peak=wp.zeros(3, dtype=int), memory=memory, mjm=mjm, **own)

    def reset(self, mask: wp.array | None = None) -> None:
        """Bring the worlds in the mask (nworld,), or all, back to the start, the memory too; in one launch."""
        pairs = [(getattr(self, name), start) for name, start in self.start.items()]
        pairs += [(getattr(self, name), None) for name in _CLEARED]
        followed = [(array, self.start[name]) for array, name in self.memory.followers()]
        kept = {id(array) for array, _ in followed}
        pairs += [pair for pair in self.memory.starts() if id(pair[0]) not in kept]
        self.copies["reset"].run([*pairs, *followed], mask)

    def forget(self, mask: wp.array | None = None) -> None:
        """Let worlds start without anything from the last step, as in fresh data."""
        self.copies["forget"].run([(getattr(self, name), None) for name in _FORGOTTEN], mask)
        self.memory.clear(mask)

    def parts(self) -> dict[str, wp.array]:
        """The arrays of a state's parts, by name."""
        return {name: getattr(self, name) for name in PARTS}

    def remembered(self) -> dict[str, wp.array]:
        """The arrays of a state's memory, by name."""
        return {**{name: getattr(self, name) for name in _REMEMBERED}, **self.memory.saved()}

    def set_parts(self, parts: Mapping[str, wp.array], mask: wp.array | None) -> None:
        """Put worlds into a state whose parts are arrays like those of the data, with as many worlds or one.

        What it does not have stays, except that nothing is remembered from before: as in fresh data.
        """
        self.forget(mask)
        own = self.parts()
        for name, part in parts.items():
            copy_worlds(mask, part, own[name])
        for array, name in self.memory.followers():
            copy_worlds(mask, own[name], array)

    def set_memory(self, saved: Mapping[str, wp.array], mask: wp.array | None) -> None:
        """Put arrays of a state's memory, which are on the device, into worlds."""
        for name in _REMEMBERED:
            copy_worlds(mask, saved[name], getattr(self, name))
        self.memory.load(saved, mask, self.overflow)

    def health(self) -> Health:
        """Overflow on record and what to raise, worlds that are no longer finite, peaks; asks the device.

        A step only records what this reads. `reset_data` clears the overflow of the worlds that it resets.
        """
        return health_of(self, find_not_finite(self), self.rows_are_reported_only)


def _start(d: mjw.Data, mjm: mujoco.MjModel) -> dict[str, wp.array]:
    """One world of each array that a reset sets."""
    mjd = mujoco.MjData(mjm)
    if mjm.nkey:
        mujoco.mj_resetDataKeyframe(mjm, mjd, 0)
    start = {}
    for name in _STARTING:
        like = getattr(d, name)
        shape = (1, *like.shape[1:], *getattr(like.dtype, "_shape_", ()))
        start[name] = wp.zeros((1, *like.shape[1:]), dtype=like.dtype)
        if like.size:
            start[name].assign(np.asarray(getattr(mjd, name)).reshape(shape).astype(start[name].numpy().dtype))
    return start


@wp.kernel
def _record_peak(
    # Data in:
    nacon_in: wp.array[int],
    ncollision_in: wp.array[int],
    nefc_in: wp.array[int],
    # Out:
    peak_out: wp.array[int],
):
    worldid = wp.tid()
    if worldid == 0:
        wp.atomic_max(peak_out, 0, nacon_in[0])
        wp.atomic_max(peak_out, 1, ncollision_in[0])
    if nefc_in[worldid] > peak_out[2]:
        wp.atomic_max(peak_out, 2, nefc_in[worldid])


def record_peak(d: Data) -> None:
    """Record the largest numbers of contacts, geom pairs and rows so far."""
    wp.launch(_record_peak, dim=d.nworld, inputs=[d.nacon, d.ncollision, d.nefc], outputs=[d.peak])


@wp.kernel
def _find_not_finite(
    # In:
    value: wp.array2d[float],
    # Out:
    broken_out: wp.array[bool],
):
    worldid, i = wp.tid()
    if not wp.isfinite(value[worldid, i]):
        broken_out[worldid] = True


def find_not_finite(d: Data) -> NDArray[np.bool_]:
    """Whether each world has a position or velocity that is not finite, (nworld,); found on the device."""
    broken = wp.zeros(d.nworld, dtype=bool, device=d.qpos.device)
    for array in (d.qpos, d.qvel):
        wp.launch(_find_not_finite, array.shape, inputs=[array], outputs=[broken], device=array.device)
    return broken.numpy()
