"""What acts along one velocity: equalities, limits, dry friction, actuators, springs and dampers of tendons.

Which rows there are, and the dofs of each, follow from the model; their values and laws come with each geometry.
"""

import copy

import mujoco
import mujoco_warp as mjw
import warp as wp

from stickslip.physics.convex.step.layout import Law, RowSet
from stickslip.physics.convex.step.plan import Source
from stickslip.physics.convex.step.potential import real
from stickslip.physics.mjwarp.geometry import ball_limit
from stickslip.physics.mjwarp.private import EqType, vec10

wp.set_module_options({"enable_backward": False})


LOWER = wp.constant(int(Source.LOWER))
UPPER = wp.constant(int(Source.UPPER))
BALL = wp.constant(int(Source.BALL))
TENDON_LOWER = wp.constant(int(Source.TENDON_LOWER))
TENDON_UPPER = wp.constant(int(Source.TENDON_UPPER))
DRY = wp.constant(int(Source.DRY))
TENDON_DRY = wp.constant(int(Source.TENDON_DRY))
ACTUATOR = wp.constant(int(Source.ACTUATOR))
TENDON_SPRING = wp.constant(int(Source.TENDON_SPRING))
EXTERNAL = wp.constant(int(Source.EXTERNAL))

_RIGID = wp.constant(int(Law.RIGID))
_LIMIT = wp.constant(int(Law.LIMIT))
_LINEAR = wp.constant(int(Law.LINEAR))
_DRY = wp.constant(int(Law.DRY))
_OFF = wp.constant(int(Law.OFF))

_UNBOUNDED = wp.constant(wp.float64(1.0e30))
_LEAST_WEIGHT = wp.constant(wp.float64(1.0e-15))
_AFFINE = wp.constant(int(mujoco.mjtGain.mjGAIN_AFFINE))
_BIAS_AFFINE = wp.constant(int(mujoco.mjtBias.mjBIAS_AFFINE))


@wp.struct
class Joints:
    """Where rows get their values: MuJoCo Warp's model and data."""

    source: wp.array[wp.vec3i]
    jnt_type: wp.array[int]
    jnt_qposadr: wp.array[int]
    jnt_dofadr: wp.array[int]
    jnt_range: wp.array2d[wp.vec2]
    jnt_actfrclimited: wp.array[bool]
    jnt_actfrcrange: wp.array2d[wp.vec2]
    dof_invweight0: wp.array2d[float]
    dof_frictionloss: wp.array2d[float]
    tendon_range: wp.array2d[wp.vec2]
    tendon_invweight0: wp.array2d[float]
    tendon_frictionloss: wp.array2d[float]
    tendon_stiffness: wp.array2d[float]
    tendon_damping: wp.array2d[float]
    tendon_lengthspring: wp.array2d[wp.vec2]
    ten_J_rowadr: wp.array[int]
    ten_length: wp.array2d[float]
    ten_J: wp.array2d[float]
    actuator_trntype: wp.array[int]
    actuator_trnid: wp.array[wp.vec2i]
    actuator_gaintype: wp.array[int]
    actuator_biastype: wp.array[int]
    actuator_gainprm: wp.array2d[vec10]
    actuator_biasprm: wp.array2d[vec10]
    actuator_gear: wp.array2d[wp.spatial_vector]
    actuator_forcelimited: wp.array[bool]
    actuator_forcerange: wp.array2d[wp.vec2]
    actuator_ctrllimited: wp.array[bool]
    actuator_ctrlrange: wp.array2d[wp.vec2]
    actuator_ctrladr: wp.array[int]
    actuator_ctrlnum: wp.array[int]
    actuator_actadr: wp.array[int]
    actuator_actnum: wp.array[int]
    moment_rownnz: wp.array2d[int]
    moment_rowadr: wp.array2d[int]
    moment_colind: wp.array2d[int]
    actuator_moment: wp.array2d[float]
    actuator_length: wp.array2d[float]
    actuator_velocity: wp.array2d[float]
    actuator_force: wp.array2d[float]
    qpos: wp.array2d[float]
    ctrl: wp.array2d[float]
    act: wp.array2d[float]
    clamp_ctrl: bool
    springs: bool
    dampers: bool


_OF_DATA = (
    "ten_length ten_J moment_rownnz moment_rowadr moment_colind actuator_moment actuator_length actuator_velocity "
    "actuator_force qpos ctrl act"
).split()
"""Fields of `Joints` that come from MuJoCo Warp's data; the arrays before them come from its model."""
_COMPUTED = ("source", "clamp_ctrl", "springs", "dampers")


