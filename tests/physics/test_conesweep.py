"""What the cone sweep adds to a step: forces that it remembers, parameters, rows that may act, and piles that rest."""

import re
from typing import Any

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip import mjcf
from stickslip.errors import InputError
from stickslip.physics.conesweep.memory.warm_start import PATIENCE
from stickslip.physics.conesweep.model import own_data
from stickslip.physics.mjwarp.touches import NEAR
from tests import support

GRAVITY = 9.81

STACK = """
<mujoco>
  <option timestep="0.002" gravity="0 0 {gravity}"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <body pos="0 0 0.05"><freejoint/><geom name="lower" type="box" size="0.05 0.05 0.05" mass="1"/></body>
    <body pos="0 0 0.14999"><freejoint/><geom name="upper" type="box" size="0.05 0.05 0.05" mass="1"/></body>
  </worldbody>
</mujoco>
"""
FALLING, FLOATING = STACK.format(gravity=-GRAVITY), STACK.format(gravity=0)


def stack(physics: ss.ConeSweep, device: str, scene: str = FALLING, nworld: int = 1) -> ss.Simulation:
    """Two boxes on a floor, on one another."""
    return ss.Simulation(scene, physics, nworld=nworld, device=device, nconmax=24, njmax=128)


def remembered(sim: ss.Simulation) -> list[int]:
    """Contacts of the last step, world by world."""
    return own_data(sim.d).workspace.previous.num.numpy().tolist()


def between(sim: ss.Simulation, *names: str) -> np.ndarray:
    """Distances of the contacts between two geoms of world 0."""
    contacts = sim.contacts()
    pair = sorted(mujoco.mj_name2id(sim.mjm, mujoco.mjtObj.mjOBJ_GEOM, name) for name in names)
    mine = (np.sort(contacts.geom, axis=1) == pair).all(axis=1) & (contacts.world == 0)
    return contacts.dist[mine]


# Memory.


def test_a_settled_stack_keeps_its_forces(device: str) -> None:
    """With forces carried over, one pass of one sweep a step holds it; without, that is far too little."""
    speed = {}
    for warm_start in (True, False):
        sim = stack(ss.ConeSweep(substeps=1, sweeps=1, passes=1, jump=0.0, warm_start=warm_start), device)
        sim.step(300)
        speed[warm_start] = np.abs(sim.state.qvel).max()
    assert speed[True] < 1e-5
    assert speed[False] > 1e-2


def test_reset_forgets_the_masked_worlds(device: str) -> None:
    """Contacts and forces of the others stay; a reset world goes on as a fresh one, bit for bit."""
    sim = stack(ss.ConeSweep(), device, nworld=3)
    sim.step(50)
    assert remembered(sim) == [8, 8, 8]
    sim.reset(np.array([False, True, False]))
    assert remembered(sim) == [8, 0, 8]
    sim.step(20)
    fresh = stack(ss.ConeSweep(), device, nworld=3)
    fresh.step(20)
    support.assert_same(support.world(sim.state, 1), support.world(fresh.state, 1), device)
    sim.reset()
    assert remembered(sim) == [0, 0, 0]


def test_reset_forgets_rows_and_links(device: str) -> None:
    """Forces on joints and of equality constraints too."""
    sim = ss.Simulation("humanoid", ss.ConeSweep(), nworld=2, device=device)
    sim.step(20)
    workspace = own_data(sim.d).workspace
    assert workspace.rows.warm_start.numpy().any(axis=1).all()
    sim.reset(np.array([True, False]))
    assert workspace.rows.warm_start.numpy().any(axis=1).tolist() == [False, True]
    assert not workspace.equalities.warm_start.numpy()[0].any()


def test_a_state_without_a_memory_forgets(device: str) -> None:
    """Setting it is a new start: the next step depends on nothing else. One with a memory brings it back."""
    sim = stack(ss.ConeSweep(), device, nworld=2)
    sim.step(50)
    state, before = sim.state, remembered(sim)
    assert all(before)
    sim.state = state.without_memory()
    assert remembered(sim) == [0, 0]
    sim.state = state
    assert remembered(sim) == before


def test_arrays_are_all_that_is_remembered(device: str) -> None:
    """A copy of `arrays`, put back, replays the same bits: what a rollout that branches needs."""
    physics = ss.ConeSweep()
    sim = ss.Simulation("hand", physics, nworld=2, device=device)
    sim.state = support.perturbed(sim.mjm, 2)
    sim.step(40)
    saved = {name: array.numpy().copy() for name, array in physics.arrays(sim.m, sim.d).items()}
    sim.step(20)
    first = sim.state
    for name, array in physics.arrays(sim.m, sim.d).items():
        array.assign(saved[name])
    sim.step(20)
    support.assert_same(sim.state, first, device)


