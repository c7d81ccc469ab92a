"""Parts of the convex solve: the skyline factor, the order of trees in it, and the islands that they make."""

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.physics.convex.step.layout import Inertia, Islands, Law, Tree
from stickslip.physics.convex.step.order import order_trees
from stickslip.physics.convex.step.potential import real
from stickslip.physics.convex.step.skyline import factorize, substitute
from tests import support

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _factor_and_solve(
    factor: wp.array2d[real],
    first: wp.array2d[int],
    adr: wp.array2d[int],
    last: wp.array2d[int],
    begin: int,
    n: int,
    least: real,
    nlane: int,
    x: wp.array2d[real],
):
    worldid, lane = wp.tid()
    factorize(factor, first, adr, last, begin, n, least, worldid, lane, nlane)
    substitute(factor, first, adr, last, x, begin, n, worldid, lane, nlane)


def skyline(random: np.random.Generator, sizes: list[int], nworld: int) -> tuple[np.ndarray, np.ndarray]:
    """First columns of the rows of random matrices, which trees of the sizes given make up, and the matrices."""
    starts, n = np.cumsum([0, *sizes])[:-1], sum(sizes)
    first, matrices = np.zeros((nworld, n), dtype=np.int32), np.zeros((nworld, n, n))
    for w in range(nworld):
        for k, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            first[w, start : start + size] = starts[random.integers(k + 1)] if random.random() < 0.7 else start
        L = np.tril(random.normal(size=(n, n))) / np.sqrt(n)
        L[np.arange(n)[None] < first[w][:, None]] = 0.0
        L[np.arange(n), np.arange(n)] = 1.0 + random.random(n)
        L *= 10.0 ** random.uniform(-2, 2, (n, 1))  # masses of different size
        matrices[w] = L @ L.T
    return first, matrices


def last_rows(first: np.ndarray) -> np.ndarray:
    """The last row that has each column."""
    n = first.shape[1]
    return np.array([[max(i for i in range(j, n) if f[i] <= j) for j in range(n)] for f in first], dtype=np.int32)


