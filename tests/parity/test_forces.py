"""What reads a physics' forces reads the same ones, and the right ones: rows, sensors, `contact_force`, `contacts()`.

MuJoCo's own C functions, given the rows by `get_data_into`, are the judge of what rows and sensors mean.
"""

from types import ModuleType

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest
import warp as wp

import stickslip as ss
import stickslip.comfree as cf
import stickslip.conesweep as cs
from stickslip import mjcf
from tests import support
from tests.reference import comfree, coulomb, models

GRAVITY = 9.81
CONES = ["pyramidal", "elliptic"]
K, D = 0.2, 0.001

DROP_INS: dict[str, ModuleType] = {"comfree": cf, "cone-sweep": cs}
PARAMETERS: dict[str, dict[str, float]] = {"comfree": {"stiffness": K, "damping": D}, "cone-sweep": {}}
ROW_FREE: list[ss.Physics] = [ss.ComFree(K, D), ss.ConeSweep()]
row_free = pytest.mark.parametrize("physics", ROW_FREE, ids=lambda physics: physics.name)


def with_cone(mjm: mujoco.MjModel, cone: str) -> mujoco.MjModel:
    """The model with the cone option set; it is changed in place."""
    mjm.opt.cone = getattr(mujoco.mjtCone, f"mjCONE_{cone.upper()}")
    return mjm


def computed(
    drop_in: str, mjm: mujoco.MjModel, mjd: mujoco.MjData, function: str
) -> tuple[cf.Data | cs.Data, mujoco.MjData]:
    """A drop-in's `forward` or `step` from one state: the device's data, and what `get_data_into` gives."""
    module = DROP_INS[drop_in]
    m = module.put_model(mjm, **PARAMETERS[drop_in])
    d = module.put_data(mjm, mjd, nconmax=64, njmax=512)
    getattr(module, function)(m, d)
    result = mujoco.MjData(mjm)
    module.get_data_into(result, mjm, d)
    return d, result


def link_rows_at_one_point(mjm: mujoco.MjModel, mjd: mujoco.MjData, jac: np.ndarray) -> float:
    """Move the rows of connects and welds midway between their anchors, where the cone sweep has them.

    Returns the largest angle by which a weld is violated: the cone sweep's torques are MuJoCo's but for its square.
    """
    turn = 0.0
    for eq in np.unique(mjd.efc_id[mjd.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)]):
        rows = np.flatnonzero((mjd.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)) & (mjd.efc_id == eq))
        if mjm.eq_type[eq] in (int(mujoco.mjtEq.mjEQ_CONNECT), int(mujoco.mjtEq.mjEQ_WELD)):
            jac[rows[:3]] = coulomb.link_jacobian(mjm, mjd, eq)
            turn = max(turn, 2.0 * float(np.linalg.norm(mjd.efc_pos[rows[3:]])))
    return turn