def test_a_body_put_elsewhere_takes_no_contact_along(device: str) -> None:
    """The upper box is lifted away between two steps: its contacts are gone at once, the lower box keeps its own."""
    sim = stack(ss.ConeSweep(), device)
    sim.step(50)
    qpos = sim.qpos.numpy().copy()
    qpos[0, 7:10] += (0.0, 0.0, 0.5)
    sim.qpos = qpos
    sim.step()
    assert len(between(sim, "lower", "upper")) == 0 and len(between(sim, "lower", "floor")) == 4
    np.testing.assert_allclose(sim.contacts().force[:, 0].sum(), GRAVITY, rtol=1e-3)
    np.testing.assert_allclose(sim.qvel.numpy()[0, 8], -GRAVITY * 0.002, rtol=1e-3)


def test_lost_contacts_are_bridged_for_a_few_steps(device: str) -> None:
    """Faces a fifth of a millimetre apart, which collision detection without `speculative_margin` does not see.

    The contacts of before come back, as near ones without force, and no longer than PATIENCE steps.
    """
    sim = stack(ss.ConeSweep(speculative_margin=0.0), device, FLOATING)
    sim.step()
    assert len(between(sim, "lower", "upper")) == 4
    qpos = sim.qpos.numpy().copy()
    qpos[0, 9] += 2e-4
    sim.qpos = qpos
    counts = []
    for _ in range(int(PATIENCE) + 3):
        sim.step()
        assert not len(between(sim, "lower", "upper"))
        near = sim.d.contact.type.numpy()[: int(sim.d.nacon.numpy()[0])] & int(NEAR) != 0
        counts.append(int(near.sum()))
        assert (sim.d.contact.dist.numpy()[: len(near)][near] > 1e-4).all()
    assert counts == [4] * int(PATIENCE) + [0] * 3
    np.testing.assert_allclose(sim.qvel.numpy(), 0.0, atol=1e-6)


def test_two_runs_give_the_same_bits(device: str) -> None:
    """Contacts of many bodies, found in any order, are summed in one."""
    states = []
    for _ in range(2):
        sim = ss.Simulation("scaling", ss.ConeSweep(), nworld=4, device=device)
        sim.state = support.perturbed(sim.mjm, 4)
        sim.step(80)
        states.append(sim.state)
    support.assert_same(states[1], states[0], "cpu")


@pytest.mark.parametrize(
    "sizes, knob", [({"nconmax": 5, "njmax": 128}, "nconmax"), ({"nconmax": 24, "njmax": 10}, "njmax")]
)
def test_small_buffers_are_named(sizes: dict[str, int], knob: str, device: str) -> None:
    """Dropped contacts are an overflow; dropped rows are a note, since the motion needs none. Both name the buffer."""
    sim = ss.Simulation(FALLING, ss.ConeSweep(), nworld=2, device=device, **sizes)
    sim.step(50)
    health = sim.health()
    assert health.ok == (knob == "njmax") and not health.nan_worlds
    reported = health.notes if knob == "njmax" else health.overflow
    assert re.search(rf"raise {knob} from {sizes[knob]} to at least \d+", " ".join(reported))


# Parameters.


@pytest.mark.parametrize(
    "name, value, limit",
    [
        ("substeps", 0, "1 to 1000"),
        ("substeps", 2.0, "1 to 1000"),
        ("sweeps", 1001, "1 to 1000"),
        ("sweeps", None, "1 to 1000"),
        ("passes", True, "1 to 1000"),
        ("jump", -1.0, "0 to 10000"),
        ("warm_start", 1, "true or false"),
        ("slop", float("nan"), "0 to 1"),
        ("correction", 1.5, "0 to 1"),
        ("restitution", -0.1, "0 to 1"),
        ("speculative_margin", "far", "0 to 1"),
    ],
)
def test_parameters_are_checked(name: str, value: Any, limit: str) -> None:
    """The message names the parameter, the value and the limit."""
    with pytest.raises(InputError) as caught:
        ss.ConeSweep(**{name: value})
    for word in (name, str(value), limit):
        assert word in str(caught.value)


