"""Float64 NumPy reference of one step of rigid contact with Coulomb friction, solved to convergence.

The velocity after the step is ``v = v_free + dt H^-1 J^T f`` with the integrator's matrix H, and the forces f obey,
with ``u = J v``:

* contact, along the normal: ``0 <= f_n`` perpendicular to ``u_n >= -max(phi, 0) / dt``: it may close its gap, no more;
* contact, friction: f_t inside the elliptic cone ``sum (f_i / mu_i)^2 <= f_n^2`` and, of all such forces, the one that
  dissipates most against the slip (tangents, spin and rolling together, less the surfaces' own velocity);
* limit: as a contact's normal; equality: ``u = 0``; dry friction: ``|f| <= loss``, the one that dissipates most.

Depth is left as it is. Everything up to the smooth forces, the Jacobians and H come from C MuJoCo, through the helpers
of the ComFree reference; its constraint solver is never called. The two forces of a connect or weld act at one point,
midway between its anchors, where MuJoCo lets each act at its own. The solution is found by Gauss and Seidel's method
over blocks (a row, a normal, the friction of a contact), each block solved exactly.

With more contacts than a body needs, forces and even the velocity are not unique. `violations` judges any forces by the
laws themselves.
"""

import copy
import dataclasses
from collections.abc import Sequence

import mujoco
import numpy as np

from tests.reference import comfree, spin
from tests.reference.comfree import Contact

NEAR = 10.0
"""Limits up to so far away get a row, so that one that is reached within the step has one, m or rad."""

MIN_FRICTION = 1e-5
"""MuJoCo's floor under coefficients of friction."""

CONVERGED = 1e-12
"""Change of velocity in a sweep, relative to the largest velocity, at which the solution counts as found."""

_EQUALITY = int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
_FRICTION = (int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF), int(mujoco.mjtConstraint.mjCNSTR_FRICTION_TENDON))
_LIMIT = (int(mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT), int(mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON))
_LINKS = (int(mujoco.mjtEq.mjEQ_CONNECT), int(mujoco.mjtEq.mjEQ_WELD))


@dataclasses.dataclass(frozen=True)
class Problem:
    """What a step starts from.

    Attributes:
        dt: timestep, s.
        v_free: velocity that the integrator reaches without constraints, (nv,).
        inverse: H^-1, (nv, nv).
        jac: Jacobian of rows, (nrow, nv).
        kind: mjtConstraint of each row, (nrow,).
        id: joint, dof, tendon or equality constraint of each row, (nrow,).
        phi: distance of each row to its limit, less the margin, (nrow,).
        loss: bound of dry friction, (nrow,).
        contacts: the contacts.
        contact_jac: their Jacobians: normal, tangents, spin, rolling, (ncon, 6, nv).
    """

    dt: float
    v_free: np.ndarray
    inverse: np.ndarray
    jac: np.ndarray
    kind: np.ndarray
    id: np.ndarray
    phi: np.ndarray
    loss: np.ndarray
    contacts: Sequence[Contact]
    contact_jac: np.ndarray


@dataclasses.dataclass(frozen=True)
class Solution:
    """Forces that obey the laws above, and what they lead to.

    Attributes:
        qvel: velocity after the step, (nv,).
        qfrc_constraint: constraint force in generalized coordinates, (nv,).
        row_force: force of each row, (nrow,).
        contact_force: force and torque of each contact in its frame, (ncon, 6).
        sweeps: number of sweeps it took.
    """

    qvel: np.ndarray
    qfrc_constraint: np.ndarray
    row_force: np.ndarray
    contact_force: np.ndarray
    sweeps: int


def link_jacobian(mjm: mujoco.MjModel, mjd: mujoco.MjData, eq: int) -> np.ndarray:
    """Velocity of the first body less the second's, midway between the anchors of a connect or weld, (3, nv)."""
    bodies = [int(mjm.eq_obj1id[eq]), int(mjm.eq_obj2id[eq])]
    if mjm.eq_objtype[eq] == int(mujoco.mjtObj.mjOBJ_SITE):
        anchors = mjd.site_xpos[bodies]
        bodies = mjm.site_bodyid[bodies].tolist()
    else:
        local = mjm.eq_data[eq, :6].reshape(2, 3)
        if mjm.eq_type[eq] == int(mujoco.mjtEq.mjEQ_WELD):
            local = local[::-1]
        anchors = mjd.xpos[bodies] + np.einsum("bij,bj->bi", mjd.xmat[bodies].reshape(2, 3, 3), local)
    first, second = np.zeros((3, mjm.nv)), np.zeros((3, mjm.nv))
    for jac, body in ((first, bodies[0]), (second, bodies[1])):
        mujoco.mj_jac(mjm, mjd, jac, None, anchors.mean(axis=0), body)
    return first - second