@pytest.mark.parametrize("function", ["forward", "step"])
@pytest.mark.parametrize("cone", CONES)
@pytest.mark.parametrize("drop_in", DROP_INS)
@pytest.mark.parametrize("name", sorted(models.CASES))
def test_rows_add_up_to_the_constraint_force(name: str, drop_in: str, cone: str, function: str, device: str) -> None:
    """J^T efc_force is qfrc_constraint, and M qacc = qfrc_smooth + qfrc_constraint, in every kind of constraint.

    After `step` too: as in C MuJoCo the rows are those of the step, although the positions have moved on.
    """
    mjm = with_cone(mujoco.MjModel.from_xml_string(models.CASES[name].xml), cone)
    for key in range(mjm.nkey):
        start = mujoco.MjData(mjm)
        mujoco.mj_resetDataKeyframe(mjm, start, key)
        d, mjd = computed(drop_in, mjm, start, function)
        nefc = int(d.nefc.numpy()[0])
        assert mjd.nefc == nefc
        jac = comfree.row_jacobian(mjm, mjd)
        share = 1e-5
        if drop_in == "cone-sweep":
            share += 0.2 * link_rows_at_one_point(mjm, mjd, jac) ** 2
        terms = np.abs(jac.T) @ np.abs(mjd.efc_force)  # what single precision is relative to
        got = d.qfrc_constraint.numpy()[0]
        np.testing.assert_allclose(jac.T @ mjd.efc_force, got, rtol=0.0, atol=share * (terms.max(initial=0.0) + 1e-3))
        np.testing.assert_allclose(mjd.qfrc_constraint, got, rtol=1e-6)

        # The rows are the ones MuJoCo would have made: the same kinds, and for contacts the same Jacobian.
        smooth = comfree.smooth_stage(mjm, start)
        nrow = int(sum(c.numpy()[0] for c in (d.ne, d.nf, d.nl)))
        assert mjd.efc_type[:nrow].tolist() == smooth.efc_type[:nrow].tolist()
        if models.CASES[name].same_contacts:
            assert sorted(mjd.efc_type[:nefc].tolist()) == sorted(smooth.efc_type[: smooth.nefc].tolist())
            want = comfree.row_jacobian(mjm, smooth)
            if cone == "pyramidal" and smooth.nefc and not (drop_in == "cone-sweep" and mjm.neq):
                apart = np.abs(want[:, None] - jac[None]).max(axis=2)
                assert (apart.min(axis=1) < 2e-3 * (1 + np.abs(want).max(axis=1))).all(), apart.min(axis=1)

        inertia = np.zeros((mjm.nv, mjm.nv))
        mujoco.mj_fullM(mjm, mjd, inertia)
        total = d.qfrc_smooth.numpy()[0] + got
        scale = np.abs(inertia) @ np.abs(mjd.qacc) + np.abs(d.qfrc_smooth.numpy()[0]) + terms
        np.testing.assert_allclose(inertia @ mjd.qacc, total, rtol=0.0, atol=2e-5 * scale.max() + 1e-6)


@row_free
@pytest.mark.parametrize("scene", ["scaling", "humanoid", "hand"])
def test_rows_of_every_world_add_up(scene: str, physics: ss.Physics, device: str) -> None:
    """The same of the scenes, two of them with a sparse Jacobian, for each of three worlds that differ."""
    sim = ss.Simulation(scene, physics, nworld=3, device=device)
    sim.state = support.perturbed(sim.mjm, 3)
    sim.step(60)
    for w in range(3):
        mjd = mujoco.MjData(sim.mjm)
        DROP_INS[physics.name].get_data_into(mjd, sim.mjm, sim.d, world_id=w)
        jac = comfree.row_jacobian(sim.mjm, mjd)
        assert mjd.nefc > 20 and mjd.ncon > 3
        terms = np.abs(jac.T) @ np.abs(mjd.efc_force)
        got = sim.d.qfrc_constraint.numpy()[w]
        np.testing.assert_allclose(jac.T @ mjd.efc_force, got, rtol=0.0, atol=1e-5 * terms.max())


