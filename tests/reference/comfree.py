"""Float64 NumPy reference of one ComFree step, written equation by equation.

Everything up to the smooth forces comes from C MuJoCo (kinematics, collision, constraint rows, bias, passive and
actuator forces), and so does the integrator. The constraint forces are computed here, densely and row by row; MuJoCo's
constraint solver is never called.

Equation numbers are those of ComFree-Sim (arXiv 2603.12185), section III:

* (1)  dynamics, (2) velocity predicted without contact, (4) contact velocities,
* (6), (7) facets of the dual cone, (8) facet force, (9) velocity after contact,
* (10) exact impedance, (11) gains, (12) heuristic impedance, (13) impedance curve.

Five things differ from the text of the paper, on purpose. First, every ``M^-1 dt`` that advances a velocity is the
integrator's own, ``H^-1 dt``, with ``H = M + dt diag(damping)`` (Euler) or ``H = M - dt d(force)/d(velocity)``
(implicitfast), so that a step without constraints is MuJoCo's step. Second, the facets of a friction direction come in
pairs ``J_n + mu J_i`` and ``J_n - mu J_i``, MuJoCo's pyramid, which is (7) for a symmetric set of directions. Third,
``r / (1 - r)`` of a contact or row is cut so that its facets together take away at most ``max_gain`` of the velocity.
Fourth, all forces of a step are cut by one factor, so that together they make up at most the velocity that is missing,
on the average over the forces. Fifth, if ``tangential`` is given, a contact has no facets: its normal is answered as by
all of them without slip, and each friction direction by a gain of its own, ``tangential`` times that of the normal and
at most ``max_gain``; friction is then cut to the elliptic cone.

The exact impedance (10) concerns contacts; the other rows keep MuJoCo's diagonal approximation. Under implicitfast it
takes a free body's block of ``H`` without the gyroscopic derivative, which is not symmetric. It never falls below
``EXACT_FLOOR`` of the heuristic one: it vanishes where a contact cannot give way.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence

import mujoco
import numpy as np

MINVAL = float(mujoco.mjMINVAL)
MINIMP = float(mujoco.mjMINIMP)
MAXIMP = float(mujoco.mjMAXIMP)
MAX_GAIN = 0.5
EXACT_FLOOR = 1e-2

_EQUALITY = int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
_FRICTION = (int(mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF), int(mujoco.mjtConstraint.mjCNSTR_FRICTION_TENDON))
_LIMIT = (int(mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT), int(mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON))
_INTEGRATORS = (
    int(mujoco.mjtIntegrator.mjINT_EULER),
    int(mujoco.mjtIntegrator.mjINT_IMPLICIT),
    int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST),
)


@dataclasses.dataclass(frozen=True)
class Contact:
    """One detected contact; the fields have MuJoCo's names and meaning.

    Attributes:
        dist: signed distance, negative in penetration.
        pos: contact point, world frame, (3,).
        frame: contact frame, rows normal (geom 1 to geom 2), tangent 1, tangent 2, (3, 3).
        includemargin: the contact acts if dist < includemargin.
        friction: tangent 1, tangent 2, spin, roll 1, roll 2, (5,).
        solimp: impedance curve, (5,).
        dim: 1, 3, 4 or 6.
        geom: the two geoms.
        surfacevel: velocity of the surfaces, geom 2 minus geom 1: tangent 1, tangent 2, spin, (3,).
    """

    dist: float
    pos: np.ndarray
    frame: np.ndarray
    includemargin: float
    friction: np.ndarray
    solimp: np.ndarray
    dim: int
    geom: tuple[int, int]
    surfacevel: np.ndarray


@dataclasses.dataclass(frozen=True)
class Result:
    """One step.

    Attributes:
        qacc: M^-1 (qfrc_smooth + qfrc_constraint), (nv,).
        qfrc_constraint: constraint force in generalized coordinates, (nv,).
        qpos: next positions, (nq,).
        qvel: next velocities, (nv,).
        act: next activations, (na,).
        contact_force: force and torque on geom 2 in the contact frame (normal, tangents; the same axes), (ncon, 6).
        row_force: force of the equality, dry friction and limit rows in MuJoCo's order, (nrow,).
        v_smooth: velocity that the integrator reaches without constraints, (nv,).
        qfrc_smooth: force without constraints, (nv,).
        qfrc_terms: the terms of qfrc_smooth + qfrc_constraint, added up without their signs, (nv,): what rounding
            errors are proportional to. Facet by facet, with the terms of the relative velocity that (8) multiplies; a
            row's phi is a difference of numbers of order one, so its spring counts with a unit length.
        qacc_terms: |M^-1| qfrc_terms, (nv,).
        share: factor that all forces are cut by.
        time: next time.
    """

    qacc: np.ndarray
    qfrc_constraint: np.ndarray
    qpos: np.ndarray
    qvel: np.ndarray
    act: np.ndarray
    contact_force: np.ndarray
    row_force: np.ndarray
    v_smooth: np.ndarray
    qfrc_smooth: np.ndarray
    qfrc_terms: np.ndarray
    qacc_terms: np.ndarray
    share: float
    time: float


def impedance_curve(solimp: np.ndarray, phi: float) -> float:
    """r(|phi|), equation (13), with MuJoCo's limits on the five parameters."""
    dmin, dmax = np.clip(solimp[:2], MINIMP, MAXIMP)
    width = max(0.0, solimp[2])
    mid = np.clip(solimp[3], MINIMP, MAXIMP)
    power = max(1.0, solimp[4])
    if dmin == dmax or width <= MINVAL:
        return float(0.5 * (dmin + dmax))
    x = abs(phi) / width  # (13a)
    if x >= 1.0:
        return float(dmax)
    if x == 0.0:
        return float(dmin)
    if power == 1.0:
        gamma = x
    elif x <= mid:
        gamma = mid * (x / mid) ** power  # (13b), first case
    else:
        gamma = 1.0 - (1.0 - mid) * ((1.0 - x) / (1.0 - mid)) ** power  # (13b), second case
    return float(dmin + gamma * (dmax - dmin))


