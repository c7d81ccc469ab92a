"""What MuJoCo derives from fields of a model, per world: found at once if a step reads it, else when somebody asks.

Worlds for which something is left for later are marked on the device, so that a graph which changes a model goes on
marking when it is replayed.
"""

from collections.abc import Iterable

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip.arrays import is_taken
from stickslip.errors import InputError
from stickslip.physics.mjwarp.derive import (
    BOUNDS,
    CENTRES,
    DERIVED,
    GROUPS,
    MASSES,
    POSES,
    UNPREPARED,
    WEIGHTS,
    Derivation,
)
from stickslip.physics.mjwarp.fields import MODEL_FIELDS, widen

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _sum_masses(
    # Model:
    body_subtreenum: wp.array[int],
    body_mass: wp.array2d[float],
    # In:
    mask: wp.array[bool],
    add: bool,
    mark: bool,
    # Out:
    body_subtreemass_out: wp.array2d[float],
    marked_out: wp.array[bool],
):
    """Masses of subtrees, as `mujoco_warp.set_const` adds them up; worlds are marked."""
    worldid, bodyid = wp.tid()
    if not is_taken(mask, worldid):
        return
    if mark and bodyid == 0:
        marked_out[worldid] = True
    if add:
        mass = float(0.0)
        for i in range(bodyid, bodyid + body_subtreenum[bodyid]):
            mass += body_mass[worldid % body_mass.shape[0], i]
        body_subtreemass_out[worldid, bodyid] = mass


class Constants:
    """Keeps what is derived from fields of one model up to date.

    Args:
        mjm: the model on the host
        nworld: number of worlds
        weights: whether a step reads inverse weights
    """

    def __init__(self, mjm: mujoco.MjModel, nworld: int, weights: bool) -> None:
        self._mjm, self._nworld = mjm, nworld
        self._wraps = np.isin(mjm.wrap_type, (mujoco.mjtWrap.mjWRAP_SPHERE, mujoco.mjtWrap.mjWRAP_CYLINDER)).any()
        muscles = (mjm.actuator_gaintype == mujoco.mjtGain.mjGAIN_MUSCLE).any()
        muscles |= (mjm.actuator_biastype == mujoco.mjtBias.mjBIAS_MUSCLE).any()
        tracks = mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM in (*mjm.cam_mode, *mjm.light_mode)
        self._read = BOUNDS | MASSES | POSES | (WEIGHTS if weights or muscles else 0) | (CENTRES if tracks else 0)
        self._has = ~(0 if mjm.ncam + mjm.nlight else CENTRES)
        self._later = 0
        self._marked = wp.zeros(nworld, dtype=bool)
        self._derivation: Derivation | None = None

    def update(self, m: mjw.Model, names: Iterable[str], mask: wp.array | None) -> None:
        """Derive what a step reads from these fields, for the worlds in the mask; the rest later."""
        groups = 0
        for name in names:
            groups |= BOUNDS if name == "geom_size" and not self._wraps else GROUPS.get(name, 0)
        groups &= self._has
        for name in DERIVED:
            widen(m, name, self._nworld)
        later, now = groups & ~self._read, groups & self._read
        self._later |= later
        if later or now & MASSES:
            inputs = [m.body_subtreenum, m.body_mass, mask, bool(now & MASSES), bool(later)]
            wp.launch(_sum_masses, (self._nworld, m.nbody), inputs=inputs, outputs=[m.body_subtreemass, self._marked])
        if now & ~MASSES:
            self._derive(m, now & ~MASSES, mask)

    def complete(self, m: mjw.Model) -> None:
        """Derive what was left for later; while a graph is captured, in that graph."""
        if self._later:
            self._derive(m, self._later, self._marked)
            self._marked.zero_()

    def _derive(self, m: mjw.Model, groups: int, mask: wp.array | None) -> None:
        fields = [name for name in sorted(MODEL_FIELDS) if getattr(getattr(m, name), "_is_batched", False)]
        fields = [name for name in fields if getattr(m, name).shape[0] == self._nworld]
        addresses = tuple((name, getattr(m, name).ptr) for name in fields)
        if self._derivation is None or self._derivation.addresses != addresses:
            if m.body_mass.device.is_capturing:
                raise InputError(UNPREPARED)
            self._derivation = Derivation(self._mjm, m, self._nworld, addresses)
        self._derivation.run(mask, groups)
