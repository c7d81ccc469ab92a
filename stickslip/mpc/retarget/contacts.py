"""Which sites of a robot touch the floor in a motion that does not say it: those that are low and slow."""

import dataclasses
from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.mpc.retarget.ground import feelers, floor_of, reach, robot_bodies
from stickslip.mpc.retarget.motion import Array, Motion, qpos_of

LOW = (0.015, 0.03)
"""Height over the level of standing below which a site begins to touch, and below which it still does [m]."""
SLOW = (0.15, 0.3)
"""Speed of a site below which it begins to touch, and below which it still does [m/s]."""
SHORTEST = 0.1
"""Shortest time of a contact [s]."""
LEVEL = 20.0
"""Percentile over the frames of the lowest point of the robot that is taken as the level of standing."""


def detect_contacts(motion: Motion, mjm: mujoco.MjModel, sites: Sequence[str], base: str = "") -> Motion:
    """The motion with the contacts of sites with the floor, and a note that says which and how long.

    A site touches while the lowest point of its body is near the level at which the robot stands, and the site is slow.
    The limits at which a contact begins are stricter than those at which it goes on. Short ones are left out. Contacts
    with objects are not found.

    Args:
        motion: a motion with a free base
        mjm: the model of the robot
        sites: names of the sites, such as those of `Robot.contacts`
        base: name of the free joint of the base; empty: the first free joint that is no object's
    """
    if motion.base is None:
        raise InputError(f"motion {motion.name!r} has no free base: contacts with the floor cannot be found")
    for name in sites:
        if mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_SITE, name) < 0:
            raise InputError(f"the model has no site {name!r} whose contacts could be found; give sites that it has")
    heights, places = _heights(motion, mjm, sites, base)
    level = float(np.percentile(heights.min(axis=1), LEVEL))
    contacts = {}
    for k, name in enumerate(sites):
        speed = speeds(places[:, k], motion.fps)
        contacts[name] = standing(heights[:, 1 + k] - level, speed, motion.fps).astype(np.float64)
    times = [f"{name} {on.sum() / motion.fps:.2f} s" for name, on in contacts.items() if on.any()]
    note = f"contacts with the floor found by height and speed: {', '.join(times) or 'none'}"
    return dataclasses.replace(motion, contacts=contacts, notes=(*motion.notes, note))


def standing(
    height: Array,
    speed: Array,
    fps: float,
    low: tuple[float, float] = LOW,
    slow: tuple[float, float] = SLOW,
    also: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """When something stands (T,): it is low and slow without a break, and in one frame at least by the stricter limits.

    Args:
        height: over the floor [m]                                                          (T,)
        speed: [m/s]                                                                        (T,)
        fps: frames per second
        low: height in which it begins to stand, and in which it still does [m]
        slow: speed likewise [m/s]
        also: frames in which it may stand; None: all                                       (T,)
    """
    may = np.ones(len(height), dtype=bool) if also is None else also
    loose = may & (height < low[1]) & (speed < slow[1])
    strict = may & (height < low[0]) & (speed < slow[0])
    on = np.zeros(len(height), dtype=bool)
    for begin, end in spans(loose):
        if strict[begin:end].any() and end - begin >= SHORTEST * fps:
            on[begin:end] = True
    return on


def spans(on: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First frames, and those after the last, of the times without a break in which something is true."""
    edges = np.diff(np.concatenate([[False], on, [False]]).astype(int))
    return list(zip(np.flatnonzero(edges > 0).tolist(), np.flatnonzero(edges < 0).tolist(), strict=True))


def speeds(places: Array, fps: float) -> Array:
    """Speed (T,) of a point with places (T, 3): central differences, one-sided at the ends [m/s]."""
    return np.linalg.norm(np.gradient(places, 1.0 / fps, axis=0), axis=1)


def _heights(motion: Motion, mjm: mujoco.MjModel, sites: Sequence[str], base: str) -> tuple[Array, Array]:
    """Heights (T, 1 + n) over the floor of the lowest points of robot and sites' bodies, and places (T, n, 3) of sites.

    A body without geoms that can touch the floor has the height of its site.
    """
    floor = floor_of(mjm)
    geoms = feelers(mjm, robot_bodies(motion, mjm, base), floor)
    numbers = [mjm.site(name).id for name in sites]
    of_site = [[g for g in geoms if mjm.geom_bodyid[g] == mjm.site_bodyid[s]] for s in numbers]
    mjd = mujoco.MjData(mjm)
    heights, places = np.empty((motion.frames, 1 + len(sites))), np.empty((motion.frames, len(sites), 3))
    for frame, qpos in enumerate(qpos_of(motion, mjm, base)):
        mjd.qpos[:] = qpos
        mujoco.mj_kinematics(mjm, mjd)
        low = {g: mjd.geom_xpos[g, 2] - reach(mjm, g, mjd.geom_xmat[g, 6:]) for g in geoms}
        own = [min((low[g] for g in of), default=mjd.site_xpos[s, 2]) for s, of in zip(numbers, of_site, strict=True)]
        heights[frame] = [min(low.values(), default=min(own)), *own]
        heights[frame] -= 0.0 if floor is None else mjd.geom_xpos[floor, 2]
        places[frame] = mjd.site_xpos[numbers]
    return heights, places