def joints_of(m: mjw.Model, d: mjw.Data, source: wp.array) -> Joints:
    """The values of a model and its data."""
    joints = Joints()
    joints.source = source
    joints.clamp_ctrl = not m.opt.disableflags & mjw.DisableBit.CLAMPCTRL
    joints.springs = not m.opt.disableflags & mjw.DisableBit.SPRING
    joints.dampers = not m.opt.disableflags & mjw.DisableBit.DAMPER
    for name in Joints.vars:
        if name not in _COMPUTED:
            setattr(joints, name, getattr(d if name in _OF_DATA else m, name))
    return joints


@wp.func
def linear_force(joints: Joints, worldid: int, i: int):
    """Force of an actuator without its bounds, and minus its slopes over velocity and length."""
    u = float(0.0)
    if joints.actuator_actadr[i] >= 0:
        u = joints.act[worldid, joints.actuator_actadr[i] + joints.actuator_actnum[i] - 1]
    elif joints.actuator_ctrlnum[i] > 0:
        adr = joints.actuator_ctrladr[i]
        u = joints.ctrl[worldid, adr]
        if joints.clamp_ctrl and joints.actuator_ctrllimited[adr]:
            bounds = joints.actuator_ctrlrange[worldid % joints.actuator_ctrlrange.shape[0], adr]
            u = wp.clamp(u, bounds[0], bounds[1])
    gain = joints.actuator_gainprm[worldid % joints.actuator_gainprm.shape[0], i]
    length = real(joints.actuator_length[worldid, i])
    velocity = real(joints.actuator_velocity[worldid, i])
    force = real(gain[0])
    rate = real(0.0)
    spring = real(0.0)
    if joints.actuator_gaintype[i] == _AFFINE:
        force += real(gain[1]) * length + real(gain[2]) * velocity
        spring = -real(gain[1]) * real(u)
        rate = -real(gain[2]) * real(u)
    force *= real(u)
    if joints.actuator_biastype[i] == _BIAS_AFFINE:
        bias = joints.actuator_biasprm[worldid % joints.actuator_biasprm.shape[0], i]
        force += real(bias[0]) + real(bias[1]) * length + real(bias[2]) * velocity
        spring -= real(bias[1])
        rate -= real(bias[2])
    return force, rate, spring


@wp.func
def fill_actuator(joints: Joints, rows: RowSet, worldid: int, r: int, i: int):
    """An actuator's law, and the moment of its joint or tendon."""
    force, rate, spring = linear_force(joints, worldid, i)
    low = -_UNBOUNDED
    high = _UNBOUNDED
    if joints.actuator_forcelimited[i]:
        bounds = joints.actuator_forcerange[worldid % joints.actuator_forcerange.shape[0], i]
        low = real(bounds[0])
        high = real(bounds[1])
    target = joints.actuator_trnid[i][0]
    of_joint = joints.actuator_trntype[i] != wp.static(int(mujoco.mjtTrn.mjTRN_TENDON))
    if of_joint and joints.jnt_actfrclimited[target]:
        bounds = joints.jnt_actfrcrange[worldid % joints.jnt_actfrcrange.shape[0], target]
        gear = real(joints.actuator_gear[worldid % joints.actuator_gear.shape[0], i][0])
        low = wp.max(low, wp.min(real(bounds[0]) / gear, real(bounds[1]) / gear))
        high = wp.min(high, wp.max(real(bounds[0]) / gear, real(bounds[1]) / gear))
    # MuJoCo Warp's own value knows more (activation ahead of time, setpoints that wrap) but ends at the bounds
    reported = real(joints.actuator_force[worldid, i])
    if (reported > low and reported < high) or (reported <= low and force > low) or (reported >= high and force < high):
        force = reported
    rows.law[worldid, r] = _LINEAR
    rows.residual[worldid, r] = force
    rows.rate[worldid, r] = rate
    rows.spring[worldid, r] = spring
    rows.low[worldid, r] = low
    rows.high[worldid, r] = high
    rows.vel[worldid, r] = real(joints.actuator_velocity[worldid, i])
    adr = joints.moment_rowadr[worldid, i]
    for k in range(rows.adr[r], rows.adr[r] + rows.num[r]):
        value = real(0.0)
        for e in range(adr, adr + joints.moment_rownnz[worldid, i]):
            if joints.moment_colind[worldid, e] == rows.col[k]:
                value += real(joints.actuator_moment[worldid, e])
        rows.val[worldid, k] = value