def problem(mjm: mujoco.MjModel, mjd: mujoco.MjData, contacts: Sequence[Contact] | None = None) -> Problem:
    """The problem at the state of mjd, which is left as it was; contacts are C MuJoCo's unless given."""
    data = comfree.smooth_stage(mjm, mjd)
    free = comfree.FreeIntegrator(mjm, mjd)
    v_free = spin.free_velocity(mjm, data, free.step(data.qfrc_smooth).qvel)
    mass = np.linalg.inv(comfree.full_mass_matrix(mjm, data))
    inverse = comfree.symmetric_inverse(mjm, free.inverse_matrix(data.qfrc_smooth), mass)

    wide = copy.copy(mjm)
    wide.jnt_margin[:] += NEAR
    wide.tendon_margin[:] += NEAR
    rows = comfree.smooth_stage(wide, mjd)
    is_row = np.isin(rows.efc_type, (_EQUALITY, *_FRICTION, *_LIMIT))
    kind, id = rows.efc_type[is_row], rows.efc_id[is_row]
    phi = rows.efc_pos[is_row].copy()
    for i, (k, index) in enumerate(zip(kind, id, strict=True)):
        if k in _LIMIT:
            phi[i] -= (mjm.jnt_margin if k == _LIMIT[0] else mjm.tendon_margin)[index]
    jac = comfree.row_jacobian(mjm, rows)[is_row]
    for eq in np.unique(id[kind == _EQUALITY]):
        if mjm.eq_type[eq] in _LINKS:
            jac[np.flatnonzero((kind == _EQUALITY) & (id == eq))[:3]] = link_jacobian(mjm, rows, eq)
    contacts = comfree.contacts_of(data) if contacts is None else contacts
    jacs = [comfree.contact_jacobian(mjm, data, contact) for contact in contacts]
    return Problem(
        dt=float(mjm.opt.timestep),
        v_free=v_free,
        inverse=inverse,
        jac=jac,
        kind=kind,
        id=id,
        phi=phi,
        loss=rows.efc_frictionloss[is_row],
        contacts=contacts,
        contact_jac=np.array(jacs).reshape(len(contacts), 6, mjm.nv),
    )


class _Friction:
    """The friction of one contact with its normal force given: most dissipation inside the cone.

    In forces over their coefficients, g_i = f_i / mu_i, the cone is a ball, and the problem is the quadratic
    ``min g'Wg / 2 + b'g, |g| <= radius``, solved through the eigenvalues of W.
    """

    def __init__(self, contact: Contact, jac: np.ndarray, response: np.ndarray, dt: float) -> None:
        n = contact.dim - 1
        self.mu = np.maximum(contact.friction[:n], MIN_FRICTION)
        self.jac = self.mu[:, None] * jac[1 : contact.dim]
        self.response = self.mu[None] * response[:, 1 : contact.dim]
        surface = np.concatenate([contact.surfacevel, np.zeros(2)])[:n]
        self.surface = self.mu * surface
        self.values, self.vectors = np.linalg.eigh(dt * self.jac @ self.response)
        self.values = np.maximum(self.values, 1e-12 * self.values.max(initial=1e-12))
        self.matrix = (self.vectors * self.values) @ self.vectors.T
        self.g = np.zeros(n)

    def solve(self, v: np.ndarray, radius: float) -> np.ndarray:
        """The new g, given the velocity that the old one has led to."""
        if radius <= 0.0:
            return np.zeros_like(self.g)
        b = self.vectors.T @ (self.jac @ v + self.surface - self.matrix @ self.g)
        sticking = -b / self.values
        if sticking @ sticking <= radius**2:
            return self.vectors @ sticking
        nu = 0.0  # Newton's method on 1 / |g(nu)| = 1 / radius, which is concave: it comes from below and never leaves
        for _ in range(100):
            g = -b / (self.values + nu)
            size = np.linalg.norm(g)
            change = (size - radius) / radius * size**2 / (g**2 / (self.values + nu)).sum()
            nu += change
            if change <= 1e-15 * nu:
                break
        return self.vectors @ (g * radius / np.linalg.norm(g))