def test_substeps_and_passes_follow_each_world_s_timestep(device: str) -> None:
    """Six substeps and four passes up to 3 ms, sixteen and eight above; each world takes its own."""
    mjm = mjcf.load("scaling")
    start = support.perturbed(mjm, 2)

    def run(physics: ss.ConeSweep, timesteps: list[float]) -> ss.State:
        sim = ss.Simulation(mjm, physics, nworld=2, device=device, nconmax=48, njmax=400)
        sim.set_model(timestep=np.array(timesteps))
        sim.state = start
        sim.step(60)
        return sim.state

    for timesteps, substeps in (([0.002, 0.003], (6, 6)), ([0.002, 0.004], (6, 16))):
        chosen = run(ss.ConeSweep(), timesteps)
        for w, number in enumerate(substeps):
            alike = run(ss.ConeSweep(substeps=number), timesteps)
            support.assert_same(support.world(chosen, w), support.world(alike, w), device)
    for timestep, passes, other in ((0.003, 4, 8), (0.004, 8, 4)):
        timesteps = [timestep, timestep]
        chosen = run(ss.ConeSweep(), timesteps)
        support.assert_same(chosen, run(ss.ConeSweep(passes=passes), timesteps), device)
        assert np.abs(chosen.qpos - run(ss.ConeSweep(passes=other), timesteps).qpos).max() > 1e-7


DRY = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body><joint axis="0 1 0" frictionloss="0.1"/><geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0"/>
      <body pos="0.2 0 0"><joint axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.2 0 0"/></body></body>
  </worldbody>
</mujoco>
"""


def test_dry_friction_of_every_world(device: str) -> None:
    """Other values a world are felt."""
    sim = ss.Simulation(DRY, ss.ConeSweep(), nworld=2, device=device)
    sim.set_model(dof_frictionloss=np.array([[0.05, 0.0], [100.0, 0.0]]))
    sim.step(50)
    velocity = sim.state.qvel
    assert abs(velocity[0, 0]) > 0.1
    np.testing.assert_allclose(velocity[1, 0], 0.0, atol=1e-6)


def test_data_of_others_is_refused() -> None:
    """Data without a memory: the message says how to make it."""
    physics = ss.ConeSweep()
    mjm = mjcf.load("sliding-cube")
    other: Any = ss.MuJoCo().make_data(mjm, 1)
    with pytest.raises(InputError, match=r"make_data or put_data"):
        physics.step(physics.put_model(mjm), other)


def test_the_timestep_of_one_world_changes_no_other(device: str) -> None:
    """Worlds with 6 and with 16 substeps side by side: each moves as it does alone, bit for bit on the CPU."""
    timesteps = np.array([0.001, 0.002, 0.004])
    sim = ss.Simulation("scaling", ss.ConeSweep(), nworld=3, device=device)
    sim.set_model(timestep=timesteps)
    sim.step(80)
    assert sim.contact_count() > 0
    for w, timestep in enumerate(timesteps):
        alone = ss.Simulation("scaling", ss.ConeSweep(), device=device, timestep=timestep)
        alone.step(80)
        support.assert_same(support.world(sim.state, w), alone.state, device)


# Rows on joints.


ROWS = """
<mujoco>
  <option timestep="0.002"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body><joint name="stop" type="slide" axis="0 0 1" range="-0.1 1"/><geom size="0.05" mass="1.5"/></body>
    <body pos="1 0 0"><joint name="rub" type="slide" axis="0 0 1" frictionloss="50"/><geom size="0.05" mass="2"/></body>
    <body pos="2 0 0"><joint name="slip" type="slide" axis="0 0 1" frictionloss="3"/><geom size="0.05" mass="1"/></body>
    <body pos="3 0 0"><joint name="up" type="slide" axis="0 0 1"/><geom size="0.05" mass="1"/></body>
    <body pos="4 0 0"><joint name="down" type="slide" axis="0 0 1"/><geom size="0.05" mass="3"/></body>
    <body name="hung" pos="5 0 0"><freejoint/><geom size="0.05" mass="0.7"/></body>
    <body name="held" pos="6 0 0"><freejoint/><geom size="0.05" mass="0.9"/></body>
  </worldbody>
  <equality>
    <connect body1="hung" anchor="0 0 0"/>
    <weld body1="held" anchor="6 0 0"/>
    <joint joint1="up" joint2="down" polycoef="0 -1 0 0 0"/>
  </equality>
  <keyframe><key qpos="-0.1 0 0 0 0  5 0 0 1 0 0 0  6 0 0 1 0 0 0"/></keyframe>
