"""Smooth dynamics of a model in one launch."""

import dataclasses

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.smooth.factor import Factor, threads
from stickslip.physics.mjwarp.smooth.fields import data_fields, model_fields
from stickslip.physics.mjwarp.smooth.kernel import kernel_with, room_for, worlds_of
from stickslip.physics.mjwarp.smooth.tables import Tables, room_of


@dataclasses.dataclass(frozen=True)
class Smooth:
    """What the launch makes besides fields of the data.

    Attributes:
        M: M with its factors, and with them `qacc_smooth`; None if they were not asked for
        H: the integrator's matrix with its factors; None if they were not asked for
        qacc: H^-1 qfrc_smooth; None without H                                                  (nworld, nv)
    """

    M: Factor | None
    H: Factor | None
    qacc: wp.array | None


def find_smooth(
    m: mjw.Model, d: mjw.Data, order: Tables, tables: Tables, *, factor_M: bool = False, factor_H: bool = False
) -> Smooth:
    """Poses, inertia, velocities, forces and `qfrc_smooth` of every world; see `fields.OUTPUTS`.

    Args:
        m: model
        d: data
        order: how its matrix is factored
        tables: of its tree
        factor_M: also factor M, and find `qacc_smooth`
        factor_H: also make the integrator's matrix, factor it, and find the acceleration with it
    """
    device, nworld = d.qpos.device, d.nworld
    implicit = m.opt.integrator == mjw.IntegratorType.IMPLICITFAST
    gyroscopic = implicit and factor_H and m.body_freeadr.size > 0
    fields = model_fields(
        m,
        order,
        tables,
        nmoment_room=d.actuator_moment.shape[1],
        disableflags=int(m.opt.disableflags),
        implicit=int(implicit),
        factor_M=int(factor_M),
        factor_H=int(factor_H),
        write_crb=int(gyroscopic),
    )
    own: dict[str, wp.array] = {}

    def make_factor(H: wp.array, L: str, Dinv: str) -> Factor:
        factor = Factor(H, wp.empty((nworld, m.nC), dtype=float), wp.empty((nworld, m.nv), dtype=float))
        own.update({L: factor.L, Dinv: factor.Dinv})
        return factor

    found_M = make_factor(d.M, "LM", "DinvM") if factor_M else None
    found_H, qacc = None, None
    if factor_H:
        own["H"] = wp.empty((nworld, m.nC), dtype=float)
        own["qacc_free"] = qacc = wp.empty((nworld, m.nv), dtype=float)
        found_H = make_factor(own["H"], "L", "Dinv")
    need = room_of(order, tables)
    room = room_for(need) if device.is_cuda else 0
    scratch = wp.empty(1 if room else need * (nworld if device.is_cuda else 1), dtype=float)
    wp.launch(
        kernel_with(room),
        threads(nworld, device),
        inputs=[fields, data_fields(d, own), scratch.ptr, need if device.is_cuda else 0],
        block_dim=32 * worlds_of(room),
    )
    if m.ncam + m.nlight:
        mjw.camlight(m, d)
    if qacc is not None:
        private.solve_free_bodies(m, d, qacc, d.qfrc_smooth)
    return Smooth(found_M, found_H, qacc)
