"""A model as pure functions of JAX: forces, forward and inverse dynamics, steps and rollouts.

Equation numbers are the paper's. Every function works under `jit`, `vmap`, `grad` and `hessian`.
"""

# pyright: reportMissingImports=false

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from mujoco import mjx

from stickslip.errors import Unsupported
from stickslip.physics.scm import touch as pairs
from stickslip.physics.scm.field import Points, SurfaceForce
from stickslip.physics.scm.law import Law, resist, softplus
from stickslip.physics.scm.motion import advance_activation, integrate, turning
from stickslip.physics.scm.patch import patch
from stickslip.physics.scm.structure import HINGE, SLIDE, Group
from stickslip.physics.scm.touch import Touch
from stickslip.physics.scm.values import Inputs, Moment, Params, State

Array = jax.Array

IMPEDANCE = 0.9
"""r of ComFree's law, MuJoCo's default where contact begins; its change with depth is left out, it has a corner."""


@dataclasses.dataclass(frozen=True, eq=False)
class System:
    """The functions of one model.

    Attributes:
        groups: pairs of geoms, by the sizes of their clouds
        members: geoms of each array of clouds, in the order of its rows
        pair_of: place of each group's first pair in `Params.stiffness`
        geom_body, geom_root: body of each geom, and root of its tree
        moved: 1 where a dof moves a body                            (nv, nbody)
        priority: of each geom
        force_law: function for the force of a surface on points
        block: points to look at together
        integrator: "implicit", "euler" or "rk4"
        comfree: stiffness and damping of ComFree's law, or None for springs
        lightness: inverse mass that each body shows              (nbody,)
        data: MJX's data to begin with
    """

    groups: tuple[Group, ...]
    members: tuple[tuple[int, ...], ...]
    pair_of: tuple[int, ...]
    geom_body: np.ndarray
    body_root: np.ndarray
    moved: np.ndarray
    priority: np.ndarray
    condim: np.ndarray
    force_law: Callable[..., SurfaceForce]
    block: int
    integrator: str
    comfree: tuple[float, float] | None
    lightness: np.ndarray
    data: mjx.Data

    # -- what a model does without contact

    def _kinematics(self, params: Params, state: State, inputs: Inputs) -> mjx.Data:
        d = self.data.replace(
            time=state.time, qpos=state.qpos, qvel=state.qvel, act=state.act, ctrl=inputs.ctrl,
            qfrc_applied=inputs.qfrc_applied, xfrc_applied=inputs.xfrc_applied,
            mocap_pos=inputs.mocap_pos, mocap_quat=inputs.mocap_quat,
        )  # fmt: skip
        m = params.model
        d = mjx.kinematics(m, d)
        d = mjx.com_pos(m, d)
        if m.ntendon:
            d = mjx.tendon(m, d)
        d = mjx.crb(m, d)
        d = mjx.transmission(m, d)
        d = d.tree_replace({"_impl.actuator_velocity": d._impl.actuator_moment @ d.qvel})
        return mjx.com_vel(m, d)

    def _joint_forces(self, params: Params, d: mjx.Data) -> Array:
        """Springs, limits and dry friction of joints; not their damping."""
        m = params.model
        force = jnp.zeros(m.nv, dtype=d.qvel.dtype)
        lone = np.flatnonzero((m.jnt_type == HINGE) | (m.jnt_type == SLIDE))
        if len(lone):
            q, v = d.qpos[m.jnt_qposadr[lone]], d.qvel[m.jnt_dofadr[lone]]
            pull = -m.jnt_stiffness[lone] * (q - m.qpos_spring[m.jnt_qposadr[lone]])
            limited = np.asarray(m.jnt_limited)[lone].astype(bool)
            if limited.any():
                law = self._law(params, params.limit[lone], jnp.zeros_like(q))
                low, high = m.jnt_range[lone, 0], m.jnt_range[lone, 1]
                none = jnp.zeros_like(q)
                below, above = resist(q - low, v, none, law).push, resist(high - q, -v, none, law).push
                pull += jnp.where(limited, below - above, 0.0)
            force = force.at[m.jnt_dofadr[lone]].add(pull)
        loss = m.dof_frictionloss
        return force - loss * d.qvel / jnp.sqrt(params.stiction**2 + d.qvel**2)

    def _law(self, params: Params, stiffness: Array, friction: Array) -> Law:
        return Law(stiffness, friction, params.dissipation, params.stiction, params.blend, params.select, params.reach)

    def _smooth(self, params: Params, state: State, inputs: Inputs) -> tuple[mjx.Data, Array]:
        """Data, and all generalized forces but those of contact and of damping."""
        m = params.model
        d = self._kinematics(params, state, inputs)
        d = mjx.rne(m, d)
        d = mjx.fwd_actuation(m, d)
        force = d.qfrc_actuator - d.qfrc_bias + inputs.qfrc_applied + self._joint_forces(params, d)
        return d, force + self._gather(d, *self._about_roots(d, inputs.xfrc_applied))

    def _about_roots(self, d: mjx.Data, xfrc: Array) -> tuple[Array, Array]:
        """Forces on bodies in their centres of mass, (nbody, 6), as force and torque about the centre of the tree."""
        arm = d.xipos - d.subtree_com[self.body_root]
        return xfrc[:, :3], xfrc[:, 3:] + jnp.cross(arm, xfrc[:, :3])

    def _gather(self, d: mjx.Data, force: Array, torque: Array) -> Array:
        """Generalized forces of forces and torques on bodies about the centres of their trees, (nbody, 3)."""
        wrench = jnp.asarray(self.moved, dtype=force.dtype) @ jnp.concatenate([torque, force], axis=1)
        return jnp.sum(d.cdof * wrench, axis=1)

    # -- contact

    def touches(self, params: Params, d: mjx.Data) -> tuple[Touch, ...]:
        """The contact of each pair, a `Touch` with a leading axis for each group."""
        out = []
        for group, start in zip(self.groups, self.pair_of, strict=True):
            chosen = slice(start, start + len(group.first))
            law = self._law(params, params.stiffness[chosen], self._friction(params, group))
            axes: Any = Law(*(0 if name in ("stiffness", "friction") else None for name in Law._fields))  # type: ignore[arg-type]
            one, two = _surfaces(params, group)
            first, second = self._frame(d, group.first), self._frame(d, group.second)
            call = functools.partial(pairs.touch, force_law=self.force_law, block=self.block, mutual=group.mutual)
            out.append(jax.vmap(call, in_axes=(0, 0, 0, 0, axes))(one, two, first, second, law))
        return tuple(out)

    def _friction(self, params: Params, group: Group) -> Array:
        a, b = params.friction[group.first], params.friction[group.second]
        first, second = self.priority[group.first], self.priority[group.second]
        rubs = np.where(first == second, np.maximum(self.condim[group.first], self.condim[group.second]),
                        np.where(first > second, self.condim[group.first], self.condim[group.second])) > 1  # fmt: skip
        return jnp.asarray(rubs, dtype=a.dtype) * jnp.where(
            first == second, jnp.maximum(a, b), jnp.where(first > second, a, b)
        )

    def _frame(self, d: mjx.Data, geoms: np.ndarray) -> tuple[Array, Array, Array, Array]:
        """Rotation, origin, angular velocity and velocity there, of geoms."""
        body = self.geom_body[geoms]
        x = d.geom_xpos[geoms]
        spin, drift = d.cvel[body, :3], d.cvel[body, 3:]
        return d.geom_xmat[geoms], x, spin, drift + jnp.cross(spin, x - d.subtree_com[self.body_root[body]])

    def contact_force(self, params: Params, d: mjx.Data) -> tuple[Array, Array, Array]:
        """Generalized force of all contacts, (nv,), its damping, (nv, nv), and the distance of each pair, (npair,)."""
        nv = params.model.nv
        force, damping = jnp.zeros(nv, d.qvel.dtype), jnp.zeros((nv, nv), d.qvel.dtype)
        touches = self.touches(params, d)
        for group, touch in zip(self.groups, touches, strict=True):
            # velocity and angular velocity of the first relative to the second, (npair, 6, nv)
            origin = d.geom_xpos[group.second]
            lead = self._lead(d, group.first, origin) - self._lead(d, group.second, origin)
            wrench = jnp.concatenate([touch.force, touch.torque], axis=1)
            force += jnp.einsum("piv,pi->v", lead, wrench)
            damping += jnp.einsum("piv,pij,pjw->vw", lead, touch.damping, lead)
        distance = [touch.distance for touch in touches]
        none = jnp.zeros(0, d.qvel.dtype)
        return force, damping, jnp.concatenate(distance) if distance else none

    def _lead(self, d: mjx.Data, geoms: np.ndarray, point: Array) -> Array:
        """How dofs move geoms at points, (n, 6, nv): velocity there, and angular velocity."""
        body = self.geom_body[geoms]
        arm = point - d.subtree_com[self.body_root[body]]
        moves = jnp.asarray(self.moved[:, body].T[:, None, :], dtype=point.dtype)
        spin, drift = d.cdof[:, :3], d.cdof[:, 3:]
        there = drift[None] + jnp.cross(spin[None], arm[:, None])
        return moves * jnp.concatenate(
            [jnp.swapaxes(there, 1, 2), jnp.broadcast_to(spin.T, (len(body), *spin.T.shape))], axis=1
        )

    def contacts(self, params: Params, state: State, inputs: Inputs) -> tuple[Array, Array, Array]:
        """Distance, spot and force on the first geom, of each pair."""
        d = self._kinematics(params, state, inputs)
        touches = self.touches(params, d)
        if not touches:
            return jnp.zeros(0), jnp.zeros((0, 3)), jnp.zeros((0, 3))
        return tuple(jnp.concatenate([getattr(t, name) for t in touches]) for name in ("distance", "spot", "force"))  # type: ignore[return-value]

    # -- dynamics

    def _moment(self, params: Params, state: State, inputs: Inputs) -> "Moment":
        d, force = self._smooth(params, state, inputs)
        contact, damping, distance = self.contact_force(params, d)
        m = params.model
        return Moment(mjx.full_m(m, d), force - m.dof_damping * state.qvel + contact, damping, d.act_dot, distance)

    def forward(self, params: Params, state: State, inputs: Inputs) -> Array:
        """(25): acceleration, (nv,); with ComFree's law, the mean one of a step."""
        if self.comfree is not None:
            after = self._by_impulses(params, state, inputs)[0]
            return (after.qvel - state.qvel) / params.model.opt.timestep
        now = self._moment(params, state, inputs)
        return _solve(now.mass, now.force)

    def inverse(self, params: Params, state: State, inputs: Inputs, qacc: Array) -> Array:
        """(24): the generalized force, besides inputs, that gives an acceleration, (nv,)."""
        if self.comfree is not None:
            raise Unsupported(
                "inverse dynamics of contact='comfree': its impulses depend on the force asked for; take 'spring'"
            )
        now = self._moment(params, state, inputs)
        return now.mass @ qacc - now.force

    # -- time

    def step(self, params: Params, state: State, inputs: Inputs) -> State:
        """One step of the model's timestep."""
        return self.step_and_distance(params, state, inputs)[0]

    def step_and_distance(self, params: Params, state: State, inputs: Inputs) -> tuple[State, Array]:
        """One step, and how far apart pairs were at its start."""
        return self._rk4(params, state, inputs) if self.integrator == "rk4" else self._euler(params, state, inputs)

    def rollout(self, params: Params, state: State, inputs: Inputs, ctrl: Array) -> State:
        """States over the controls of T steps, (T, nu); the first is where it starts. A gradient stores states only."""
        step = jax.checkpoint(lambda x, u: self.step(params, x, inputs._replace(ctrl=u)))

        def one(x: State, u: Array) -> tuple[State, State]:
            x = step(x, u)
            return x, x

        _, after = jax.lax.scan(one, state, ctrl)
        return jax.tree.map(lambda x, rest: jnp.concatenate([x[None], rest]), state, after)

    def _euler(self, params: Params, state: State, inputs: Inputs) -> tuple[State, Array]:
        """Velocity first, then position; what brakes joints, and contacts too if that is asked for, at its end."""
        if self.comfree is not None:
            return self._by_impulses(params, state, inputs)
        m, dt = params.model, params.model.opt.timestep
        now = self._moment(params, state, inputs)
        mass = now.mass + jnp.diag(dt * m.dof_damping)
        if self.integrator == "implicit":
            mass = mass + dt * now.damping
        qvel = state.qvel + dt * _solve(mass, now.force)
        act = advance_activation(m, state.act, now.rate, dt)
        return State(state.time + dt, integrate(m, state.qpos, qvel, dt), qvel, act), now.distance

    def _by_impulses(self, params: Params, state: State, inputs: Inputs) -> tuple[State, Array]:
        """A step whose contacts follow ComFree's law in its soft form, on the ends of each patch."""
        m, dt = params.model, params.model.opt.timestep
        d, force = self._smooth(params, state, inputs)
        factor = jnp.linalg.cholesky(mjx.full_m(m, d) + jnp.diag(dt * m.dof_damping))
        free = state.qvel + dt * jax.scipy.linalg.cho_solve((factor, True), force - m.dof_damping * state.qvel)
        push, distance = self._facets(params, d, free)
        qvel = free + dt * jax.scipy.linalg.cho_solve((factor, True), push)
        act = advance_activation(m, state.act, d.act_dot, dt)
        return State(state.time + dt, integrate(m, state.qpos, qvel, dt), qvel, act), distance

    def _facets(self, params: Params, d: mjx.Data, free: Array) -> tuple[Array, Array]:
        """Generalized force of ComFree's facets at the velocity without contact, and the distance of each pair.

        A facet's force is `K s+(-(phi + (dt + d/k) J v))`, `K = k M / dt`, `M = r / (1 - r) / (w_1 + w_2)`. Friction
        has facets along the six directions of the axes, less their parts along the normal: no frame has to be chosen.
        """
        assert self.comfree is not None
        stiffness, damping = self.comfree
        dt = params.model.opt.timestep
        total, distances = jnp.zeros_like(free), []
        for group in self.groups:
            at, gap, normal = self._patches(params, d, group)
            points = gap.shape[1]
            mu = self._friction(params, group)[:, None, None, None]
            across = jnp.eye(3, dtype=free.dtype) - normal[..., :, None] * normal[..., None, :]
            facets = normal[..., None, :] + mu * jnp.concatenate([across, -across], axis=-2)  # (npair, k, 6, 3)
            one, two = self._frame_velocity(d, group.first, at, free), self._frame_velocity(d, group.second, at, free)
            speed = jnp.einsum("pkfi,pki->pkf", facets, one - two)
            light = self.lightness[self.geom_body[group.first]] + self.lightness[self.geom_body[group.second]]
            mass = IMPEDANCE / (1.0 - IMPEDANCE) / np.maximum(light, 1e-12)
            # as if there were four points with four facets each, as of a box on a floor
            share = (4.0 / points) * (4.0 / facets.shape[2]) * stiffness / dt
            violation = -(gap[..., None] + (dt + damping / stiffness) * speed)
            size = (share * mass)[:, None, None] * softplus(violation, params.reach)
            force = jnp.einsum("pkf,pkfi->pki", size, facets)
            total += self._pull(d, group.first, at, force) - self._pull(d, group.second, at, force)
            distances.append(jnp.min(gap, axis=1))
        return total, jnp.concatenate(distances) if distances else jnp.zeros(0, free.dtype)

    def _patches(self, params: Params, d: mjx.Data, group: Group) -> tuple[Array, Array, Array]:
        """Ends of patches, (npair, k, ...): points in the world, distances, and normals towards the first geom."""
        shelves = _surfaces(params, group)
        pose = [(d.geom_xmat[geoms], d.geom_xpos[geoms]) for geoms in (group.first, group.second)]

        def side(one: Points, two: Points, r1: Array, x1: Array, r2: Array, x2: Array) -> tuple[Array, Array, Array]:
            turn = r2.T @ r1
            corner = one.corner @ turn.T + r2.T @ (x1 - x2)
            spread = 0.25 * jnp.sqrt(one.scale)
            at, gap, normal = patch(corner, turn, two, params.blend, params.select, spread, self.block)
            return x2 + at @ r2.T, gap, normal @ r2.T

        (one, two), ((r1, x1), (r2, x2)) = shelves, pose
        at, gap, normal = jax.vmap(side)(one, two, r1, x1, r2, x2)
        if not group.mutual:
            return at, gap, normal
        at2, gap2, normal2 = jax.vmap(side)(two, one, r2, x2, r1, x1)
        return tuple(jnp.concatenate(x, axis=1) for x in ((at, at2), (gap, gap2), (normal, -normal2)))  # type: ignore[return-value]

    def _frame_velocity(self, d: mjx.Data, geoms: np.ndarray, at: Array, qvel: Array) -> Array:
        """Velocities of points of geoms, (n, k, 3)."""
        body = self.geom_body[geoms]
        twist = jnp.asarray(self.moved[:, body].T, dtype=at.dtype) @ (d.cdof * qvel[:, None])
        arm = at - d.subtree_com[self.body_root[body]][:, None]
        return twist[:, None, 3:] + jnp.cross(twist[:, None, :3], arm)

    def _pull(self, d: mjx.Data, geoms: np.ndarray, at: Array, force: Array) -> Array:
        """Generalized force of forces at points of geoms, (n, k, 3)."""
        body = self.geom_body[geoms]
        arm = at - d.subtree_com[self.body_root[body]][:, None]
        wrench = jnp.concatenate([jnp.sum(jnp.cross(arm, force), axis=1), jnp.sum(force, axis=1)], axis=1)
        return jnp.sum(d.cdof * (jnp.asarray(self.moved[:, body], dtype=at.dtype) @ wrench), axis=1)

    def _rk4(self, params: Params, state: State, inputs: Inputs) -> tuple[State, Array]:
        m, dt = params.model, params.model.opt.timestep

        def slope(at: State, moved_by: Array) -> tuple[tuple[Array, Array, Array], Array]:
            now = self._moment(params, at, inputs)
            return (turning(m, at.qvel, moved_by), _solve(now.mass, now.force), now.rate), now.distance

        def moved(share: float, k: tuple[Array, Array, Array]) -> State:
            h = share * dt
            act = advance_activation(m, state.act, k[2], h)
            return State(state.time + h, integrate(m, state.qpos, k[0], h), state.qvel + h * k[1], act)

        k1, distance = slope(state, jnp.zeros_like(state.qvel))
        k2, _ = slope(moved(0.5, k1), 0.5 * dt * k1[0])
        k3, _ = slope(moved(0.5, k2), 0.5 * dt * k2[0])
        k4, _ = slope(moved(1.0, k3), dt * k3[0])
        v, a, r = (
            (one + 2.0 * two + 2.0 * three + four) / 6.0 for one, two, three, four in zip(k1, k2, k3, k4, strict=True)
        )
        return moved(1.0, (v, a, r)), distance


def _surfaces(params: Params, group: Group) -> list[Points]:
    """Clouds of the first and of the second geoms of a group."""
    return [jax.tree.map(lambda x, k=k: x[group.row[:, k]], params.points[group.shelf[k]]) for k in range(2)]


def _solve(mass: Array, force: Array) -> Array:
    """Solve with a positive definite matrix."""
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(mass), True), force)