@wp.func
def fill_tendon(joints: Joints, rows: RowSet, worldid: int, r: int, tendon: int, sign: real):
    adr = joints.ten_J_rowadr[tendon]
    for k in range(rows.num[r]):
        rows.val[worldid, rows.adr[r] + k] = sign * real(joints.ten_J[worldid, adr + k])


@wp.kernel
def fill_rows(joints: Joints, v_start: wp.array2d[real], rows: RowSet):
    """Values and laws of all rows but equalities, which are switched off here and filled next."""
    worldid, r = wp.tid()
    kind = joints.source[r][0]
    i = joints.source[r][1]
    at = rows.adr[r]
    rows.law[worldid, r] = _OFF
    rows.bias[worldid, r] = real(0.0)  # no solve sets the impulse of a row that stays off
    rows.gain[worldid, r] = real(0.0)
    if kind == LOWER or kind == UPPER:  # noqa: SIM109 - Warp knows no `in`
        bounds = joints.jnt_range[worldid % joints.jnt_range.shape[0], i]
        q = joints.qpos[worldid, joints.jnt_qposadr[i]]
        rows.law[worldid, r] = _LIMIT
        rows.val[worldid, at] = wp.where(kind == LOWER, real(1.0), real(-1.0))
        rows.residual[worldid, r] = real(wp.where(kind == LOWER, q - bounds[0], bounds[1] - q))
        rows.weight[worldid, r] = real(
            joints.dof_invweight0[worldid % joints.dof_invweight0.shape[0], joints.jnt_dofadr[i]]
        )
    elif kind == BALL:
        bounds = joints.jnt_range[worldid % joints.jnt_range.shape[0], i]
        distance, axis = ball_limit(joints.qpos, worldid, joints.jnt_qposadr[i], bounds)
        for k in range(3):
            rows.val[worldid, at + k] = -real(axis[k])
        if wp.length(axis) > 0.0:  # at the reference pose no axis is distinguished
            rows.law[worldid, r] = _LIMIT
        rows.residual[worldid, r] = real(distance)
        rows.weight[worldid, r] = real(
            joints.dof_invweight0[worldid % joints.dof_invweight0.shape[0], joints.jnt_dofadr[i]]
        )
    elif kind == TENDON_LOWER or kind == TENDON_UPPER:  # noqa: SIM109
        bounds = joints.tendon_range[worldid % joints.tendon_range.shape[0], i]
        length = joints.ten_length[worldid, i]
        rows.law[worldid, r] = _LIMIT
        rows.residual[worldid, r] = real(wp.where(kind == TENDON_LOWER, length - bounds[0], bounds[1] - length))
        rows.weight[worldid, r] = real(joints.tendon_invweight0[worldid % joints.tendon_invweight0.shape[0], i])
        fill_tendon(joints, rows, worldid, r, i, wp.where(kind == TENDON_LOWER, real(1.0), real(-1.0)))
    elif kind == DRY:
        loss = joints.dof_frictionloss[worldid % joints.dof_frictionloss.shape[0], i]
        rows.law[worldid, r] = wp.where(loss > 0.0, _DRY, _OFF)
        rows.val[worldid, at] = real(1.0)
        rows.weight[worldid, r] = real(loss)
    elif kind == TENDON_DRY:
        loss = joints.tendon_frictionloss[worldid % joints.tendon_frictionloss.shape[0], i]
        rows.law[worldid, r] = wp.where(loss > 0.0, _DRY, _OFF)
        rows.weight[worldid, r] = real(loss)
        fill_tendon(joints, rows, worldid, r, i, real(1.0))
    elif kind == ACTUATOR:
        fill_actuator(joints, rows, worldid, r, i)
    elif kind == EXTERNAL:
        rows.law[worldid, r] = _LINEAR
        rows.val[worldid, at] = real(1.0)
        rows.spring[worldid, r] = real(0.0)
    elif kind == TENDON_SPRING:
        # the force itself is among the passive ones: here only how it changes within the step
        fill_tendon(joints, rows, worldid, r, i, real(1.0))
        length = joints.ten_length[worldid, i]
        rest = joints.tendon_lengthspring[worldid % joints.tendon_lengthspring.shape[0], i]
        stiffness = real(joints.tendon_stiffness[worldid % joints.tendon_stiffness.shape[0], i])
        if not joints.springs or (length > rest[0] and length < rest[1]):
            stiffness = real(0.0)
        speed = real(0.0)
        for k in range(at, at + rows.num[r]):
            speed += rows.val[worldid, k] * v_start[worldid, rows.col[k]]
        rows.law[worldid, r] = _LINEAR
        rows.residual[worldid, r] = real(0.0)
        rows.rate[worldid, r] = real(0.0)
        if joints.dampers:
            rows.rate[worldid, r] = real(joints.tendon_damping[worldid % joints.tendon_damping.shape[0], i])
        rows.spring[worldid, r] = stiffness
        rows.low[worldid, r] = -_UNBOUNDED
        rows.high[worldid, r] = _UNBOUNDED
        rows.vel[worldid, r] = speed
    if rows.law[worldid, r] == _LIMIT and rows.weight[worldid, r] < _LEAST_WEIGHT:
        rows.law[worldid, r] = _OFF


