"""Clusters of particles: what is in them, and that no contact is missed where whole clusters are passed over."""

import itertools

import numpy as np
import pytest
import warp as wp
from numpy.typing import NDArray

import stickslip as ss
from stickslip.physics.pbd.clusters import boxes_around, clustered
from stickslip.physics.pbd.find import CLUSTER
from stickslip.physics.pbd.lanes import WARP
from stickslip.physics.pbd.model import MARGIN, workspace_of
from stickslip.physics.pbd.step import look
from tests.reference.free import frame, single
from tests.reference.triangles import distance_to_triangles, mesh_asset, torus, winding_number

Array = NDArray[np.float64]


def grid(*counts: int) -> Array:
    """Places on a grid with sides of 1."""
    return np.array(list(itertools.product(*(range(n) for n in counts))), dtype=float)


CLOUDS = {
    "none": np.zeros((0, 3)),
    "one": np.zeros((1, 3)),
    "one cluster": grid(4, 4, 2),
    "one too many": np.concatenate([grid(4, 4, 2), [[9.0, 0.0, 0.0]]]),
    "a cube": grid(8, 8, 8),
    "a rod": grid(100, 1, 1),
    "a plate": grid(20, 15, 1),
    "all at one place": np.ones((70, 3)),
    "a cloud": np.random.default_rng(0).normal(size=(1000, 3)),
}


@pytest.mark.parametrize("name", CLOUDS)
def test_every_particle_is_in_one_cluster(name: str) -> None:
    place = CLOUDS[name]
    order, counts = clustered(place)
    assert sorted(order) == list(range(len(place)))
    assert counts.sum() == len(place)
    assert all(0 < count <= CLUSTER for count in counts)
    if len(place) > CLUSTER:
        assert counts.min() > CLUSTER // 4  # none is nearly empty


@pytest.mark.parametrize("name", CLOUDS)
def test_boxes_hold_their_particles(name: str) -> None:
    """And are no larger than they have to be."""
    order, counts = clustered(CLOUDS[name])
    place = CLOUDS[name][order]
    radius = np.random.default_rng(1).uniform(0.1, 0.5, len(place))
    middle, half, pad = boxes_around(place, radius, counts)
    assert len(middle) == len(half) == len(pad) == len(counts)
    ends = np.cumsum(counts)
    for k, (first, last) in enumerate(zip(ends - counts, ends, strict=True)):
        mine = place[first:last]
        assert (np.abs(mine - middle[k]) <= half[k] + 1e-12).all()
        np.testing.assert_allclose(np.ptp(mine, axis=0), 2.0 * half[k], rtol=0.0, atol=1e-12)
        assert pad[k] == radius[first:last].max()


@pytest.mark.parametrize("counts", [(8, 8, 8), (12, 12, 12), (5, 9, 13), (20, 15, 1), (100, 1, 1)])
@pytest.mark.parametrize("shuffled", [False, True])
def test_clusters_of_a_lattice_are_compact(counts: tuple[int, ...], shuffled: bool) -> None:
    """In boxes that together have hardly more room than the body, and are not slices of it."""
    place = grid(*counts)
    if shuffled:
        place = np.random.default_rng(2).permutation(place)
    order, number = clustered(place)
    _, half, pad = boxes_around(place[order], np.full(len(place), 0.5), number)
    sides = 2.0 * (half + pad[:, None])
    assert np.prod(sides, axis=1).sum() < 1.5 * len(place)  # of cubes around particles
    assert sides.max() <= max(6.0, 32.0 if counts[1:] == (1, 1) else 0.0)


# contacts

HILLS = np.random.default_rng(4).random((7, 9))
WORLD = f"""<mujoco>
  <asset>
    {mesh_asset(*torus(n=12, m=6))}
    <hfield name="hills" nrow="7" ncol="9" size="0.4 0.6 0.15 0.1" elevation="{" ".join(map(str, HILLS.ravel()))}"/>
  </asset>
  <worldbody>
    <geom name="plane" type="plane" size="1 1 0.1" pos="0 0 -0.25" euler="10 -20 0"/>
    <geom name="box" type="box" size="0.1 0.2 0.05" pos="0.3 0.1 0" euler="30 50 -70"/>
    <geom name="mesh" type="mesh" mesh="mesh" pos="-0.2 0.1 0.1" euler="20 -40 10"/>
    <geom name="hills" type="hfield" hfield="hills" pos="0 0 -0.2" euler="-15 10 0"/>
    <body pos="0 0 3">
      <freejoint/>
      <geom type="box" size="0.06 0.09 0.12" pos="0.02 0 0.01"/>
      <geom type="sphere" size="0.04" pos="0 0.13 0"/>
    </body>
    <body pos="0 0 5"><freejoint/><geom type="capsule" size="0.03 0.1"/><geom size="0.07" pos="0.1 0 0"/></body>
    <body pos="0 0 7"><freejoint/><geom type="cylinder" size="0.1 0.05"/></body>
  </worldbody>
</mujoco>"""
NWORLD = 8


