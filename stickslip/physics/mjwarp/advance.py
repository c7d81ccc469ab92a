"""The state at the end of a step, and the record of what the step needed, in one launch."""

import mujoco_warp as mjw
import warp as wp
from mujoco_warp import JointType, OverflowType

from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.data import Data, record_peak
from stickslip.physics.mjwarp.model import Model
from stickslip.physics.mjwarp.private import next_act, quat_integrate, vec10, wrap_period
from stickslip.physics.mjwarp.smooth.smooth import is_fused

wp.set_module_options({"enable_backward": False})


@wp.func
def _turn(qpos: wp.array[float], qadr: int, qvel: wp.array[float], dofadr: int, timestep: float):
    """Turn the quaternion at `qadr` with the angular velocity at `dofadr`."""
    quat = wp.quat(qpos[qadr], qpos[qadr + 1], qpos[qadr + 2], qpos[qadr + 3])
    omega = wp.vec3(qvel[dofadr], qvel[dofadr + 1], qvel[dofadr + 2])
    turned = quat_integrate(quat, omega, timestep)
    for i in range(4):
        qpos[qadr + i] = turned[i]


@wp.kernel
def _advance(
    nlane: int,
    # Model:
    njnt: int,
    opt_timestep: wp.array[float],
    jnt_type: wp.array[int],
    jnt_qposadr: wp.array[int],
    jnt_dofadr: wp.array[int],
    actuator_trntype: wp.array[int],
    actuator_dyntype: wp.array[int],
    actuator_gaintype: wp.array[int],
    actuator_biastype: wp.array[int],
    actuator_actadr: wp.array[int],
    actuator_actnum: wp.array[int],
    actuator_trnid: wp.array[wp.vec2i],
    actuator_dynprm: wp.array2d[vec10],
    actuator_gainprm: wp.array2d[vec10],
    actuator_biasprm: wp.array2d[vec10],
    actuator_actlimited: wp.array[bool],
    actuator_actrange: wp.array2d[wp.vec2],
    actuator_gear: wp.array2d[wp.spatial_vector],
    # Data in:
    naconmax: int,
    njmax: int,
    nacon_in: wp.array[int],
    ncollision_in: wp.array[int],
    nefc_in: wp.array[int],
    act_dot_in: wp.array2d[float],
    actuator_length_in: wp.array2d[float],
    qacc_in: wp.array2d[float],
    # In:
    motion_in: wp.array2d[float],
    velocity_in: wp.array2d[float],
    # Data out:
    time_out: wp.array[float],
    qpos_out: wp.array2d[float],
    qvel_out: wp.array2d[float],
    act_out: wp.array2d[float],
    qacc_warmstart_out: wp.array2d[float],
    overflow_out: wp.array[int],
    peak_out: wp.array[int],
):
    """The joints of a world, its actuators, and time and record: a lane each, or all in one.

    Positions move by `velocity_in`, or by the new velocities where that has no worlds.
    """
    worldid, lane = wp.tid()
    timestep = opt_timestep[worldid % opt_timestep.shape[0]]
    for index in range(lane, njnt + actuator_actadr.shape[0] + 1, nlane):
        if index < njnt:
            type = jnt_type[index]
            dofadr = jnt_dofadr[index]
            qadr = jnt_qposadr[index]
            ndof = int(1)
            if type == int(JointType.FREE):
                ndof = 6
            elif type == int(JointType.BALL):
                ndof = 3
            for i in range(ndof):
                v = dofadr + i
                qvel_out[worldid, v] = qvel_out[worldid, v] + motion_in[worldid, v] * timestep
                qacc_warmstart_out[worldid, v] = qacc_in[worldid, v]
            qpos = qpos_out[worldid]
            qvel = qvel_out[worldid]
            if velocity_in.shape[0] > 0:
                qvel = velocity_in[worldid]
            if type == int(JointType.FREE):
                for i in range(3):
                    qpos[qadr + i] = qpos[qadr + i] + timestep * qvel[dofadr + i]
                _turn(qpos, qadr + 3, qvel, dofadr + 3, timestep)
            elif type == int(JointType.BALL):
                _turn(qpos, qadr, qvel, dofadr, timestep)
            else:
                qpos[qadr] = qpos[qadr] + timestep * qvel[dofadr]
        elif index < njnt + actuator_actadr.shape[0]:
            a = index - njnt
            dyntype = actuator_dyntype[a]
            for j in range(actuator_actadr[a], actuator_actadr[a] + actuator_actnum[a]):
                act = next_act(
                    timestep,
                    dyntype,
                    actuator_dynprm[worldid % actuator_dynprm.shape[0], a],
                    actuator_actrange[worldid % actuator_actrange.shape[0], a],
                    act_out[worldid, j],
                    act_dot_in[worldid, j],
                    1.0,
                    actuator_actlimited[a],
                )
                period = wrap_period(
                    jnt_type,
                    actuator_trntype[a],
                    dyntype,
                    actuator_gaintype[a],
                    actuator_biastype[a],
                    actuator_trnid[a],
                    actuator_gainprm[worldid % actuator_gainprm.shape[0], a],
                    actuator_biasprm[worldid % actuator_biasprm.shape[0], a],
                    actuator_gear[worldid % actuator_gear.shape[0], a],
                )
                if period > 0.0:
                    act -= period * wp.round((act - actuator_length_in[worldid, a]) / period)
                act_out[worldid, j] = act
        else:
            time_out[worldid] = time_out[worldid] + timestep
            overflow = int(0)
            if nefc_in[worldid] > njmax:
                overflow = overflow | int(OverflowType.NEFC)
            if ncollision_in[0] > naconmax:
                overflow = overflow | int(OverflowType.BROADPHASE)
            if nacon_in[0] > naconmax:
                overflow = overflow | int(OverflowType.NARROWPHASE)
            if overflow != 0:
                overflow_out[worldid] = overflow_out[worldid] | overflow
            if peak_out.shape[0] > 0:
                if worldid == 0:
                    wp.atomic_max(peak_out, 0, nacon_in[0])
                    wp.atomic_max(peak_out, 1, ncollision_in[0])
                if nefc_in[worldid] > peak_out[2]:
                    wp.atomic_max(peak_out, 2, nefc_in[worldid])


