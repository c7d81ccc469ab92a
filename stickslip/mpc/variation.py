"""Models that differ in friction, mass and size of some bodies: what a plan may doubt, and how a plant may differ."""

import copy
import dataclasses
from collections.abc import Sequence

import mujoco
import numpy as np

from stickslip.errors import InputError, Unsupported
from stickslip.mpc.success import Array
from stickslip.mpc.task import Problem

WHAT = ("friction", "mass", "size")
"""What varies, in the order of factors."""


def bodies(problem: Problem) -> list[int]:
    """The bodies that vary; raises InputError if the task has none."""
    task = problem.task
    if not task.uncertain:
        raise InputError(f"{task.name} names no body whose friction, mass and size could vary; set Task.uncertain")
    return [problem.mjm.body(name).id for name in task.uncertain]


def factors(models: int, spread: float, size_spread: float) -> Array:
    """Factors of friction, mass and size (models, 3): 1 in the first, within 1 +- spread in the others.

    The size has a spread of its own: it is seen, and an object that is larger than it was seen starts inside its palm.
    """
    drawn, widths = np.ones((models, len(WHAT))), np.array([spread, spread, size_spread])
    for i in range(1, models):
        drawn[i] += widths * [2.0 * _halton(i, base) - 1.0 for base in (2, 3, 5)]
    return drawn


def _halton(index: int, base: int) -> float:
    """A number of Halton's sequence, in (0, 1): the digits of the index, mirrored at the point."""
    value, share = 0.0, 1.0
    while index:
        index, digit = divmod(index, base)
        share /= base
        value += share * digit
    return value


def fields(mjm: mujoco.MjModel, bodies: Sequence[int], factors: Array) -> dict[str, Array]:
    """Fields of the model per world, given factors of friction, mass and size (nworld, 3).

    A contact has the larger friction of its two geoms. So the friction of everything that the bodies can touch is
    scaled with theirs, and with it that of the contacts of these geoms with others.
    """
    geoms = np.flatnonzero(np.isin(mjm.geom_bodyid, bodies))
    kinds, others = mjm.geom_contype, mjm.geom_conaffinity
    touch = [g for g in range(mjm.ngeom) if ((kinds[g] & others[geoms]) | (kinds[geoms] & others[g])).any()]
    slippery = np.union1d(geoms, touch).astype(int)
    meshes = [mjm.geom(int(g)).name for g in geoms if mjm.geom_type[g] == mujoco.mjtGeom.mjGEOM_MESH]
    if meshes and (factors[:, 2] != 1.0).any():
        raise Unsupported(f"the size of the mesh {meshes[0]!r} cannot vary; use primitive geoms, or a size factor of 1")
    n = len(factors)
    friction, mass, size = (factors[:, i] for i in range(len(WHAT)))

    def scaled(field: str, where: np.ndarray, factor: Array) -> Array:
        values = np.repeat(np.asarray(getattr(mjm, field), dtype=np.float64)[None], n, axis=0)
        values[:, where] *= factor.reshape(n, *[1] * (values.ndim - 1))
        return values

    own = np.asarray(bodies)
    made = {
        "body_mass": scaled("body_mass", own, mass),
        "body_inertia": scaled("body_inertia", own, mass * size**2),
        "geom_friction": scaled("geom_friction", slippery, np.ones(n)),
    }
    made["geom_friction"][:, slippery, 0] *= friction[:, None]
    if (size != 1.0).any():
        made["body_ipos"] = scaled("body_ipos", own, size)
        for field in ("geom_size", "geom_pos", "geom_rbound"):
            made[field] = scaled(field, geoms, size)
        made["geom_aabb"] = scaled("geom_aabb", geoms, size).reshape(n, mjm.ngeom, 2, 3)
    return made


def varied(problem: Problem, *, friction: float = 1.0, mass: float = 1.0, size: float = 1.0) -> Problem:
    """The problem with a plant whose bodies differ by these factors; planners made from `problem` do not know."""
    for name, value in zip(WHAT, (friction, mass, size), strict=True):
        if not 0.0 < value < np.inf:
            raise InputError(f"{name} {value}: it is a factor and must be above 0 and finite")
    mjm = copy.copy(problem.mjm)
    for field, values in fields(mjm, bodies(problem), np.array([[friction, mass, size]])).items():
        getattr(mjm, field)[:] = values[0].reshape(getattr(mjm, field).shape)
    mujoco.mj_setConst(mjm, mujoco.MjData(mjm))
    return dataclasses.replace(problem, mjm=mjm)
