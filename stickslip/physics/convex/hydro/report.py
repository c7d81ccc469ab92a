"""Patches for those who look, summed on the host from the contacts of a step."""

import numpy as np

from stickslip.physics.contacts import DeviceContacts
from stickslip.physics.convex.hydro import points
from stickslip.readout import Patches

LEAST = 1e-15
"""Least area that a pressure is told for, m^2."""


def sum_patches(found: DeviceContacts, patches: "points.Patches | None") -> Patches:
    """The patches that contacts belong to; none if the model has no hydroelastic geoms."""
    contacts = found.numpy()
    conid = found.scratch[2].numpy()[: len(contacts)]
    number, area, stiffness = np.full(len(conid), -1), np.zeros(len(conid)), np.zeros(len(conid))
    if patches is not None:
        number, area, stiffness = (a.numpy()[conid] for a in (patches.patch, patches.area, patches.stiffness))
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
    inside = np.where(contacts.dist[own] < 0.0, stiffness[own], 0.0).astype(float)
    elastic = np.bincount(patch, -inside * contacts.dist[own], minlength=n)
    depth = elastic / np.maximum(np.bincount(patch, inside, minlength=n), 1e-300)
    world, geom = contacts.world[own][first], contacts.geom[own][first]
    return Patches(
        world, geom, total, centre, under, depth, patch, pos, normal, weight, pressed / np.maximum(weight, LEAST)
    )
