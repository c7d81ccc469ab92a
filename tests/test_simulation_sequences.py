"""Random sequences of operations on worlds, against replays of what each world went through, without any State."""

import dataclasses
import hashlib
import pathlib
from typing import Any, ClassVar

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from tests.support import XML

WORLDS = 32
PARTS = "time qpos qvel act history qacc_warmstart ctrl qfrc_applied mocap_pos".split()
FIELDS = ("geom_friction", "body_mass", "body_inertia")
SLOTS = 6
"""States that are kept to be loaded."""
FRESH = 5
"""Histories that a new simulation replays, instead of one that was reset."""
ROOMY: dict[str, Any] = {"nconmax": 24, "njmax": 160}


class Node:
    """A history: what a world went through since it was at the start. It holds no state but what was seen.

    Args:
        parent: the history before the last operation; None at the start
        op: the last operation, as data
    """

    def __init__(self, parent: "Node | None" = None, op: tuple[Any, ...] = ()) -> None:
        self.parent, self.op = parent, op
        self.children: dict[tuple[Any, ...], Node] = {}
        self.seen: np.ndarray | None = None
        self.checked = False

    def then(self, *op: Any) -> "Node":
        """The history with one more operation; the same object for the same operation."""
        if op not in self.children:
            self.children[op] = Node(self, op)
        return self.children[op]

    def path(self) -> list["Node"]:
        """The histories from the start up to this one."""
        return [self] if self.parent is None else [*self.parent.path(), self]

    def every(self) -> list["Node"]:
        """This history and all that begin with it."""
        out: list[Node] = [self]
        at = 0
        while at < len(out):
            out.extend(out[at].children.values())
            at += 1
        return out


def views(sim: ss.Simulation) -> list[wp.array]:
    own = sim.physics.arrays(sim.m, sim.d)
    return [own[name] for name in PARTS]


def rows(arrays: list[wp.array]) -> np.ndarray:
    """All parts of the state, (nworld, size)."""
    return np.concatenate([a.numpy().reshape(len(a), -1) for a in arrays], axis=1)


def assert_rows(found: np.ndarray, expected: np.ndarray, device: str, message: Any) -> None:
    """Bit for bit on the CPU; on CUDA, where atomics add in any order, roughly."""
    if device == "cpu":
        assert found.tobytes() == expected.tobytes(), message
    else:
        np.testing.assert_allclose(found, expected, atol=2e-2, rtol=1e-2, err_msg=str(message))


# Random numbers, as `randomize` promises them


def pcg(state: int) -> int:
    b = (state * 747796405 + 2891336453) & 0xFFFFFFFF
    c = (((b >> ((b >> 28) + 4)) ^ b) * 277803737) & 0xFFFFFFFF
    return (c >> 22) ^ c


def of(seed: int, offset: int) -> int:
    """Warp's rand_init."""
    return pcg((seed + pcg(offset)) & 0xFFFFFFFF)


def uniform(seed: int, world: int, draw: int, entry: int) -> float:
    """The number of an entry of a world, between 0 and 1: a function of these four, in NumPy."""
    inner = pcg(of(pcg(of(seed, world)), draw))
    return (pcg(of(inner, entry)) >> 8) / 2**24


def hashed(seed: int, field: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed} {field}".encode()).digest()[:4], "little")


@dataclasses.dataclass
class Saved:
    """A state that can be loaded, and the histories of its worlds."""

    state: ss.State | pathlib.Path
    nodes: list[Node]

    def load(self) -> ss.State:
        return ss.State.load(self.state) if isinstance(self.state, pathlib.Path) else self.state