@row_free
@pytest.mark.parametrize("cone", CONES)
@pytest.mark.parametrize(
    "name", ["pile", "rolling", "spin_torsion", "pair_margin_gap", "sphere_frictionless", "conveyor"]
)
def test_contact_force_is_read_alike_everywhere(name: str, cone: str, physics: ss.Physics, device: str) -> None:
    """`contacts().force`, `contact_force`, C's `mj_contactForce` on the rows, and the reference agree by contact."""
    if isinstance(physics, ss.ConeSweep):
        physics = ss.ConeSweep(substeps=1, sweeps=300, correction=0.0)  # as the reference: to the end
    mjm = with_cone(mujoco.MjModel.from_xml_string(models.CASES[name].xml), cone)
    sim = ss.Simulation(mjm, physics, device=device, nconmax=64, njmax=512)
    start = mujoco.MjData(mjm)
    mujoco.mj_resetDataKeyframe(mjm, start, 0)
    sim.step()
    contacts = sim.contacts()
    assert len(contacts) > 0

    ids = np.flatnonzero(sim.d.contact.type.numpy()[: int(sim.d.nacon.numpy()[0])] & 1)
    force = wp.zeros(len(ids), dtype=wp.spatial_vector, device=device)
    mjw.contact_force(sim.m, sim.d, wp.array(ids, dtype=int, device=device), False, force)
    np.testing.assert_array_equal(contacts.force, force.numpy())

    # In the world frame it is the contact frame's axes times the same numbers.
    mjw.contact_force(sim.m, sim.d, wp.array(ids, dtype=int, device=device), True, force)
    halves = contacts.force.reshape(-1, 2, 3)
    turned = np.einsum("nij,nhi->nhj", contacts.frame, halves).reshape(-1, 6)
    np.testing.assert_allclose(force.numpy(), turned, atol=1e-4 * np.abs(turned).max())

    mjd = mujoco.MjData(mjm)
    DROP_INS[physics.name].get_data_into(mjd, mjm, sim.d)
    assert mjd.ncon == len(contacts)
    for i in range(mjd.ncon):
        by_c = np.zeros(6)
        mujoco.mj_contactForce(mjm, mjd, i, by_c)
        np.testing.assert_allclose(by_c, contacts.force[i], rtol=1e-5, atol=1e-5)

    given = [
        comfree.Contact(
            dist=float(c.dist),
            pos=c.pos.copy(),
            frame=c.frame.reshape(3, 3).copy(),
            includemargin=float(c.includemargin),
            friction=c.friction.copy(),
            solimp=c.solimp.copy(),
            dim=int(c.dim),
            geom=(int(c.geom[0]), int(c.geom[1])),
            surfacevel=c.surfacevel.copy(),
        )
        for c in mjd.contact
    ]
    if physics.name == "comfree":
        want = comfree.step(mjm, start, stiffness=K, damping=D, contacts=given).contact_force
    elif name != "pile":  # more contacts than it takes: their forces are not unique
        want = coulomb.solve(coulomb.problem(mjm, start, given)).contact_force
    else:
        return
    np.testing.assert_allclose(contacts.force, want, rtol=1e-3, atol=2e-4 * np.abs(want).max())


@row_free
@pytest.mark.parametrize("cone", CONES)
def test_rows_of_a_contact_are_where_it_says(cone: str, physics: ss.Physics, device: str) -> None:
    """contact.efc_address counts up, no row has two owners, efc.id points back and efc.type is the cone's."""
    sim = ss.Simulation(with_cone(mjcf.load("scaling"), cone), physics, nworld=3, device=device, nconmax=48, njmax=400)
    sim.step(60)
    d = sim.d
    nacon = int(d.nacon.numpy()[0])
    address, worlds = d.contact.efc_address.numpy()[:nacon], d.contact.worldid.numpy()[:nacon]
    dim, dist = d.contact.dim.numpy()[:nacon], d.contact.dist.numpy()[:nacon]
    kinds, owners, nefc = d.efc.type.numpy(), d.efc.id.numpy(), d.nefc.numpy()
    kind = getattr(mujoco.mjtConstraint, f"mjCNSTR_CONTACT_{cone.upper()}")
    for w in range(3):
        rows: list[int] = []
        for i in np.flatnonzero(worlds == w):
            count = dim[i] if cone == "elliptic" else 2 * (dim[i] - 1)
            mine = address[i][:count]
            if dist[i] >= 0.0 and not (isinstance(physics, ss.ConeSweep) and mine[0] >= 0):
                assert mine[0] < 0  # only near; the cone sweep's may push before they touch
                continue
            assert mine.tolist() == list(range(mine[0], mine[0] + count))
            assert (kinds[w, mine] == kind).all() and (owners[w, mine] == i).all()
            rows += mine.tolist()
        assert sorted(rows) == list(range(nefc[w])) and len(rows) > 20


