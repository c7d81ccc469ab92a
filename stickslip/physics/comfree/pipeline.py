"""One ComFree step as named stages over MuJoCo Warp's own, with the solver replaced by the closed form."""

import copy

import mujoco_warp as mjw
import warp as wp

from stickslip.errors import Unsupported
from stickslip.physics import mjwarp_private as private
from stickslip.physics.comfree import exact, kernels
from stickslip.physics.comfree.model import Model
from stickslip.physics.mjwarp_private import Factor, vec11
from stickslip.physics.base import Stage
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


def make_rows(m: Model, d: mjw.Data) -> None:
    """Rows of equalities, dry friction and limits; none for contacts."""
    rows_m = copy.copy(m)
    rows_m.opt = copy.copy(m.opt)
    rows_m.opt.disableflags = m.opt.disableflags | mjw.DisableBit.CONTACT
    rows_d = copy.copy(d)
    rows_d.njmax = _row_limit(m, d)
    mjw.make_constraint(rows_m, rows_d)


def _row_limit(m: Model, d: mjw.Data) -> int:
    return min(m.comfree.nrow, d.njmax)


def fwd_position(m: Model, d: mjw.Data, factorize: bool = True) -> None:
    """Position-dependent computations, as MuJoCo Warp's `fwd_position` without contact rows."""
    mjw.fwd_kinematics(m, d)
    inertia(m, d)
    if factorize:
        mjw.factor_m(m, d)
    if m.opt.run_collision_detection:
        mjw.collision(m, d)
    make_rows(m, d)
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
    """Contact and row forces in closed form: writes qfrc_constraint, efc.Ma, efc.force and contact.efc_address."""
    p = m.comfree
    if m.opt.disableflags & mjw.DisableBit.CONSTRAINT or m.nv == 0:
        d.qfrc_constraint.zero_()
        wp.copy(d.efc.Ma, d.qfrc_smooth)
        return
    twist = wp.empty((d.nworld, m.nbody), dtype=wp.spatial_vector)
    wrench = wp.empty((d.nworld, m.nbody), dtype=wp.spatial_vector)
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
            d.ne,
            d.nf,
            d.nl,
            qacc_free,
        ],
        outputs=[d.nefc, twist, wrench],
    )
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
            d.efc.pos,
            d.efc.margin,
            d.efc.D,
            d.efc.force,
            wrench,
        ],
    )
    wp.launch(
        kernels._gather_wrench,
        dim=(d.nworld, m.nv),
        inputs=[m.dof_bodyid, p.body_subtreenum, d.cdof, d.qfrc_smooth, wrench],
        outputs=[d.qfrc_constraint, d.efc.Ma],
    )
    wp.launch(
        kernels._resolve_row,
        dim=(d.nworld, _row_limit(m, d)),
        inputs=[
            m.nv,
            m.is_sparse,
            m.opt.timestep,
            p.stiffness,
            p.damping,
            p.smoothing,
            d.qvel,
            d.ne,
            d.nf,
            d.nl,
            d.efc.J_rownnz,
            d.efc.J_rowadr,
            d.efc.J_colind,
            d.efc.J,
            d.efc.pos,
            d.efc.margin,
            d.efc.D,
            d.efc.frictionloss,
            _row_limit(m, d),
            qacc_free,
        ],
        outputs=[d.efc.force, d.qfrc_constraint, d.efc.Ma],
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
        rows=lambda: make_rows(m, d),
        acceleration=lambda: fwd_acceleration(m, d, factorize=True),
        contact=contact,
        integration=lambda: integrate(m, d, made[0]),
    )


def step(m: Model, d: mjw.Data) -> None:
    """Advance every world by its timestep."""
    run(stages(m, d), m, d)