class Walk:
    """A simulation that does random operations, and what each world has been through.

    Args:
        device, threads: of the simulation
        folder: where states are saved
        seed: of the choices
    """

    def __init__(self, device: str, threads: int, folder: pathlib.Path, seed: int) -> None:
        self.device, self.folder, self.rng = device, folder, np.random.default_rng(seed)
        self.sim = ss.Simulation(XML, nworld=WORLDS, device=device, threads=threads)
        mjm = self.sim.mjm
        self.nominal = {name: np.asarray(getattr(mjm, name), dtype=np.float32) for name in FIELDS}
        self.sim.set_model(**self.nominal)  # derived fields come from the device, as they will
        self.fields = {name: np.tile(value, (WORLDS, *[1] * value.ndim)) for name, value in self.nominal.items()}
        self.models: dict[tuple[int, ...], int] = {}
        self.unique_values: dict[bytes, np.ndarray] = {}
        self.values: list[dict[str, np.ndarray]] = []
        self.model = self.numbered()
        self.draws = np.zeros(WORLDS, dtype=int)
        self.root = Node()
        self.nodes = [self.root] * WORLDS
        self.saved: list[Saved] = []
        self.files = 0
        self.views = views(self.sim)
        self.compared = 0
        self.palette = {
            "qvel": np.float32(self.rng.normal(0.0, 0.5, (3, mjm.nv))),
            "ctrl": np.array([[-1.0], [0.5], [1.5]], dtype=np.float32),
            "qfrc_applied": np.float32(self.rng.normal(0.0, 1.0, (2, mjm.nv))),
            "mocap_pos": np.array([[[0.2, 0.3, 0.25]], [[1.0, 0.0, 0.1]]], dtype=np.float32),
        }

    def numbered(self) -> list[int]:
        """The number of the model of each world; equal models have equal numbers."""
        out = []
        for world in range(WORLDS):
            mine = {name: self.unique(value[world]) for name, value in self.fields.items()}
            key = tuple(map(id, mine.values()))
            if key not in self.models:
                self.models[key] = len(self.values)
                self.values.append(mine)
            out.append(self.models[key])
        return out

    def unique(self, value: np.ndarray) -> np.ndarray:
        """The same array for the same numbers."""
        return self.unique_values.setdefault(value.tobytes(), value.copy())

    def mask(self) -> np.ndarray:
        return self.rng.random(WORLDS) < self.rng.choice([0.1, 0.5, 0.9])

    def given(self, mask: np.ndarray) -> Any:
        """A mask on the host or on the device."""
        return wp.array(mask, dtype=bool, device=self.device) if self.rng.random() < 0.5 else mask

    # Operations: each is done by the simulation, and written down for the worlds that it concerns

    def step(self) -> None:
        n = int(self.rng.integers(1, 4))
        self.sim.step(n, check=self.rng.random() < 0.05)
        self.nodes = [node.then("step", n, model) for node, model in zip(self.nodes, self.model, strict=True)]

    def reset(self) -> None:
        mask = self.mask()
        self.sim.reset(self.given(mask))
        self.put(mask, [self.root] * WORLDS)

    def keyframe(self) -> None:
        mask, key = self.mask(), int(self.rng.integers(2))
        self.sim.reset(self.given(mask), keyframe=("low", "high")[key] if self.rng.random() < 0.5 else key)
        self.put(mask, [self.root.then("key", key)] * WORLDS)

    def put(self, mask: np.ndarray, nodes: list[Node]) -> None:
        self.nodes = [new if chosen else old for chosen, new, old in zip(mask, nodes, self.nodes, strict=True)]

    def write(self) -> None:
        name = str(self.rng.choice(list(self.palette)))
        palette = self.palette[name]
        choice = self.rng.integers(len(palette), size=WORLDS)
        value = palette[choice]
        setattr(self.sim, name, wp.array(value, dtype=float, device=self.device) if self.rng.random() < 0.5 else value)
        self.nodes = [node.then("write", name, int(i)) for node, i in zip(self.nodes, choice, strict=True)]

    def set_model(self) -> None:
        mask, name = self.mask(), str(self.rng.choice(["geom_friction", "body_mass"]))
        scale = self.rng.choice([0.5, 1.0, 2.0], size=WORLDS if self.rng.random() < 0.5 else 1)
        value = np.float32(scale.reshape(-1, *[1] * self.nominal[name].ndim) * self.nominal[name])
        self.sim.set_model(self.given(mask), **{name: value})
        self.fields[name][mask] = np.broadcast_to(value, self.fields[name].shape)[mask]
        self.model = self.numbered()

    def randomize(self) -> None:
        """Random fields of worlds are what a function of seed, field, world and draw says, to rounding."""
        mask, seed = self.mask(), int(self.rng.integers(3))
        self.sim.randomize(self.given(mask), seed=seed, geom_friction=ss.Scale(0.5, 2.0), body_mass=ss.Scale(0.5, 2.0))
        found = self.model_fields()
        for world in np.flatnonzero(mask):
            for name in ("geom_friction", "body_mass"):
                numbers = [
                    uniform(hashed(seed, name), int(world), int(self.draws[world]), entry)
                    for entry in range(self.nominal[name].size)
                ]
                scale = 0.5 + 1.5 * np.reshape(numbers, self.nominal[name].shape)
                np.testing.assert_allclose(found[name][world], scale * self.nominal[name], rtol=1e-5)
                if name == "body_mass":
                    inertia = scale[:, None] * self.nominal["body_inertia"]
                    np.testing.assert_allclose(found["body_inertia"][world], inertia, rtol=1e-5)
            for name in FIELDS:  # the last bit is that of the device
                self.fields[name][world] = found[name][world]
        self.draws += mask
        self.model = self.numbered()

    def model_fields(self) -> dict[str, np.ndarray]:
        """The fields of all worlds."""
        parts = getattr(self.sim.m, "parts", [self.sim.m])
        own = {name: [getattr(part, name).numpy() for part in parts] for name in FIELDS}
        return {name: np.concatenate(value) for name, value in own.items()}

    def save(self) -> None:
        kind = self.rng.integers(3)
        state: Any = self.sim.get_state(device=bool(kind == 2))
        if kind == 1:
            self.files += 1
            path = self.folder / f"{self.files}.npz"
            state.save(path)
            state = path
        self.saved.append(Saved(state, self.nodes))
        if len(self.saved) > SLOTS:
            old = self.saved.pop(int(self.rng.integers(SLOTS))).state
            if isinstance(old, pathlib.Path):
                old.unlink()

    def load(self) -> None:
        """A state into all worlds, into those of a mask, and into others than those it is of."""
        if not self.saved:
            return
        saved = self.saved[self.rng.integers(len(self.saved))]
        state, kind = saved.load(), self.rng.integers(4)
        if kind == 0:
            self.sim.set_state(state)
            self.nodes = list(saved.nodes)
        elif kind == 1:
            mask = self.mask()
            self.sim.reset(self.given(mask), state=state)
            self.put(mask, saved.nodes)
        elif kind == 2:
            world, mask = int(self.rng.integers(WORLDS)), self.mask()
            self.sim.reset(mask, state=state[world])
            self.put(mask, [saved.nodes[world]] * WORLDS)
        else:
            count = int(self.rng.integers(1, WORLDS))
            there, here = (self.rng.permutation(WORLDS)[:count] for _ in range(2))
            self.sim.set_state(state[there], worlds=here)
            self.nodes = list(self.nodes)
            for to, source in zip(here, there, strict=True):
                self.nodes[to] = saved.nodes[source]

    def look(self) -> None:
        """What does not concern any world: queries, and `forward`."""
        kind = self.rng.integers(3)
        if kind == 0:
            self.sim.forward()
        elif kind == 1:
            self.sim.contacts()
        else:
            assert self.sim.health().ok, self.sim.health()

    OPERATIONS: ClassVar = {
        step: 20,
        reset: 4,
        keyframe: 4,
        write: 8,
        set_model: 2,
        randomize: 1,
        save: 4,
        load: 6,
        look: 2,
    }

    def run(self, operations: int) -> None:
        """Do random operations; after each, note the state of every world under its history."""
        kinds, p = list(self.OPERATIONS), np.array(list(self.OPERATIONS.values())) / sum(self.OPERATIONS.values())
        for kind in self.rng.choice(len(kinds), size=operations, p=p):
            kinds[kind](self)
            found = rows(self.views)
            for world, node in enumerate(self.nodes):
                if node.seen is None:
                    node.seen = found[world].copy()
                else:
                    assert_rows(found[world], node.seen, self.device, (kinds[kind].__name__, world, node.op))
            self.compared += WORLDS
        fields = self.model_fields()
        for name in FIELDS:
            assert fields[name].tobytes() == self.fields[name].tobytes(), name