# A box on the floor that carries a second box on a rigid stalk, with sensors between and on them.
LOADED = """
<mujoco>
  <option timestep="0.002" cone="{cone}"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 0.1" condim="{dim}"/>
    <body name="lower" pos="0 0 0.1">
      <freejoint/>
      <geom name="lower" type="box" size="0.1 0.1 0.1" mass="2" condim="{dim}"/>
      <site name="sole" type="box" pos="0 0 -0.1" size="0.12 0.12 0.02"/>
      <site name="left" type="box" pos="-0.1 0 -0.1" size="0.05 0.12 0.02"/>
      <site name="away" type="box" pos="0 0 0.1" size="0.12 0.12 0.02"/>
      <site name="imu"/>
      <body name="upper" pos="0 0 0.2">
        <geom name="upper" type="box" size="0.05 0.05 0.05" mass="0.5"/>
        <site name="joint"/>
        <site name="tilted" euler="90 0 0"/>
      </body>
    </body>
  </worldbody>
  <sensor>
    <touch name="sole" site="sole"/>
    <touch name="left" site="left"/>
    <touch name="away" site="away"/>
    <accelerometer name="imu" site="imu"/>
    <force name="force" site="joint"/>
    <torque name="torque" site="joint"/>
    <force name="tilted" site="tilted"/>
    <contact name="net" geom1="floor" geom2="lower" reduce="netforce" data="found force torque dist pos normal"/>
    <contact name="strongest" geom1="floor" geom2="lower" reduce="maxforce" num="1" data="found force"/>
    <contact name="none" geom1="floor" geom2="upper" reduce="netforce" data="found force"/>
    <framelinacc name="acceleration" objtype="body" objname="lower"/>
  </sensor>
</mujoco>
"""


def readings(sim: ss.Simulation, w: int = 0) -> dict[str, np.ndarray]:
    """Sensor readings by name."""
    data = sim.d.sensordata.numpy()[w]
    return {
        sim.mjm.sensor(i).name: data[sim.mjm.sensor_adr[i] : sim.mjm.sensor_adr[i] + sim.mjm.sensor_dim[i]]
        for i in range(sim.mjm.nsensor)
    }


@row_free
@pytest.mark.parametrize("cone", CONES)
@pytest.mark.parametrize("dim", [1, 3, 4, 6])
def test_sensors_at_rest(dim: int, cone: str, physics: ss.Physics, device: str) -> None:
    """Contacts carry the weight; touch, contact, force and acceleration sensors read what a scale would."""
    if isinstance(physics, ss.ComFree):  # near critical, so that it comes to rest
        physics = ss.ComFree(K, 0.006 / np.sqrt(4 * max(1, 2 * (dim - 1))))
    sim = ss.Simulation(LOADED.format(cone=cone, dim=dim), physics, device=device)
    sim.step(800)
    assert np.abs(sim.state.qvel).max() < 1e-4
    weight = 2.5 * GRAVITY
    contacts = sim.contacts()
    assert len(contacts) == 4
    np.testing.assert_allclose(contacts.force[:, 0].sum(), weight, rtol=1e-4)
    np.testing.assert_allclose(contacts.force[:, 1:3].sum(axis=0), 0.0, atol=1e-2)
    if physics.name == "comfree":  # rigid corners may share the weight in other ways, and press against each other
        np.testing.assert_allclose(contacts.force[:, 0], weight / 4, rtol=1e-3)
        np.testing.assert_allclose(contacts.force[:, 1:], 0.0, atol=1e-2)
    np.testing.assert_allclose(sim.d.qfrc_constraint.numpy()[0], [0, 0, weight, 0, 0, 0], atol=5e-3)
    np.testing.assert_allclose(sim.d.qacc.numpy()[0], 0.0, atol=2e-2)

    read = readings(sim)
    np.testing.assert_allclose(read["sole"], weight, rtol=1e-4)
    np.testing.assert_allclose(read["left"], weight / 2, rtol=1e-3)
    assert read["away"] == 0.0
    np.testing.assert_allclose(read["imu"], [0.0, 0.0, GRAVITY], atol=5e-3)
    np.testing.assert_allclose(read["force"], [0.0, 0.0, 0.5 * GRAVITY], atol=5e-3)
    np.testing.assert_allclose(read["torque"], 0.0, atol=1e-3)
    np.testing.assert_allclose(read["tilted"], [0.0, 0.5 * GRAVITY, 0.0], atol=5e-3)
    found, force = read["net"][0], read["net"][1:4]
    assert found == 4
    np.testing.assert_allclose(np.abs(force), [weight, 0.0, 0.0] if abs(force[0]) > 1 else [0, 0, weight], atol=1e-2)
    assert read["strongest"][0] == 4
    np.testing.assert_allclose(np.abs(read["strongest"][1]), contacts.force[:, 0].max(), rtol=1e-3)
    assert not read["none"].any()