</mujoco>
"""


def test_rows_of_joints_and_links(device: str) -> None:
    """Kind, id and force of every row in MuJoCo's order; each is what statics asks for."""
    sim = ss.Simulation(ROWS, ss.ConeSweep(), device=device)
    sim.step(100)
    d = sim.d
    kind = mujoco.mjtConstraint
    want = [(kind.mjCNSTR_EQUALITY, 0, f) for f in (0.0, 0.0, 0.7 * GRAVITY)]
    want += [(kind.mjCNSTR_EQUALITY, 1, f) for f in (0.0, 0.0, 0.9 * GRAVITY, 0.0, 0.0, 0.0)]
    # up + down = 0 of 1 kg and 3 kg: both feel f, and a = (3 - 1) g / 4 up and down
    want += [(kind.mjCNSTR_EQUALITY, 2, 1.5 * GRAVITY)]
    want += [(kind.mjCNSTR_FRICTION_DOF, 1, 2 * GRAVITY), (kind.mjCNSTR_FRICTION_DOF, 2, 3.0)]
    want += [(kind.mjCNSTR_LIMIT_JOINT, 0, 1.5 * GRAVITY)]
    assert [int(n.numpy()[0]) for n in (d.ne, d.nf, d.nl, d.nefc)] == [10, 2, 1, 13]
    assert d.efc.type.numpy()[0, :13].tolist() == [int(k) for k, _, _ in want]
    assert d.efc.id.numpy()[0, :13].tolist() == [i for _, i, _ in want]
    np.testing.assert_allclose(d.efc.force.numpy()[0, :13], [f for _, _, f in want], rtol=1e-4, atol=1e-4)
    speed = sim.state.qvel[0]
    np.testing.assert_allclose(speed[[0, 1]], 0.0, atol=1e-6)
    np.testing.assert_allclose(speed[2:5], np.array([3.0 - GRAVITY, GRAVITY / 2, -GRAVITY / 2]) * 0.2, rtol=1e-4)
    np.testing.assert_allclose(speed[5:], 0.0, atol=1e-5)


LOOP = """
<mujoco>
  <option timestep="0.002"/>
  <default><geom type="capsule" size="0.01" density="1000" contype="0" conaffinity="0"/></default>
  <worldbody>
    <body><joint axis="0 1 0"/><geom fromto="0 0 0 0 0 0.2"/>
      <body pos="0 0 0.2"><joint axis="0 1 0"/><geom fromto="0 0 0 0.3 0 0"/><site name="end" pos="0.3 0 0"/></body>
    </body>
    <body pos="0.3 0 0"><joint axis="0 1 0"/><geom fromto="0 0 0 0 0 0.2"/><site name="top" pos="0 0 0.2"/></body>
  </worldbody>
  <equality><connect site1="end" site2="top"/></equality>
  <keyframe><key qvel="3 -3 3"/></keyframe>
</mujoco>
"""


def test_a_loop_stays_closed(device: str) -> None:
    """Four bars in a plane: the connect has no way to give out of it, and does not push there."""
    sim = ss.Simulation(LOOP, ss.ConeSweep(), device=device)
    for _ in range(50):
        sim.step(10)
        first, second, third = sim.state.qpos[0]
        crank = 0.2 * np.array([np.sin(first), np.cos(first)])
        rod = 0.3 * np.array([np.cos(first + second), -np.sin(first + second)])
        np.testing.assert_allclose(crank + rod, [0.3 + 0.2 * np.sin(third), 0.2 * np.cos(third)], atol=1e-4)
        force = sim.d.efc.force.numpy()[0, :3]
        assert np.abs(force).max() < 50.0
        np.testing.assert_allclose(force[1], 0.0, atol=1e-3)
    assert np.isfinite(sim.state.qvel).all() and np.abs(sim.state.qvel).max() > 0.1


# Stability.


def test_a_tray_of_thirty_cubes_rests(device: str) -> None:
    """A free body with more neighbours than there are colours: its pairs share the last one, and nothing moves."""
    cubes = "".join(
        f'<body pos="{(i % 6 - 2.5) * 0.12} {(i // 6 - 2) * 0.12} 0.07"><freejoint/>'
        '<geom type="box" size="0.04 0.04 0.04" mass="0.2"/></body>'
        for i in range(30)
    )
    tray = f"""
    <mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="2 2 0.1"/>
      <body pos="0 0 0.015"><freejoint/><geom type="box" size="0.45 0.4 0.015" mass="2"/></body>{cubes}
    </worldbody></mujoco>
    """
    sim = ss.Simulation(tray, ss.ConeSweep(), device=device, nconmax=200, njmax=1000)
    start = sim.state
    sim.step(300)
    np.testing.assert_allclose(sim.state.qvel, 0.0, atol=1e-5)
    np.testing.assert_allclose(sim.state.qpos, start.qpos, atol=1e-4)
    contacts = sim.contacts()
    on_floor = (contacts.geom == 0).any(axis=1)
    assert on_floor.sum() == 4 and len(contacts) == 124
    np.testing.assert_allclose(contacts.force[on_floor, 0].sum(), (2 + 30 * 0.2) * GRAVITY, rtol=1e-4)
    assert sim.health().ok