class Replay:
    """One world that is brought to the start and goes through histories again.

    Args:
        walk: whose histories; it has the values that they name by number
    """

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.sim = ss.Simulation(XML, device=walk.device, **ROOMY)
        self.views = views(self.sim)
        self.own: dict[str, wp.array] = dict(zip(PARTS, self.views, strict=True))
        self.fields: dict[str, np.ndarray] = {}
        self.different = 0

    def run(self, leaf: Node, *, fresh: bool = False) -> None:
        """Go through a history and compare what was seen on the way."""
        if not fresh:
            self.sim.reset()
        for node in leaf.path():
            if node.op:
                getattr(self, f"do_{node.op[0]}")(*node.op[1:])
            if node.seen is not None and (fresh or not node.checked):
                story = [n.op for n in node.path()]
                assert_rows(rows(self.views)[0], node.seen, self.walk.device, story)
                node.checked = True
                self.different += 1

    def do_step(self, n: int, model: int) -> None:
        now = self.walk.values[model]
        changed = {name: value for name, value in now.items() if self.fields.get(name) is not value}
        if changed:
            self.sim.set_model(**changed)
            self.fields = now
        self.sim.step(n)

    def do_key(self, key: int) -> None:
        self.sim.reset(keyframe=key)

    def do_write(self, name: str, index: int) -> None:
        self.own[name].assign(self.walk.palette[name][index : index + 1])