def solve(p: Problem, max_sweeps: int = 200_000) -> Solution:
    """Forces and velocity, to `CONVERGED`; raises RuntimeError if that takes too many sweeps."""
    v = p.v_free.copy()
    row_response = p.inverse @ p.jac.T
    row_weight = p.dt * np.einsum("ri,ir->r", p.jac, row_response)
    row_force = np.zeros(len(p.kind))
    is_limit, is_dry = np.isin(p.kind, _LIMIT), np.isin(p.kind, _FRICTION)
    low = np.where(is_limit, 0.0, np.where(is_dry, -p.loss, -np.inf))
    high = np.where(is_dry, p.loss, np.inf)
    target = np.where(is_limit, -np.maximum(p.phi, 0.0) / p.dt, 0.0)
    rows = np.flatnonzero(row_weight > 1e-14)

    responses = [p.inverse @ jac.T for jac in p.contact_jac]
    normal_weight = [p.dt * jac[0] @ response[:, 0] for jac, response in zip(p.contact_jac, responses, strict=True)]
    normal = np.zeros(len(p.contacts))
    frictions = [_Friction(*part, p.dt) for part in zip(p.contacts, p.contact_jac, responses, strict=True)]
    gap = [-max(c.dist - c.includemargin, 0.0) / p.dt for c in p.contacts]
    moving = [c for c, weight in enumerate(normal_weight) if weight > 1e-14]

    sweeps, change = 0, np.inf
    while change > CONVERGED * (1.0 + np.abs(v).max(initial=0.0)):
        if sweeps == max_sweeps:
            raise RuntimeError(f"the velocity still changes by {change:.1e} after {sweeps} sweeps")
        before = v.copy()
        for r in rows:
            force = row_force[r] - (p.jac[r] @ v - target[r]) / row_weight[r]
            force = min(max(force, low[r]), high[r])
            v += p.dt * row_response[:, r] * (force - row_force[r])
            row_force[r] = force
        for c in moving:
            force = max(0.0, normal[c] - (p.contact_jac[c][0] @ v - gap[c]) / normal_weight[c])
            v += p.dt * responses[c][:, 0] * (force - normal[c])
            normal[c] = force
            friction = frictions[c]
            if friction.g.size:
                g = friction.solve(v, force)
                v += p.dt * friction.response @ (g - friction.g)
                friction.g = g
        change = np.abs(v - before).max(initial=0.0)
        sweeps += 1

    contact_force = np.zeros((len(p.contacts), 6))
    for c, friction in enumerate(frictions):
        contact_force[c, 0] = normal[c]
        contact_force[c, 1 : 1 + friction.g.size] = friction.mu * friction.g
    force = p.jac.T @ row_force + np.einsum("cij,ci->j", p.contact_jac, contact_force)
    return Solution(p.v_free + p.dt * p.inverse @ force, force, row_force, contact_force, sweeps)


def violations(
    p: Problem, qvel: np.ndarray, qfrc_constraint: np.ndarray, contact_force: np.ndarray
) -> dict[str, float]:
    """How far a velocity and forces are from the laws, as velocities: 0 where they hold.

    Args:
        p: the problem
        qvel: velocity after the step, (nv,)
        qfrc_constraint: constraint force in generalized coordinates, (nv,)
        contact_force: force and torque of each contact in its frame, (ncon, 6)

    Returns:
        motion: the velocity that the forces lead to, against the one given
        normal: contacts that close too fast, pull, or push where they open
        friction: friction outside the cone, or not against the slip; times its coefficient
        equality, limit: rows that are not held
    """
    out = {"motion": float(np.abs(p.v_free + p.dt * p.inverse @ qfrc_constraint - qvel).max(initial=0.0))}
    normal, frictions = [0.0], [0.0]
    for contact, jac, force in zip(p.contacts, p.contact_jac, contact_force, strict=True):
        response = p.inverse @ jac.T
        weight = p.dt * jac[0] @ response[:, 0]
        if weight <= 1e-14:
            continue
        gap = -max(contact.dist - contact.includemargin, 0.0) / p.dt
        normal.append(weight * abs(force[0] - max(0.0, force[0] - (jac[0] @ qvel - gap) / weight)))
        friction = _Friction(contact, jac, response, p.dt)
        if friction.g.size:
            g = force[1 : contact.dim] / friction.mu
            weight = friction.values.max()
            best = g - (friction.jac @ qvel + friction.surface) / weight
            best *= min(1.0, max(force[0], 0.0) / max(float(np.linalg.norm(best)), 1e-300))
            frictions.append(weight * float(np.abs(g - best).max()))
    out["normal"], out["friction"] = float(max(normal)), float(max(frictions))
    moved = p.jac @ qvel
    can_move = np.einsum("ri,ij,rj->r", p.jac, p.inverse, p.jac) > 1e-14
    out["equality"] = float(np.abs(moved[can_move & (p.kind == _EQUALITY)]).max(initial=0.0))
    floor = -np.maximum(p.phi, 0.0) / p.dt
    out["limit"] = float((floor - moved)[can_move & np.isin(p.kind, _LIMIT)].max(initial=0.0))
    return out
