"""A model and its parameters, made ready for JAX."""

# pyright: reportMissingImports=false

from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

from stickslip.errors import InputError
from stickslip.physics.scm.cloud import Cloud, cloud_of
from stickslip.physics.scm.field import Points, force_of_plane, force_of_planes, signed_distance
from stickslip.physics.scm.structure import (
    dofs_of_bodies,
    group_pairs,
    make_clouds,
    points_for,
    shelves_of,
    touching_pairs,
    without_contact,
)
from stickslip.physics.scm.system import System
from stickslip.physics.scm.values import Inputs, Params, State

if TYPE_CHECKING:
    from stickslip.physics.scm.physics import Scm


def pair_stiffness(mjm: mujoco.MjModel, pairs: list[tuple[int, int]], timeconst: float) -> np.ndarray:
    """Stiffness that makes the lighter body of each pair swing at 1/timeconst, N/m."""
    weight = mjm.body_invweight0[:, 0]
    inverse = np.array([weight[mjm.geom_bodyid[a]] + weight[mjm.geom_bodyid[b]] for a, b in pairs])
    return 1.0 / (np.maximum(inverse, 1e-12) * timeconst**2)


def build(physics: "Scm", mjm: mujoco.MjModel, shapes: Mapping[int, Cloud] | None = None) -> tuple[System, Params]:
    """Functions and parameters of a model; in double precision where JAX is set to it.

    Args:
        physics: its parameters
        mjm: the model
        shapes: cloud of each geom that may touch another; made of the model unless given
    """
    kind = jnp.zeros(0).dtype
    mx = mjx.put_model(without_contact(mjm))
    if shapes is None:
        shapes = make_clouds(mjm, physics.points, physics.mesh_points)
    members, shelf, row = shelves_of(shapes, mjm.ngeom)
    planes = [k for k, geoms in enumerate(members) if shapes[geoms[0]].open]
    groups = group_pairs(touching_pairs(mjm), shelf, row, planes[0] if planes else None)
    order = [pair for g in groups for pair in zip(g.first.tolist(), g.second.tolist(), strict=True)]
    stiffness = (
        np.full(len(order), physics.stiffness)
        if physics.stiffness is not None
        else pair_stiffness(mjm, order, physics.timeconst)
    )
    points = tuple(
        Points(
            jnp.asarray(np.stack([shapes[g].quads.point for g in geoms]), dtype=kind),
            jnp.asarray(np.stack([shapes[g].quads.normal for g in geoms]), dtype=kind),
            jnp.asarray([shapes[g].spacing ** 2 for g in geoms], dtype=kind),
            jnp.asarray(np.stack([shapes[g].quads.vertices for g in geoms]), dtype=kind),
        )
        for geoms in members
    )
    start = np.cumsum([0, *(len(g.first) for g in groups)])[:-1]
    limit = (
        1.0 / (np.maximum(mjm.dof_invweight0[mjm.jnt_dofadr], 1e-12) * physics.timeconst**2)
        if mjm.njnt
        else np.zeros(0)
    )
    system = System(
        groups=tuple(groups),
        members=tuple(tuple(geoms) for geoms in members),
        pair_of=tuple(int(s) for s in start),
        geom_body=mjm.geom_bodyid.copy(),
        body_root=mjm.body_rootid.copy(),
        moved=dofs_of_bodies(mjm),
        priority=mjm.geom_priority.copy(),
        condim=mjm.geom_condim.copy(),
        force_law=force_of_planes if physics.average == "forces" else force_of_plane,
        block=physics.block,
        integrator=physics.integrator,
        comfree=(physics.comfree_stiffness, physics.comfree_damping) if physics.contact == "comfree" else None,
        lightness=mjm.body_invweight0[:, 0].copy(),
        data=mjx.make_data(mx),
    )

    def number(value: float) -> jax.Array:
        return jnp.asarray(value, dtype=kind)

    params = Params(
        model=mx,
        points=points,
        friction=jnp.asarray(mjm.geom_friction[:, 0], dtype=kind),
        stiffness=jnp.asarray(stiffness, dtype=kind),
        limit=jnp.asarray(limit, dtype=kind),
        dissipation=number(physics.dissipation),
        stiction=number(physics.stiction),
        blend=number(physics.blend),
        select=number(physics.select),
        reach=number(physics.reach),
    )
    return system, params


def start_of(mjm: mujoco.MjModel) -> tuple[State, Inputs]:
    """State and inputs at a model's start."""
    d = mujoco.MjData(mjm)
    if mjm.nkey:
        mujoco.mj_resetDataKeyframe(mjm, d, 0)
    kind = jnp.zeros(0).dtype

    def put(x: object) -> jax.Array:
        return jnp.asarray(np.array(x), dtype=kind)

    return State(put(d.time), put(d.qpos), put(d.qvel), put(d.act)), Inputs(
        put(d.ctrl), put(d.qfrc_applied), put(d.xfrc_applied), put(d.mocap_pos), put(d.mocap_quat)
    )


def distance_of(physics: "Scm", mjm: mujoco.MjModel, geom: int, places: np.ndarray) -> np.ndarray:
    """Soft signed distance of places in the frame of a geom to the cloud of it, (n,)."""
    if not 0 <= geom < mjm.ngeom:
        raise InputError(f"geom is {geom}: the model has geoms 0 to {mjm.ngeom - 1}; choose among them")
    cloud = cloud_of(mjm, geom, points_for(mjm, geom, physics.points, physics.mesh_points))
    kind = jnp.zeros(0).dtype
    given = (cloud.quads.point, cloud.quads.normal, cloud.spacing**2, np.zeros((0, 3)))
    surface = Points(*(jnp.asarray(x, dtype=kind) for x in given))
    size = max(1, physics.block // len(cloud.quads.point))
    parts = [signed_distance(jnp.asarray(x, kind), surface, physics.blend) for x in _chunks(places, size)]
    return np.concatenate([np.asarray(part) for part in parts])


def _chunks(x: np.ndarray, size: int) -> list[np.ndarray]:
    return [x[start : start + size] for start in range(0, len(x), size)]
