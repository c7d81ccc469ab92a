"""Adhesion actuators: they pull a body towards all that it touches. MuJoCo Warp reads their moments from contact rows,
which nothing here forms."""

import copy

import mujoco_warp as mjw
import warp as wp

from stickslip.physics.mjwarp import private
from stickslip.physics.mjwarp.model import Model
from stickslip.physics.mjwarp.touches import FOUND, Gaps, is_apart

wp.set_module_options({"enable_backward": False})


@wp.func
def _add_chain(
    body_parentid: wp.array[int],
    body_rootid: wp.array[int],
    body_dofadr: wp.array[int],
    body_dofnum: wp.array[int],
    subtree_com: wp.array2d[wp.vec3],
    cdof: wp.array2d[wp.spatial_vector],
    worldid: int,
    bodyid: int,
    pos: wp.vec3,
    direction: wp.vec3,
    rowadr: int,
    actuator_moment_out: wp.array2d[float],
):
    """Velocity of a point of a body along a direction, for each dof that moves it."""
    arm = pos - subtree_com[worldid, body_rootid[bodyid]]
    body = int(bodyid)
    while body > 0:
        for dof in range(body_dofadr[body], body_dofadr[body] + body_dofnum[body]):
            twist = cdof[worldid, dof]
            velocity = wp.spatial_bottom(twist) + wp.cross(wp.spatial_top(twist), arm)
            wp.atomic_add(actuator_moment_out, worldid, rowadr + dof, wp.dot(direction, velocity))
        body = body_parentid[body]


@wp.kernel
def _add_normals(
    # Model:
    gaps: Gaps,
    body_parentid: wp.array[int],
    body_rootid: wp.array[int],
    body_dofadr: wp.array[int],
    body_dofnum: wp.array[int],
    geom_bodyid: wp.array[int],
    actuator_trnid: wp.array[wp.vec2i],
    actuators: wp.array[int],
    # Data in:
    naconmax: int,
    nacon_in: wp.array[int],
    subtree_com_in: wp.array2d[wp.vec3],
    cdof_in: wp.array2d[wp.spatial_vector],
    moment_rowadr_in: wp.array2d[int],
    contact_dist_in: wp.array[float],
    contact_pos_in: wp.array[wp.vec3],
    contact_frame_in: wp.array[wp.mat33],
    contact_includemargin_in: wp.array[float],
    contact_geom_in: wp.array[wp.vec2i],
    contact_worldid_in: wp.array[int],
    contact_type_in: wp.array[int],
    # Data out:
    actuator_moment_out: wp.array2d[float],
    # Out:
    count_out: wp.array2d[int],
):
    """The normals of a contact, as motions of dofs, for all adhesion actuators of its two bodies."""
    conid = wp.tid()
    if conid >= wp.min(nacon_in[0], naconmax) or not (contact_type_in[conid] & FOUND):
        return
    geom = contact_geom_in[conid]
    if is_apart(gaps, geom, contact_dist_in[conid], contact_includemargin_in[conid]):
        return
    worldid = contact_worldid_in[conid]
    body1 = geom_bodyid[geom[0]]
    body2 = geom_bodyid[geom[1]]
    frame = contact_frame_in[conid]
    normal = wp.vec3(frame[0, 0], frame[0, 1], frame[0, 2])
    pos = contact_pos_in[conid]
    for i in range(actuators.shape[0]):
        actid = actuators[i]
        target = actuator_trnid[actid][0]
        if target == body1 or target == body2:  # noqa: SIM109
            wp.atomic_add(count_out, worldid, i, 1)
            rowadr = moment_rowadr_in[worldid, actid]
            for side in range(2):
                _add_chain(
                    body_parentid,
                    body_rootid,
                    body_dofadr,
                    body_dofnum,
                    subtree_com_in,
                    cdof_in,
                    worldid,
                    wp.where(side == 0, body1, body2),
                    pos,
                    wp.where(side == 0, -normal, normal),
                    rowadr,
                    actuator_moment_out,
                )


def transmission(m: mjw.Model, d: mjw.Data) -> None:
    """`mujoco_warp.transmission`, with the moments of adhesion actuators from the geometry of contacts.

    A moment is minus the mean of the normals over the contacts that MuJoCo would find; those that a physics finds
    earlier do not pull. A model of MuJoCo Warp's own has rows, and takes its function.
    """
    if not m.nacttrnbody or not isinstance(m, Model):
        mjw.transmission(m, d)
        return
    others = copy.copy(m)
    others.nacttrnbody = 0
    mjw.transmission(others, d)
    count = wp.zeros((d.nworld, m.nacttrnbody), dtype=int)
    c = d.contact
    wp.launch(
        _add_normals,
        dim=d.naconmax,
        inputs=[
            m.structure.gaps,
            m.body_parentid,
            m.body_rootid,
            m.body_dofadr,
            m.body_dofnum,
            m.geom_bodyid,
            m.actuator_trnid,
            m.actuator_trntype_body_adr,
            d.naconmax,
            d.nacon,
            d.subtree_com,
            d.cdof,
            d.moment_rowadr,
            c.dist,
            c.pos,
            c.frame,
            c.includemargin,
            c.geom,
            c.worldid,
            c.type,
        ],
        outputs=[d.actuator_moment, count],
    )
    wp.launch(
        private.mean_of_normals,
        dim=(d.nworld, m.nacttrnbody, m.nv),
        inputs=[m.actuator_trntype_body_adr, d.moment_rowadr, count],
        outputs=[d.actuator_moment],
    )