def positive_part(x: float, smoothing: float | None) -> float:
    """(x)_+ of equation (8), or softplus(beta x) / beta."""
    if smoothing is None:
        return max(0.0, x)
    return float(np.logaddexp(0.0, smoothing * x) / smoothing)


def contacts_of(mjd: mujoco.MjData) -> list[Contact]:
    """The contacts that C MuJoCo detected."""
    out = []
    for con in mjd.contact[: mjd.ncon]:
        if con.geom[0] < 0 or con.geom[1] < 0:
            raise NotImplementedError("flex contacts")
        out.append(
            Contact(
                dist=float(con.dist),
                pos=np.array(con.pos),
                frame=np.array(con.frame).reshape(3, 3),
                includemargin=float(con.includemargin),
                friction=np.array(con.friction),
                solimp=np.array(con.solimp),
                dim=int(con.dim),
                geom=(int(con.geom[0]), int(con.geom[1])),
                surfacevel=np.array(con.surfacevel),
            )
        )
    return out


@functools.lru_cache(maxsize=4)
def _scratch(mjm: mujoco.MjModel) -> tuple[mujoco.MjData, mujoco.MjData]:
    """Two data of the model to work in; making them is by far the most expensive part of a small step."""
    return mujoco.MjData(mjm), mujoco.MjData(mjm)


@contextlib.contextmanager
def _without_constraints(mjm: mujoco.MjModel) -> Iterator[None]:
    flags = mjm.opt.disableflags
    mjm.opt.disableflags = flags | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    try:
        yield
    finally:
        mjm.opt.disableflags = flags