def advance(m: Model, d: mjw.Data, qacc: wp.array, velocity: wp.array | None) -> None:
    """Advance the state, and record the largest numbers of contacts, geom pairs and rows.

    Models that only MuJoCo Warp's stages cover take its own launches, and so do those that print what overflows.

    Args:
        m: model
        d: data; `d.qacc` becomes the warm start
        qacc: acceleration that makes the new velocities
        velocity: what moves the positions; None: the new velocities
    """
    if not is_fused(m) or m.opt.warn_overflow:
        private.advance(m, d, qacc, velocity)
        if isinstance(d, Data):
            record_peak(d)
        return
    nlane = m.njnt + m.nactuator + 1 if d.qpos.device.is_cuda else 1
    wp.launch(
        _advance,
        dim=(d.nworld, nlane),
        inputs=[
            nlane,
            m.njnt,
            m.opt.timestep,
            m.jnt_type,
            m.jnt_qposadr,
            m.jnt_dofadr,
            m.actuator_trntype,
            m.actuator_dyntype,
            m.actuator_gaintype,
            m.actuator_biastype,
            m.actuator_actadr,
            m.actuator_actnum,
            m.actuator_trnid,
            m.actuator_dynprm,
            m.actuator_gainprm,
            m.actuator_biasprm,
            m.actuator_actlimited,
            m.actuator_actrange,
            m.actuator_gear,
            d.naconmax,
            d.njmax,
            d.nacon,
            d.ncollision,
            d.nefc,
            d.act_dot,
            d.actuator_length,
            d.qacc,
            qacc,
            velocity,
        ],
        outputs=[
            d.time,
            d.qpos,
            d.qvel,
            d.act,
            d.qacc_warmstart,
            d.overflow,
            d.peak if isinstance(d, Data) else None,
        ],
    )
