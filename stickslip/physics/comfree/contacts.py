"""Contacts in closed form without Jacobian rows: their forces and wrenches."""

import functools

import mujoco_warp as mjw
import warp as wp
from mujoco_warp import ConeType

from stickslip.physics.comfree import exact
from stickslip.physics.comfree.constraints import Workspace
from stickslip.physics.comfree.exact import EXACT_FLOOR
from stickslip.physics.comfree.friction import friction_force
from stickslip.physics.comfree.model import Model
from stickslip.physics.comfree.rows import MAX_GAIN, force_work, impedance_force, stable_ratio, unilateral
from stickslip.physics.mjwarp.contact import impedance, point_velocity, wrench_at
from stickslip.physics.mjwarp.private import ConstraintType, ContactType, vec5, vec10, vec11
from stickslip.physics.mjwarp.rows import MIN_INVERSE_MASS

wp.set_module_options({"enable_backward": False})


@functools.cache
def _contact_kernel(facets: bool) -> wp.Kernel:
    """Forces of contacts, by the facets of (8), or with a gain of its own along the surface."""

    @wp.kernel(module="unique", enable_backward=False)
    def _resolve_contact(
        # Model:
        opt_timestep: wp.array[float],
        opt_cone: int,
        body_rootid: wp.array[int],
        body_weldid: wp.array[int],
        body_invweight0: wp.array2d[wp.vec2],
        geom_bodyid: wp.array[int],
        stiffness: wp.array[float],
        damping: wp.array[float],
        smoothing: float,
        exact: bool,
        tangential: float,
        # Data in:
        njmax_in: int,
        naconmax_in: int,
        nacon_in: wp.array[int],
        subtree_com_in: wp.array2d[wp.vec3],
        contact_dist_in: wp.array[float],
        contact_pos_in: wp.array[wp.vec3],
        contact_frame_in: wp.array[wp.mat33],
        contact_includemargin_in: wp.array[float],
        contact_friction_in: wp.array[vec5],
        contact_solimp_in: wp.array[vec5],
        contact_dim_in: wp.array[int],
        contact_geom_in: wp.array[wp.vec2i],
        contact_worldid_in: wp.array[int],
        contact_type_in: wp.array[int],
        contact_adhesion_in: wp.array[float],
        contact_surfacevel_in: wp.array[wp.vec3],
        # In:
        twist_in: wp.array2d[wp.spatial_vector],
        gram_in: wp.array[vec11],
        # Data out:
        nefc_out: wp.array[int],
        contact_efc_address_out: wp.array2d[int],
        efc_type_out: wp.array2d[int],
        efc_id_out: wp.array2d[int],
        efc_force_out: wp.array2d[float],
        # Out:
        wrench_out: wp.array2d[wp.spatial_vector],
        work_out: wp.array[float],
    ):
        """Forces of all facets of one contact in closed form, equation (8), added to its two bodies."""
        conid = wp.tid()
        if conid >= wp.min(nacon_in[0], naconmax_in):
            return
        if not (contact_type_in[conid] & ContactType.CONSTRAINT):
            return
        margin = contact_includemargin_in[conid]
        phi = contact_dist_in[conid] - margin
        if phi >= 0.0 and contact_adhesion_in[conid] == 0.0:
            return

        worldid = contact_worldid_in[conid]
        timestep = opt_timestep[worldid % opt_timestep.shape[0]]
        k = stiffness[worldid % stiffness.shape[0]]
        d = damping[worldid % damping.shape[0]]
        geom = contact_geom_in[conid]
        body1 = geom_bodyid[geom[0]]
        body2 = geom_bodyid[geom[1]]

        # relative velocity of the second body in the contact frame: normal, tangents; spin, rolling
        frame = contact_frame_in[conid]
        pos = contact_pos_in[conid]
        arm1 = pos - subtree_com_in[worldid, body_rootid[body1]]
        arm2 = pos - subtree_com_in[worldid, body_rootid[body2]]
        twist1 = twist_in[worldid, body1]
        twist2 = twist_in[worldid, body2]
        linear = frame @ (point_velocity(twist2, arm2) - point_velocity(twist1, arm1))
        angular = frame @ (wp.spatial_top(twist2) - wp.spatial_top(twist1))
        surface = contact_surfacevel_in[conid]
        slip = vec5(linear[1] + surface[0], linear[2] + surface[1], angular[0] + surface[2], angular[1], angular[2])

        # M(phi), equation (12): r / (1 - r) over the inverse masses; the exact form divides facet by facet
        condim = contact_dim_in[conid]
        nfacet = wp.max(1, 2 * (condim - 1))
        r = impedance(contact_solimp_in[conid], phi)
        ratio = stable_ratio(r / (1.0 - r), nfacet, k, d, timestep)
        invweight_id = worldid % body_invweight0.shape[0]
        weight = body_invweight0[invweight_id, body1] + body_invweight0[invweight_id, body2]
        inverse = weight[0]

        # facets in MuJoCo's order: J_n + mu J_i and J_n - mu J_i for each friction direction, equation (7)
        mu = contact_friction_in[conid]
        gram = vec11()
        floor = wp.max(EXACT_FLOOR * inverse, MIN_INVERSE_MASS)
        if exact:
            gram = gram_in[conid]
            inverse = gram[0]
        mass = ratio / wp.max(inverse, floor)
        facet = vec10()
        normal = float(0.0)
        friction = vec5()
        work = float(0.0)
        if wp.static(facets):
            if condim == 1:
                free = impedance_force(mass, k, d, timestep, linear[0], phi)
                normal = unilateral(free, smoothing)
                work = force_work(normal, free, mass, k, d, timestep)
                facet[0] = normal
            for i in range(5):  # a constant range is unrolled, so that the vectors stay in registers
                if i < condim - 1:
                    mass_p = mass
                    mass_m = mass
                    if exact:
                        cross = 2.0 * mu[i] * gram[1 + i]
                        square = mu[i] * mu[i] * gram[6 + i]
                        mass_p = ratio / wp.max(gram[0] + cross + square, floor)
                        mass_m = ratio / wp.max(gram[0] - cross + square, floor)
                    u_p = linear[0] + mu[i] * slip[i]
                    u_m = linear[0] - mu[i] * slip[i]
                    free_p = impedance_force(mass_p, k, d, timestep, u_p, phi)
                    free_m = impedance_force(mass_m, k, d, timestep, u_m, phi)
                    force_p = unilateral(free_p, smoothing)
                    force_m = unilateral(free_m, smoothing)
                    work += force_work(force_p, free_p, mass_p, k, d, timestep)
                    work += force_work(force_m, free_m, mass_m, k, d, timestep)
                    facet[2 * i] = force_p
                    facet[2 * i + 1] = force_m
                    normal += force_p + force_m
                    friction[i] = mu[i] * (force_p - force_m)
        else:  # the normal by itself, as if nothing slipped, and friction with a gain of its own
            whole = float(nfacet) * mass
            free = impedance_force(whole, k, d, timestep, linear[0], phi)
            normal = unilateral(free, smoothing)
            work = force_work(normal, free, whole, k, d, timestep)
            gain = wp.min(tangential * float(nfacet) * ratio * (k * timestep + d), MAX_GAIN)
            friction = friction_force(gain / timestep, weight, gram, exact, slip, mu, condim, normal)
            facet[0] = normal
            for i in range(5):
                if i < condim - 1:
                    work -= friction[i] * slip[i]
                    share = normal / float(condim - 1)
                    facet[2 * i] = 0.5 * (share + friction[i] / mu[i])
                    facet[2 * i + 1] = 0.5 * (share - friction[i] / mu[i])

        # wrench on the second body, its opposite on the first: equation (9) without rows
        force = wp.transpose(frame) @ wp.vec3(normal, friction[0], friction[1])
        torque = wp.transpose(frame) @ wp.vec3(friction[2], friction[3], friction[4])
        if body_weldid[body1] != 0:
            wp.atomic_add(wrench_out, worldid, body1, -wrench_at(force, torque, arm1))
        if body_weldid[body2] != 0:
            wp.atomic_add(wrench_out, worldid, body2, wrench_at(force, torque, arm2))
        if work > 0.0:
            wp.atomic_add(work_out, worldid, work)

        # rows for those who read forces there: contact_force, touch and contact sensors
        nrow = condim
        efc_type = int(ConstraintType.CONTACT_ELLIPTIC)
        if condim == 1:
            efc_type = int(ConstraintType.CONTACT_FRICTIONLESS)
        elif opt_cone == int(ConeType.PYRAMIDAL):
            nrow = nfacet
            efc_type = int(ConstraintType.CONTACT_PYRAMIDAL)
        else:
            facet = vec10(normal, friction[0], friction[1], friction[2], friction[3], friction[4], 0.0, 0.0, 0.0, 0.0)
        base = wp.atomic_add(nefc_out, worldid, nrow)
        fits = base + nrow <= njmax_in
        for i in range(10):
            if i < nrow:
                row = int(-1)
                if fits:
                    row = base + i
                    efc_type_out[worldid, row] = efc_type
                    efc_id_out[worldid, row] = conid
                    efc_force_out[worldid, row] = facet[i]
                contact_efc_address_out[conid, i] = row

    return _resolve_contact


