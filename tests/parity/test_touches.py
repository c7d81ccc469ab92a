"""A contact that is only near is no touch: sensors, `contacts()` and `ncon` are MuJoCo's, however early it is found."""

from types import ModuleType

import mujoco
import numpy as np
import pytest

import stickslip as ss
import stickslip.comfree as cf
import stickslip.conesweep as cs
from tests import support

SHAPES = {"box": "0.05 0.05 0.05", "sphere": "0.05"}
HEIGHT = 0.05
each_physics = pytest.mark.parametrize("name", support.COMPILED_BY_WARP)
each_shape = pytest.mark.parametrize("shape", list(SHAPES))
SENSORS = """
<contact name="found" geom1="floor" geom2="body" num="4" data="found"/>
<contact name="where" geom1="floor" geom2="body" num="4" reduce="mindist" data="found dist pos normal"/>
<contact name="velocity" geom1="floor" geom2="body" num="4" data="found linvel"/>
<contact name="force" geom1="floor" geom2="body" num="4" data="found force dist"/>
<contact name="net" geom1="floor" geom2="body" reduce="netforce" data="found force"/>
"""
NAMES = ("found", "where", "velocity", "force", "net")


def model(shape: str, height: float, sensors: str = SENSORS, gap: float = 0.0, pair: str = "") -> str:
    """A body above a plane; `height` is the distance between them, m."""
    return f"""
    <mujoco><option timestep="0.002"/>
      <worldbody><geom name="floor" type="plane" size="1 1 .1"/>
        <body pos="0 0 {HEIGHT + height}"><freejoint/>
          <geom name="body" type="{shape}" size="{SHAPES[shape]}" gap="{gap}"/></body></worldbody>
      <contact>{pair}</contact><sensor>{sensors}</sensor></mujoco>
    """


def sensed(mjm: mujoco.MjModel, sensordata: np.ndarray) -> dict[str, float]:
    """What each sensor says it found."""
    return {name: float(sensordata[mjm.sensor(name).adr[0]]) for name in NAMES}


def by_c(mjm: mujoco.MjModel) -> mujoco.MjData:
    """The first step by MuJoCo in C."""
    mjd = mujoco.MjData(mjm)
    mujoco.mj_step(mjm, mjd)
    return mjd


@each_physics
@each_shape
def test_near_is_no_touch(name: str, shape: str, device: str) -> None:
    """Half a millimetre above the ground there is no contact, for a sensor of any stage."""
    physics = ss.PHYSICS[name]()
    sensors = SENSORS if physics.promises.contact_sensors else ""
    sim = ss.Simulation(model(shape, 5e-4, sensors), physics, nworld=2, device=device)
    sim.step()
    assert sim.contact_count() == len(sim.contacts()) == 0
    mjd = by_c(sim.mjm)
    assert mjd.ncon == 0
    if sensors:
        np.testing.assert_array_equal(sim.d.sensordata.numpy(), np.tile(mjd.sensordata, (2, 1)))
        assert not mjd.sensordata.any()


@each_physics
@each_shape
def test_every_sensor_sees_the_same_touches(name: str, shape: str, device: str) -> None:
    """Falling, landing and at rest: as many as `contacts()` has, before the solve and after it."""
    physics = ss.PHYSICS[name]()
    if not physics.promises.contact_sensors:
        pytest.skip(f"{name} has no contact sensors")
    sim = ss.Simulation(model(shape, 2e-3), physics, device=device)
    counts = []
    for _ in range(60):
        sim.step()
        counts.append(sim.contact_count())
        assert len(sim.contacts()) == counts[-1]
        want = dict.fromkeys(NAMES, float(counts[-1]))
        assert sensed(sim.mjm, sim.d.sensordata.numpy()[0]) == want, len(counts)
    assert counts[0] == 0 and counts[-1] == (4 if shape == "box" else 1)


@each_physics
@pytest.mark.parametrize("height", [1e-3, 2.5e-3])
@pytest.mark.parametrize("pair", ["", '<pair geom1="floor" geom2="body" gap="0.002"/>'], ids=["geom", "pair"])
def test_gaps_of_the_model_are_kept(name: str, height: float, pair: str, device: str) -> None:
    """Whoever gives geoms a gap wants to see contacts without force; they are in MuJoCo's list, and here."""
    physics = ss.PHYSICS[name]()
    if not physics.promises.contact_sensors:
        pytest.skip(f"{name} has no contact sensors")
    sim = ss.Simulation(model("box", height, gap=0.0 if pair else 0.002, pair=pair), physics, device=device)
    sim.step()
    mjd = by_c(sim.mjm)
    assert sim.contact_count() == len(sim.contacts()) == mjd.ncon == (4 if height < 0.002 else 0)
    np.testing.assert_allclose(sim.d.sensordata.numpy()[0], mjd.sensordata, atol=1e-6)


@pytest.mark.parametrize("module", [cf, cs], ids=["comfree", "cone-sweep"])
def test_drop_in_reports_touches_alone(module: ModuleType, device: str) -> None:
    """`step`, `forward` and the first half of a step; `get_data_into` has MuJoCo's `ncon`."""
    mjm = mujoco.MjModel.from_xml_string(model("box", 5e-4))
    for function in (module.step, module.forward, module.step1):
        m, d = module.put_model(mjm), module.make_data(mjm)
        function(m, d)
        assert not d.sensordata.numpy().any()
        mjd = mujoco.MjData(mjm)
        module.get_data_into(mjd, mjm, d)
        assert mjd.ncon == 0


def test_marks_do_not_stay(device: str) -> None:
    """Contacts that are kept from an earlier collision detection take part in the next solve, and touch again."""
    mjm = mujoco.MjModel.from_xml_string(model("box", 5e-4))
    m, d = cs.put_model(mjm), cs.make_data(mjm)
    cs.forward(m, d)
    m.opt.run_collision_detection = False
    d.contact.dist.fill_(-1e-4)
    cs.forward(m, d)
    assert sensed(mjm, d.sensordata.numpy()[0]) == dict.fromkeys(NAMES, 4.0)
    assert (d.qacc.numpy()[0, 2] > -1.0).all()
    d.contact.dist.fill_(5e-4)
    d.memory.clear()
    cs.forward(m, d)
    assert not d.sensordata.numpy().any()
