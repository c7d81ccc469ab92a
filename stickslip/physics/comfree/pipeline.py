"""One ComFree step as named stages over MuJoCo Warp's own, with the solver replaced by the closed form."""

import copy

import mujoco_warp as mjw
import warp as wp

from stickslip.errors import Unsupported
from stickslip.physics import mjwarp_private as private
from stickslip.physics.base import Stage
from stickslip.physics.comfree import constraints, exact, kernels
from stickslip.physics.comfree.model import Model
from stickslip.physics.mjwarp_private import Factor, vec11
from stickslip.physics.stages import compose, inertia, run


def check_options(m: Model) -> None:
    """Raise Unsupported for options of the device model that ComFree cannot honour; they can change after put_model."""
    wrong = []
    if m.opt.integrator not in (mjw.IntegratorType.EULER, mjw.IntegratorType.IMPLICITFAST):
        wrong.append(f"integrator {mjw.IntegratorType(m.opt.integrator).name} (use Euler or implicitfast)")
    if m.opt.enableflags & mjw.EnableBit.SLEEP:
        wrong.append("sleeping (clear the sleep flag)")
    if m.opt.deterministic & mjw.DeterminismType.ATOMICS:
        wrong.append("opt.deterministic ATOMICS (contact forces are summed by atomics; clear that bit)")
    if wrong:
        raise Unsupported("comfree does not support: " + "; ".join(wrong))


def clear_rows(m: Model, d: mjw.Data) -> None:
    """In the place of MuJoCo Warp's `make_constraint`: rows come into being in `resolve`, with their forces."""
    for count in (d.ne, d.nf, d.nl, d.nefc):
        count.zero_()


def fwd_position(m: Model, d: mjw.Data, factorize: bool = True) -> None:
    """Position-dependent computations, as MuJoCo Warp's `fwd_position` without constraint rows."""
    mjw.fwd_kinematics(m, d)
    inertia(m, d)
    if factorize:
        mjw.factor_m(m, d)
    if m.opt.run_collision_detection:
        mjw.collision(m, d)
    clear_rows(m, d)
    mjw.transmission(m, d)


def fwd_acceleration(m: Model, d: mjw.Data, factorize: bool = False) -> None:
    """qfrc_smooth and, unless opt.run_qacc_smooth is off and ComFree can do without it, qacc_smooth."""
    view = copy.copy(m)
    view.opt = copy.copy(m.opt)
    if m.opt.run_qacc_smooth or not _damped(m):
        view.opt.run_qacc_smooth = True
        mjw.fwd_acceleration(view, d, factorize=factorize)
    else:
        # MuJoCo Warp skips qacc_smooth for its Newton solver from a warm start: give the view these settings
        view.opt.solver, view.opt.noslip_iterations, view.opt.iterations = mjw.SolverType.NEWTON, 0, 1
        view.opt.disableflags = m.opt.disableflags & ~mjw.DisableBit.WARMSTART
        mjw.fwd_acceleration(view, d, factorize=factorize)


def _damped(m: Model) -> bool:
    """Whether the integrator's matrix can differ from M."""
    explicit = m.comfree.undamped and m.dof_damping is m.comfree.dof_damping
    return private.has_implicit_part(m) and not (m.opt.integrator == mjw.IntegratorType.EULER and explicit)


def predict(m: Model, d: mjw.Data) -> tuple[wp.array, Factor | None]:
    """Acceleration that the integrator would apply without constraints, and the factors it took (None: those of M)."""
    if not _damped(m):
        return d.qacc_smooth, None
    H = private.integration_matrix(m, d)
    qacc_free = wp.empty((d.nworld, m.nv), dtype=float)
    return qacc_free, private.factor_solve(m, d, H, qacc_free, d.qfrc_smooth)


