"""Kernel structs from MuJoCo Warp's model and data, field by field."""

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.conesweep.layout import Bodies, Contacts
from stickslip.physics.conesweep.memory.report import Result
from stickslip.physics.conesweep.model import Model
from stickslip.physics.conesweep.prepare.inverse import Matrix
from stickslip.physics.conesweep.prepare.rows import Joints, Welds
from stickslip.physics.conesweep.workspace import Workspace
from stickslip.physics.mjwarp.smooth.factor import Factor


def is_on(m: Model, part: mjw.DisableBit) -> bool:
    """Whether a part of the step is not disabled."""
    return not m.opt.disableflags & part


def contacts_of(m: Model, d: mjw.Data) -> Contacts:
    """MuJoCo Warp's contacts."""
    contacts = Contacts()
    contacts.nmax = d.naconmax
    contacts.count = d.nacon
    contacts.dist = d.contact.dist
    contacts.pos = d.contact.pos
    contacts.frame = d.contact.frame
    contacts.includemargin = d.contact.includemargin
    contacts.friction = d.contact.friction
    contacts.dim = d.contact.dim
    contacts.geom = d.contact.geom
    contacts.worldid = d.contact.worldid
    contacts.type = d.contact.type
    contacts.geomcollisionid = d.contact.geomcollisionid
    contacts.surfacevel = d.contact.surfacevel
    contacts.adhesion = d.contact.adhesion
    contacts.efc_address = d.contact.efc_address
    contacts.overflow = d.overflow
    contacts.gaps = m.structure.gaps
    return contacts


def bodies_of(m: Model, d: mjw.Data, qacc_free: wp.array) -> Bodies:
    """The kinematics of the step, and the acceleration without constraints."""
    bodies = Bodies()
    bodies.subtree_com = d.subtree_com
    bodies.cdof = d.cdof
    bodies.xpos = d.xpos
    bodies.xmat = d.xmat
    bodies.qvel = d.qvel
    bodies.qacc_free = qacc_free
    bodies.timestep = m.opt.timestep
    bodies.geom_rbound = m.geom_rbound
    return bodies


def joints_of(m: Model, d: mjw.Data) -> Joints:
    """What rows on dofs are made of."""
    joints = Joints()
    joints.source = m.sweep.source
    joints.equality = is_on(m, mjw.DisableBit.EQUALITY)
    joints.friction = is_on(m, mjw.DisableBit.FRICTIONLOSS)
    joints.limit = is_on(m, mjw.DisableBit.LIMIT)
    joints.qpos0 = m.qpos0
    joints.qpos = d.qpos
    joints.jnt_qposadr = m.jnt_qposadr
    joints.jnt_dofadr = m.jnt_dofadr
    joints.jnt_range = m.jnt_range
    joints.jnt_margin = m.jnt_margin
    joints.dof_frictionloss = m.dof_frictionloss
    joints.tendon_frictionloss = m.tendon_frictionloss
    joints.tendon_range = m.tendon_range
    joints.tendon_margin = m.tendon_margin
    joints.tendon_length0 = m.tendon_length0
    joints.ten_length = d.ten_length
    joints.ten_J = d.ten_J
    joints.ten_J_rownnz = m.ten_J_rownnz
    joints.ten_J_rowadr = m.ten_J_rowadr
    joints.eq_obj1id = m.eq_obj1id
    joints.eq_obj2id = m.eq_obj2id
    joints.eq_data = m.eq_data
    joints.eq_active = d.eq_active
    return joints


def welds_of(m: Model, d: mjw.Data) -> Welds:
    """What connects and welds are made of."""
    welds = Welds()
    welds.eqid = m.sweep.eqid
    welds.equality = is_on(m, mjw.DisableBit.EQUALITY)
    welds.eq_type = m.eq_type
    welds.eq_obj1id = m.eq_obj1id
    welds.eq_obj2id = m.eq_obj2id
    welds.eq_objtype = m.eq_objtype
    welds.eq_data = m.eq_data
    welds.eq_active = d.eq_active
    welds.site_bodyid = m.site_bodyid
    welds.site_quat = m.site_quat
    welds.site_xpos = d.site_xpos
    welds.xquat = d.xquat
    return welds


def matrix_of(m: Model, factor: Factor) -> Matrix:
    """The integrator's matrix with its sparse structure and its factors."""
    matrix = Matrix()
    matrix.M_rownnz = m.M_rownnz
    matrix.M_rowadr = m.M_rowadr
    matrix.H, matrix.L, matrix.Dinv = factor.H, factor.L, factor.Dinv
    return matrix


def result_of(m: Model, d: mjw.Data, s: Workspace) -> Result:
    """Where the step writes forces and motion."""
    result = Result()
    result.qfrc_smooth = d.qfrc_smooth
    result.qfrc_constraint = d.qfrc_constraint
    result.Ma = d.efc.Ma
    result.qacc = s.qacc
    result.velocity = s.velocity
    result.ne = d.ne
    result.nf = d.nf
    result.nl = d.nl
    result.cone = int(m.opt.cone)
    return result
