"""`ConeSweep(deterministic=True)`: world i has the same bits whatever the number of worlds, and from run to run."""

import dataclasses

import mujoco
import mujoco_warp
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.errors import Unsupported
from stickslip.physics.conesweep.model import own_data
from stickslip.physics.conesweep.workspace import FIXED_WORLDS
from stickslip.physics.mjwarp import private

TENDONS = """
<mujoco>
  <default><joint armature="0.01" damping="0.02"/></default>
  <worldbody>
    <geom type="plane" size="2 2 0.1"/>
    <body pos="0 0 0.5" gravcomp="0.4">
      <freejoint/><geom type="box" size="0.05 0.06 0.07"/>
      <body pos="0.1 0 0"><joint name="a" axis="0 1 0" /><geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.02"/>
        <body pos="0.2 0 0" gravcomp="1"><joint name="b" axis="0 1 0"/><geom type="sphere" size="0.03"/></body>
      </body>
      <body pos="-0.1 0 0">
        <joint name="c" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 -0.2 0 0" size="0.02"/>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed stiffness="3" damping="0.1"><joint joint="a" coef="1"/><joint joint="b" coef="-0.7"/></fixed>
    <fixed stiffness="2" damping="0.2" frictionloss="0.02">
      <joint joint="a" coef="0.3"/><joint joint="c" coef="1"/>
    </fixed>
    <fixed stiffness="1"><joint joint="b" coef="1"/><joint joint="c" coef="0.4"/></fixed>
  </tendon>
  <actuator><motor joint="a" gear="0.3"/><motor joint="c" gear="0.3"/></actuator>
</mujoco>
"""
"""Tendons that share joints, and gravity compensation."""

AIR = TENDONS.replace("<default>", '<option density="1.2" viscosity="1e-5"/><default>', 1)
"""The same in air: smooth dynamics are those of MuJoCo Warp's stages then."""

FORCES = {"smooth", "passive", "forward"}
"""Modules of MuJoCo Warp that add up forces."""

SCENES = {
    "stack": "stack",
    "scaling": "scaling",
    "humanoid": "humanoid",
    "hand": "hand",
    "tendons": TENDONS,
    "air": AIR,
}
STEPS = 60


def final_bits(scene: str, nworld: int, device: str, deterministic: bool = True) -> list[bytes]:
    """State and contact forces of the first two worlds after some steps, each with a push of its own."""
    sim = ss.Simulation(scene, ss.ConeSweep(deterministic=deterministic), nworld=nworld, device=device)
    rng = np.random.default_rng(3)
    few = min(nworld, 2)
    qvel = np.zeros((nworld, sim.mjm.nv), dtype=np.float32)
    ctrl = np.zeros((nworld, sim.mjm.nu), dtype=np.float32)
    qvel[:few] = rng.normal(size=(2, sim.mjm.nv))[:few] * 0.3
    ctrl[:few] = rng.normal(size=(2, sim.mjm.nu))[:few] * 0.1
    qvel[few:] = rng.normal(size=(nworld - few, sim.mjm.nv)) * 0.3  # other contacts than in the first worlds
    sim.qvel, sim.ctrl = qvel, ctrl
    sim.step(STEPS)
    assert sim.health().ok
    parts = [array.numpy()[:few] for array in (sim.d.qpos, sim.d.qvel, sim.d.qfrc_constraint)]
    found = np.concatenate(parts, axis=1)
    assert np.isfinite(found).all()
    return [one.tobytes() for one in found]


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_the_first_world_has_the_same_bits_with_any_number_of_worlds(scene, device):
    cuda = str(device).startswith("cuda")
    alone = final_bits(scene, 1, device)
    numbers = (2, 33, 1500, FIXED_WORLDS) if cuda else (2, 5)
    for nworld in numbers:
        found = final_bits(scene, nworld, device)
        assert found[0] == alone[0], f"{nworld} worlds"
        again = final_bits(scene, nworld, device)
        assert found == again, f"{nworld} worlds, a second run"


@pytest.mark.parametrize(("scene", "atomics"), [("humanoid", False), (TENDONS, False), (AIR, True)])
def test_mujoco_warp_adds_in_one_order_where_its_stages_run(scene, atomics, device):
    """Elsewhere only readings of sensors would take longer."""
    sim = ss.Simulation(scene, ss.ConeSweep(deterministic=True), device=device)
    sim.step()
    assert bool(sim.m.opt.deterministic & mujoco_warp.DeterminismType.ATOMICS) == atomics