def resolve_contacts(m: Model, d: mjw.Data, s: Workspace, H: wp.array) -> None:
    """Add the forces of all contacts; H is the integrator's matrix, for the exact impedance."""
    p = m.comfree
    gram = exact.contact_gram(m, d, H) if p.exact else wp.empty(0, dtype=vec11)
    wp.launch(
        _contact_kernel(p.tangential is None),
        dim=d.naconmax,
        inputs=[
            m.opt.timestep,
            int(m.opt.cone),
            m.body_rootid,
            m.body_weldid,
            m.body_invweight0,
            m.geom_bodyid,
            p.stiffness,
            p.damping,
            p.smoothing,
            p.exact,
            p.tangential or 0.0,
            d.njmax,
            d.naconmax,
            d.nacon,
            d.subtree_com,
            d.contact.dist,
            d.contact.pos,
            d.contact.frame,
            d.contact.includemargin,
            d.contact.friction,
            d.contact.solimp,
            d.contact.dim,
            d.contact.geom,
            d.contact.worldid,
            d.contact.type,
            d.contact.adhesion,
            d.contact.surfacevel,
            s.twist,
            gram,
        ],
        outputs=[
            d.nefc,
            d.contact.efc_address,
            d.efc.type,
            d.efc.id,
            d.efc.force,
            s.loads.wrench,
            s.loads.work,
        ],
    )
