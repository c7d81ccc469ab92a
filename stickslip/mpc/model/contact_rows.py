"""Contacts of a plan: the edges of the friction pyramids, from MuJoCo's collision detection.

MuJoCo's constraint rows of a pyramidal cone are J_n + mu J_d, as the quasi-dynamic model needs them.
"""

import copy
import dataclasses

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.mpc.success import OBJECT, Array
from stickslip.mpc.task import Problem, QuasiDynamic

EDGES = 4
"""Edges of the friction pyramid of a contact."""
MOST = 4
"""Contacts per pair of bodies that are used. Softplus gives a force of log(2) / beta at an edge that just touches, so
an object that rests on ten points would float in the plan."""
FAR = 1.0
"""Distance of an unused slot [m]."""


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Edges of the friction pyramids of all contacts, four per contact.

    Attributes:
        rows: J_n + mu J_d                      (n, nv)
        phi: distance of the contact [m]        (n,)
    """

    rows: Array
    phi: Array

    def padded(self, slots: int) -> "Rows":
        """Exactly `slots` contacts: the deepest ones, padded with contacts that are far away and exert no force."""
        n, nv = self.rows.shape
        keep = np.argsort(self.phi[::EDGES], kind="stable")[:slots]
        index = (EDGES * keep[:, None] + np.arange(EDGES)).reshape(-1)
        rows, phi = np.zeros((EDGES * slots, nv)), np.full(EDGES * slots, FAR)
        rows[: len(index)], phi[: len(index)] = self.rows[index], self.phi[index]
        return Rows(rows, phi)


class ContactRows:
    """Collision detection of a problem, for planning."""

    def __init__(self, problem: Problem, model: QuasiDynamic) -> None:
        own = copy.copy(problem.mjm)
        own.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
        own.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        own.opt.disableflags |= int(
            mujoco.mjtDisableBit.mjDSBL_LIMIT
            | mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS
            | mujoco.mjtDisableBit.mjDSBL_EQUALITY
            | mujoco.mjtDisableBit.mjDSBL_WARMSTART
        )
        own.geom_friction[:, 0] = model.friction
        own.pair_friction[:, :2] = model.friction
        own.geom_condim[:] = 3
        own.pair_dim[:] = 3
        self._mjm = own
        self._mjd = mujoco.MjData(own)
        self._object = own.body(OBJECT).id

    def at(self, qpos: Array) -> Rows:
        """The contacts of the object at `qpos` (nq,)."""
        m, d = self._mjm, self._mjd
        d.qpos[:] = qpos
        mujoco.mj_fwdPosition(m, d)
        contact = d.contact
        body = m.geom_bodyid[contact.geom]
        mine = np.flatnonzero((contact.efc_address >= 0) & (body == self._object).any(axis=1))
        if len(mine) > MOST:
            other = np.where(body[mine, 0] == self._object, body[mine, 1], body[mine, 0])
            groups = [mine[other == it] for it in np.unique(other)]
            mine = np.concatenate([g[_spread(contact.pos[g], contact.dist[g])] for g in groups])
        index = (contact.efc_address[mine][:, None] + np.arange(EDGES)).reshape(-1)
        return Rows(d.efc_J.reshape(d.nefc, m.nv)[index], np.repeat(contact.dist[mine], EDGES))


def _spread(pos: Array, dist: Array) -> NDArray[np.intp]:
    """Indices of the contacts that represent a pair of bodies: the deepest, then repeatedly the farthest from those."""
    if len(dist) <= MOST:
        return np.arange(len(dist))
    chosen = [int(np.argmin(dist))]
    apart = np.full(len(dist), np.inf)
    for _ in range(MOST - 1):
        apart = np.minimum(apart, np.linalg.norm(pos - pos[chosen[-1]], axis=1))
        chosen.append(int(np.argmax(apart)))
    return np.array(chosen)