MEASURED = ["sole", "left", "away", "imu", "force", "torque", "tilted", "net", "strongest", "acceleration"]


@row_free
@pytest.mark.parametrize("cone", CONES)
@pytest.mark.parametrize("dim", [3, 4, 6])
def test_sensors_in_motion_are_what_mujoco_reads_from_the_same_forces(
    dim: int, cone: str, physics: ss.Physics, device: str
) -> None:
    """Sliding, spinning and bouncing: C MuJoCo's sensors, given the physics' contacts, rows and accelerations."""
    sim = ss.Simulation(LOADED.format(cone=cone, dim=dim), physics, device=device)
    mjm = sim.mjm
    sim.qvel = [0.6, 0.2, -0.3, 0.1, -0.2, 2.0]
    touched = 0
    for _ in range(30):
        sim.step(3)
        mjd = mujoco.MjData(mjm)
        DROP_INS[physics.name].get_data_into(mjd, mjm, sim.d)
        # the device's state is one integration ahead of its forces: C needs positions and velocities as they were
        d = sim.d
        for name in "xpos xquat xmat xipos ximat site_xpos site_xmat subtree_com cvel cdof".split():
            getattr(mjd, name)[:] = getattr(d, name).numpy()[0].reshape(getattr(mjd, name).shape)
        mjd.cdof_dot[:], mjd.cinert[:] = d.cdof_dot.numpy()[0], d.cinert.numpy()[0].reshape(mjd.cinert.shape)
        mjd.qvel[:] = d.qvel.numpy()[0] - mjm.opt.timestep * d.qacc.numpy()[0]
        got = readings(sim)
        mujoco.mj_rnePostConstraint(mjm, mjd)
        mujoco.mj_sensorAcc(mjm, mjd)
        touched += mjd.ncon
        for name in MEASURED:
            want = mjd.sensor(name).data
            scale = np.abs(want).max() + GRAVITY
            np.testing.assert_allclose(got[name], want, atol=1e-3 * scale, err_msg=name)
    assert touched > 40


# Joint 0 has no limit: MuJoCo Warp's limit sensors take a joint and a tendon of the same number for one another.
LIMITS = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body pos="2 0 1">
      <joint name="hanging" type="slide" axis="0 0 1"/>
      <geom type="sphere" size="0.05" mass="0.6"/>
      <site name="load"/>
    </body>
    <body pos="0 0 1">
      <joint name="slide" type="slide" axis="0 0 1" range="-0.1 0.5" armature="0"/>
      <geom type="sphere" size="0.05" mass="1.5"/>
    </body>
    <body pos="1 0 1">
      <joint name="hinge" axis="0 1 0" range="-1 0.3"/>
      <geom type="sphere" size="0.05" pos="0.4 0 0" mass="0.8"/>
    </body>
    <site name="hook" pos="2 0 2"/>
  </worldbody>
  <tendon>
    <spatial name="rope" limited="true" range="0 1.1"><site site="hook"/><site site="load"/></spatial>
  </tendon>
  <sensor>
    <jointlimitpos name="slide_pos" joint="slide"/>
    <jointlimitfrc name="slide" joint="slide"/>
    <jointlimitfrc name="hinge" joint="hinge"/>
    <tendonlimitpos name="rope_pos" tendon="rope"/>
    <tendonlimitfrc name="rope" tendon="rope"/>
  </sensor>
  <keyframe><key qpos="-0.1 -0.1 0.3"/></keyframe>
