"""Buffers: sizes that follow from the model, and steps that are repeated when something did not fit."""

import warnings
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip import mjcf, scenes
from stickslip.errors import BufferOverflow, HealthWarning, InputError, MissingExtra, SceneError
from stickslip.physics.mjwarp import sizes
from stickslip.simulation import growth
from tests import support

SMALL = (2, 4)
"""Sizes to start from that no heap fits into."""
INPUTS = ("qpos", "qvel", "ctrl", "qfrc_applied", "xfrc_applied")
LARGE = {"nconmax": 400, "njmax": 2000}
LANDED = 60
"""Steps until the bodies lie."""

HEAP = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="2 2 .1"/>
    <body pos="0 0 .15"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body pos=".3 0 .3"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body pos=".02 0 .42"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body pos=".31 .01 .6"><freejoint/><geom type="sphere" size=".08"/></body>
  </worldbody>
</mujoco>"""
"""Boxes and a ball that fall one after the other, some on top of others."""
FLOORS = f"""
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    {'<geom type="plane" size="2 2 .1"/>' * 40}
    <body pos="0 0 .11"><freejoint/><geom type="sphere" size=".1"/></body>
    <body pos=".5 0 .2"><freejoint/><geom type="sphere" size=".1"/></body>
    <body pos="1 0 .3"><freejoint/><geom type="sphere" size=".1"/></body>
  </worldbody>
</mujoco>"""
"""Balls on forty floors: more contacts than `pbd-r` has room for by its count of particles."""


@pytest.fixture
def start_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every simulation without sizes start with small buffers."""
    monkeypatch.setattr(sizes, "default_sizes", lambda _mjm: SMALL)


def physics_of(name: str) -> Any:
    return ss.PHYSICS[name]()


def scene_of(name: str) -> str:
    return FLOORS if name in support.FREE_BODIES_ONLY else HEAP


def sizes_of(sim: ss.Simulation) -> tuple[int, int]:
    physics: Any = sim.physics
    return physics.buffer_sizes(sim.m, sim.d)


def told(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(w.message) for w in caught if issubclass(w.category, HealthWarning)]


