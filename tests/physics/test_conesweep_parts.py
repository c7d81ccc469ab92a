"""Parts of the cone sweep on their own: the ways to settle a pair, the inverse of large trees, sums over lanes."""

import itertools

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip
import stickslip.conesweep
from stickslip.physics.conesweep.block import LEAST_LANES, MAX_LANES, most_of_lanes, sum_lanes
from stickslip.physics.conesweep.layout import ANY, MOST_OF_PAIR, SMOOTH, SPIN, SPINNING
from stickslip.physics.conesweep.model import own_data
from stickslip.physics.conesweep.pack import FORCE, PULL, TOUCH, TURN
from stickslip.physics.conesweep.space.layout import BLOCK_RECORD, ROUGH_RECORD, count_bits, most_chunks
from stickslip.physics.conesweep.sweep.settle import settle_smooth, settle_spin, vec12
from stickslip.physics.conesweep.sweep.settle_any import settle_any
from stickslip.physics.conesweep.workspace import Borrowed

DT, SUBSTEP, SHARE, SLOP, RESTITUTION = 0.002, 0.0005, 0.05, 5e-5, 0.5


@wp.kernel
def _settle(
    form: int,
    count: int,
    passes: int,
    touch: wp.array[wp.vec4],
    pull: wp.array[wp.vec4],
    turn: wp.array[wp.vec4],
    f: wp.array[wp.vec4],
    U: wp.array[wp.spatial_vector],
    X: wp.array[wp.spatial_vector],
    out: wp.array[vec12],
):
    if form == SMOOTH:
        out[0] = settle_smooth(
            touch, pull, turn, f, 0, count, U[0], X[0], DT, SUBSTEP, SHARE, SLOP, RESTITUTION, passes, True
        )
    elif form == SPIN:
        out[0] = settle_spin(
            touch, pull, turn, f, 0, count, U[0], X[0], DT, SUBSTEP, SHARE, SLOP, RESTITUTION, passes, True
        )
    else:
        out[0] = settle_any(
            touch, pull, turn, f, 0, count, U[0], X[0], DT, SUBSTEP, SHARE, SLOP, RESTITUTION, passes, True
        )


def _contacts(random: np.random.Generator, count: int, has_spin: bool) -> tuple[np.ndarray, ...]:
    """Records of random contacts whose directions change what a symmetric matrix says they change."""
    root = np.tril(random.normal(size=(6, 6))) + 2.0 * np.eye(6)
    touch, pull, turn, f = (np.zeros((count, int(rows), 4)) for rows in (TOUCH, PULL, TURN, FORCE))
    for i in range(count):
        frame = np.linalg.qr(random.normal(size=(3, 3)))[0]
        frame[2] = np.cross(frame[0], frame[1])
        arm = 0.1 * random.normal(size=3)
        z = [root.T @ np.concatenate([np.cross(arm, d), d]) for d in frame]
        across = np.linalg.eigvalsh([[z[1] @ z[1], z[1] @ z[2]], [z[1] @ z[2], z[2] @ z[2]]])[-1]
        touch[i, :, :3] = frame[0], frame[1], arm
        friction = random.choice([float(SPINNING), 0.7]) if has_spin else random.choice([0.0, 0.7])
        touch[i, :, 3] = random.choice([-2e-4, -1e-3, 1e-5, 1e-3]), friction, random.choice([0.0, 0.3])
        pull[i] = np.concatenate([*z, [1 / (DT * z[0] @ z[0]), 1 / (DT * across)]]).reshape(-1, 4)
        f[i, 0, :3] = 2.0, 0.3, -0.4
        if friction < 0.0:
            about = [root.T @ np.concatenate([d, np.zeros(3)]) for d in frame]
            pull[i, 4, 3] *= 0.5
            turn[i, :5] = np.concatenate([*about, [1 / (2 * DT * about[0] @ about[0]), 0.0]]).reshape(-1, 4)
            turn[i, 5:] = [0.7, 0.7, 0.05, 0.0], np.zeros(4), [4.0, 0.0, 0.0, 0.0]
            f[i, 1, 0] = 0.02
    return touch, pull, turn, f


