"""Whether bodies of a robot touch each other: on request, or as its model has it."""

import itertools

import mujoco
import numpy as np

from stickslip.errors import InputError


def set_self_collision(spec: mujoco.MjSpec, thing: str, on: bool | None, robot: str) -> None:
    """Let bodies of a robot not touch each other, or make sure that they can.

    Args:
        spec: the robot's scene
        thing: name of the free body that is no part of the robot; empty: none
        on: None: as the model has it; False: all pairs of bodies are excluded; True: they must touch as the model is
        robot: its name, for the error

    Raises:
        InputError: no two bodies of the model can touch each other, and they are to
    """
    if on is None:
        return
    for number, body in enumerate(spec.bodies):
        body.name = body.name or f"body_{number}"  # a pair of bodies is excluded by their names
    mjm = spec.compile()
    own = _own(mjm, thing)
    if on:
        if not any(_touch(mjm, a, b) for a, b in itertools.combinations(own, 2)):
            raise InputError(
                f"self_collision: no two bodies of the robot {robot} can touch each other; set contype and conaffinity "
                "of their geoms, or add contact pairs, in its model"
            )
        return
    bodies = {mjm.body(body).name for body in own}
    for pair in list(spec.pairs):
        if {spec.geom(pair.geomname1).parent.name, spec.geom(pair.geomname2).parent.name} <= bodies:
            spec.delete(pair)
    there = {frozenset((exclude.bodyname1, exclude.bodyname2)) for exclude in spec.excludes}
    for a, b in itertools.combinations(own, 2):
        one, other = mjm.body(a).name, mjm.body(b).name
        if _touch(mjm, a, b) and frozenset((one, other)) not in there:
            spec.add_exclude(bodyname1=one, bodyname2=other)


def _own(mjm: mujoco.MjModel, thing: str) -> list[int]:
    """Bodies of the robot that have geoms: those of trees with joints, but for the thing's."""
    roots = {int(mjm.body_rootid[body]) for body in mjm.dof_bodyid} - ({mjm.body(thing).id} if thing else set())
    has = {int(body) for body in mjm.geom_bodyid}
    return [b for b in range(1, mjm.nbody) if b in has and int(mjm.body_rootid[b]) in roots]


def _touch(mjm: mujoco.MjModel, a: int, b: int) -> bool:
    """Whether MuJoCo makes contacts between two bodies."""
    one, other = np.flatnonzero(mjm.geom_bodyid == a), np.flatnonzero(mjm.geom_bodyid == b)
    paired = {frozenset(pair) for pair in zip(mjm.pair_geom1.tolist(), mjm.pair_geom2.tolist(), strict=True)}
    if any(frozenset((int(g), int(h))) in paired for g in one for h in other):
        return True
    weld = mjm.body_weldid
    if weld[a] == weld[b] or _related(mjm, a, b):
        return False
    kind, affinity = mjm.geom_contype, mjm.geom_conaffinity
    return any((kind[g] & affinity[h]) | (kind[h] & affinity[g]) for g in one for h in other)


def _related(mjm: mujoco.MjModel, a: int, b: int) -> bool:
    """Whether one of two bodies hangs on the other, which MuJoCo filters, if that one is not fixed to the world."""
    weld = mjm.body_weldid
    for child, parent in ((a, b), (b, a)):
        above = weld[mjm.body_parentid[weld[child]]]
        if above == weld[parent] and above != 0:
            return True
    return False