def resolve(m: Model, d: mjw.Data, qacc_free: wp.array, factor: Factor | None) -> None:
    """All constraint forces in closed form: writes qfrc_constraint, efc.Ma, efc.force and contact.efc_address."""
    flags = m.opt.disableflags
    if flags & mjw.DisableBit.CONSTRAINT or m.nv == 0:
        clear_rows(m, d)
        d.qfrc_constraint.zero_()
        wp.copy(d.efc.Ma, d.qfrc_smooth)
        return
    twist = wp.empty((d.nworld, m.nbody), dtype=wp.spatial_vector)
    wrench = wp.empty((d.nworld, m.nbody), dtype=wp.spatial_vector)
    qfrc_row = wp.zeros((d.nworld, m.nv), dtype=float)
    wp.launch(
        kernels._predict_body_twist,
        dim=(d.nworld, m.nbody),
        inputs=[
            m.opt.timestep,
            m.body_weldid,
            m.body_dofnum,
            m.body_dofadr,
            m.dof_parentid,
            d.qvel,
            d.cdof,
            qacc_free,
        ],
        outputs=[d.ne, d.nf, d.nl, d.nefc, twist, wrench],
    )
    rows = _rows(d)
    gains = _gains(m)
    tendons = _tendons(m, d)
    if not flags & mjw.DisableBit.EQUALITY:
        _resolve_equalities(m, d, gains, tendons, rows, qacc_free, twist, wrench, qfrc_row)
    if not flags & mjw.DisableBit.FRICTIONLOSS:
        wp.launch(
            constraints._resolve_friction,
            dim=(d.nworld, m.nv + m.ntendon),
            inputs=[
                m.nv,
                gains,
                tendons,
                m.dof_solimp,
                m.dof_frictionloss,
                m.dof_invweight0,
                m.tendon_solimp_fri,
                m.tendon_frictionloss,
                d.qvel,
                qacc_free,
            ],
            outputs=[rows, d.nf, qfrc_row],
        )
    if not flags & mjw.DisableBit.LIMIT:
        _resolve_limits(m, d, gains, tendons, rows, qacc_free, qfrc_row)
    if not flags & mjw.DisableBit.CONTACT:
        _resolve_contacts(m, d, factor, twist, wrench)
    wp.launch(
        kernels._gather_wrench,
        dim=(d.nworld, m.nv),
        inputs=[m.dof_bodyid, m.comfree.body_subtreenum, d.cdof, d.qfrc_smooth, wrench, qfrc_row],
        outputs=[d.qfrc_constraint, d.efc.Ma],
    )


def _rows(d: mjw.Data) -> constraints.Rows:
    rows = constraints.Rows()
    rows.njmax, rows.nefc = d.njmax, d.nefc
    for name in ("type", "id", "pos", "margin", "D", "frictionloss", "force"):
        setattr(rows, name, getattr(d.efc, name))
    return rows


def _gains(m: Model) -> constraints.Gains:
    gains = constraints.Gains()
    gains.timestep = m.opt.timestep
    gains.stiffness, gains.damping, gains.smoothing = m.comfree.stiffness, m.comfree.damping, m.comfree.smoothing
    return gains


def _tendons(m: Model, d: mjw.Data) -> constraints.Tendons:
    tendons = constraints.Tendons()
    tendons.J_rownnz, tendons.J_rowadr, tendons.J_colind = m.ten_J_rownnz, m.ten_J_rowadr, m.ten_J_colind
    tendons.invweight0, tendons.J, tendons.length = m.tendon_invweight0, d.ten_J, d.ten_length
    return tendons


def _resolve_equalities(m, d, gains, tendons, rows, qacc_free, twist, wrench, qfrc_row) -> None:
    for adr in (m.eq_connect_adr, m.eq_wld_adr):  # MuJoCo Warp counts on connects standing before welds
        wp.launch(
            constraints._resolve_body_equality,
            dim=(d.nworld, adr.size),
            inputs=[
                gains,
                m.body_rootid,
                m.body_weldid,
                m.body_invweight0,
                m.site_bodyid,
                m.site_quat,
                m.eq_type,
                m.eq_obj1id,
                m.eq_obj2id,
                m.eq_objtype,
                m.eq_solimp,
                m.eq_data,
                adr,
                d.eq_active,
                d.xpos,
                d.xquat,
                d.xmat,
                d.site_xpos,
                d.subtree_com,
                twist,
            ],
            outputs=[rows, d.ne, wrench],
        )
    wp.launch(
        constraints._resolve_joint_equality,
        dim=(d.nworld, m.eq_jnt_adr.size),
        inputs=[
            gains,
            m.qpos0,
            m.jnt_qposadr,
            m.jnt_dofadr,
            m.dof_invweight0,
            m.eq_obj1id,
            m.eq_obj2id,
            m.eq_solimp,
            m.eq_data,
            m.eq_jnt_adr,
            d.qpos,
            d.qvel,
            d.eq_active,
            qacc_free,
        ],
        outputs=[rows, d.ne, qfrc_row],
    )
    wp.launch(
        constraints._resolve_tendon_equality,
        dim=(d.nworld, m.eq_ten_adr.size),
        inputs=[
            gains,
            tendons,
            m.tendon_length0,
            m.eq_obj1id,
            m.eq_obj2id,
            m.eq_solimp,
            m.eq_data,
            m.eq_ten_adr,
            d.qvel,
            d.eq_active,
            qacc_free,
        ],
        outputs=[rows, d.ne, qfrc_row],
    )


