"""The physics `Penalty`: a spring and a damper at every contact point, and Coulomb friction that saturates.

    f_n = max(0, k d - c v_n)                                  d: depth, v_n: normal velocity, positive if separating
    f_t = -min(mu f_n / max(|v_t|, v_s), m / (8 dt)) v_t       v_t: slip velocity

MuJoCo Warp finds the contacts and does everything else; the forces reach it as external forces on the bodies.
"""

import dataclasses
from typing import ClassVar, final

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from stickslip import parameters
from stickslip.parameters import parameter
from stickslip.physics.base import Contacts, Promises
from stickslip.physics.mjwarp import data
from stickslip.physics.mjwarp.physics import WarpPhysics, naming_unsupported

_BLIND = (mujoco.mjtSensor.mjSENS_TOUCH, mujoco.mjtSensor.mjSENS_CONTACT, mujoco.mjtSensor.mjSENS_TACTILE)


@dataclasses.dataclass
class Data(data.Data):
    """MuJoCo Warp's data, and what a step works with.

    Attributes:
        push: external forces with those of contact, on each body         (nworld, nbody)
        force: force of each contact on its second geom, world frame      (naconmax,)
        ncon: number of contacts                                          (1,)
    """

    push: wp.array
    force: wp.array
    ncon: wp.array


@wp.func
def _velocity(cvel: wp.spatial_vector, origin: wp.vec3, point: wp.vec3) -> wp.vec3:
    return wp.spatial_bottom(cvel) + wp.cross(wp.spatial_top(cvel), point - origin)


@wp.kernel(enable_backward=False)
def _push_bodies(
    # Model:
    timestep: wp.array[float],
    geom_bodyid: wp.array[int],
    body_rootid: wp.array[int],
    body_invweight0: wp.array2d[wp.vec2],
    # Parameters:
    stiffness: float,
    timeconst: float,
    damping: float,
    stiction: float,
    # Data in:
    xipos: wp.array2d[wp.vec3],
    subtree_com: wp.array2d[wp.vec3],
    cvel: wp.array2d[wp.spatial_vector],
    ncon: wp.array[int],
    dist: wp.array[float],
    pos: wp.array[wp.vec3],
    frame: wp.array[wp.mat33],
    friction: wp.array[wp.types.vector(5, float)],
    geom: wp.array[wp.vec2i],
    worldid: wp.array[int],
    # Out:
    force_out: wp.array[wp.vec3],
    push_out: wp.array2d[wp.spatial_vector],
):
    con = wp.tid()
    if con >= ncon[0]:
        return
    w, point, normal = worldid[con], pos[con], frame[con][0]
    a, b = geom_bodyid[geom[con][0]], geom_bodyid[geom[con][1]]
    va = _velocity(cvel[w, a], subtree_com[w, body_rootid[a]], point)
    vb = _velocity(cvel[w, b], subtree_com[w, body_rootid[b]], point)
    weights = w % body_invweight0.shape[0]
    mass = 1.0 / wp.max(body_invweight0[weights, a][0] + body_invweight0[weights, b][0], 1.0e-9)
    k = stiffness
    if k == 0.0:
        k = mass / (timeconst * timeconst)
    v = vb - va
    vn = wp.dot(v, normal)
    depth = wp.max(-dist[con], 0.0)
    fn = float(0.0)
    if depth > 0.0:
        fn = wp.max(k * depth - 2.0 * damping * wp.sqrt(k * mass) * vn, 0.0)
    slip = v - vn * normal
    grip = wp.min(
        friction[con][0] * fn / wp.max(wp.length(slip), stiction), 0.125 * mass / timestep[w % timestep.shape[0]]
    )
    f = fn * normal - grip * slip
    force_out[con] = f
    wp.atomic_add(push_out[w], b, wp.spatial_vector(f, wp.cross(point - xipos[w, b], f)))
    wp.atomic_add(push_out[w], a, wp.spatial_vector(-f, -wp.cross(point - xipos[w, a], f)))


@final
@parameters.checked
@dataclasses.dataclass(frozen=True)
class Penalty(WarpPhysics[mjw.Model, Data]):
    """A spring and a damper at every contact point."""

    name: ClassVar[str] = "example"
    promises: ClassVar[Promises] = Promises(contact_sensors=False)
    stiffness: float | None = parameter(
        None, "stiffness of a contact point [N/m]; None: the mass over timeconst squared", 0.0, above=True, kind=float
    )
    timeconst: float = parameter(0.02, "time constant of contact where no stiffness is given [s]", 0.0, 1.0, above=True)
    damping: float = parameter(0.3, "damping ratio of a contact point", 0.0, 10.0)
    stiction: float = parameter(0.01, "slip velocity at which friction saturates [m/s]", 0.0, 1.0, above=True)

    def check(self, mjm: mujoco.MjModel) -> None:
        self.put_model(mjm)

    def put_model(self, mjm: mujoco.MjModel) -> mjw.Model:
        features = [f"sensors of contact ({mujoco.mjtSensor(t).name})" for t in set(mjm.sensor_type) if t in _BLIND]
        features += ["flex"] if mjm.nflex else []
        with naming_unsupported(self.name, features):
            m = mjw.put_model(mjm)
        m.opt.run_collision_detection = False  # `advance` runs it
        m.opt.warn_overflow = False  # health() reports it, with the number to raise
        return m

    def allocate(self, mjm: mujoco.MjModel, nworld: int, nconmax: int | None, njmax: int | None) -> Data:
        d = mjw.make_data(mjm, nworld=nworld, nconmax=nconmax, njmax=njmax)
        push = wp.zeros((nworld, mjm.nbody), dtype=wp.spatial_vector)
        force, ncon = wp.zeros(d.naconmax, dtype=wp.vec3), wp.zeros(1, dtype=int)
        return Data.extend(d, mjm, push=push, force=force, ncon=ncon)

    def advance(self, m: mjw.Model, d: Data) -> None:
        mjw.fwd_kinematics(m, d)
        mjw.com_vel(m, d)
        mjw.collision(m, d)
        wp.copy(d.push, d.xfrc_applied)
        wp.copy(d.ncon, d.nacon)
        gains = [self.stiffness or 0.0, self.timeconst, self.damping, self.stiction]
        c = d.contact
        wp.launch(
            _push_bodies,
            dim=d.naconmax,
            inputs=[m.opt.timestep, m.geom_bodyid, m.body_rootid, m.body_invweight0, *gains]
            + [d.xipos, d.subtree_com, d.cvel, d.ncon, c.dist, c.pos, c.frame, c.friction, c.geom, c.worldid],
            outputs=[d.force, d.push],
        )
        d.nacon.zero_()  # MuJoCo's own solver must not see the contacts
        applied, d.xfrc_applied = d.xfrc_applied, d.push
        mjw.step(m, d)
        d.xfrc_applied = applied
        wp.copy(d.nacon, d.ncon)

    def contacts(self, m: mjw.Model, d: Data) -> Contacts:
        n = self.contact_count(m, d)
        c = {name: getattr(d.contact, name).numpy()[:n] for name in ("worldid", "geom", "dist", "pos", "frame")}
        force = np.zeros((n, 6))
        force[:, :3] = np.einsum("nij,nj->ni", c["frame"], d.force.numpy()[:n])
        return Contacts(c["worldid"], c["geom"], c["dist"], c["pos"], c["frame"], force)
