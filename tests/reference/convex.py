"""Float64 NumPy reference of one convex step, dense, solved by Newton's method to rounding.

The velocity after a step of dt is the minimum of ``1/2 v'Av - r'v + sum of potentials``. A potential is minus the
impulse of its constraint, summed up along the constraint's velocity; equation numbers are those of CENIC (Kurtz
and Castro):

* a contact, u = J v + given: along the normal the impulse (13), ``dt (fe - dt k u_n)_+ (1 - d u_n)_+``; across it, (14)
  with one coefficient for each direction, ``-dt fn grad sqrt(sum (mu_i u_i)^2 + eps^2)``, with fn as the step starts or
  as a solve before has found it;
* a clamped row, s = J v: ``clip(bias - gain s, least, most)``, of equalities and limits (18), of actuators, springs and
  dampers (20);
* a dry row: ``-loss s / sqrt(s^2 + eps^2)``.

`of_world` takes A, r and the constraints out of the device data of a simulation: inertia, forces, Jacobians, materials
and laws, but nothing that a solve has left there. Its friction goes by the forces at the start of the step.
"""

import dataclasses
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.physics.convex.step.layout import Law

RIGIDITY = 0.1
"""beta of (18): period of a near-rigid constraint, in steps."""
ITERATIONS = 300
"""Newton's method takes about 10; one that takes so many has failed."""


