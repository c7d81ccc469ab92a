"""Addresses of the arrays that the kernel reads and writes, as structs that are passed by value.

Some 150 arrays take part. As arguments of their own they would not fit into the parameters of a CUDA kernel. An
address does not keep its array alive, so that only arrays of the model and the data are here: a captured step needs
those anyway.
"""

from collections.abc import Iterable
from typing import Any

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp.smooth.tables import COPIED, Tables

_ORDER = "M_rownnz M_rowadr M_colind M_row M_above link_adr link".split()
_ORDER_SIZES = "nv nC ngroup nlink".split()

_FIXED = (
    "body_isdofancestor jnt_actfrclimited wrap_prm actuator_actlimited actuator_actearly actuator_forcelimited "
    "actuator_ctrllimited"
).split()
"""Fields of the model that all worlds share, besides `COPIED`."""

_PER_WORLD = (
    "qpos0 qpos_spring body_pos body_quat body_ipos body_iquat body_mass body_subtreemass body_inertia "
    "body_gravcomp jnt_pos jnt_axis jnt_stiffness jnt_stiffnesspoly jnt_actfrcrange dof_armature dof_damping "
    "dof_dampingpoly geom_pos geom_quat site_pos site_quat tendon_stiffness tendon_stiffnesspoly tendon_damping "
    "tendon_dampingpoly tendon_lengthspring actuator_dynprm actuator_gainprm actuator_biasprm actuator_actrange "
    "actuator_forcerange actuator_ctrlrange actuator_gear actuator_damping actuator_dampingpoly actuator_armature "
    "cam_pos cam_quat cam_pos0 cam_poscom0 cam_mat0 light_pos light_dir light_pos0 light_poscom0 light_dir0 eq_data "
    "tendon_range tendon_length0"
).split()
"""Fields of the model with a row for all worlds or one for each."""

_OPTIONS = ("timestep", "gravity")
"""Options that may differ between worlds."""

_TABLES = (
    "level_adr level_body dof_kind dof_free act_moment dof_act_adr dof_act ten_row dof_ten_adr "
    "dof_ten ten_wrap ten_wrapadr0 geom_moving"
).split() + COPIED
_SIZES = (
    "nbody njnt nq nsite ngeom ngeom_moving nmocap ncam nlight nu na nactuator ntendon neq nwrap nJten nmoment nlevel "
    "has_spatial"
).split()
_SETTINGS = (
    "norder ntable nrow nmoment_room nv_room disableflags implicit factor_M solve_M factor_H write_crb begins "
    "nsensordata clear_contacts only_motion write_velocities"
).split()

_INPUTS = "qpos qvel act ctrl mocap_pos mocap_quat qfrc_applied xfrc_applied".split()
OUTPUTS = (
    "xpos xquat xmat xipos ximat xanchor xaxis geom_xpos geom_xmat site_xpos site_xmat cam_xpos cam_xmat light_xpos "
    "light_xdir subtree_com cinert cdof cdof_dot cvel M ten_length ten_J ten_velocity ten_wrapadr ten_wrapnum "
    "wrap_obj wrap_xpos actuator_length actuator_velocity actuator_moment moment_rownnz moment_rowadr moment_colind "
    "act_dot actuator_force qfrc_spring qfrc_damper qfrc_gravcomp qfrc_passive qfrc_bias qfrc_actuator qfrc_smooth"
).split()
"""Fields of the data that the kernel writes, always. Of what MuJoCo Warp's stages write, it leaves out `crb` (unless
the integrator reads it), `cacc` and `cfrc_int`, which hold no result before the forces of constraints are known, and
`qLD` and `qLDiagInv`, whose place the factors of `factor.py` take."""
_SOMETIMES = "crb qacc_smooth sensordata energy nacon ncollision".split()


def _struct(name: str, doc: str, addresses: Iterable[str], numbers: Iterable[str] = ()) -> Any:
    hints: dict[str, Any] = dict.fromkeys(addresses, wp.uint64) | dict.fromkeys(numbers, wp.int32)
    return wp.struct(type(name, (), {"__annotations__": hints, "__module__": __name__, "__doc__": doc}))


