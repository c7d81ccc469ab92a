"""What a watch allows, and the sizes that this is measured by."""

import dataclasses

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip import parameters
from stickslip.parameters import parameter

KINDS = ("not finite", "energy", "penetration", "joint", "dropped", "twins")
"""Kinds of events, in the order of their numbers."""
LARGEST = 1e10
"""A position or velocity beyond it counts as not finite, as in MuJoCo (mjMAXVAL)."""
GRAVITY = 9.81
"""m/s^2, where a model has none."""


@parameters.checked
@dataclasses.dataclass(frozen=True)
class Limits:
    """What a watch allows; None: not watched.

    Worlds that are not finite, and contacts that are dropped, are always events.
    """

    energy: float | None = parameter(
        1.0,
        "energy from nothing that is allowed, in falls of the heaviest tree by the extent of the model, besides half "
        "of the largest kinetic energy of the last second",
        above=True,
        low=0.0,
        optional=True,
    )
    depth: float | None = parameter(
        1.0, "penetration that is allowed, in thicknesses of the thinner geom", above=True, low=0.0, optional=True
    )
    joint: float | None = parameter(
        0.25, "how far a joint may be beyond its limits, in widths of its range", above=True, low=0.0, optional=True
    )
    twins: float | None = parameter(
        None,
        "worlds 2k and 2k + 1 are twins, given the same: how much any position or velocity may differ",
        low=0.0,
        kind=float,
    )


def thickness(mjm: mujoco.MjModel) -> NDArray[np.float32]:
    """The thinnest extent of each geom, m; infinite for planes, height fields and what has none, (ngeom,)."""
    kinds = mujoco.mjtGeom
    size, found = mjm.geom_size, np.full(mjm.ngeom, np.inf)
    for geom, kind in enumerate(map(kinds, mjm.geom_type)):
        if kind in (kinds.mjGEOM_SPHERE, kinds.mjGEOM_CAPSULE):
            found[geom] = 2.0 * size[geom, 0]
        elif kind == kinds.mjGEOM_CYLINDER:
            found[geom] = 2.0 * size[geom, :2].min()
        elif kind in (kinds.mjGEOM_BOX, kinds.mjGEOM_ELLIPSOID):
            found[geom] = 2.0 * size[geom].min()
        elif kind in (kinds.mjGEOM_MESH, kinds.mjGEOM_SDF):
            found[geom] = 2.0 * mjm.geom_aabb[geom, 3:].min()
    return np.where(found > 0.0, found, np.inf).astype(np.float32)


def energy_scale(mjm: mujoco.MjModel) -> float:
    """The energy of a fall of the heaviest tree by the extent of the model, J."""
    gravity = float(np.linalg.norm(mjm.opt.gravity)) or GRAVITY
    trees = np.flatnonzero(mjm.body_rootid == np.arange(mjm.nbody))
    moving = [mjm.body_subtreemass[root] for root in trees if root > 0]
    return float(max(moving, default=0.0)) * gravity * float(mjm.stat.extent)


def energy_unwatched(mjm: mujoco.MjModel) -> str:
    """Why the energy of a model cannot be watched; "" if it can."""
    if mjm.nmocap:
        return "mocap bodies are moved from outside, with any force"
    if mjm.nflex:
        return "the energy of flexes is not known"
    if mjm.nplugin:
        return "the forces of plugins are not known"
    if energy_scale(mjm) <= 0.0:
        return "nothing that moves has mass"
    return ""