def smooth_stage(mjm: mujoco.MjModel, mjd: mujoco.MjData, out: mujoco.MjData | None = None) -> mujoco.MjData:
    """Kinematics, collision, constraint rows and all smooth forces at the state of mjd, in a copy of it."""
    data = mujoco.MjData(mjm) if out is None else out
    mujoco.mj_copyData(data, mjm, mjd)
    mujoco.mj_step1(mjm, data)
    mujoco.mj_fwdActuation(mjm, data)
    mujoco.mj_fwdAcceleration(mjm, data)  # qfrc_smooth = tau - c of (1), qacc_smooth
    return data


class FreeIntegrator:
    """The integrator of C MuJoCo without constraints: v -> v + dt H^-1 f for any generalized force f."""

    def __init__(self, mjm: mujoco.MjModel, mjd: mujoco.MjData) -> None:
        if int(mjm.opt.integrator) not in _INTEGRATORS:
            raise NotImplementedError(f"integrator {mjm.opt.integrator}")
        self._model = mjm
        self._start = mjd
        self._data = _scratch(mjm)[1]
        with _without_constraints(mjm):
            smooth_stage(mjm, mjd, self._data)
        # What the unconstrained model adds by itself; the rest of f is injected as an applied force.
        self._own = self._data.qfrc_smooth - mjd.qfrc_applied

    def step(self, force: np.ndarray) -> mujoco.MjData:
        """One step of C MuJoCo with the total generalized force given; the result lives until the next call."""
        mujoco.mj_copyData(self._data, self._model, self._start)
        self._data.qfrc_applied[:] = force - self._own
        with _without_constraints(self._model):
            mujoco.mj_step(self._model, self._data)
        return self._data

    def inverse_matrix(self, force: np.ndarray) -> np.ndarray:
        """H^-1, by probing: its i-th column is the velocity change that a unit force on dof i makes, over dt."""
        probe = 1e3  # Large against the velocities, so that the difference keeps its digits; v+ is affine in f.
        base = self.step(force).qvel.copy()
        inverse = np.zeros((self._model.nv, self._model.nv))
        for i in range(self._model.nv):
            push = force.copy()
            push[i] += probe
            inverse[:, i] = (self.step(push).qvel - base) / (probe * self._model.opt.timestep)
        return inverse


def full_mass_matrix(mjm: mujoco.MjModel, mjd: mujoco.MjData) -> np.ndarray:
    """M, dense."""
    mass = np.zeros((mjm.nv, mjm.nv))
    mujoco.mj_fullM(mjm, mjd, mass)
    return mass


def symmetric_inverse(mjm: mujoco.MjModel, h_inverse: np.ndarray, m_inverse: np.ndarray) -> np.ndarray:
    """H^-1 with M^-1 for free bodies under implicitfast, whose own block has the gyroscopic derivative."""
    out = h_inverse.copy()
    if mjm.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST:
        for joint in np.flatnonzero(mjm.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
            tree = np.flatnonzero(mjm.dof_treeid == mjm.dof_treeid[mjm.jnt_dofadr[joint]])
            if tree.size == 6:
                out[np.ix_(tree, tree)] = m_inverse[np.ix_(tree, tree)]
    return out


def euler_matrix(mjm: mujoco.MjModel, mjd: mujoco.MjData) -> np.ndarray:
    """H = M + dt diag(d damping force / d velocity) of the Euler integrator, without actuator damping."""
    mass = full_mass_matrix(mjm, mjd)
    off = int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP) | int(mujoco.mjtDisableBit.mjDSBL_DAMPER)
    if mjm.opt.disableflags & off:
        return mass
    speed = np.abs(mjd.qvel)
    slope = mjm.dof_damping.copy()
    for power in range(mjm.dof_dampingpoly.shape[1]):  # Force (d + p_0 |v| + p_1 v^2) v.
        slope += (power + 2) * mjm.dof_dampingpoly[:, power] * speed ** (power + 1)
    return mass + mjm.opt.timestep * np.diag(slope)


