"""Views by name, and contacts on the device: the memory of the simulation itself, checked where it is written."""

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip.errors import InputError, Unsupported
from tests import support

MODEL = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1"/>
    <body name="hand" mocap="true" pos="0 1 1"><geom name="palm" size=".05" contype="0" conaffinity="0"/></body>
    <body name="arm" pos="0 0 1"><joint name="hinge" axis="0 1 0"/>
      <geom name="rod" type="capsule" size=".02" fromto="0 0 0 .3 0 0"/><site name="tip" pos=".3 0 0"/>
      <body name="fork" pos=".3 0 0"><joint name="ball" type="ball"/><geom size=".03" pos="0 0 -.1"/></body>
    </body>
    <body name="box" pos="0 0 .0499"><freejoint name="free"/><geom name="cube" type="box" size=".05 .05 .05"/></body>
  </worldbody>
  <equality><weld name="hold" body1="box" body2="world" active="false"/></equality>
  <actuator>
    <motor name="motor" joint="hinge"/>
    <general name="muscle" joint="hinge" dyntype="filter" dynprm=".1" gainprm="2"/>
  </actuator>
  <sensor>
    <framepos name="tip" objtype="site" objname="tip"/>
    <jointpos name="angle" joint="hinge"/>
    <touch name="pad" site="tip"/>
  </sensor>