def models_of(history: Node) -> list[int]:
    """The models of its steps: neighbours in this order need few changes of the model."""
    return [node.op[2] for node in history.path() if node.op and node.op[0] == "step"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("operations", [800, 6400], ids=["some", "all"])
def test_worlds_are_what_they_went_through(device: str, operations: int, threads: int, tmp_path: pathlib.Path) -> None:
    """Every world, after every operation, is where its history leads a simulation of one world.

    What is counted: a sequence is the history of one world after one operation on the simulation, that is, all that
    has had an effect on its state since it was at the start, through resets, key frames, and the histories of the
    states that were loaded into it. There are 32 x `operations` of them: 25,600, and 204,800 in the slow variant. Equal
    ones, such as those of worlds that were reset together, must have equal states and are replayed once: the slow
    variant replays more than 10^5 different ones.

    The replay has no State and nothing that is kept in between: a world that was reset, or at times a new simulation,
    goes through the whole history from its start, with the model's fields that were valid in each step.
    """
    if threads > 1 and device != "cpu":
        pytest.skip("threads are of the CPU")
    walk = Walk(device, threads, tmp_path, seed=threads)
    walk.run(operations)
    leaves = [node for node in walk.root.every() if not node.children]
    replay = Replay(walk)
    for leaf in sorted(leaves, key=models_of):
        replay.run(leaf)
    assert replay.sim.health().ok
    assert all(node.checked for node in walk.root.every() if node.seen is not None)
    assert walk.compared == WORLDS * operations and replay.different > 14 * operations
    assert operations < 6400 or replay.different > 100_000 or device != "cpu"
    for i in walk.rng.choice(len(leaves), FRESH, replace=False):
        Replay(walk).run(leaves[i], fresh=True)


def test_a_wrong_history_is_found(tmp_path: pathlib.Path) -> None:
    """The comparison sees a reset too many, another model, and another input."""
    walk = Walk("cpu", 1, tmp_path, seed=0)
    walk.step()
    walk.write()
    walk.step()
    for wrong in (
        walk.root.then("key", 1).then("step", 1, 0),
        walk.root.then("step", 1, 0).then("write", "ctrl", 0).then("step", 3, 0).then("step", 3, 0),
    ):
        wrong.seen = rows(walk.views)[0].copy()
        with pytest.raises(AssertionError):
            Replay(walk).run(wrong)