@pytest.mark.parametrize("form", [int(SMOOTH), int(SPIN)])
@pytest.mark.parametrize("count", range(1, int(MOST_OF_PAIR) + 1))
@pytest.mark.parametrize("passes", [1, 4, 5])
def test_contacts_in_registers_and_in_memory_settle_alike(device, form, count, passes):
    random = np.random.default_rng(10 * count + passes)
    touch, pull, turn, f = _contacts(random, count, form == int(SPIN))
    U, X = 0.2 * random.normal(size=(1, 6)), 1e-4 * random.normal(size=(1, 6))
    results = []
    with wp.ScopedDevice(device):
        for way in (form, int(ANY)):
            records = [wp.array(a.reshape(-1, 4), dtype=wp.vec4) for a in (touch, pull, turn, f)]
            twists = [wp.array(a, dtype=wp.spatial_vector) for a in (U, X)]
            out = wp.zeros(1, dtype=vec12)
            wp.launch(_settle, dim=1, inputs=[way, count, passes, *records, *twists, out])
            results.append((out.numpy()[0], records[3].numpy(), records[0].numpy()))
    (out, force, touched), (other_out, other_force, other_touched) = results
    assert np.abs(force - f.reshape(-1, 4)).max() > 0.01  # something was settled
    near = 3e-3 if form == int(SPIN) else 2e-4  # the cone of spin is approached by fewer steps in registers
    np.testing.assert_allclose(force, other_force, rtol=2e-4, atol=near)
    np.testing.assert_allclose(out, other_out, rtol=2e-4, atol=near)
    np.testing.assert_allclose(touched, other_touched, atol=1e-6)
    rubs = touch[:, 1, 3] != 0.0
    slide = np.hypot(force[::2, 1], force[::2, 2])[rubs] / 0.7
    spin = force[1::2, 0][rubs] / 0.05
    assert (np.hypot(slide, spin) <= force[::2, 0][rubs] * (1 + 1e-4)).all()


def dense_rows(z, mask, count, fours, nv):
    """Rows in contact space, (count, nv), from the chunks of dofs that a mask has."""
    chunks = [chunk for chunk in range(64) if mask >> chunk & 1]
    rows = np.zeros((count, 4 * fours * 64))
    stored = z.reshape(-1)[: count * len(chunks) * 4 * fours].reshape(count, len(chunks), 4 * fours)
    for k, chunk in enumerate(chunks):
        rows[:, 4 * fours * chunk : 4 * fours * (chunk + 1)] = stored[:, k]
    return rows[:, :nv]


@pytest.mark.parametrize("links", [6, 40, 300])  # up to 256 dofs a chunk has four of them, above more
def test_rows_in_contact_space(device, links):
    """The products of all rows are those of J H^-1 J', found with MuJoCo in C."""
    chain = "".join(
        f'<body pos="0.05 0 0"><joint axis="0 {i % 2} {1 - i % 2}" armature="0.01" frictionloss="0.1"/>'
        f'<geom type="capsule" fromto="0 0 0 0.05 0 0" size="0.01" contype="0" conaffinity="0"/>'
        for i in range(links)
    )
    xml = f"""<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="0 0 1"/>{chain}
      <geom type="sphere" size="20" mass="0.001" condim="6"/>{"</body>" * links}</worldbody></mujoco>"""
    sim = stickslip.Simulation(xml, stickslip.ConeSweep(), nworld=2, device=device)
    angles = np.random.default_rng(0).uniform(-1, 1, (2, links))
    sim.qpos = angles
    sim.step()
    workspace = own_data(sim.d).workspace
    space, work, shape = workspace.space, workspace.work, workspace.sharing.shape
    records = space.contact.numpy().reshape(-1, ROUGH_RECORD, 4)
    contact_z = space.contact_z.numpy().reshape(-1, shape.rows * space.contact_fours, 4)
    blocks = space.row.numpy().reshape(2, space.nblock, BLOCK_RECORD, 4)
    row_z = space.row_z.numpy().reshape(2, -1, 4)
    for world in range(2):
        data = mujoco.MjData(sim.mjm)
        data.qpos[:] = angles[world]
        mujoco.mj_forward(sim.mjm, data)
        mass = np.zeros((links, links))
        mujoco.mj_fullM(sim.mjm, data, mass)
        i = int(work.adr.numpy()[world])
        assert work.num.numpy()[world] == 1
        record = records[i]
        con, low, high = record[5, :3].view(np.uint32).tolist()
        mask = low | high << 32
        normal, tangent, _ = work.hand.numpy()[i] * sim.d.contact.frame.numpy()[con]
        frame = np.array([normal, tangent, np.cross(normal, tangent)])
        linear, angular = np.zeros((3, links)), np.zeros((3, links))
        point = sim.d.contact.pos.numpy()[con].astype(float)
        mujoco.mj_jac(sim.mjm, data, linear, angular, point, sim.mjm.nbody - 1)
        J = [frame @ linear, frame @ angular, np.eye(links)]
        z = [dense_rows(contact_z[con], mask, 6, shape.fours, links)]
        assert space.nactive.numpy()[world] == space.nblock
        for block in range(space.nblock):
            adr, low, high = blocks[world, block, 8, :3].view(np.uint32).tolist()
            count = min(4, links - 4 * block)
            z.append(dense_rows(row_z[world, adr:], low | high << 32, 4, shape.fours, links)[:count])
        z, J = np.concatenate(z), np.concatenate(J)
        expected = J @ np.linalg.solve(mass, J.T)
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        np.testing.assert_allclose(z @ z.T / scale, expected / scale, atol=3e-3 if links > 100 else 1e-4)