SmoothModel = _struct(
    "SmoothModel",
    "Addresses of a model's arrays, which of them have a row for each world (`_row`), and its sizes.",
    [*_ORDER, *_FIXED, *_PER_WORLD, *_OPTIONS, *_TABLES, "order", "tables"],
    [*_ORDER_SIZES, *(f"{name}_row" for name in (*_PER_WORLD, *_OPTIONS)), *_SIZES, *_SETTINGS],
)
_FOUND = (
    "qvel qacc xfrc_applied xpos xquat xmat xipos subtree_com cinert cdof cdof_dot cvel ten_length ten_velocity "
    "wrap_xpos actuator_force nefc nacon"
).split()
_EFC = "type id force".split()
_CONTACT = "pos frame friction dim geom worldid efc_address".split()
_REACTIONS = "cacc cfrc_ext cfrc_int".split()
ReactionData = _struct(
    "ReactionData",
    "Addresses of what the step has found, of rows and of contacts; of the reactions.",
    [*_FOUND, *(f"efc_{name}" for name in _EFC), *(f"contact_{name}" for name in _CONTACT), *_REACTIONS],
    ["njmax", "njmax_room", "naddress", "pyramidal"],
)
MatrixOrder = _struct("MatrixOrder", "Addresses of the structure of M.", _ORDER, _ORDER_SIZES)
SmoothData = _struct(
    "SmoothData", "Addresses of the arrays of the data, and of a mask.", [*_INPUTS, *OUTPUTS, *_SOMETIMES, "worlds"]
)


def matrix_fields(order: Tables) -> Any:
    """The addresses of the structure of M."""
    fields = MatrixOrder()
    for name, value in (*order.addresses().items(), *order.sizes.items()):
        setattr(fields, name, value)
    return fields


def _arrays_per_world(m: mjw.Model) -> dict[str, wp.array]:
    owners = ((m, _PER_WORLD), (m.opt, _OPTIONS))
    return {name: getattr(owner, name) for owner, names in owners for name in names}


def _rows_of(array: wp.array) -> int:
    return 1 if array.strides[0] == 0 else array.shape[0]


def row_counts(m: mjw.Model) -> set[int]:
    """Numbers of rows of the fields that differ between worlds; the kernel covers one such number."""
    return {_rows_of(array) for array in _arrays_per_world(m).values()} - {0, 1}


def model_fields(m: mjw.Model, order: Tables, tables: Tables, **settings: int) -> Any:
    """The addresses and sizes of a model."""
    fields = SmoothModel()
    for name in _FIXED:
        setattr(fields, name, getattr(m, name).ptr or 0)
    for name, array in _arrays_per_world(m).items():
        setattr(fields, name, array.ptr or 0)
        setattr(fields, f"{name}_row", int(_rows_of(array) > 1))
    fields.nrow = max(row_counts(m), default=1)
    fields.order, fields.norder = order.packed.ptr, order.packed.size
    fields.tables, fields.ntable = tables.packed.ptr, tables.packed.size
    for group in (order, tables):
        for name, value in (*group.addresses().items(), *group.sizes.items()):
            setattr(fields, name, value)
    for name, value in settings.items():
        setattr(fields, name, value)
    fields.disableflags = int(m.opt.disableflags)
    return fields


def data_fields(d: mjw.Data, worlds: wp.array | None = None) -> Any:
    """The addresses of the arrays of the data, and of a mask of worlds."""
    fields = SmoothData()
    fields.worlds = 0 if worlds is None else worlds.ptr
    for name in (*_INPUTS, *OUTPUTS, *_SOMETIMES):
        setattr(fields, name, getattr(d, name).ptr or 0)
    return fields


def reaction_fields(m: mjw.Model, d: mjw.Data) -> Any:
    """The addresses that `reactions.h` reads and writes."""
    fields = ReactionData()
    for prefix, owner, names in (
        ("", d, (*_FOUND, *_REACTIONS)),
        ("efc_", d.efc, _EFC),
        ("contact_", d.contact, _CONTACT),
    ):
        for name in names:
            setattr(fields, prefix + name, getattr(owner, name).ptr or 0)
    fields.njmax, fields.njmax_room = d.njmax, d.efc.force.shape[1]
    fields.naddress = d.contact.efc_address.shape[1]
    fields.pyramidal = int(m.opt.cone == mjw.ConeType.PYRAMIDAL)
    return fields
