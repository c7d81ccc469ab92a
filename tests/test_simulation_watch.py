"""A watch: what it finds, in which world, body and step; what `health` says; files that replay it."""

import pathlib

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.cli import main as cli
from stickslip.simulation import watching
from stickslip.simulation.watching import Limits
from tests import support

TREE = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body name="trunk" pos="0 0 1" quat=".8 .1 -.3 .2">
      <freejoint/>
      <geom type="box" size=".1 .2 .05" pos=".02 .03 0"/>
      <body name="arm" pos=".1 .2 0" quat=".5 .5 -.5 .5">
        <joint name="hinge" axis="1 2 0" pos="0 .02 .01" range="-30 40" limited="true" armature=".02"/>
        <joint name="second" axis="0 1 1" pos=".01 0 0"/>
        <geom type="capsule" size=".02 .1" pos="0 0 .1"/>
        <body name="tip" pos="0 0 .2">
          <joint type="ball" pos="0 .01 0" armature=".01"/>
          <geom size=".03" pos=".02 0 .03"/>
        </body>
      </body>
    </body>
    <body name="cart" pos="2 0 .5"><joint type="slide" axis="1 0 1" pos=".1 0 0" ref=".1"/><geom size=".1"/></body>
  </worldbody>
  <actuator><motor joint="hinge"/></actuator>
</mujoco>
"""
"""Every type of joint, two in one body, off their bodies' origins."""
OVERLAP = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <default><geom solref="-1e7 -1" condim="1"/></default>
  <worldbody>
    <body name="left"><freejoint/><geom size=".1"/></body>
    <body name="right" pos=".15 0 0"><freejoint/><geom size=".1"/></body>
  </worldbody>