def packed(first: np.ndarray, matrices: np.ndarray, capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the lower triangles, from the first column on, and where they start; what is left is not a number."""
    nworld, n = first.shape
    factor, adr = np.full((nworld, capacity), np.nan), np.zeros((nworld, n), dtype=np.int32)
    for w in range(nworld):
        size = 0
        for i in range(n):
            adr[w, i] = size - first[w, i]
            factor[w, size : size + i - first[w, i] + 1] = matrices[w, i, first[w, i] : i + 1]
            size += i - first[w, i] + 1
    return factor, adr


def factor_and_solve(
    device: str, first: np.ndarray, matrices: np.ndarray, b: np.ndarray, capacity: int, least: float, begin: int = 0
):
    """Run it with every number of lanes that there is; yields the factor, where its rows are, and the solution."""
    nworld, n = first.shape
    for nlane in (32, 64, 128) if wp.get_device(device).is_cuda else (1,):
        values, adr = packed(first, matrices, capacity)
        factor, x = wp.array(values, dtype=real), wp.array(b, dtype=real)
        where = [wp.array(a, dtype=int) for a in (first, adr, last_rows(first))]
        inputs = [factor, *where, begin, n, least, nlane, x]
        wp.launch(_factor_and_solve, dim=(nworld, nlane), inputs=inputs, block_dim=max(nlane, 32))
        yield factor.numpy(), adr, x.numpy()


@pytest.mark.parametrize(
    "sizes",
    [
        [1],
        [2],
        [1, 1, 1],
        [3, 3],
        [6, 6],
        [1] * 31,
        [2, 2, 2],
        [4, 4, 4, 4, 6],
        [6] * 10,
        [33],
        [1, 7, 3, 6, 2] * 4,
        [6] * 20,
    ],
)
def test_skyline_factor_and_substitution(device, sizes):
    """L, with the reciprocals of its diagonal, and the solution are those of numpy.linalg; worlds differ in layout."""
    nworld, n = 5, sum(sizes)
    first, matrices = skyline(np.random.default_rng(n), sizes, nworld)
    b = np.random.default_rng(0).normal(size=(nworld, n))
    for factor, adr, x in factor_and_solve(device, first, matrices, b, n * (n + 1) // 2 + 5, 1e-30):
        for w in range(nworld):
            L = np.linalg.cholesky(matrices[w])
            scale = 1.0 / np.sqrt(np.diag(matrices[w]))
            condition = np.linalg.cond(scale[:, None] * matrices[w] * scale)
            for i in range(n):
                row = factor[w, adr[w, i] + first[w, i] : adr[w, i] + i + 1].copy()
                row[-1] = 1.0 / row[-1]
                np.testing.assert_allclose(row, L[i, first[w, i] : i + 1], atol=1e-14 * condition / scale[i])
            wanted = np.linalg.solve(matrices[w], b[w]) / scale
            np.testing.assert_allclose(x[w] / scale, wanted, atol=1e-13 * condition * np.abs(wanted).max())
        assert np.isnan(factor[:, -5:]).all()  # nothing is written beyond the rows


def test_an_island_is_factored_by_itself(device):
    """Rows from the start of an island on are a matrix of their own; those before it are left as they are."""
    random = np.random.default_rng(0)
    (one, two), sizes = (skyline(random, [6, 3, 6], 3) for _ in range(2)), 15
    first = np.concatenate([one[0], sizes + two[0]], axis=1).astype(np.int32)
    matrices = np.zeros((3, 2 * sizes, 2 * sizes))
    matrices[:, :sizes, :sizes], matrices[:, sizes:, sizes:] = one[1], two[1]
    b = random.normal(size=(3, 2 * sizes))
    for factor, adr, x in factor_and_solve(device, first, matrices, b, 30 * 31 // 2, 1e-30, begin=sizes):
        before, _ = packed(first, matrices, 30 * 31 // 2)
        for w in range(3):
            np.testing.assert_array_equal(factor[w, : adr[w, sizes] + sizes], before[w, : adr[w, sizes] + sizes])
            np.testing.assert_array_equal(x[w, :sizes], b[w, :sizes])
            np.testing.assert_allclose(matrices[w, sizes:, sizes:] @ x[w, sizes:], b[w, sizes:], rtol=1e-6, atol=1e-9)


def test_pivots_have_a_floor(device):
    """A matrix that is not positive definite gives finite numbers."""
    matrix = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    first = np.zeros((1, 3), dtype=np.int32)
    for factor, _, x in factor_and_solve(device, first, matrix[None], np.ones((1, 3)), 6, 1e-4):
        np.testing.assert_allclose(factor[0, [0, 2, 5]], [1.0, 100.0, 100.0])
        assert np.isfinite(x).all()


@pytest.mark.parametrize("links", [0.0, 0.05, 0.2, 1.0])
def test_order_of_trees_leaves_room_for_the_hessian(device, links):
    """Places are a permutation that keeps each tree together and in order; rows hold all pairs of trees that are near,
    do not overlap, and are no longer in all than those of the given order for a chain of bodies."""
    random = np.random.default_rng(int(100 * links))
    nworld, ntree = 4, 12
    dofnum = random.integers(1, 8, ntree)
    dofadr = np.cumsum([0, *dofnum])[:-1]
    nv = int(dofnum.sum())
    near = np.zeros((nworld, ntree, ntree), dtype=np.uint8)
    for w in range(nworld):
        pairs = np.triu(random.random((ntree, ntree)) < links, 1)
        near[w] = pairs | pairs.T | np.eye(ntree, dtype=bool)
    chain = random.permutation(ntree)  # the last world is a chain of bodies, in an order of its own
    near[-1] = np.eye(ntree)
    near[-1, chain[:-1], chain[1:]] = near[-1, chain[1:], chain[:-1]] = 1

    inertia, islands = order(dofadr, dofnum, near)
    treeid = np.repeat(np.arange(ntree), dofnum)
    for w in range(nworld):
        at, first, adr = (getattr(inertia, name).numpy()[w] for name in ("at", "first", "adr"))
        assert sorted(at) == list(range(nv))
        for adr_of, num in zip(dofadr, dofnum, strict=True):
            assert (np.diff(at[adr_of : adr_of + num]) == 1).all()
        filled = np.zeros((nv, nv), dtype=bool)
        filled[np.ix_(at, at)] = near[w][np.ix_(treeid, treeid)] != 0
        lower = [np.flatnonzero(filled[i, : i + 1])[0] for i in range(nv)]
        np.testing.assert_array_equal(first, lower)
        np.testing.assert_array_equal(inertia.last.numpy()[w], last_rows(first[None])[0])
        spans = [range(adr[i] + first[i], adr[i] + i + 1) for i in range(nv)]
        used = [k for span in spans for k in span]
        assert sorted(used) == list(range(inertia.size.numpy()[w]))
        check_islands(islands, w, near[w], at, treeid)
    widest = np.arange(nv) - inertia.first.numpy()[-1]
    assert widest.max() < 2 * dofnum.max()  # a chain has its neighbours next to it, however it is numbered


def check_islands(islands: Islands, world: int, near: np.ndarray, at: np.ndarray, treeid: np.ndarray) -> None:
    """Islands are the trees that can be reached from one another, and each has its places side by side."""
    reached = np.linalg.matrix_power(near.astype(float), len(near)) > 0.0
    num, tree, begin, dof = (getattr(islands, name).numpy()[world] for name in ("num", "tree", "dof_adr", "dof"))
    np.testing.assert_array_equal(tree[:, None] == tree[None], reached)
    assert sorted(set(tree)) == list(range(num))
    np.testing.assert_array_equal(dof[at], np.arange(at.size))
    assert begin[0] == 0 and begin[num] == at.size
    for island in range(num):
        assert set(treeid[dof[begin[island] : begin[island + 1]]]) == set(np.flatnonzero(tree == island))


def order(dofadr: np.ndarray, dofnum: np.ndarray, near: np.ndarray) -> tuple[Inertia, Islands]:
    """Let the device order trees."""
    nworld, ntree = near.shape[:2]
    nv = int(dofnum.sum())
    tree, inertia, islands = Tree(), Inertia(), Islands()
    tree.nv, tree.ntree = nv, ntree
    tree.tree_dofadr, tree.tree_dofnum = (wp.array(a.astype(np.int32), dtype=int) for a in (dofadr, dofnum))
    inertia.near = wp.array(near, dtype=wp.uint8)
    shapes = {
        "order mark tree": (nworld, ntree),
        "dof_adr": (nworld, ntree + 1),
        "at first adr last dof": (nworld, nv),
        "size num": (nworld,),
    }
    for names, shape in shapes.items():
        for name in names.split():
            struct = islands if name in ("tree", "dof_adr", "dof", "num") else inertia
            setattr(struct, name, wp.zeros(shape, dtype=int))
    wp.launch(order_trees, dim=nworld, inputs=[tree, inertia, islands])
    return inertia, islands


LINKED = """<mujoco>
  <worldbody>
    <geom type="plane" size="2 2 1"/>
    <body name="a" pos="0 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>
    <body name="b" pos="0.6 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>
    <body name="c" pos="0.6 0 0.3"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>
    <body name="d" pos="-1 0 0.5"><joint name="d" axis="0 1 0" range="-1 1" limited="true" frictionloss="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/></body>
    <body name="e" pos="-1 1 0.5"><joint name="e" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/></body>
  </worldbody>
  <equality><joint joint1="d" joint2="e"/></equality>
  <actuator><position joint="e" kp="10"/></actuator>
</mujoco>"""
"""A box by itself, two on one another, and two hinges that are held together."""


def test_contacts_and_rows_are_listed_by_island(device):
    """Each once, in the island of the trees that it acts on."""
    sim = ss.Simulation(LINKED, ss.Icf(), nworld=2, device=device)
    sim.step(5)
    problem = sim.d.convex.problem
    names = ("num", "tree", "contact_adr", "contact", "row_adr", "row")
    num, tree, contact_adr, contact, row_adr, row = (getattr(problem.islands, name).numpy() for name in names)
    touch, rows = problem.touch, problem.rows
    body1, body2 = touch.body1.numpy(), touch.body2.numpy()
    for w in range(2):
        assert num[w] == 3 and tree[w, 1] == tree[w, 2] and tree[w, 3] == tree[w, 4]
        listed = contact[contact_adr[w, 0] : contact_adr[w, 3]]
        begin = touch.adr.numpy()[w]
        assert sorted(listed) == list(range(begin, begin + touch.num.numpy()[w])) and listed.size >= 12
        acting = np.flatnonzero(rows.law.numpy()[w] != Law.OFF)  # not the friction of a joint that has none
        assert sorted(row[w, row_adr[w, 0] : row_adr[w, 3]]) == acting.tolist() and rows.n > len(acting) >= 5
        for island in range(3):
            for slot in contact[contact_adr[w, island] : contact_adr[w, island + 1]]:
                trees = {sim.mjm.body_treeid[body] for body in (body1[slot], body2[slot])} - {-1}
                assert {tree[w, t] for t in trees} == {island}
            for r in row[w, row_adr[w, island] : row_adr[w, island + 1]]:
                columns = rows.col.numpy()[rows.adr.numpy()[r] :][: rows.num.numpy()[r]]
                assert {tree[w, sim.mjm.dof_treeid[c]] for c in columns} == {island}


def test_an_island_moves_as_if_it_were_alone(device):
    """A tower beside another one takes the steps that it takes without it."""
    body = '<body pos="{x} 0 {z}"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>'
    tower = "".join(body.format(x=0.0, z=0.1 + 0.21 * k) for k in range(3))
    other = "".join(body.format(x=1.0, z=0.3 + 0.25 * k) for k in range(2))
    text = '<mujoco><worldbody><geom type="plane" size="2 2 1"/>{}</worldbody></mujoco>'
    alone, both = (ss.Simulation(text.format(t), ss.Icf(), device=device) for t in (tower, tower + other))
    for sim in (alone, both):
        sim.step(60)
    np.testing.assert_allclose(support.exact(both)[0][0, :21], support.exact(alone)[0][0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(support.exact(both)[1][0, :18], support.exact(alone)[1][0], rtol=0, atol=1e-7)
