"""Positions and activations over time: integration on the joints of a model, and its inverse."""

# pyright: reportMissingImports=false

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

from stickslip.physics.scm import rotation
from stickslip.physics.scm.structure import BALL, FREE

Array = jax.Array


def advance_activation(m: mjx.Model, act: Array, rate: Array, dt: Array) -> Array:
    """Activations after dt at a rate, within their limits."""
    if not m.na:
        return act
    new = act + dt * rate
    exact = m.actuator_dyntype == mujoco.mjtDyn.mjDYN_FILTEREXACT
    tau = jnp.maximum(m.actuator_dynprm[:, 0], mujoco.mjMINVAL)
    owner = np.repeat(np.arange(m.nu), np.maximum(m.actuator_actnum, 0))
    new = jnp.where(exact[owner], act + rate * tau[owner] * (1.0 - jnp.exp(-dt / tau[owner])), new)
    limited = np.asarray(m.actuator_actlimited)[owner].astype(bool)
    low, high = m.actuator_actrange[owner, 0], m.actuator_actrange[owner, 1]
    return jnp.where(limited, jnp.clip(new, low, high), new)


def integrate(m: mjx.Model, qpos: Array, qvel: Array, dt: Array | float) -> Array:
    """Positions after dt at a velocity."""
    parts = []
    for kind, q, v in zip(m.jnt_type, m.jnt_qposadr, m.jnt_dofadr, strict=True):
        if kind == FREE:
            parts += [
                qpos[q : q + 3] + dt * qvel[v : v + 3],
                rotation.turned(qpos[q + 3 : q + 7], dt * qvel[v + 3 : v + 6]),
            ]
        elif kind == BALL:
            parts.append(rotation.turned(qpos[q : q + 4], dt * qvel[v : v + 3]))
        else:
            parts.append(qpos[q : q + 1] + dt * qvel[v : v + 1])
    return jnp.concatenate(parts) if parts else qpos


def turning(m: mjx.Model, qvel: Array, moved: Array) -> Array:
    """Rate of the rotation vectors `moved` at a velocity, (nv,); Munthe-Kaas's correction."""
    for kind, v in zip(m.jnt_type, m.jnt_dofadr, strict=True):
        if kind in (FREE, BALL):
            first = v + 3 if kind == FREE else v
            spin, u = qvel[first : first + 3], moved[first : first + 3]
            across = jnp.cross(u, spin)
            qvel = qvel.at[first : first + 3].set(spin + 0.5 * across + jnp.cross(u, across) / 12.0)
    return qvel


def difference(m: mjx.Model, qpos: Array, base: Array) -> Array:
    """The velocity that moves `base` to qpos in one second, (nv,)."""
    parts = []
    for kind, q in zip(m.jnt_type, m.jnt_qposadr, strict=True):
        if kind == FREE:
            parts += [qpos[q : q + 3] - base[q : q + 3], rotation.difference(qpos[q + 3 : q + 7], base[q + 3 : q + 7])]
        elif kind == BALL:
            parts.append(rotation.difference(qpos[q : q + 4], base[q : q + 4]))
        else:
            parts.append(qpos[q : q + 1] - base[q : q + 1])
    return jnp.concatenate(parts) if parts else jnp.zeros(0)