def test_motion_without_contact_is_mujocos(device: str) -> None:
    """A damped arm and a tumbling box with a motor, nothing to constrain: MuJoCo's own step, to rounding.

    Under Euler the box turns by a rule of its own (`test_conesweep_spin.py`).
    """
    scene = """
    <mujoco><option timestep="0.002" integrator="{integrator}"/>
      <default><geom contype="0" conaffinity="0"/></default>
      <worldbody>
        <body><joint name="shoulder" axis="0 1 0" damping="0.02"/>
          <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4" mass="1"/>
          <body pos="0 0 -0.4"><joint type="ball"/>
            <geom type="capsule" size="0.02" fromto="0 0 0 0.1 0 -0.3" mass="0.5"/></body></body>
        <body pos="1 0 1"><freejoint/><geom type="box" size="0.1 0.05 0.02" mass="0.3"/></body>
      </worldbody>
      <actuator><motor joint="shoulder" gear="2"/></actuator>
      <keyframe><key qpos="0.4 1 0 0 0 1 0 1 1 0 0 0" qvel="1 0.3 -0.2 1 0.2 0.1 2 1 3 -2" ctrl="0.3"/></keyframe>
    </mujoco>
    """
    for integrator in ("Euler", "implicitfast"):
        ours, stock = (
            ss.Simulation(scene.format(integrator=integrator), physics, device=device)
            for physics in (ss.ConeSweep(), ss.MuJoCo())
        )
        for sim in (ours, stock):
            sim.step(100)
        alike = slice(None) if integrator == "implicitfast" else slice(0, 8)
        np.testing.assert_allclose(ours.state.qpos[:, alike], stock.state.qpos[:, alike], atol=1e-5)
        alike = slice(None) if integrator == "implicitfast" else slice(0, 7)
        np.testing.assert_allclose(ours.state.qvel[:, alike], stock.state.qvel[:, alike], atol=1e-4)


def test_a_tower_stands_as_still_beside_a_robot(device):
    """With joints the sweeps are in contact space: a tower must not sway because of it."""
    cubes = "".join(
        f'<body pos="0 0 {0.05 + 0.1 * i}"><freejoint/><geom type="box" size="0.05 0.05 0.05" mass="1"/></body>'
        for i in range(10)
    )
    xml = f"""<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="5 5 1" friction="0.8"/>{cubes}
      <body pos="2 0 1"><joint axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/></body>
      </worldbody></mujoco>"""
    sim = ss.Simulation(xml, ss.ConeSweep(), nworld=4, device=device)
    qpos, rng = sim.qpos.numpy(), np.random.default_rng(1)
    for i in range(10):
        qpos[:, 7 * i : 7 * i + 2] += rng.uniform(-0.005, 0.005, (4, 2))
        half = rng.uniform(-0.05, 0.05, 4)
        qpos[:, 7 * i + 3], qpos[:, 7 * i + 6] = np.cos(half), np.sin(half)
    sim.qpos = qpos
    sim.step(600)
    assert np.abs(sim.qvel.numpy()[:, :60]).max() < 2e-3
    np.testing.assert_allclose(sim.qpos.numpy()[:, 65], 0.95, atol=1e-3)


def test_on_a_gpu_bits_do_not_depend_on_the_number_of_worlds(cuda: str) -> None:
    """Forces are added in a fixed order: a second run, and a world among others, give the same bits."""
    many, again = (support.perturbed_simulation("scaling", ss.ConeSweep(), cuda, 64) for _ in range(2))
    start = many.state
    for sim in (many, again):
        sim.step(support.STEPS)
    assert many.contact_count() > 0
    end = many.state
    for name in support.FIELDS:
        assert support.same_bits(getattr(end, name), getattr(again.state, name)), name
    for w in (0, 31, 63):
        alone = ss.Simulation("scaling", ss.ConeSweep(), device=cuda)
        alone.state = support.world(start, w)
        alone.step(support.STEPS)
        for name in support.FIELDS:
            assert support.same_bits(getattr(alone.state, name)[0], getattr(end, name)[w]), name
