"""What the functions of a model take and return, as pytrees of JAX."""

# pyright: reportMissingImports=false

from typing import NamedTuple

import jax
from mujoco import mjx

from stickslip.physics.scm.field import Points

Array = jax.Array


class State(NamedTuple):
    """What a step changes.

    Attributes:
        time: s                      ()
        qpos: MuJoCo's positions     (nq,)
        qvel: MuJoCo's velocities    (nv,)
        act: activations             (na,)
    """

    time: Array
    qpos: Array
    qvel: Array
    act: Array


class Inputs(NamedTuple):
    """Inputs of a step.

    Attributes:
        ctrl: controls                                   (nu,)
        qfrc_applied: generalized forces                 (nv,)
        xfrc_applied: forces and torques on bodies       (nbody, 6)
        mocap_pos, mocap_quat: poses of mocap bodies     (nmocap, 3), (nmocap, 4)
    """

    ctrl: Array
    qfrc_applied: Array
    xfrc_applied: Array
    mocap_pos: Array
    mocap_quat: Array


class Params(NamedTuple):
    """Parameters that a simulation can be differentiated by, besides state and inputs.

    Attributes:
        model: MJX's model: masses, inertias, gravity, damping, actuators, ...
        points: clouds of geoms; those with the same number of points are one array, (ngeom, n, 3)
        friction: sliding friction of each geom                     (ngeom,)
        stiffness: of each pair of geoms, N/m                       (npair,)
        limit: stiffness of the limits of joints                    (njnt,)
        dissipation, stiction, blend, select, reach: see `Law`      ()
    """

    model: mjx.Model
    points: tuple[Points, ...]
    friction: Array
    stiffness: Array
    limit: Array
    dissipation: Array
    stiction: Array
    blend: Array
    select: Array
    reach: Array


class Moment(NamedTuple):
    """Mass matrix and forces of a state.

    Attributes:
        mass: mass matrix                                            (nv, nv)
        force: generalized force                                     (nv,)
        damping: minus the slope of contact forces over velocity     (nv, nv)
        rate: time derivative of activations, 1/s                    (na,)
        distance: of each pair of geoms, m                           (npair,)
    """

    mass: Array
    force: Array
    damping: Array
    rate: Array
    distance: Array