@dataclasses.dataclass(frozen=True)
class Contacts:
    """The contacts of a world.

    Attributes:
        jac: normal, tangents, spin, rolling; rows that a contact does not have are zero, (ncon, 6, nv).
        given: velocity of the surfaces themselves, (ncon, 6).
        elastic: fe, elastic force at the start of the step, negative when apart, N, (ncon,).
        stiffness: k, N/m, (ncon,).
        dissipation: d, s/m, (ncon,).
        lagged: fn, normal force that friction goes by, N, (ncon,).
        musq: squares of the friction coefficients, (ncon, 5).
        eps: length below which friction sticks, m/s, (ncon,).
    """

    jac: NDArray[np.float64]
    given: NDArray[np.float64]
    elastic: NDArray[np.float64]
    stiffness: NDArray[np.float64]
    dissipation: NDArray[np.float64]
    lagged: NDArray[np.float64]
    musq: NDArray[np.float64]
    eps: NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Rows:
    """What acts along one velocity.

    Attributes:
        jac: (nrow, nv).
        dry: whether a row is dry friction, with its loss as `bias`, N s; the others are clamped, (nrow,).
        bias, gain, least, most: of a clamped row, (nrow,).
        eps: velocity below which dry friction sticks, m/s or rad/s.
    """

    jac: NDArray[np.float64]
    dry: NDArray[np.bool_]
    bias: NDArray[np.float64]
    gain: NDArray[np.float64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    eps: float


@dataclasses.dataclass(frozen=True)
class Problem:
    """A convex step.

    Attributes:
        dt: its size, s.
        A: inertia and the implicit part of joint springs and dampers, (nv, nv).
        r: momentum at the start and the impulse of forces, (nv,).
        contacts: the contacts.
        rows: all else.
        weight: share of the contacts' impulses: 1/2 in the trapezoid rule.
    """

    dt: float
    A: NDArray[np.float64]
    r: NDArray[np.float64]
    contacts: Contacts
    rows: Rows
    weight: float = 1.0


# potentials, impulses and their slopes, each over an array of constraints


def normal_potential(u: Any, fe: Any, k: Any, d: Any, dt: Any) -> NDArray[np.float64]:
    """The impulse (13), a polynomial up to where one of its factors vanishes, integrated from u to there."""
    u, fe, k, d, dt = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (u, fe, k, d, dt)))
    with np.errstate(divide="ignore"):
        end = np.minimum(fe / (dt * k), np.where(d > 0.0, 1.0 / d, np.inf))
    start = np.minimum(u, end)

    def antiderivative(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return dt * (fe * x - 0.5 * (dt * k + d * fe) * x**2 + dt * k * d * x**3 / 3.0)

    return antiderivative(end) - antiderivative(start)


def normal_impulse(u: Any, fe: Any, k: Any, d: Any, dt: Any) -> NDArray[np.float64]:
    """(13)."""
    return dt * np.maximum(fe - dt * k * u, 0.0) * np.maximum(1.0 - d * u, 0.0)


def normal_curvature(u: Any, fe: Any, k: Any, d: Any, dt: Any) -> NDArray[np.float64]:
    """Minus the derivative of (13)."""
    spring, damper = fe - dt * k * u, 1.0 - d * u
    return np.where((spring > 0.0) & (damper > 0.0), dt * (dt * k * damper + d * spring), 0.0)


def slip_length(u: Any, musq: Any, eps: Any) -> NDArray[np.float64]:
    """sqrt(sum (mu_i u_i)^2 + eps^2) of tangential velocities (..., 5): the potential of (14) over dt fn."""
    return np.sqrt((musq * u**2).sum(axis=-1) + eps**2)


def slip_gradient(u: Any, musq: Any, eps: Any) -> NDArray[np.float64]:
    """Its gradient, (..., 5)."""
    return musq * u / slip_length(u, musq, eps)[..., None]


def slip_hessian(u: Any, musq: Any, eps: Any) -> NDArray[np.float64]:
    """Its Hessian, (..., 5, 5): what a length has across its gradient, and nothing along it but for eps."""
    length = slip_length(u, musq, eps)[..., None, None]
    gradient = slip_gradient(u, musq, eps)
    return (np.asarray(musq)[..., None] * np.eye(5) - gradient[..., :, None] * gradient[..., None, :]) / length


def clamped_potential(s: Any, bias: Any, gain: Any, least: Any, most: Any) -> NDArray[np.float64]:
    """(20), as the largest of (y (bias - gain s) - y^2/2) / gain over the impulses y within bounds."""
    impulse = clamped_impulse(s, bias, gain, least, most)
    free = bias - gain * s
    safe = np.where(gain > 0.0, gain, 1.0)
    return np.where(gain > 0.0, impulse * (free - 0.5 * impulse) / safe, -impulse * s)


def clamped_impulse(s: Any, bias: Any, gain: Any, least: Any, most: Any) -> NDArray[np.float64]:
    """A linear impulse within bounds."""
    return np.clip(bias - gain * s, least, most)


def clamped_curvature(s: Any, bias: Any, gain: Any, least: Any, most: Any) -> NDArray[np.float64]:
    """Minus its derivative."""
    free = bias - gain * s
    return np.where((free > least) & (free < most), gain, 0.0)


def dry_potential(s: Any, loss: Any, eps: Any) -> NDArray[np.float64]:
    """loss sqrt(s^2 + eps^2)."""
    return loss * np.hypot(s, eps)


def dry_impulse(s: Any, loss: Any, eps: Any) -> NDArray[np.float64]:
    """Minus its derivative."""
    return -loss * s / np.hypot(s, eps)


def dry_curvature(s: Any, loss: Any, eps: Any) -> NDArray[np.float64]:
    """Its second derivative."""
    return loss * eps**2 / np.hypot(s, eps) ** 3


# the whole problem


def cost(p: Problem, v: NDArray[np.float64]) -> float:
    """What a step minimizes."""
    c, rows = p.contacts, p.rows
    u, s = contact_velocities(p, v), rows.jac @ v
    normal = normal_potential(u[:, 0], c.elastic, c.stiffness, c.dissipation, p.dt)
    friction = p.dt * c.lagged * slip_length(u[:, 1:], c.musq, c.eps)
    of_rows = np.where(
        rows.dry,
        dry_potential(s, rows.bias, rows.eps),
        clamped_potential(s, rows.bias, rows.gain, rows.least, rows.most),
    )
    return float(0.5 * v @ p.A @ v - p.r @ v + p.weight * (normal + friction).sum() + of_rows.sum())


def contact_velocities(p: Problem, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """u = J v + given, (ncon, 6)."""
    return p.contacts.jac @ v + p.contacts.given


def contact_impulses_at(p: Problem, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Impulses of contacts with velocities u, in their frames, (ncon, 6)."""
    c = p.contacts
    normal = normal_impulse(u[:, 0], c.elastic, c.stiffness, c.dissipation, p.dt)
    friction = -p.dt * c.lagged[:, None] * slip_gradient(u[:, 1:], c.musq, c.eps)
    return np.concatenate([normal[:, None], friction], axis=1)


def contact_impulses(p: Problem, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Impulses of the contacts, in their frames, (ncon, 6)."""
    return contact_impulses_at(p, contact_velocities(p, v))


def row_impulses_at(p: Problem, s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Impulses of rows with velocities s, (nrow,)."""
    rows = p.rows
    clamped = clamped_impulse(s, rows.bias, rows.gain, rows.least, rows.most)
    return np.where(rows.dry, dry_impulse(s, rows.bias, rows.eps), clamped)


def row_impulses(p: Problem, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Impulses of the rows, (nrow,)."""
    return row_impulses_at(p, p.rows.jac @ v)


def gradient(p: Problem, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """A v - r - J' impulses."""
    contacts = p.weight * np.einsum("cri,cr->i", p.contacts.jac, contact_impulses(p, v))
    return p.A @ v - p.r - contacts - p.rows.jac.T @ row_impulses(p, v)


def momenta(p: Problem, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """The terms of the gradient, added up without their signs: what its rounding errors are proportional to."""
    of_contacts = np.einsum("cri,cr->i", np.abs(p.contacts.jac), np.abs(contact_impulses(p, v)))
    of_rows = np.abs(p.rows.jac).T @ np.abs(row_impulses(p, v))
    return np.abs(p.A) @ np.abs(v) + np.abs(p.r) + p.weight * of_contacts + of_rows


def contact_hessians(p: Problem, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Second derivatives of the contacts' potentials over their own velocities, (ncon, 6, 6)."""
    c = p.contacts
    u = contact_velocities(p, v)
    G = np.zeros((len(u), 6, 6))
    G[:, 0, 0] = normal_curvature(u[:, 0], c.elastic, c.stiffness, c.dissipation, p.dt)
    G[:, 1:, 1:] = (p.dt * c.lagged)[:, None, None] * slip_hessian(u[:, 1:], c.musq, c.eps)
    return p.weight * G


def row_curvatures(p: Problem, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Second derivatives of the rows' potentials over their own velocities, (nrow,)."""
    rows = p.rows
    s = rows.jac @ v
    clamped = clamped_curvature(s, rows.bias, rows.gain, rows.least, rows.most)
    return np.where(rows.dry, dry_curvature(s, rows.bias, rows.eps), clamped)


def hessian(p: Problem, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """A + J' G J."""
    jac = p.contacts.jac.reshape(-1, len(v))
    pushed = (contact_hessians(p, v) @ p.contacts.jac).reshape(-1, len(v))
    return p.A + jac.T @ pushed + p.rows.jac.T @ (row_curvatures(p, v)[:, None] * p.rows.jac)


def solve(p: Problem, v: NDArray[np.float64], tolerance: float = 1e-13) -> NDArray[np.float64]:
    """The velocity after the step, from the guess v; raises RuntimeError where Newton's method does not end.

    It ends where its step is below the tolerance, relative to the speed, or stops getting smaller below a thousand
    times that: then what is left is rounding.
    """
    before = np.inf
    for _ in range(ITERATIONS):
        step = _newton_step(hessian(p, v), -gradient(p, v))
        size = float(np.abs(step).max(initial=0.0)) / max(1.0, float(np.abs(v).max(initial=0.0)))
        if size <= tolerance or (size <= 1e3 * tolerance and size >= before):
            return v + step
        v = v + _search(p, v, step) * step
        before = size
    raise RuntimeError(f"the velocity still changes by {before:.1e} after {ITERATIONS} iterations")


BLURRED = 1e-3
"""Stiction velocity of all passes but the last, m/s, unless it is larger."""


def solve_passes(p: Problem, v: NDArray[np.float64], passes: int) -> tuple[Problem, NDArray[np.float64]]:
    """Solve as often as given, each time with the friction that the normal forces of the time before allow.

    All times but the last friction is blurred: contacts stick below a larger velocity. Returns the last problem and its
    solution.
    """
    eps, blur = p.contacts.eps, max(BLURRED / p.rows.eps, 1.0)
    for _ in range(passes - 1):
        p = dataclasses.replace(p, contacts=dataclasses.replace(p.contacts, eps=blur * eps))
        v = solve(p, v)
        c = dataclasses.replace(p.contacts, eps=eps)
        lagged = np.where(c.musq.any(axis=1), contact_impulses(p, v)[:, 0] / p.dt, 0.0)
        p = dataclasses.replace(p, contacts=dataclasses.replace(c, lagged=lagged))
    return p, solve(p, v)


def _newton_step(H: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """H^-1 b, with a diagonal of ones, which makes masses of different size alike."""
    scale = 1.0 / np.sqrt(np.diag(H))
    return scale * np.linalg.solve(scale[:, None] * H * scale, scale * b)


def _search(p: Problem, v: NDArray[np.float64], step: NDArray[np.float64]) -> float:
    """How far to go along a direction: to where the cost has no slope, by bisection; all the way if it still falls."""
    u, du = contact_velocities(p, v), p.contacts.jac @ step
    s, ds = p.rows.jac @ v, p.rows.jac @ step
    linear, quadratic = float((p.A @ v - p.r) @ step), float(step @ p.A @ step)

    def slope(alpha: float) -> float:
        of_contacts = p.weight * (contact_impulses_at(p, u + alpha * du) * du).sum()
        return linear + alpha * quadratic - float(of_contacts + row_impulses_at(p, s + alpha * ds) @ ds)

    enough = 1e-3 * abs(slope(0.0))
    if slope(1.0) <= enough:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        found = slope(middle)
        if abs(found) <= enough:
            return middle
        low, high = (middle, high) if found < 0.0 else (low, middle)
    return 0.5 * (low + high)


# problems out of device data


def of_world(
    mjm: mujoco.MjModel,
    problem: Any,
    v_start: NDArray[np.float64],
    dt: float,
    world: int,
    *,
    stiction: float,
    weight: float = 1.0,
) -> Problem:
    """The step of one world, from a `stickslip.physics.convex.step.model.Problem` that has been prepared.

    Args:
        mjm: the model
        problem: of all worlds, on the device
        v_start: velocity at the start of the step, (nv,)
        dt: size of the step, s
        world: which
        stiction: velocity below which dry friction in joints sticks, rad/s or m/s
        weight: share of the contacts' impulses
    """
    mass = inertia_matrix(mjm, problem, world)
    force, damping, spring = (
        getattr(problem.inertia, name).numpy()[world].astype(float) for name in ("force", "damping", "spring")
    )
    return Problem(
        dt=dt,
        A=mass + np.diag(dt * damping + dt**2 * spring),
        r=mass @ v_start + dt * (force + damping * v_start),
        contacts=contacts_of(mjm, problem.touch, world),
        rows=rows_of(mjm, problem.rows, dt, world, stiction),
        weight=weight,
    )


def inertia_matrix(mjm: mujoco.MjModel, problem: Any, world: int) -> NDArray[np.float64]:
    """M, dense, from MuJoCo Warp's rows of its lower triangle."""
    values = problem.inertia.M.numpy()[world].astype(float)
    mass = np.zeros((mjm.nv, mjm.nv))
    for i in range(mjm.nv):
        at = slice(mjm.M_rowadr[i], mjm.M_rowadr[i] + mjm.M_rownnz[i])
        mass[i, mjm.M_colind[at]] = values[at]
    return mass + np.tril(mass, -1).T


def dofs_of_body(mjm: mujoco.MjModel, body: int) -> list[int]:
    """The dofs that move a body, from the root of its tree on."""
    dofs: list[int] = []
    while body > 0:
        dofs = [*range(mjm.body_dofadr[body], mjm.body_dofadr[body] + mjm.body_dofnum[body]), *dofs]
        body = mjm.body_parentid[body]
    return dofs


def contacts_of(mjm: mujoco.MjModel, touch: Any, world: int) -> Contacts:
    """The contacts of a world, from a `Touch`; in the order of its slots."""
    slots = slice(int(touch.adr.numpy()[world]), int(touch.adr.numpy()[world] + touch.num.numpy()[world]))

    def take(name: str) -> NDArray[np.float64]:
        return getattr(touch, name).numpy()[slots].astype(float)

    blocks = touch.J.numpy().reshape(touch.con.size, -1)[slots].astype(float)
    bodies = np.stack([touch.body1.numpy()[slots], touch.body2.numpy()[slots]], axis=1)
    dims = touch.dim.numpy()[slots]
    most = int(max(mjm.geom_condim.max(initial=1), mjm.pair_dim.max(initial=1)))
    jac = np.zeros((len(dims), 6, mjm.nv))
    for c, (block, dim) in enumerate(zip(blocks, dims, strict=True)):
        block = block.reshape(most, -1)
        dofs = [dof for body in bodies[c] for dof in dofs_of_body(mjm, int(body))]
        for e, dof in enumerate(dofs):
            jac[c, :dim, dof] += block[:dim, e]
    return Contacts(
        jac=jac,
        given=take("given"),
        elastic=take("elastic"),
        stiffness=take("stiffness"),
        dissipation=take("dissipation"),
        lagged=take("start"),
        musq=take("musq"),
        eps=take("eps"),
    )


def rows_of(mjm: mujoco.MjModel, rows: Any, dt: float, world: int, stiction: float) -> Rows:
    """The rows of a world, from a `RowSet`: their Jacobian, and the impulse of a step of dt by the law of each."""
    jac = np.zeros((rows.n, mjm.nv))
    bias, gain, least, most = (np.zeros(rows.n) for _ in range(4))
    dry = np.zeros(rows.n, dtype=bool)
    if rows.n == 0:
        return Rows(jac, dry, bias, gain, least, most, stiction)
    adr, num, col, val = rows.adr.numpy(), rows.num.numpy(), rows.col.numpy(), rows.val.numpy()[world]
    names = ("law", "residual", "weight", "rate", "spring", "low", "high", "vel")
    law, residual, inverse_mass, rate, spring, low, high, vel = (getattr(rows, n).numpy()[world] for n in names)
    for r in range(rows.n):
        if law[r] == Law.OFF:
            continue
        for k in range(adr[r], adr[r] + num[r]):
            jac[r, col[k]] += val[k]
        least[r], most[r] = -np.inf, np.inf
        if law[r] in (Law.RIGID, Law.LIMIT):
            k = 4.0 * np.pi**2 / (inverse_mass[r] * (RIGIDITY * dt) ** 2)  # a period of beta dt
            tau = RIGIDITY * dt / np.pi  # critical damping: tau k = 2 sqrt(k m)
            gain[r] = dt * (dt + tau) * k
            speed = residual[r] / (dt + tau)
            if law[r] == Law.RIGID or residual[r] < 0.0:  # what is to be got rid of, not what is left to a limit
                fastest = max(1.0, abs(residual[r]) / 0.02)
                speed = min(max(speed, -fastest), fastest)
            bias[r] = -gain[r] * speed
            if law[r] == Law.LIMIT:
                least[r] = 0.0
        elif law[r] == Law.LINEAR:
            slope = rate[r] + dt * spring[r]
            if slope > 0.0:  # force + rate (vel - s) - spring dt s
                bias[r], gain[r] = dt * (residual[r] + rate[r] * vel[r]), dt * slope
            else:
                bias[r] = dt * residual[r]
            least[r], most[r] = dt * low[r], dt * high[r]
        else:
            dry[r] = True
            bias[r] = dt * inverse_mass[r]  # the same array holds the loss
    return Rows(jac, dry, bias, gain, least, most, stiction)