@pytest.mark.parametrize("name", support.COMPILED_BY_WARP)
def test_a_heap_grows_and_moves_as_with_large_buffers(name: str, device: str, start_small: None) -> None:
    grown = ss.Simulation(scene_of(name), physics_of(name), nworld=2, device=device)
    roomy = ss.Simulation(scene_of(name), physics_of(name), nworld=2, device=device, **LARGE)
    first, d = sizes_of(grown), grown.d
    kept = {key: getattr(grown, key) for key in INPUTS}
    kept |= {key: getattr(d, key) for key in ("xpos", "time", "sensordata")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(LANDED // 10):
            grown.step(10)
            roomy.step(10)
            support.assert_same(grown.state, roomy.state, device)
            assert grown.contact_count() == roomy.contact_count() or device != "cpu"
    assert sizes_of(grown) > first and sizes_of(roomy) > sizes_of(grown)
    health = grown.health()
    assert health.ok and not any("njmax" in note for note in health.notes)
    assert health.ncon_peak == roomy.health().ncon_peak or device != "cpu"
    said = told(caught)
    assert len(said) == 1, said  # once, though it grew more than once
    assert f"nconmax from {first[0]} to" in said[0] and "to avoid the pause" in said[0]
    assert __file__ in {w.filename for w in caught if issubclass(w.category, HealthWarning)}
    assert grown.d is d
    for key, array in kept.items():
        assert getattr(grown if key in INPUTS else d, key) is array, key
    mine, theirs = grown.contacts(), roomy.contacts()
    if device == "cpu":
        assert support.same_bits(mine.force, theirs.force) and support.same_bits(mine.dist, theirs.dist)
    grown.reset()
    roomy.reset()
    grown.step(LANDED)
    roomy.step(LANDED)
    support.assert_same(grown.state, roomy.state, device)


@pytest.mark.parametrize("name", ["mujoco", "cone-sweep", "cenic"])
def test_a_view_of_the_state_stays_valid(name: str, start_small: None) -> None:
    sim = ss.Simulation(HEAP, physics_of(name), device="cpu")
    view = sim.qpos.numpy()
    with pytest.warns(HealthWarning, match="larger ones"):
        sim.step(LANDED)
    np.testing.assert_array_equal(view, sim.state.qpos)
    view[0, 2] += 1.0
    sim.step()
    assert sim.state.qpos[0, 2] > 0.9


@pytest.mark.parametrize("name", ["mujoco", "cone-sweep"])
def test_a_checked_step_grows_too(name: str, device: str, start_small: None) -> None:
    sim = ss.Simulation(HEAP, physics_of(name), device=device)
    with pytest.warns(HealthWarning, match="larger ones"):
        sim.step(LANDED, check=True)
    assert sim.health().ok and sim.contact_count() > SMALL[0]


def test_fixed_sizes_stay(device: str) -> None:
    """Nothing is copied for growth, and health says what was dropped."""
    sim = ss.Simulation(HEAP, ss.MuJoCo(), device=device, nconmax=3, njmax=10)
    assert sim._growth is None
    sim.step(LANDED)
    assert sizes_of(sim) == (3, 10) and sim.health().overflow
    with pytest.raises(BufferOverflow):
        sim.step(check=True)


@pytest.mark.parametrize("fixed", [{"nconmax": 3}, {"njmax": 10}], ids=["nconmax", "njmax"])
def test_a_size_that_is_given_stays(fixed: dict[str, int], device: str, start_small: None) -> None:
    sim = ss.Simulation(HEAP, ss.MuJoCo(), device=device, **fixed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        sim.step(LANDED)
    nconmax, njmax = sizes_of(sim)
    assert (nconmax == 3 and njmax > SMALL[1]) if "nconmax" in fixed else (nconmax > SMALL[0] and njmax == 10)
    assert next(iter(fixed)) in "; ".join(sim.health().overflow)


@pytest.mark.parametrize("check", [False, True])
def test_memory_that_ends(check: bool, device: str, start_small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second enlargement does not fit: an error names the sizes, and the state is as before."""
    sim = ss.Simulation(HEAP, ss.ConeSweep(), nworld=2, device=device)
    sim.step(5)
    before = support.arrays_of(sim)
    names = sim.physics.arrays(sim.m, sim.d).keys()

    def allocate(*_args: Any, **_options: Any) -> None:
        raise InputError("nworld is 2: a world takes 1e+03 MB")

    with monkeypatch.context() as patch:
        patch.setattr(growth.capacity, "allocate", allocate)
        with pytest.raises(BufferOverflow, match=r"nconmax=\d+, njmax=\d+.*a world takes.*before these 60 steps"):
            sim.step(LANDED, check=check)
        after = support.arrays_of(sim)
        for name in names & before.keys():
            assert support.same_bits(before[name], after[name]), name
    with pytest.warns(HealthWarning, match="larger ones"):  # with memory it goes on
        sim.step(LANDED)
    assert sim.health().ok


def test_steps_of_the_caller_that_overflowed(device: str, start_small: None) -> None:
    """What physics.step left on record is no overflow of this step; the buffers grow and the record is cleared."""
    sim = ss.Simulation(HEAP, ss.MuJoCo(), device=device)
    with wp.ScopedDevice(device):
        for _ in range(LANDED):
            sim.physics.step(sim.m, sim.d)
    assert sim.health().overflow
    with pytest.warns(HealthWarning, match="larger ones"):
        sim.step()
    assert sim.health().ok


def test_a_step_reads_one_number(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = ss.Simulation(HEAP, ss.ConeSweep(), nworld=3, device=device)
    sim.compile()
    read, original = [], wp.array.numpy
    monkeypatch.setattr(wp.array, "numpy", lambda array: read.append(array.size) or original(array))
    sim.step(20)
    assert read == ([] if device == "cpu" else [1])  # a CPU has nothing to copy


@pytest.mark.parametrize("launched", [None, True], ids=["default", "by kernels"])
def test_a_snapshot_puts_back_every_bit(launched: bool | None, device: str) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "long": wp.array(rng.normal(size=(70, 301)).astype(np.float32)),
        "vectors": wp.array(rng.normal(size=(7, 3)), dtype=wp.vec3),
        "double": wp.array(rng.normal(size=9), dtype=wp.float64),
        "flags": wp.array(rng.random((3, 7)) < 0.5, dtype=bool),
        "none": wp.zeros((4, 0), dtype=float),
        "view": wp.array(rng.normal(size=(5, 6)).astype(np.float32))[:, 2:4],
    }
    wanted = {name: array.numpy().copy() for name, array in arrays.items()}
    snapshot = growth.Snapshot(arrays, launched=launched)
    snapshot.take()
    for array in arrays.values():
        array.zero_()
    snapshot.put_back()
    for name, array in arrays.items():
        assert array.numpy().tobytes() == wanted[name].tobytes(), name


def test_overflow_is_found_and_cleared_on_the_device(device: str) -> None:
    overflow, found = wp.array([0, 5, 0, 8 | 512], dtype=int), wp.zeros(1, dtype=int)
    wp.launch(growth._find_bits, dim=4, inputs=[1 | 2 | 8, overflow], outputs=[found])
    assert found.numpy()[0] == 1 | 8
    wp.launch(growth._clear_bits, dim=4, inputs=[1 | 8], outputs=[overflow])
    assert overflow.numpy().tolist() == [0, 4, 0, 512]


# Sizes from the model.

MIXED = """
<mujoco>
  <worldbody>
    <geom type="plane" size="5 5 .1" condim="{condim}"/>
    <body name="a" pos="0 0 1">
      <joint name="ja" type="hinge" axis="0 1 0" limited="true" range="10 20" frictionloss=".1"/>
      <geom type="capsule" size=".04 .2"/><site name="sa"/>
      <body name="b" pos="0 0 .5">
        <joint name="jb" type="slide" axis="0 0 1" limited="true" range=".1 .2"/>
        <geom type="box" size=".05 .05 .05"/><site name="sb"/>
        <body name="c" pos="0 .4 0">
          <joint name="jc" type="ball" limited="true" range="0 10" frictionloss=".2"/><geom type="sphere" size=".05"/>
        </body>
      </body>
    </body>
    <body name="e" pos="1 0 .2"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
    <body name="f" pos="1 0 .6"><freejoint/><geom type="box" size=".1 .1 .1"/></body>
  </worldbody>
  <tendon>
    <fixed name="t1" limited="true" range="1 2" frictionloss=".3"><joint joint="ja" coef="1"/></fixed>
    <fixed name="t2"><joint joint="jb" coef="1"/></fixed>
    <spatial name="t3" limited="true" range="0 .1"><site site="sa"/><site site="sb"/></spatial>
  </tendon>
  <contact><exclude body1="e" body2="b"/></contact>
  <equality>
    <connect body1="a" body2="e" anchor="0 0 0" active="false"/>
    <weld body1="e" body2="f"/>
    <joint joint1="ja" joint2="jb"/>
    <tendon tendon1="t1" tendon2="t2" active="false"/>
  </equality>
</mujoco>"""
"""Every kind of row: two equalities are not active; all limits are, with the ball joint turned by a radian."""


def test_rows_that_are_not_of_contacts(device: str) -> None:
    """With all equalities active and all limits exceeded the bound is exact, for MuJoCo Warp and in C."""
    mjm = mjcf.load(MIXED.format(condim=3))
    mjm.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    bound = sizes.rows_without_contacts(mjm)
    assert bound == (3 + 6 + 1 + 1) + (1 + 3 + 1) + (3 + 2)
    sim = ss.Simulation(mjm, ss.MuJoCo(), device=device)
    turned = mjm.qpos0.copy()
    turned[2:6] = [np.cos(0.5), np.sin(0.5), 0.0, 0.0]
    sim.qpos = turned
    sim.d.eq_active.fill_(True)
    sim.step()
    assert sim.health().nefc_peak == bound and sim.health().ok
    assert sizes_of(sim)[1] >= bound


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("condim", [1, 3, 4, 6])
def test_rows_of_a_contact(cone: str, condim: int) -> None:
    text = MIXED.format(condim=condim).replace("<worldbody>", f'<option cone="{cone}"/><worldbody>', 1)
    mjm = mjcf.load(text)
    mjd = mujoco.MjData(mjm)
    mjd.qpos[8] = mjd.qpos[2 + 4 + 2] = 0.05  # a box in the floor
    mujoco.mj_forward(mjm, mjd)
    rows = [mjd.contact[i].dim for i in range(mjd.ncon)]
    assert rows and max(rows) == max(condim, 3)
    expected = max(rows) if cone == "elliptic" else 2 * (max(rows) - 1)
    assert sizes.rows_of_contact(mjm) == expected


@pytest.mark.parametrize("scene", ["mixed", *support.SCENES, "gripper", "stiff-arm", "conveyor", "push-t"])
def test_pairs_are_those_of_mujoco_warp(scene: str) -> None:
    mjm = mjcf.load(MIXED.format(condim=3) if scene == "mixed" else scene)
    m = mjw.put_model(mjm)
    theirs = m.nxn_geom_pair_filtered.numpy()[m.nxn_pairid_filtered.numpy()[:, 0] > -2]
    mine = np.stack(sizes.geom_pairs(mjm), axis=1)
    np.testing.assert_array_equal(mine, theirs[np.lexsort((theirs[:, 1], theirs[:, 0]))])


@pytest.mark.parametrize("scene", sorted({*scenes.names()} - {"soft-clutter", "hard-clutter"}))
def test_sizes_are_near_the_hints(scene: str) -> None:
    """The scenes' own sizes were chosen by measurement, most with much slack: 64 rows for a bullet in the air.

    The estimate is between a quarter of that and eight times as much, or the least there is, 16. Scenes of contact
    patches have room for these.
    """
    mjm = mjcf.load(scene)
    nconmax, njmax = ss.Icf().default_sizes(mjm)
    assert nconmax is not None and njmax is not None
    hints = scenes.buffers(scene)
    assert hints[0] / 4 <= nconmax <= max(8 * hints[0], 16)
    assert hints[1] / 4 <= njmax <= max(8 * hints[1], 16)


@pytest.mark.parametrize("scene", ["scaling", "humanoid", "stack", "mixed"])
def test_built_in_scenes_without_hints(scene: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's model has no hints: what the estimate gives is enough, or grows, and nothing is dropped."""
    monkeypatch.setattr("stickslip.simulation.simulation._hint", lambda _mjm, _name: None)
    sim = ss.Simulation(MIXED.format(condim=3) if scene == "mixed" else scene, ss.MuJoCo(), nworld=2, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        sim.step(100)
    health = sim.health()
    assert health.ok and 0 < health.nefc_peak <= sizes_of(sim)[1]
    assert health.ncon_peak <= 2 * sizes_of(sim)[0]


def test_no_contacts_where_they_are_disabled() -> None:
    mjm = mjcf.load(HEAP)
    assert sizes.expected_contacts(mjm)[0] >= 12
    mjm.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    assert sizes.expected_contacts(mjm) == (0, 0)


@pytest.mark.parametrize("size, expected", [(0, 16), (16, 16), (17, 24), (25, 32), (33, 48), (540, 768), (9000, 12288)])
def test_rounded_sizes(size: int, expected: int) -> None:
    assert sizes.rounded(size) == expected


@pytest.mark.parametrize("robot", ["unitree_g1", "franka_emika_panda", "pal_talos", "aloha", "toddlerbot_2xc"])
def test_menagerie(robot: str) -> None:
    """Robots that dropped constraint rows by MuJoCo Warp's guess."""
    try:
        mjm = mjcf.load(f"menagerie:{robot}")
    except (MissingExtra, SceneError) as error:
        pytest.skip(str(error))
    sim = ss.Simulation(mjm, ss.MuJoCo(), device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HealthWarning)
        sim.step(10)
    assert sim.health().ok and sim.health().nefc_peak <= sizes_of(sim)[1]
    assert sizes_of(sim)[1] >= sizes.rows_without_contacts(mjm)