</mujoco>
"""


@pytest.fixture(params=["cone-sweep", "mujoco"])
def sim(request: pytest.FixtureRequest, device: str) -> ss.Simulation:
    """Two worlds in different states, a few steps on, brought up to date."""
    sim = ss.Simulation(MODEL, ss.PHYSICS[request.param](), nworld=2, device=device)
    sim.joint("hinge").qpos = [[0.1], [0.3]]
    sim.actuator("muscle").ctrl = [0.5, 1.0]
    sim.step(5)
    sim.forward()
    return sim


def shares(view: wp.array, owner: wp.array) -> bool:
    """Whether an array lies in the memory of another."""
    assert view.ptr is not None and owner.ptr is not None
    return owner.ptr <= view.ptr < owner.ptr + owner.capacity


def test_bodies_sites_and_geoms(sim: ss.Simulation) -> None:
    for kind, fields in {
        "body": ["xpos", "xquat", "xmat", "xipos", "cvel", "xfrc_applied"],
        "site": ["xpos", "xmat"],
        "geom": ["xpos", "xmat"],
    }.items():
        prefix = "" if kind == "body" else f"{kind}_"
        for entry in (getattr(sim.mjm, kind)(i) for i in range(getattr(sim.mjm, f"n{kind}"))):
            part = getattr(sim, kind)(entry.name or entry.id)
            assert (part.id, part.name) == (entry.id, entry.name)
            for field in fields:
                view, owner = getattr(part, field), getattr(sim.d, prefix + field)
                assert isinstance(view, wp.array) and shares(view, owner)
                np.testing.assert_array_equal(view.numpy(), owner.numpy()[:, entry.id])
    want = mujoco.MjData(sim.mjm)
    want.qpos[:] = sim.qpos.numpy()[1]
    mujoco.mj_kinematics(sim.mjm, want)
    np.testing.assert_allclose(sim.site("tip").xpos.numpy()[1], want.site("tip").xpos, atol=1e-6)
    np.testing.assert_allclose(sim.body("fork").xquat.numpy()[1], want.body("fork").xquat, atol=1e-6)


def test_joints_and_actuators(sim: ss.Simulation) -> None:
    for name, nq, nv in (("hinge", 1, 1), ("ball", 4, 3), ("free", 7, 6)):
        joint, entry = sim.joint(name), sim.mjm.joint(name)
        assert joint.id == entry.id
        for field, count, first in (
            ("qpos", nq, entry.qposadr[0]),
            ("qvel", nv, entry.dofadr[0]),
            ("qacc", nv, entry.dofadr[0]),
            ("qfrc_applied", nv, entry.dofadr[0]),
        ):
            view, owner = getattr(joint, field), getattr(sim.d, field)
            assert view.shape == (2, count) and shares(view, owner)
            np.testing.assert_array_equal(view.numpy(), owner.numpy()[:, first : first + count])
    for i, name in enumerate(("motor", "muscle")):
        actuator = sim.actuator(name)
        for field, owner in (
            ("ctrl", sim.d.ctrl),
            ("force", sim.d.actuator_force),
            ("length", sim.d.actuator_length),
            ("velocity", sim.d.actuator_velocity),
        ):
            np.testing.assert_array_equal(getattr(actuator, field).numpy(), owner.numpy()[:, i])
    assert sim.actuator("motor").act.shape == (2, 0)
    act = sim.actuator("muscle").act
    assert act.shape == (2, 1) and (act.numpy() > 0.0).all() and shares(act, sim.act)
    np.testing.assert_allclose(sim.actuator("muscle").force.numpy(), 2.0 * act.numpy()[:, 0], rtol=1e-6)


def test_sensors_and_whole_arrays(sim: ss.Simulation) -> None:
    assert sim.sensordata.shape == (2, 5)
    np.testing.assert_array_equal(sim.sensor("tip").numpy(), sim.sensordata.numpy()[:, :3])
    np.testing.assert_array_equal(sim.sensor("angle").numpy(), sim.joint("hinge").qpos.numpy())
    np.testing.assert_array_equal(sim.sensor(0).numpy(), sim.site("tip").xpos.numpy())
    assert shares(sim.sensor("pad"), sim.d.sensordata)
    np.testing.assert_allclose(sim.time.numpy(), 5 * sim.mjm.opt.timestep, rtol=1e-6)
    np.testing.assert_array_equal(sim.eq_active.numpy(), [[False], [False]])
    sim.reset()
    sim.step()
    assert np.allclose(sim.time.numpy(), sim.mjm.opt.timestep)


def test_writing_through_views(sim: ss.Simulation) -> None:
    before = sim.qpos.numpy().copy()
    sim.joint("ball").qpos = [1.0, 0.0, 0.0, 0.0]  # one for all
    sim.joint("hinge").qvel = [[1.0], [2.0]]
    sim.joint("free").qfrc_applied = np.arange(6)
    sim.body("box").xfrc_applied = [[1, 2, 3, 4, 5, 6], [0] * 6]
    sim.body("hand").mocap_pos = [[0, 1, 2], [0, 1, 3]]
    sim.body("hand").mocap_quat = [0, 1, 0, 0]
    sim.actuator("motor").ctrl = 0.25
    sim.act = [[0.5], [0.75]]
    sim.eq_active = [[True], [False]]
    adr = sim.mjm.joint("ball").qposadr[0]
    before[:, adr : adr + 4] = [1.0, 0.0, 0.0, 0.0]
    np.testing.assert_array_equal(sim.qpos.numpy(), before)
    assert sim.qvel.numpy()[:, 0].tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(sim.qfrc_applied.numpy()[:, 4:], [range(6)] * 2)
    np.testing.assert_array_equal(sim.xfrc_applied.numpy()[0, -1], range(1, 7))
    np.testing.assert_array_equal(sim.mocap_pos.numpy(), [[[0, 1, 2]], [[0, 1, 3]]])
    np.testing.assert_array_equal(sim.mocap_quat.numpy(), [[[0, 1, 0, 0]]] * 2)
    np.testing.assert_array_equal(sim.ctrl.numpy()[:, 0], [0.25, 0.25])
    assert sim.actuator("muscle").act.numpy().ravel().tolist() == [0.5, 0.75]
    assert sim.eq_active.numpy().ravel().tolist() == [True, False]
    sim.actuator("muscle").act = [0.0]
    assert not sim.act.numpy().any()
    sim.forward()
    np.testing.assert_allclose(sim.body("hand").xpos.numpy()[:, 2], [2.0, 3.0], rtol=1e-6)


def test_what_does_not_fit_changes_nothing(sim: ss.Simulation) -> None:
    before = support.arrays_of(sim)
    with pytest.raises(InputError, match=r"qpos of joint 'hinge'.*shape \(3,\), expected \(2, 1\), or \(1,\)"):
        sim.joint("hinge").qpos = [1.0, 2.0, 3.0]
    with pytest.raises(InputError, match=r"ctrl of actuator 'motor'\[1\] is nan"):
        sim.actuator("motor").ctrl = [0.0, np.nan]
    with pytest.raises(InputError, match="act must be numbers"):
        sim.act = "much"
    with pytest.raises(InputError, match="complex"):
        sim.body("hand").mocap_pos = np.zeros(3, dtype=complex)
    with pytest.raises(InputError, match="body 'box' has no mocap_pos"):
        sim.body("box").mocap_pos = np.zeros(3)
    for part, name in ((sim.body("box"), "xpos"), (sim.joint("free"), "qacc"), (sim.body("box"), "position")):
        with pytest.raises(AttributeError):
            setattr(part, name, np.zeros(3))
    with pytest.raises(AttributeError):
        sim.sensordata = np.zeros(5)  # type: ignore[misc]
    after = support.arrays_of(sim)
    assert all(support.same_bits(after[name], before[name]) for name in before)


@pytest.mark.parametrize(
    "kind, name, close",
    [
        ("body", "boxx", "box"),
        ("site", "tap", "tip"),
        ("geom", "flor", "floor"),
        ("joint", "hing", "hinge"),
        ("actuator", "moter", "motor"),
        ("sensor", "angel", "angle"),
    ],
)
def test_names_and_numbers_that_do_not_exist(kind: str, name: str, close: str) -> None:
    sim = ss.Simulation(MODEL, ss.ConeSweep(), device="cpu")
    look = getattr(sim, kind)
    with pytest.raises(InputError, match=f"no {kind} named {name!r}; did you mean .*{close!r}"):
        look(name)
    for number in (-1, 99):
        with pytest.raises(InputError, match=f"{kind} is {number}: the model has"):
            look(number)
    for wrong in (True, 1.5, None):
        with pytest.raises(InputError, match="give a name or a number"):
            look(wrong)
    assert look(np.int64(0)) is not None


def test_what_a_physics_does_not_compute() -> None:
    sim = ss.Simulation("sliding-cube", ss.PbdR(), device="cpu")
    for read in (
        lambda: sim.sensordata,
        lambda: sim.sensor("any"),
        lambda: sim.body("cube").cvel,
        lambda: sim.joint(0).qacc,
    ):
        with pytest.raises(Unsupported, match="pbd-r has no "):
            read()
    sim.forward()
    np.testing.assert_allclose(sim.body("cube").xpos.numpy(), sim.qpos.numpy()[:, :3], atol=1e-6)


def test_scm_finds_poses() -> None:
    pytest.importorskip("jax", reason="jax is not installed")
    sim = ss.Simulation("push-t", ss.Scm(), nworld=2, device="cpu")
    sim.joint(0).qpos = [[0.1], [0.2]] if sim.joint(0).qpos.shape[1] == 1 else sim.joint(0).qpos.numpy()
    before = support.arrays_of(sim)["qpos"]
    sim.forward()
    want = mujoco.MjData(sim.mjm)
    want.qpos[:] = sim.qpos.numpy()[1]
    mujoco.mj_kinematics(sim.mjm, want)
    np.testing.assert_allclose(sim.find_field("xpos").numpy()[1], want.xpos, atol=1e-6)
    assert support.same_bits(sim.qpos.numpy(), before)
    for read in (lambda: sim.sensordata, lambda: sim.contacts(device=True), lambda: sim.ncon):
        with pytest.raises(Unsupported, match="scm has no "):
            read()


def test_a_physics_on_the_host_says_so() -> None:
    pytest.importorskip("osqp", reason="osqp is not installed")
    from stickslip.bench.baselines.qp import QpModel

    sim = ss.Simulation("sliding-cube", QpModel(), device="cpu")
    assert sim.joint(0).qpos.shape == (1, 7) and sim.body("cube").xfrc_applied.shape == (1,)
    for read in (sim.forward, lambda: sim.body("cube").xpos, lambda: sim.contacts(device=True), lambda: sim.eq_active):
        with pytest.raises(Unsupported, match="qp has no "):
            read()


def test_forward_follows_the_model(device: str) -> None:
    """`set_model` replaces arrays of the model: what was captured before is dropped."""
    sim = ss.Simulation(MODEL, ss.ConeSweep(), nworld=2, device=device)
    sim.forward()
    sim.forward()
    pos = sim.mjm.site_pos.copy()
    pos[0, 0] = 0.4
    sim.set_model(site_pos=pos)
    sim.forward()
    np.testing.assert_allclose(sim.site("tip").xpos.numpy()[:, 0], 0.4, atol=1e-6)
    sim.step()
    sim.forward()
    np.testing.assert_allclose(sim.site("tip").xpos.numpy()[:, 0], 0.4, atol=1e-3)


@pytest.mark.parametrize("name", support.COMPILED_BY_WARP)
def test_contacts_on_the_device(name: str, device: str) -> None:
    """Those of the host, in the same order; the same memory every time."""
    sim = ss.Simulation("sliding-cube", ss.PHYSICS[name](), nworld=3, device=device)
    found = sim.contacts(device=True)
    assert int(found.count.numpy()[0]) == 0 and not sim.ncon.numpy().any()
    qpos = sim.qpos.numpy().copy()
    qpos[:, 2] = (0.0499, 1.0, 0.0499)
    sim.qpos, sim.qvel = qpos, np.zeros(6)
    sim.step()
    assert sim.contacts(device=True) is found
    host, count = sim.contacts(), int(found.count.numpy()[0])
    assert count == len(host) == len(found.numpy()) > 0
    for field in ("world", "geom", "dist", "pos", "frame", "force"):
        got = getattr(found, field).numpy()[:count]
        np.testing.assert_allclose(got, getattr(host, field), rtol=1e-6, atol=1e-7, err_msg=field)
    np.testing.assert_array_equal(sim.ncon.numpy(), np.bincount(host.world, minlength=3))
    sim.qpos = np.r_[0, 0, 1, 1, 0, 0, 0]
    sim.step()
    assert sim.contacts(device=True).count.numpy()[0] == 0 and not sim.ncon.numpy().any()


def test_contacts_are_captured_in_a_graph(device: str) -> None:
    """A graph of one's own: a step, then its contacts; nothing goes through the host."""
    sim = ss.Simulation("sliding-cube", ss.ConeSweep(), nworld=2, device=device)
    sim.qpos, sim.qvel = np.r_[0, 0, 0.0499, 1, 0, 0, 0], np.zeros(6)
    sim.compile()
    found = sim.contacts(device=True)
    with wp.ScopedCapture(device=device) as capture:
        sim.physics.step(sim.m, sim.d)
        sim.contacts(device=True)
    wp.capture_launch(capture.graph)
    count = int(found.count.numpy()[0])
    assert count == len(sim.contacts()) > 0
    np.testing.assert_array_equal(found.force.numpy()[:count], sim.contacts().force)