@wp.kernel
def fill_equalities(
    # Model:
    body_invweight0: wp.array2d[wp.vec2],
    dof_invweight0: wp.array2d[float],
    tendon_invweight0: wp.array2d[float],
    site_bodyid: wp.array[int],
    jnt_dofadr: wp.array[int],
    eq_type: wp.array[int],
    eq_obj1id: wp.array[int],
    eq_obj2id: wp.array[int],
    eq_objtype: wp.array[int],
    # Data in:
    ne_in: wp.array[int],
    efc_id_in: wp.array2d[int],
    efc_pos_in: wp.array2d[float],
    efc_J_in: wp.array3d[float],
    efc_J_rownnz_in: wp.array2d[int],
    efc_J_rowadr_in: wp.array2d[int],
    efc_J_colind_in: wp.array3d[int],
    # In:
    sparse: bool,
    eq_row: wp.array[int],
    # Out:
    rows: RowSet,
    efc_row_out: wp.array2d[int],
):
    """Rows of equalities, from those that MuJoCo Warp made."""
    worldid, row = wp.tid()
    if row >= ne_in[worldid]:
        return
    eq = efc_id_in[worldid, row]
    part = int(0)
    while part < 5 and row - part - 1 >= 0 and efc_id_in[worldid, row - part - 1] == eq:
        part += 1
    r = eq_row[eq] + part
    kind = eq_type[eq]
    one = eq_obj1id[eq]
    two = eq_obj2id[eq]
    weight = float(0.0)
    if kind == int(EqType.CONNECT.value) or kind == int(EqType.WELD.value):
        if eq_objtype[eq] == wp.static(int(mujoco.mjtObj.mjOBJ_SITE)):
            one = site_bodyid[one]
            two = site_bodyid[two]
        at = worldid % body_invweight0.shape[0]
        turn = wp.where(part >= 3, 1, 0)
        weight = body_invweight0[at, one][turn] + body_invweight0[at, two][turn]
    elif kind == int(EqType.JOINT.value):
        at = worldid % dof_invweight0.shape[0]
        weight = dof_invweight0[at, jnt_dofadr[one]]
        if two >= 0:
            weight += dof_invweight0[at, jnt_dofadr[two]]
    else:
        at = worldid % tendon_invweight0.shape[0]
        weight = tendon_invweight0[at, one]
        if two >= 0:
            weight += tendon_invweight0[at, two]
    rows.law[worldid, r] = wp.where(real(weight) < _LEAST_WEIGHT, _OFF, _RIGID)
    rows.residual[worldid, r] = real(efc_pos_in[worldid, row])
    rows.weight[worldid, r] = real(weight)
    for k in range(rows.adr[r], rows.adr[r] + rows.num[r]):
        col = rows.col[k]
        value = float(0.0)
        if sparse:
            adr = efc_J_rowadr_in[worldid, row]
            for e in range(adr, adr + efc_J_rownnz_in[worldid, row]):
                if efc_J_colind_in[worldid, 0, e] == col:
                    value = efc_J_in[worldid, 0, e]
        else:
            value = efc_J_in[worldid, row, col]
        rows.val[worldid, k] = real(value)
    efc_row_out[worldid, row] = r


def make_equalities(m: mjw.Model, d: mjw.Data) -> None:
    """Let MuJoCo Warp make the rows of equalities, and no others."""
    view = copy.copy(m)
    view.opt = copy.copy(m.opt)
    only = mjw.DisableBit.CONTACT | mjw.DisableBit.LIMIT | mjw.DisableBit.FRICTIONLOSS
    view.opt.disableflags = m.opt.disableflags | only
    mjw.make_constraint(view, d)