</mujoco>
"""
"""Two spheres that overlap and are pushed apart by a spring that nobody has tightened."""


def kinds(watch: watching.Watch) -> list[tuple[str, int, int, str]]:
    return [(event.kind, event.world, event.step, event.body) for event in watch.events]


@pytest.fixture(scope="module")
def shared() -> dict[str, ss.Simulation]:
    return {}


@pytest.fixture
def sim(shared: dict[str, ss.Simulation], device: str) -> ss.Simulation:
    """Four worlds of the tree, at the start."""
    if device not in shared:
        shared[device] = ss.Simulation(TREE, ss.MuJoCo(), nworld=4, device=device)
    shared[device].reset()
    return shared[device]


def test_energy_is_that_of_mujoco(sim: ss.Simulation) -> None:
    """Kinetic energy of each body and total energy, from qpos and qvel, as MuJoCo in C has them in double precision."""
    mjm = sim.mjm
    mjm.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    state = support.perturbed(mjm, sim.nworld, scale=2.0)
    rng = np.random.default_rng(3)
    mjds = [mujoco.MjData(mjm) for _ in range(sim.nworld)]
    for mjd, qpos, qvel in zip(mjds, state.qpos, state.qvel, strict=True):
        mujoco.mj_integratePos(mjm, qpos64 := qpos.astype(float), rng.normal(0.0, 1.0, mjm.nv), 1.0)
        qpos[:] = mjd.qpos[:] = qpos64
        mjd.qvel[:] = qvel
        mujoco.mj_forward(mjm, mjd)
    sim.state = state
    with sim.watch() as watch:
        watch._begin()
        kinetic, _, total = (array.numpy() for array in watch._device._before)
    for w, mjd in enumerate(mjds):
        assert mjd.energy[1] > 1.0
        assert kinetic[w].sum() == pytest.approx(mjd.energy[1], rel=1e-5)
        assert total[w] == pytest.approx(mjd.energy.sum(), rel=1e-5)


@pytest.mark.parametrize("name", support.COMPILED_BY_WARP)
def test_what_is_right_is_no_event(name: str, device: str) -> None:
    """Bodies fall, bounce and rest."""
    sim = support.simulate("scaling", ss.PHYSICS[name](), nworld=2, device=device)
    with sim.watch() as watch:
        sim.step(support.STEPS)
        assert watch.events == [] and watch.unwatched == {} and sim.health().ok


def test_a_state_that_is_not_finite(sim: ss.Simulation, tmp_path: pathlib.Path) -> None:
    with sim.watch(tmp_path) as watch:
        sim.step(3)
        qvel = sim.qvel.numpy().copy()
        qvel[2, 7] = 3e12
        sim.qvel = qvel
        sim.step(2)
        assert kinds(watch)[0][:3] == ("not finite", 2, 4)
        health = sim.health()
        assert not health.ok and any("world 2, step 4" in message for message in health.messages)
        assert watch.counts["not finite"].tolist() == [0, 0, 1, 0]
    again = watching.replay(watch.events[0].file)
    assert again.found is not None and again.steps == 1


@pytest.mark.parametrize("name", ["mujoco", "icf"])
def test_energy_from_nothing(name: str, device: str, tmp_path: pathlib.Path) -> None:
    """It comes again from its file with the same figure, bit for bit on a CPU; with rigid contact it does not come."""
    sim = ss.Simulation(OVERLAP, ss.PHYSICS[name](), nworld=3, device=device)
    apart = sim.qpos.numpy().copy()
    apart[[0, 2], 7] = 1.0
    sim.qpos = apart
    with sim.watch(tmp_path) as watch:
        sim.step(5)
        assert [event[:2] for event in kinds(watch)] == [("energy", 1)]
    again = watching.replay(watch.events[0].file, device=device)
    assert again.found is not None and (again.same or device != "cpu")
    assert again.found.figure == pytest.approx(watch.events[0].figure, rel=1e-3)
    assert watching.replay(watch.events[0].file, device=device, physics=ss.ConeSweep()).found is None


def test_what_actuators_and_inputs_do_is_no_event(sim: ss.Simulation) -> None:
    """However strong: a motor that throws the arm, a force on the cart."""
    sim.ctrl = [200.0]
    force = np.zeros((sim.mjm.nbody, 6))
    force[4, 0] = 500.0
    sim.xfrc_applied = force
    with sim.watch() as watch:
        sim.step(20)
        assert not [event for event in watch.events if event.kind == "energy"]
    assert np.abs(sim.qvel.numpy()).max() > 10.0
    sim.reset()


def test_penetration_and_joints(sim: ss.Simulation, tmp_path: pathlib.Path) -> None:
    qpos = sim.qpos.numpy().copy()
    qpos[1, 2] = -0.5  # the trunk is below the floor
    qpos[3, 7] = np.deg2rad(-60)  # beyond -30 by less than half of the range
    sim.qpos = qpos
    with sim.watch(tmp_path, limits=Limits(joint=0.4, energy=None)) as watch:
        sim.step(1)
        found = watch.events
    assert [(e.kind, e.world, e.step) for e in found] == [("penetration", 1, 1), ("joint", 3, 1)]
    deep, beyond = found
    assert deep.body in ("trunk", "arm", "tip") and deep.figure > deep.limit > 0.03
    assert beyond.body == "arm"
    assert (beyond.figure, beyond.limit) == pytest.approx((np.deg2rad(30), 0.4 * np.deg2rad(70)), abs=0.02)
    for event in found:
        again = watching.replay(event.file)
        assert again.found is not None and again.found.figure == pytest.approx(event.figure, rel=1e-4)
    with sim.watch(limits=Limits(joint=None, depth=None, energy=None)) as watch:
        sim.step(1)
        assert watch.events == []


def test_an_event_lasts_as_long_as_it_fails(sim: ss.Simulation) -> None:
    """Counted once while it fails, and again after a reset of its world."""
    qpos = sim.qpos.numpy().copy()
    qpos[1, 2] = -0.5
    with sim.watch(limits=Limits(energy=None, joint=None)) as watch:
        sim.qpos = qpos
        sim.step(3)
        assert watch.counts["penetration"].tolist() == [0, 1, 0, 0]
        sim.reset(np.array([False, True, False, False]))
        sim.qpos = qpos
        sim.step(2)
        assert watch.counts["penetration"].tolist() == [0, 2, 0, 0]
        assert [event.step for event in watch.events] == [1, 4]
        sim.reset()
        assert watch.events == [] and sim.health().ok


def test_contacts_that_are_dropped(device: str, tmp_path: pathlib.Path) -> None:
    sim = ss.Simulation("scaling", ss.ConeSweep(), nworld=2, device=device, nconmax=1, njmax=4)
    with sim.watch(tmp_path) as watch:
        sim.step(support.STEPS)
        dropped = [event for event in watch.events if event.kind == "dropped"]
        assert {event.world for event in dropped} <= {0, 1} and dropped
        assert all("raise nconmax" in event.why for event in dropped)
    assert watching.load(dropped[0].file).sizes == {"nconmax": 1, "njmax": 4}


def test_buffers_that_grow_are_no_event(device: str, tmp_path: pathlib.Path) -> None:
    sim = ss.Simulation("scaling", ss.ConeSweep(), nworld=2, device=device)
    small = sim.physics.make_data(sim.mjm, 2, nconmax=1, njmax=4)
    sim.d = sim.physics.set_state(sim.m, small, sim.state)
    sim._graph = None
    with sim.watch(tmp_path) as watch, pytest.warns(ss.HealthWarning, match="repeated with larger ones"):
        sim.step(support.STEPS)
    assert watch.events == [] and list(tmp_path.iterdir()) == []


def test_contacts_on_the_device_after_buffers_have_grown(device: str) -> None:
    """Their buffers are larger then, too: what is written does not go beyond them."""
    sim = ss.Simulation("scaling", ss.ConeSweep(), nworld=2, device=device)
    small = sim.physics.make_data(sim.mjm, 2, nconmax=1, njmax=4)
    sim.d = sim.physics.set_state(sim.m, small, sim.state)
    sim._graph = None
    before = sim.contacts(device=True)
    with pytest.warns(ss.HealthWarning, match="repeated with larger ones"):
        sim.step(support.STEPS)
    after = sim.contacts(device=True)
    assert before.capacity == 2 < sim.contact_count() <= after.capacity
    assert after.numpy().dist.tolist() == sim.contacts().dist.tolist()


def test_twins(sim: ss.Simulation, device: str, tmp_path: pathlib.Path) -> None:
    with sim.watch(tmp_path, limits=Limits(twins=0.0 if device == "cpu" else 1e-4)) as watch:
        sim.step(5)
        assert watch.events == []
        sim.ctrl = np.array([[0.0], [0.0], [0.0], [1.0]])
        sim.step(3)
        assert kinds(watch)[0][:3] == ("twins", 3, 6)
    stored = watching.load(watch.events[0].file)
    assert stored.state.nworld == 2 and stored.ctrl.tolist() == [[[0.0], [1.0]]]
    assert watching.replay(watch.events[0].file).found is not None
    with pytest.raises(ss.InputError, match="take an even number"):
        ss.Simulation(TREE, nworld=3, device=device).watch(limits=Limits(twins=0.0))


def test_a_checked_step_tells_and_takes_back(device: str, tmp_path: pathlib.Path) -> None:
    sim = ss.Simulation(OVERLAP, ss.MuJoCo(), device=device)
    before = sim.state
    with sim.watch(tmp_path) as watch:
        with pytest.raises(ss.Diverged, match="energy from nothing.*stickslip replay"):
            sim.step(5, check=True)
        assert watch.events == [] and support.same_bits(sim.state.qpos, before.qpos)
    (file,) = tmp_path.iterdir()  # the error has named it
    assert watching.replay(file).found is not None


def test_worlds_with_models_of_their_own(device: str, tmp_path: pathlib.Path) -> None:
    """Drawn masses are in the file: without them the figure would be another."""
    sim = ss.Simulation(OVERLAP, ss.MuJoCo(), nworld=3, device=device)
    sim.randomize(body_mass=ss.Scale(0.2, 5.0))
    with sim.watch(tmp_path, limits=Limits(energy=0.01)) as watch:
        sim.step(8)
        events = {event.world: event for event in watch.events if event.kind == "energy"}
    assert events.keys() == {0, 1, 2} and len({event.figure for event in events.values()}) == 3
    for event in events.values():
        again = watching.replay(event.file)
        assert again.same if device == "cpu" else again.found is not None


def test_rollouts_that_advance_are_watched(sim: ss.Simulation, tmp_path: pathlib.Path) -> None:
    """With the controls of each step."""
    ctrl = np.zeros((6, 1))
    ctrl[3:] = 4000.0
    with sim.watch(tmp_path, limits=Limits(joint=0.1)) as watch:
        with pytest.warns(ss.HealthWarning, match="joint"):
            sim.rollout(ctrl, advance=True)
        event = next(event for event in watch.events if event.kind == "joint")
    stored = watching.load(event.file)
    assert stored.ctrl[:, 0, 0].tolist() == [0.0, 0.0, 0.0, *[4000.0] * (event.step - 3)]
    assert watching.replay(event.file).found is not None
    sim.reset()


def test_replay_on_the_command_line(device: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    sim = ss.Simulation(OVERLAP, ss.MuJoCo(), device=device)
    with sim.watch(tmp_path) as watch:
        sim.step(5)
    file = str(watch.events[0].file)
    assert cli.main(["replay", file]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "energy from nothing" in told and "it came again" in told
    assert cli.main(["replay", file, "--physics", "cone-sweep"]) == 1
    assert "did not come again" in capsys.readouterr().out
    assert cli.main(["replay", file, "--physics", "no-such"]) == 2


def test_a_file_that_is_no_event_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "bad.npz"
    with pytest.raises(ss.InputError, match="there is no file"):
        watching.load(bad)
    for content in (b"nonsense", b"PK nonsense"):
        bad.write_bytes(content)
        with pytest.raises(ss.InputError, match="is not an event"):
            watching.load(bad)
    np.savez(bad, told=np.array("{}"))
    with pytest.raises(ss.InputError, match="is not an event"):
        watching.load(bad)
    np.savez(bad, told=np.array([{}], dtype=object))  # a pickle
    with pytest.raises(ss.InputError, match="is not an event"):
        watching.load(bad)
    np.savez_compressed(bad, zeros=np.zeros(1 << 20))
    monkeypatch.setattr("stickslip.limits.arrays", 1 << 20)
    with pytest.raises(ss.InputError, match="unpacks to too many bytes"):
        watching.load(bad)


def test_limits_are_checked() -> None:
    for given in ({"energy": 0.0}, {"depth": -1.0}, {"joint": float("nan")}, {"twins": -1.0}):
        with pytest.raises(ss.InputError, match=next(iter(given))):
            Limits(**given)