@pytest.mark.parametrize(("scene", "touched"), [("humanoid", {"sensor"}), (TENDONS, set()), (AIR, FORCES)])
def test_what_the_order_of_mujoco_warp_is_for(scene, touched, monkeypatch):
    """Where its stages do not run, only readings of touch sensors would be found in another way."""
    sim = ss.Simulation(scene, ss.ConeSweep(deterministic=True), device="cpu")
    m = sim.m
    m.opt.deterministic |= mujoco_warp.DeterminismType.ATOMICS
    launch, found = wp.launch, set()

    def note(kernel, dim, *args, **options):
        in_order = kernel.module.options.get("deterministic") == wp.DeterministicMode.RUN_TO_RUN
        if in_order and np.prod(dim):  # sensors that a model does not have are launched for none
            found.add(kernel.func.__module__.rpartition(".")[2])
        return launch(kernel, dim, *args, **options)

    monkeypatch.setattr(wp, "launch", note)
    with wp.ScopedDevice("cpu"):
        sim.physics.step(m, sim.d)
    assert found == touched


@pytest.mark.parametrize("scene", ["stack", "hand", "bar-pinch"])
def test_the_order_in_which_contacts_are_found_changes_no_bit(scene, monkeypatch):
    """MuJoCo Warp's contacts, shuffled in each step."""
    narrowphase, is_shuffled, most = private.narrowphase, False, 0
    rng = np.random.default_rng(0)

    def collide(m, d, context):
        nonlocal most
        narrowphase(m, d, context)
        n = int(d.nacon.numpy()[0])
        most = max(most, n)
        order = rng.permutation(n)
        for field in dataclasses.fields(d.contact) if is_shuffled else ():
            array = getattr(d.contact, field.name)
            if isinstance(array, wp.array) and array.size:
                array.numpy()[:n] = array.numpy()[:n][order]

    monkeypatch.setattr(private, "narrowphase", collide)
    bits = []
    for is_shuffled in (False, True):  # noqa: B007 - `collide` reads it
        sim = ss.Simulation(scene, ss.ConeSweep(deterministic=True), nworld=3, device="cpu")
        sim.qvel = 0.1 * np.random.default_rng(1).normal(size=(3, sim.mjm.nv))
        with wp.ScopedDevice("cpu"):
            for _ in range(60):
                sim.d = sim.physics.step(sim.m, sim.d)
        bits.append(np.concatenate([sim.qpos.numpy(), sim.qvel.numpy()], axis=1).tobytes())
    assert most >= 12
    assert bits[0] == bits[1]


@pytest.mark.parametrize("scene", ["edge-grip", "gripper", "hand"])
def test_what_an_earlier_step_left_in_the_records_is_not_read(scene, device):
    """Not finite, as after a world that was. On a GPU, lanes of worlds with fewer rows than their neighbours idle."""
    bits = []
    for is_poisoned in (False, True):
        sim = ss.Simulation(scene, ss.ConeSweep(deterministic=True), nworld=12, device=device)
        rng = np.random.default_rng(1)
        sim.qvel = 0.1 * rng.normal(size=(12, sim.mjm.nv))
        space = own_data(sim.d).workspace.space
        for _ in range(40):
            low, high = np.where(sim.mjm.actuator_ctrllimited, sim.mjm.actuator_ctrlrange.T, [[-1.0], [1.0]])
            sim.ctrl = rng.uniform(low, np.minimum(high, 30.0), size=(12, sim.mjm.nu))
            if is_poisoned:
                for array in (space.contact, space.row):
                    array.fill_(np.nan)
            sim.step()
        state = np.concatenate([sim.qpos.numpy(), sim.qvel.numpy()], axis=1)
        assert np.isfinite(state).all()
        bits.append(state.tobytes())
    assert bits[0] == bits[1]


def test_adhesion_actuators_are_refused_by_name():
    xml = (
        "<mujoco><worldbody><geom type='plane' size='1 1 1'/><body name='b' pos='0 0 .1'><freejoint/>"
        "<geom size='.1'/></body></worldbody><actuator><adhesion body='b' ctrlrange='0 1'/></actuator></mujoco>"
    )
    ss.Simulation(xml, ss.ConeSweep())
    with pytest.raises(Unsupported, match=r"adhesion actuators with deterministic=True .*leave it out"):
        ss.Simulation(xml, ss.ConeSweep(deterministic=True))


def test_a_drop_in_model_is_deterministic_with_data_that_was_made_without_it():
    import stickslip.conesweep as mjw

    mjm = mujoco.MjModel.from_xml_string(TENDONS)
    m, d = mjw.put_model(mjm, deterministic=True), mjw.make_data(mjm, nworld=2)
    assert m.opt.deterministic & mjw.DeterminismType.ATOMICS
    for _ in range(3):
        mjw.step(m, d)
    assert m.sweep.deterministic
    assert np.isfinite(d.qpos.numpy()).all()