</mujoco>
"""


@pytest.mark.parametrize("physics", [ss.ComFree(K, 0.01), ss.ConeSweep()], ids=lambda physics: physics.name)
def test_limit_sensors(physics: ss.Physics, device: str) -> None:
    """A mass on its lower stop, one that rests against a hinge's stop, one on a taut rope: each limit carries it."""
    sim = ss.Simulation(LIMITS, physics, device=device)
    sim.step(2000)
    assert np.abs(sim.state.qvel).max() < 1e-3
    read = readings(sim)
    angle = float(sim.state.qpos[0, 2])
    np.testing.assert_allclose(read["slide"], 1.5 * GRAVITY, rtol=1e-3)
    np.testing.assert_allclose(read["hinge"], 0.8 * GRAVITY * 0.4 * np.cos(angle), rtol=1e-3)
    np.testing.assert_allclose(read["rope"], 0.6 * GRAVITY, rtol=1e-3)
    if physics.name == "comfree":
        assert read["slide_pos"] < 0 and read["rope_pos"] < 0
    else:
        np.testing.assert_allclose([read["slide_pos"], read["rope_pos"]], 0.0, atol=1e-4)
    assert sim.d.nl.numpy()[0] == 3 and sim.d.nefc.numpy()[0] == 3
    each = [float(read[name][0]) for name in ("slide", "hinge", "rope")]
    np.testing.assert_allclose(sorted(sim.d.efc.force.numpy()[0, :3]), sorted(each), rtol=1e-6)
    np.testing.assert_allclose(sim.d.qfrc_constraint.numpy()[0] + sim.d.qfrc_smooth.numpy()[0], 0.0, atol=5e-3)


LIMIT_SENSORS = """
<mujoco><option timestep="0.002"/>
  <worldbody>
    <body><joint name="slide" type="slide" axis="0 0 1" limited="true" range="-0.1 1"/><geom size="0.05" mass="1"/>
      <body pos="0.3 0 0"><joint name="hinge" axis="0 1 0" limited="true" range="-20 20"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" mass="0.2"/></body></body>
  </worldbody>
  <tendon><fixed name="unused"><joint joint="hinge" coef="0"/></fixed>
    <fixed name="unused too"><joint joint="hinge" coef="0"/></fixed>
    <fixed name="tendon" limited="true" range="-0.3 0.05">
      <joint joint="slide" coef="1"/><joint joint="hinge" coef="0.2"/></fixed></tendon>
  <sensor>
    <jointlimitpos joint="slide"/><jointlimitvel joint="slide"/><jointlimitpos joint="hinge"/>
    <jointlimitvel joint="hinge"/><tendonlimitpos tendon="tendon"/><tendonlimitvel tendon="tendon"/>
  </sensor>
</mujoco>
"""


@pytest.mark.parametrize("module", DROP_INS.values(), ids=DROP_INS)
@pytest.mark.parametrize("function", ["step", "forward", "step1 and step2"])
def test_limit_sensors_read_this_step(function: str, module: ModuleType, device: str) -> None:
    """Positions and velocities beyond limits in motion, from the first step on, are those of C MuJoCo."""
    mjm = mujoco.MjModel.from_xml_string(LIMIT_SENSORS)
    rng = np.random.default_rng(0)
    for _ in range(5):
        mjd = mujoco.MjData(mjm)
        mjd.qpos[:] = rng.uniform(-0.5, 0.5, 2).astype(np.float32)
        mjd.qvel[:] = rng.normal(0.0, 2.0, 2).astype(np.float32)
        m, d = module.put_model(mjm), module.put_data(mjm, mjd, nconmax=8, njmax=16)
        if function == "step1 and step2":
            module.step1(m, d)
            module.step2(m, d)
        else:
            getattr(module, function)(m, d)
        mujoco.mj_forward(mjm, mjd)
        np.testing.assert_allclose(d.sensordata.numpy()[0], mjd.sensordata, rtol=1e-5, atol=1e-6)