def row_jacobian(mjm: mujoco.MjModel, mjd: mujoco.MjData) -> np.ndarray:
    """The constraint Jacobian of all of MuJoCo's rows, dense, (nefc, nv)."""
    if mjd.nefc == 0:
        return np.zeros((0, mjm.nv))
    if not mujoco.mj_isSparse(mjm):
        return np.array(mjd.efc_J).reshape(mjd.nefc, mjm.nv)
    dense = np.zeros((mjd.nefc, mjm.nv))
    for i in range(mjd.nefc):
        start, count = mjd.efc_J_rowadr[i], mjd.efc_J_rownnz[i]
        dense[i, mjd.efc_J_colind[start : start + count]] = mjd.efc_J[start : start + count]
    return dense


def row_weight(mjm: mujoco.MjModel, mjd: mujoco.MjData, row: int) -> float:
    """MuJoCo's approximate inverse mass of a row; a coupling's with its slope squared, which MuJoCo leaves out."""
    weight = float(mjd.efc_diagA[row])
    eq = int(mjd.efc_id[row])
    if mjd.efc_type[row] != _EQUALITY or mjm.eq_obj2id[eq] < 0:
        return weight
    if mjm.eq_type[eq] == mujoco.mjtEq.mjEQ_JOINT:
        first, second = (mjm.dof_invweight0[mjm.jnt_dofadr[j[eq]]] for j in (mjm.eq_obj1id, mjm.eq_obj2id))
        position = mjm.jnt_qposadr[mjm.eq_obj2id[eq]]
        x = float(mjd.qpos[position] - mjm.qpos0[position])
    elif mjm.eq_type[eq] == mujoco.mjtEq.mjEQ_TENDON:
        first, second = (mjm.tendon_invweight0[t[eq]] for t in (mjm.eq_obj1id, mjm.eq_obj2id))
        x = float(mjd.ten_length[mjm.eq_obj2id[eq]] - mjm.tendon_length0[mjm.eq_obj2id[eq]])
    else:
        return weight
    slope = sum(i * mjm.eq_data[eq, i] * x ** (i - 1) for i in range(1, 5))
    return float(first + slope**2 * second)


def contact_jacobian(mjm: mujoco.MjModel, mjd: mujoco.MjData, contact: Contact) -> np.ndarray:
    """J of (4): rows J_n, J_t1, J_t2, J_spin, J_roll1, J_roll2 of body 2 minus body 1, (6, nv)."""
    linear = np.zeros((3, mjm.nv))
    angular = np.zeros((3, mjm.nv))
    for sign, geom in zip((-1.0, 1.0), contact.geom, strict=True):
        jacp = np.zeros((3, mjm.nv))
        jacr = np.zeros((3, mjm.nv))
        mujoco.mj_jac(mjm, mjd, jacp, jacr, contact.pos, int(mjm.geom_bodyid[geom]))
        linear += sign * jacp
        angular += sign * jacr
    return np.vstack([contact.frame @ linear, contact.frame @ angular])