def test_two_bodies_with_many_contacts_are_several_pairs(device):
    feet = "".join(f'<geom type="sphere" size="0.02" pos="{0.1 * x} {0.1 * y} 0"/>' for x in range(5) for y in range(4))
    xml = f"""<mujoco><worldbody><geom type="plane" size="0 0 1"/>
      <body pos="0 0 0.0201"><freejoint/>{feet}</body></worldbody></mujoco>"""
    sim = stickslip.Simulation(xml, stickslip.ConeSweep(), device=device)
    sim.step(500)
    work = own_data(sim.d).workspace.work
    pairs = int(work.npair.numpy()[0])
    counts = work.ncon.numpy()[int(work.adr.numpy()[0]) :][:pairs]
    assert counts.sum() == 20 and counts.max() == int(MOST_OF_PAIR) and pairs == 3
    assert np.abs(sim.qvel.numpy()).max() < 1e-5
    np.testing.assert_allclose(sim.qpos.numpy()[0, 2], 0.02, atol=1e-4)


@pytest.mark.parametrize("side", [3, 14])
def test_contacts_of_a_large_world_are_sorted_and_paired(device, side):
    """Every other body has twelve feet, that is two pairs: sorted keys, pairs, lists of bodies, order by colour."""
    feet = "".join(
        f'<geom type="sphere" size="0.01" pos="{0.03 * x} {0.03 * y} 0"/>' for x in range(4) for y in range(3)
    )
    single = '<geom type="sphere" size="0.01"/>'
    grid = "".join(
        f'<body pos="{0.15 * x} {0.15 * y} 0.0099"><freejoint/>{feet if (x + y) % 2 else single}</body>'
        for x in range(side)
        for y in range(side)
    )
    xml = f'<mujoco><worldbody><geom type="plane" size="0 0 1"/>{grid}</worldbody></mujoco>'
    sim = stickslip.Simulation(
        xml, stickslip.ConeSweep(), device=device, nconmax=16 * side * side, njmax=64 * side * side
    )
    sim.step(3)
    work = own_data(sim.d).workspace.work
    feet_of = [12 if (x + y) % 2 else 1 for x in range(side) for y in range(side)]
    adr, num, npair = (int(array.numpy()[0]) for array in (work.adr, work.num, work.npair))
    assert num == sum(feet_of) and npair == sum(-(-n // int(MOST_OF_PAIR)) for n in feet_of)

    def of_contacts(array: wp.array) -> np.ndarray:
        return array.numpy()[adr : adr + num]

    def of_pairs(array: wp.array) -> np.ndarray:
        return array.numpy()[adr : adr + npair]

    key, con, code = (of_contacts(array) for array in (work.key, work.con, work.code))
    assert (np.diff(key) >= 0).all() and len(set(con.tolist())) == num
    pos = sim.d.contact.pos.numpy()[con].tolist()
    assert sorted(zip(key.tolist(), pos, strict=True)) == list(zip(key.tolist(), pos, strict=True))
    bodies = sim.mjm.geom_bodyid[sim.d.contact.geom.numpy()[con]]
    assert (np.sort(bodies, axis=1) == np.stack([code // sim.mjm.nbody, code % sim.mjm.nbody], axis=1)).all()

    first, count, pairs = of_pairs(work.first) - adr, of_pairs(work.ncon), of_pairs(work.bodies)
    assert (first == np.cumsum([0, *count[:-1]])).all() and count.sum() == num
    assert (of_contacts(work.of_pair) == np.repeat(np.arange(npair), count)).all()
    assert (pairs == np.sort(bodies, axis=1)[first]).all()

    head, next1, next2 = work.head.numpy()[0], of_pairs(work.next1), of_pairs(work.next2)
    for body in range(1, sim.mjm.nbody):
        found, p = [], int(head[body])
        while p >= 0:
            found.append(p)
            p = int(next2[p] if pairs[p][1] == body else next1[p])
        assert found == np.flatnonzero((pairs == body).any(axis=1)).tolist()
    by_color = np.argsort(of_pairs(work.color), kind="stable")
    assert (of_pairs(work.plan)[:, 0] - adr == by_color).all()


@wp.kernel
def _scan(nlane: int, value: wp.array2d[int], sums: wp.array3d[wp.vec2i], most: wp.array3d[wp.vec2i]):
    thread = wp.tid()
    worldid = thread / nlane
    lane = thread - worldid * nlane
    for start in range(0, value.shape[1], nlane):  # as the callers do: several times in a row
        place = start / nlane
        sums[worldid, place, lane] = sum_lanes(value[worldid, start + lane], lane, nlane)
        most[worldid, place, lane] = most_of_lanes(value[worldid, start + lane], lane, nlane)


def test_sums_over_lanes(device: str) -> None:
    """What each lane of a world knows of those before it, in part of a warp, a warp, and a block; not of others."""
    nworld, rounds = 5, 3
    random = np.random.default_rng(0)
    for nlane in (1, LEAST_LANES, 32, 64, MAX_LANES) if wp.get_device(device).is_cuda else (1,):
        value = random.integers(0, 100, (nworld, rounds * nlane)).astype(np.int32)
        with wp.ScopedDevice(device):
            found = [wp.zeros((nworld, rounds, nlane), dtype=wp.vec2i) for _ in range(2)]
            inputs = [nlane, wp.array(value), *found]
            wp.launch(_scan, dim=nworld * nlane, inputs=inputs, block_dim=max(nlane, 64))
        value = value.reshape(nworld, rounds, nlane)
        for got, join in zip(found, (np.add, np.maximum), strict=True):
            np.testing.assert_array_equal(got.numpy()[..., 0], join.accumulate(value, axis=2))
            np.testing.assert_array_equal(got.numpy()[..., 1], join.reduce(value, axis=2, keepdims=True) + 0 * value)


@pytest.mark.parametrize("seed", range(4))
def test_rows_on_dofs_have_room_whichever_act(seed: int) -> None:
    random = np.random.default_rng(seed)
    masks = random.integers(1, 32, 10).astype(np.uint64) & random.integers(1, 32, 10).astype(np.uint64)
    most = 0
    for acting in itertools.product((False, True), repeat=len(masks)):
        chosen = masks[np.array(acting)]
        blocks = [np.bitwise_or.reduce(chosen[i : i + 4]) for i in range(0, len(chosen), 4)]
        most = max(most, int(count_bits(np.array(blocks, dtype=np.uint64)).sum()))
    assert most <= most_chunks(masks) <= 3 * 5
    assert most_chunks(masks[:4]) == count_bits(np.bitwise_or.reduce(masks[:4]))
    assert most_chunks(masks[:0]) == 0


def test_borrowed_arrays_lie_apart_within_their_memory() -> None:
    with wp.ScopedDevice("cpu"):
        owner = wp.zeros(8, dtype=wp.vec4)
        borrowed = Borrowed(owner)
        arrays = [borrowed.take(count, dtype) for count, dtype in ((5, int), (0, float), (3, wp.vec4), (9, wp.int64))]
    starts = [array.ptr - owner.ptr for array in (arrays[0], arrays[2])]
    assert starts == [0, 32] and [array.size for array in arrays] == [5, 0, 3, 9]
    assert not owner.ptr <= arrays[3].ptr < owner.ptr + owner.capacity  # it does not fit
    arrays[2].fill_(1.0)
    assert owner.numpy().sum() == 12.0 and arrays[0].numpy().sum() == 0


def test_a_chain_without_room_for_contacts_moves(device: str) -> None:
    link = '<joint axis="0 1 0" frictionloss="0.01"/><geom size="0.1" pos="0.1 0 0"/>'
    xml = f"<mujoco><worldbody><body>{link}<body>{link}</body></body></worldbody></mujoco>"
    mjm = mujoco.MjModel.from_xml_string(xml)
    with wp.ScopedDevice(device):
        m, d = stickslip.conesweep.put_model(mjm), stickslip.conesweep.make_data(mjm, nworld=2, nconmax=0, njmax=8)
        stickslip.conesweep.step(m, d)
    assert np.isfinite(d.qvel.numpy()).all() and (d.qvel.numpy()[:, 0] != 0.0).all()