def distance(sim: ss.Simulation, geom: int, x: Array) -> Array:
    """Of points in a geom's frame to the geom, negative inside [m]."""
    mjm, name, size = sim.mjm, sim.mjm.geom(geom).name, sim.mjm.geom_size[geom]
    if name == "plane":
        return x[:, 2]
    if name == "box":
        over = np.abs(x) - size
        return np.linalg.norm(np.maximum(over, 0.0), axis=1) + np.minimum(over.max(axis=1), 0.0)
    if name == "mesh":
        corners = mjm.mesh_vert[mjm.mesh_face].astype(float)
        inside = winding_number(x, corners) > 0.5
        return np.where(inside, -1.0, 1.0) * distance_to_triangles(x, corners)
    # a height field: above its rectangle, with two triangles a cell, which meet on the diagonal
    (nrow,), (ncol,), (a, b, top, base) = mjm.hfield_nrow, mjm.hfield_ncol, mjm.hfield_size[0]
    z = top * mjm.hfield_data.reshape(nrow, ncol).astype(float)
    ys, xs = np.meshgrid(np.linspace(-b, b, nrow), np.linspace(-a, a, ncol), indexing="ij")
    v = np.stack([xs, ys, z], axis=-1)
    p, q, r, s = (w.reshape(-1, 3) for w in (v[:-1, :-1], v[:-1, 1:], v[1:, 1:], v[1:, :-1]))
    corners = np.concatenate([np.stack([p, q, r], axis=1), np.stack([p, r, s], axis=1)])
    u, w = (x[:, 0] + a) / (2 * a) * (ncol - 1), (x[:, 1] + b) / (2 * b) * (nrow - 1)
    i, j = np.clip(np.floor(w).astype(int), 0, nrow - 2), np.clip(np.floor(u).astype(int), 0, ncol - 2)
    du, dw = u - j, w - i
    lower = z[i, j] + du * (z[i, j + 1] - z[i, j]) + dw * (z[i + 1, j + 1] - z[i, j + 1])
    upper = z[i, j] + dw * (z[i + 1, j] - z[i, j]) + du * (z[i + 1, j + 1] - z[i + 1, j])
    below = x[:, 2] < np.where(du > dw, lower, upper)
    beside = (np.abs(x[:, 0]) > a) | (np.abs(x[:, 1]) > b) | (x[:, 2] < -base)
    return np.where(beside, np.inf, np.where(below, -1.0, 1.0) * distance_to_triangles(x, corners))


def wanted(sim: ss.Simulation, qpos: Array) -> dict[tuple[int, int, int], float]:
    """Gaps of what touches, of every particle with everything: (particle, other particle or -1, geom or -1)."""
    bodies, poses = sim.m.bodies, single(qpos).reshape(-1, 7)
    x = np.concatenate([p[:3] + body.centre @ frame(p[3:]).T for body, p in zip(bodies, poses, strict=True)])
    radius = np.concatenate([body.radius for body in bodies])
    owner = np.repeat(np.arange(len(bodies)), [len(body.radius) for body in bodies])
    out = {}
    for geom in np.flatnonzero(sim.mjm.geom_bodyid == 0):
        mat = frame(sim.mjm.geom_quat[geom])
        gap = distance(sim, int(geom), (x - sim.mjm.geom_pos[geom]) @ mat) - radius
        out |= {(int(i), -1, int(geom)): gap[i] for i in np.flatnonzero(gap < MARGIN * radius)}
    gap = np.linalg.norm(x[:, None] - x, axis=2) - radius[:, None] - radius
    near = (gap < MARGIN * np.minimum(radius[:, None], radius)) & (owner[:, None] != owner)
    return out | {(int(i), int(j), -1): gap[i, j] for i, j in np.argwhere(near)}


def test_no_contact_is_missed(device: str) -> None:
    """Bodies of many clusters in random poses, near and in whatever there is: the same as every particle by itself."""
    physics = ss.PbdR(resolution=5)
    sim = ss.Simulation(WORLD, physics, nworld=NWORLD, device=device, nconmax=3000)
    rng = np.random.default_rng(8)
    place = rng.uniform(-0.35, 0.35, (NWORLD, 1, 3)) + rng.uniform(-0.15, 0.15, (NWORLD, 3, 3))
    poses = np.concatenate([place, rng.normal(size=(NWORLD, 3, 4))], axis=2)
    sim.qpos = poses.reshape(NWORLD, -1)
    work = workspace_of(sim.d)
    inputs = [physics._step(sim.m, sim.d)]
    wp.launch(look, dim=NWORLD * work.nlane, inputs=inputs, block_dim=max(work.nlane, WARP))
    touching, geoms = work.touching, np.append(sim.m.shape.collider_geom.numpy(), -1)
    counts = touching.count.numpy()
    assert counts.max() <= touching.capacity
    fields = [getattr(touching, name).numpy() for name in ("particle", "other", "collider", "gap")]
    seen: set[int] = set()
    for world, (qpos, count) in enumerate(zip(poses, counts, strict=True)):
        particle, other, collider, gap = (field[world, :count] for field in fields)
        assert (np.diff(particle) >= 0).all()
        met = zip(particle.tolist(), other.tolist(), geoms[collider].tolist(), strict=True)
        found = dict(zip(met, gap, strict=True))
        want = wanted(sim, qpos)
        assert len(found) == count  # none twice
        assert found.keys() == want.keys()
        np.testing.assert_allclose([found[key] for key in want], list(want.values()), rtol=0.0, atol=1e-6)
        seen |= {geom for _, _, geom in want}
    assert seen == {-1, *np.flatnonzero(sim.mjm.geom_bodyid == 0).tolist()}
    awake = [len(np.unique(fields[0][world, :count])) for world, count in enumerate(counts)]
    assert np.mean(awake) < 0.7 * sim.m.shape.nparticle  # there is something to pass over