def facet_matrix(contact: Contact) -> np.ndarray:
    """J~ = facets @ J of (7), in the order n + mu_1, n - mu_1, n + mu_2, ...; (1, 4, 6 or 10; 6)."""
    if contact.dim == 1:
        return np.array([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    rows = []
    for i in range(1, contact.dim):
        for sign in (1.0, -1.0):
            row = np.zeros(6)
            row[0] = 1.0
            row[i] = sign * contact.friction[i - 1]
            rows.append(row)
    return np.array(rows)


def step(
    mjm: mujoco.MjModel,
    mjd: mujoco.MjData,
    *,
    stiffness: float,
    damping: float,
    impedance: str = "heuristic",
    smoothing: float | None = None,
    tangential: float | None = None,
    contacts: Sequence[Contact] | None = None,
    max_gain: float = MAX_GAIN,
) -> Result:
    """One ComFree step from the state of mjd, which is left as it was.

    Args:
        mjm: model.
        mjd: state, controls and applied forces at the beginning of the step.
        stiffness: k_user of (11).
        damping: d_user of (11).
        impedance: "heuristic", (12), or "exact": the diagonal of (10) with the integrator's matrix.
        smoothing: beta of the softplus in place of the positive part, in 1/N.
        tangential: gain of a contact along the surface over that along its normal; None: facets.
        contacts: contacts to use in place of those that C MuJoCo detects.
        max_gain: largest share of its velocity that a contact or row may take away in a step.
    """
    if impedance not in ("heuristic", "exact"):
        raise ValueError(impedance)
    dt = float(mjm.opt.timestep)
    data = smooth_stage(mjm, mjd, _scratch(mjm)[0])
    smooth = data.qfrc_smooth.copy()
    free = FreeIntegrator(mjm, mjd)
    v_smooth = free.step(smooth).qvel.copy()  # (2)
    m_inverse = np.linalg.inv(full_mass_matrix(mjm, data))
    h_inverse = symmetric_inverse(mjm, free.inverse_matrix(smooth), m_inverse) if impedance == "exact" else None
    force = np.zeros(mjm.nv)
    parts = (data.qfrc_passive, data.qfrc_bias, data.qfrc_actuator, data.qfrc_applied)
    terms = np.abs(np.array(parts)).sum(axis=0)

    def response(u: float, phi: float, m_phi: float) -> float:
        """The argument of (.)_+ in (8), with the gains of (11)."""
        k, d = stiffness * m_phi / dt, damping * m_phi / dt
        return -k * (u * dt + phi) - d * u

    def stable_ratio(r: float, nfacet: int) -> float:
        """r / (1 - r), cut so that all facets together take away at most max_gain of the velocity."""
        gain = nfacet * r / (1.0 - r) * (stiffness * dt + damping)
        return r / (1.0 - r) * (max_gain / gain if gain > max_gain else 1.0)

    def softness(jac: np.ndarray, approximation: float) -> float:
        """The denominator of (12), or the diagonal of J H^-1 J^T, (10)."""
        weight = approximation if h_inverse is None else float(jac @ h_inverse @ jac)
        return max(weight, EXACT_FLOOR * approximation, MINVAL)

    # Equality, dry friction and limit rows: those that MuJoCo built.
    kinds = np.array(data.efc_type[: data.nefc], dtype=int)
    rows = np.flatnonzero(np.isin(kinds, (_EQUALITY, *_FRICTION, *_LIMIT)))
    work = 0.0

    def work_of(push: float, x: float, m_phi: float) -> float:
        """A force times the velocity that is missing there, x / (K dt + D); a softplus: at least what it would need."""
        slope = (stiffness * dt + damping) * m_phi / dt
        return abs(push) * max(abs(x), abs(push)) / slope if slope else 0.0

    row_force = np.zeros(rows.size)
    jac_rows = row_jacobian(mjm, data)
    for out, i in enumerate(rows):
        jac, kind = jac_rows[i], kinds[i]
        r = float(data.efc_KBIP.reshape(-1, 4)[i, 2])
        ratio = max_gain / max(stiffness * dt + damping, MINVAL) if kind in _LIMIT else stable_ratio(r, 1)
        m_phi = ratio / max(row_weight(mjm, data, int(i)), MINVAL)
        phi = 0.0 if kind in _FRICTION else float(data.efc_pos[i] - data.efc_margin[i])
        x = response(float(jac @ v_smooth), phi, m_phi)
        if kind == _EQUALITY:
            row_force[out] = x
        elif kind in _FRICTION:
            row_force[out] = np.clip(x, -data.efc_frictionloss[i], data.efc_frictionloss[i])
        else:
            row_force[out] = positive_part(x, smoothing)
        work += work_of(row_force[out], x, m_phi)
        force += jac * row_force[out]
        spring = 0.0 if kind in _FRICTION else stiffness * m_phi / dt
        drag = (stiffness + damping / dt) * m_phi * (np.abs(jac) @ np.abs(v_smooth))
        terms += np.abs(jac) * (np.abs(row_force[out]) + spring + drag)

    # Contacts.
    if contacts is None:
        contacts = contacts_of(data)
    contact_force = np.zeros((len(contacts), 6))
    for c, contact in enumerate(contacts):
        if not contact.dist < contact.includemargin:
            continue
        phi = contact.dist - contact.includemargin
        jac6 = contact_jacobian(mjm, data, contact)
        twist = jac6 @ v_smooth  # (4)
        twist[1:4] += contact.surfacevel
        twist_terms = np.abs(jac6) @ np.abs(v_smooth)
        twist_terms[1:4] += np.abs(contact.surfacevel)
        r = impedance_curve(contact.solimp, phi)
        weight, turning = (sum(float(mjm.body_invweight0[mjm.geom_bodyid[g], i]) for g in contact.geom) for i in (0, 1))
        facets = facet_matrix(contact)  # (6), (7)
        ratio = stable_ratio(r, len(facets))
        if tangential is not None:
            m_phi = len(facets) * ratio / softness(jac6[0], weight)
            x = response(float(twist[0]), phi, m_phi)
            normal = positive_part(x, smoothing)
            work += work_of(normal, x, m_phi)
            gain = min(tangential * len(facets) * ratio * (stiffness * dt + damping), max_gain)
            drag = np.zeros(6)
            for i in range(1, contact.dim):
                drag[i] = gain / dt / softness(jac6[i], weight if i < 3 else turning)
            wanted = drag * twist
            used = float(np.linalg.norm(wanted[1 : contact.dim] / contact.friction[: contact.dim - 1]))
            push = -wanted * (min(1.0, normal / used) if used > 0.0 else 1.0)
            work -= float(push @ twist)
            push[0] = normal
            contact_force[c] = push
            force += jac6.T @ push
            drag[0] = (stiffness + damping / dt) * m_phi
            terms += np.abs(jac6).T @ (np.abs(push) + drag * twist_terms * (normal > 0.0))
            continue
        for facet in facets:
            m_phi = ratio / softness(facet @ jac6, weight)  # (12) or (10)
            x = response(float(facet @ twist), phi, m_phi)
            push = positive_part(x, smoothing)  # (8)
            work += work_of(push, x, m_phi)
            contact_force[c] += facet * push
            if push > 0.0:
                drag = (stiffness + damping / dt) * m_phi * float(np.abs(facet) @ twist_terms)
                terms += np.abs(jac6).T @ np.abs(facet) * (push + drag)
        force += jac6.T @ contact_force[c]

    power = float(force @ (free.step(smooth + force).qvel - v_smooth))  # dt f . J H^-1 J' f
    share = min(1.0, work / power) if power > 0.0 else 1.0
    force, row_force, contact_force = share * force, share * row_force, share * contact_force
    after = free.step(smooth + force)  # (9)
    return Result(
        qacc=m_inverse @ (smooth + force),
        qfrc_constraint=force,
        qpos=after.qpos.copy(),
        qvel=after.qvel.copy(),
        act=after.act.copy(),
        contact_force=contact_force,
        row_force=row_force,
        v_smooth=v_smooth,
        qfrc_smooth=smooth,
        qfrc_terms=terms,
        qacc_terms=np.abs(m_inverse) @ terms,
        share=share,
        time=float(after.time),
    )


def advance(mjd: mujoco.MjData, result: Result) -> None:
    """Write the state after a step back into mjd."""
    mjd.qpos[:] = result.qpos
    mjd.qvel[:] = result.qvel
    mjd.act[:] = result.act
    mjd.time = result.time
