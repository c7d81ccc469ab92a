"""Smooth dynamics of a model in one launch."""

import dataclasses

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.model import Model
from stickslip.physics.mjwarp.smooth.factor import Factor, threads
from stickslip.physics.mjwarp.smooth.fields import data_fields, model_fields, reaction_fields, row_counts
from stickslip.physics.mjwarp.smooth.kernel import memory_for, reactions_kernel, smooth_kernel, worlds_of
from stickslip.physics.mjwarp.smooth.tables import left_to_mujoco_warp, reaction_room_of, room_of


@dataclasses.dataclass(frozen=True)
class Smooth:
    """What the launch makes besides fields of the data.

    Attributes:
        M: M with its factors; None if they were not asked for
        H: the integrator's matrix with its factors; None if they were not asked for
        qacc: H^-1 qfrc_smooth; None without H                                                  (nworld, nv)
    """

    M: Factor | None
    H: Factor | None
    qacc: wp.array | None


def is_fused(m: mjw.Model) -> bool:
    """Whether `find_smooth` can take the place of MuJoCo Warp's stages; options and callbacks can change that."""
    if not isinstance(m, Model) or m.structure.smooth is None or left_to_mujoco_warp(m):
        return False
    return len(row_counts(m)) < 2


def find_smooth(
    m: Model,
    d: mjw.Data,
    *,
    begins: bool = False,
    factor_M: bool = False,
    solve_M: bool = False,
    factor_H: bool = False,
    only_motion: bool = False,
    write_velocities: bool = True,
    worlds: wp.array | None = None,
) -> Smooth:
    """Poses, inertia, velocities, forces and `qfrc_smooth` of every world; see `fields.OUTPUTS`.

    Args:
        m: model, of which `is_fused` holds
        d: data
        begins: a step: also clear `sensordata`, `energy`, and if contacts will be found, `nacon` and `ncollision`
        factor_M: also factor M
        solve_M: and find `qacc_smooth` with it
        factor_H: also make the integrator's matrix, factor it, and find the acceleration with it
        only_motion: stop after poses, velocities, and lengths and velocities of tendons and actuators
        write_velocities: also write `cvel` and `cdof_dot`
        worlds: mask of the worlds to find it in; none: all
    """
    order, tables = m.structure.order, m.structure.smooth
    if tables is None:
        raise ValueError("this model needs MuJoCo Warp's stages: see `not_covered`")
    device, nworld = d.qpos.device, d.nworld
    implicit = m.opt.integrator == mjw.IntegratorType.IMPLICITFAST
    gyroscopic = implicit and factor_H and m.body_freeadr.size > 0
    fields = model_fields(
        m,
        order,
        tables,
        nmoment_room=d.actuator_moment.shape[1],
        nv_room=m.body_isdofancestor.shape[1],
        implicit=int(implicit),
        factor_M=int(factor_M),
        solve_M=int(solve_M),
        factor_H=int(factor_H),
        write_crb=int(gyroscopic),
        begins=int(begins),
        nsensordata=d.sensordata.shape[1],
        clear_contacts=int(m.opt.run_collision_detection),
        only_motion=int(only_motion),
        write_velocities=int(write_velocities),
    )
    found_M = _make_factor(m, d.M) if factor_M else None
    found_H = _make_factor(m, wp.empty((nworld, m.nC), dtype=float)) if factor_H else None
    qacc = wp.empty((nworld, m.nv), dtype=float) if factor_H else None
    room, scratch, stride = memory_for(room_of(order, tables), nworld, device)
    wp.launch(
        smooth_kernel(room),
        threads(nworld, device),
        inputs=[fields, data_fields(d, worlds), stride],
        outputs=[
            *((found_M.L, found_M.Dinv) if found_M else (None, None)),
            *((found_H.H, found_H.L, found_H.Dinv) if found_H else (None, None, None)),
            qacc,
            scratch,
        ],
        block_dim=32 * worlds_of(room),
    )
    if qacc is not None:
        private.solve_free_bodies(m, d, qacc, d.qfrc_smooth)
    return Smooth(found_M, found_H, qacc)


def _make_factor(m: mjw.Model, H: wp.array) -> Factor:
    return Factor(H, wp.empty_like(H), wp.empty((H.shape[0], m.nv), dtype=float))


def find_reactions(m: mjw.Model, d: mjw.Data) -> None:
    """Accelerations of bodies, external forces on them and forces between them, once those of constraints are known.

    `cacc`, `cfrc_ext` and `cfrc_int`, in one launch where `is_fused` holds. Constraint forces come from the rows.
    """
    if not isinstance(m, Model) or m.structure.smooth is None or not is_fused(m):
        mjw.rne_postconstraint(m, d)
        return
    tables, device = m.structure.smooth, d.qpos.device
    room, scratch, stride = memory_for(reaction_room_of(tables), d.nworld, device)
    inputs = [model_fields(m, m.structure.order, tables), reaction_fields(m, d), stride]
    wp.launch(
        reactions_kernel(room),
        threads(d.nworld, device),
        inputs=inputs,
        outputs=[scratch],
        block_dim=32 * worlds_of(room),
    )
