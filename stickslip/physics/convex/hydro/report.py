"""Patches for those who look, summed on the host from the contacts of a step."""

import numpy as np

from stickslip.physics.base import Patches
from stickslip.physics.contacts import DeviceContacts
from stickslip.physics.convex.hydro import points

LEAST = 1e-15
"""Least area that a pressure is told for, m^2."""


def sum_patches(found: DeviceContacts, patches: "points.Patches | None") -> Patches:
    """The patches that contacts belong to; none if the model has no hydroelastic geoms."""
    contacts = found.numpy()
    conid = found.scratch[2].numpy()[: len(contacts)]
    number, area = np.full(len(conid), -1), np.zeros(len(conid))
    if patches is not None:
        number, area = patches.patch.numpy()[conid], patches.area.numpy()[conid]
    own = number >= 0
    _, first, patch = np.unique(number[own], return_index=True, return_inverse=True)
    n = len(first)
    frame, force = contacts.frame[own].astype(float), contacts.force[own, :3].astype(float)
    pos, normal, weight = contacts.pos[own], frame[:, 0], area[own]
    pressed = np.maximum(force[:, 0], 0.0)
    total, centre, under = np.zeros((n, 3)), np.zeros((n, 3)), np.zeros(n)
    np.add.at(total, patch, np.einsum("nij,ni->nj", frame, force))
    np.add.at(centre, patch, pressed[:, None] * pos)
    np.add.at(under, patch, weight * (pressed > 0.0))
    sums = np.bincount(patch, pressed, minlength=n)
    centre = np.where(sums[:, None] > 0.0, centre / np.maximum(sums, 1e-300)[:, None], pos[first])
    world, geom = contacts.world[own][first], contacts.geom[own][first]
    return Patches(world, geom, total, centre, under, patch, pos, normal, weight, pressed / np.maximum(weight, LEAST))