def _resolve_limits(m, d, gains, tendons, rows, qacc_free, qfrc_row) -> None:
    for adr in (m.jnt_limited_ball_adr, m.jnt_limited_slide_hinge_adr):
        wp.launch(
            constraints._resolve_joint_limit,
            dim=(d.nworld, adr.size),
            inputs=[
                gains,
                m.jnt_type,
                m.jnt_qposadr,
                m.jnt_dofadr,
                m.jnt_solimp,
                m.jnt_range,
                m.jnt_margin,
                m.dof_invweight0,
                adr,
                d.qpos,
                d.qvel,
                qacc_free,
            ],
            outputs=[rows, d.nl, qfrc_row],
        )
    wp.launch(
        constraints._resolve_tendon_limit,
        dim=(d.nworld, m.tendon_limited_adr.size),
        inputs=[
            gains,
            tendons,
            m.tendon_solimp_lim,
            m.tendon_range,
            m.tendon_margin,
            m.tendon_limited_adr,
            d.qvel,
            qacc_free,
        ],
        outputs=[rows, d.nl, qfrc_row],
    )


def _resolve_contacts(m: Model, d: mjw.Data, factor: Factor | None, twist: wp.array, wrench: wp.array) -> None:
    p = m.comfree
    gram = exact.contact_gram(m, d, factor.H if factor else d.M) if p.exact else wp.empty(0, dtype=vec11)
    wp.launch(
        kernels._resolve_contact,
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
            twist,
            gram,
        ],
        outputs=[
            d.nefc,
            d.contact.efc_address,
            d.efc.type,
            d.efc.id,
            d.efc.force,
            wrench,
        ],
    )


def solve(m: Model, d: mjw.Data) -> Factor | None:
    """Constraint forces and qacc, in the place of MuJoCo Warp's `solve`."""
    qacc_free, factor = predict(m, d)
    resolve(m, d, qacc_free, factor)
    if m.opt.run_qacc_smooth or factor is None:
        mjw.solve_m(m, d, d.qacc, d.efc.Ma)
    else:
        private.factor_solve_m(m, d, d.qacc, d.efc.Ma)
    return factor


def integrate(m: Model, d: mjw.Data, factor: Factor | None) -> None:
    """Advance the state by H^-1 (tau - c + J' lambda), the factors being those of the prediction."""
    if factor is None:
        private.advance(m, d, d.qacc)
        return
    qacc = wp.empty((d.nworld, m.nv), dtype=float)
    private.solve(m, d, factor, qacc, d.efc.Ma)
    private.advance(m, d, qacc)


def stages(m: Model, d: mjw.Data) -> list[Stage]:
    """The step as stages, to be run in this order; each may be repeated on its own to be timed."""
    check_options(m)
    made: list[Factor | None] = [None]

    def contact() -> None:
        made[0] = solve(m, d)

    return compose(
        m,
        d,
        rows=lambda: None,
        acceleration=lambda: fwd_acceleration(m, d, factorize=True),
        contact=contact,
        integration=lambda: integrate(m, d, made[0]),
    )


def step(m: Model, d: mjw.Data) -> None:
    """Advance every world by its timestep."""
    run(stages(m, d), m, d)
