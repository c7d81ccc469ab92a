"""The float64 reference itself, against analytic answers and against what C MuJoCo computes."""

import dataclasses

import mujoco
import numpy as np
import pytest

from tests.reference import comfree, models

ALL = sorted(models.CASES)
GAINS = {"stiffness": 0.2, "damping": 0.001}
PYRAMIDAL = int(mujoco.mjtConstraint.mjCNSTR_CONTACT_PYRAMIDAL)
FRICTIONLESS = int(mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS)


def states(name: str) -> list[mujoco.MjData]:
    """Every keyframe and a few random states."""
    keys = [models.start(name, key) for key in range(models.load(name).nkey)]
    return keys + [models.perturbed(name, seed) for seed in range(3)]


def observed(name: str) -> set[str]:
    """What a model and its keyframes reach, in the words of `Case.covers`."""
    mjm = models.load(name)
    tags: set[str] = set()

    def add(tag: str, present: object) -> None:
        if np.any(present):
            tags.add(tag)

    for kind in ("free", "ball", "slide", "hinge"):
        add(kind, mjm.jnt_type == getattr(mujoco.mjtJoint, f"mjJNT_{kind.upper()}"))
    for kind in ("plane", "sphere", "capsule", "box", "cylinder", "ellipsoid"):
        add(kind, mjm.geom_type == getattr(mujoco.mjtGeom, f"mjGEOM_{kind.upper()}"))
    for kind in ("connect", "weld", "joint", "tendon"):
        add(f"equality_{kind}", mjm.eq_type == getattr(mujoco.mjtEq, f"mjEQ_{kind.upper()}"))
    add("euler", mjm.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER)
    add("implicitfast", mjm.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST)
    add("elliptic", mjm.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC)
    add("damping", mjm.dof_damping > 0)
    add("dampingpoly", mjm.dof_dampingpoly > 0)
    add("armature", mjm.dof_armature > 0)
    add("gravcomp", mjm.body_gravcomp > 0)
    add("mocap", mjm.nmocap)
    add("spring", mjm.jnt_stiffness > 0)
    add("tendon_spring", mjm.tendon_stiffness > 0)
    add("tendon_actuator", mjm.actuator_trntype == mujoco.mjtTrn.mjTRN_TENDON)
    affine = mjm.actuator_biastype == mujoco.mjtBias.mjBIAS_AFFINE
    add("position", affine & (mjm.actuator_biasprm[:, 1] < 0))
    add("velocity", affine & (mjm.actuator_biasprm[:, 1] == 0) & (mjm.actuator_biasprm[:, 2] < 0))
    add("muscle", mjm.actuator_gaintype == mujoco.mjtGain.mjGAIN_MUSCLE)
    add("motor", mjm.actuator_biastype == mujoco.mjtBias.mjBIAS_NONE)
    add("activation", mjm.na)
    add("priority", mjm.geom_priority > 0)
    default = np.array([0.9, 0.95, 0.001, 0.5, 2.0])
    add("solimp", np.any(mjm.geom_solimp != default))
    add("gyroscopic", mjm.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST and mjm.nq > mjm.nv)
    limit = {0: "free", 1: "ball", 2: "slide", 3: "hinge"}
    for key in range(mjm.nkey):
        mjd = comfree.smooth_stage(mjm, models.start(name, key))
        for con in mjd.contact[: mjd.ncon]:
            if con.dist >= con.includemargin:
                add("gap", True)
                continue
            bodies = mjm.geom_bodyid[con.geom]
            trees = mjm.body_treeid[bodies]
            add(f"condim{con.dim}", True)
            add("margin", con.includemargin > 0)
            add("surfacevel", con.surfacevel != 0)
            add("pair", any(set(con.geom) == {a, b} for a, b in zip(mjm.pair_geom1, mjm.pair_geom2, strict=True)))
            add("same_tree", trees[0] == trees[1])
            add("trees", trees[0] >= 0 and trees[1] >= 0 and trees[0] != trees[1])
        for kind, i in zip(mjd.efc_type[: mjd.nefc], mjd.efc_id[: mjd.nefc], strict=True):
            add("dry_joint", kind == mujoco.mjtConstraint.mjCNSTR_FRICTION_DOF)
            add("dry_tendon", kind == mujoco.mjtConstraint.mjCNSTR_FRICTION_TENDON)
            if kind == mujoco.mjtConstraint.mjCNSTR_LIMIT_JOINT:
                add(f"limit_{limit[mjm.jnt_type[i]]}", True)
            if kind == mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON:
                fixed = mjm.wrap_type[mjm.tendon_adr[i]] == mujoco.mjtWrap.mjWRAP_JOINT
                add("limit_tendon_fixed" if fixed else "limit_tendon_spatial", True)
    return tags


@pytest.mark.parametrize("name", ALL)
def test_model_covers_what_it_claims(name: str) -> None:
    assert models.CASES[name].covers - observed(name) == set()


@pytest.mark.parametrize("name", ALL)
def test_step_leaves_its_inputs_alone(name: str) -> None:
    mjm, mjd = models.load(name), models.start(name)
    before, flags = mjd.qpos.copy(), mjm.opt.disableflags
    comfree.step(mjm, mjd, **GAINS)
    assert np.array_equal(before, mjd.qpos) and mjd.time == 0.0 and mjm.opt.disableflags == flags
    assert mjd.nefc == 0 and mjd.ncon == 0


# Parts, against C MuJoCo.


@pytest.mark.parametrize("name", ALL)
def test_impedance_is_mujocos(name: str) -> None:
    """r/(1-r) over the weight is `efc_D` for every row that is not a contact, and r is MuJoCo's for every contact."""
    mjm = models.load(name)
    for mjd in states(name):
        data = comfree.smooth_stage(mjm, mjd)
        kbip = data.efc_KBIP.reshape(-1, 4)
        for i in np.flatnonzero(data.efc_type[: data.nefc] < FRICTIONLESS):
            r = kbip[i, 2]
            np.testing.assert_allclose(r / (1 - r) / data.efc_diagA[i], data.efc_D[i], rtol=1e-12)
        for con, contact in zip(data.contact[: data.ncon], comfree.contacts_of(data), strict=True):
            if con.efc_address >= 0:
                r = comfree.impedance_curve(contact.solimp, contact.dist - contact.includemargin)
                np.testing.assert_allclose(r, kbip[con.efc_address, 2], rtol=1e-12)


@pytest.mark.parametrize("name", [n for n in ALL if "elliptic" not in models.CASES[n].covers])
def test_facets_are_mujocos_pyramid(name: str) -> None:
    """J~ of (7) has the rows of MuJoCo's pyramidal contact Jacobian, in the same order; J~ v includes belts."""
    mjm = models.load(name)
    for mjd in states(name):
        data = comfree.smooth_stage(mjm, mjd)
        jac = comfree.row_jacobian(mjm, data)
        for con, contact in zip(data.contact[: data.ncon], comfree.contacts_of(data), strict=True):
            if con.efc_address < 0:
                assert con.dist >= con.includemargin
                continue
            facets = comfree.facet_matrix(contact)
            rows = slice(con.efc_address, con.efc_address + len(facets))
            jac6 = comfree.contact_jacobian(mjm, data, contact)
            np.testing.assert_allclose(facets @ jac6, jac[rows], atol=1e-12)
            twist = jac6 @ data.qvel
            twist[1:4] += contact.surfacevel
            np.testing.assert_allclose(facets @ twist, data.efc_vel[rows], atol=1e-12)


@pytest.mark.parametrize("name", [n for n in ALL if "euler" in models.CASES[n].covers])
def test_probed_matrix_is_the_euler_matrix(name: str) -> None:
    mjm = models.load(name)
    for mjd in states(name):
        data = comfree.smooth_stage(mjm, mjd)
        probed = comfree.FreeIntegrator(mjm, mjd).inverse_matrix(data.qfrc_smooth)
        expected = np.linalg.inv(comfree.euler_matrix(mjm, data))
        np.testing.assert_allclose(probed, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("name", ALL)
def test_integrator_is_affine_in_the_force(name: str) -> None:
    """v+ = v + dt H^-1 f with one H, whatever the force: what makes probing legitimate."""
    mjm = models.load(name)
    rng = np.random.default_rng(0)
    for mjd in states(name):
        free = comfree.FreeIntegrator(mjm, mjd)
        force = rng.normal(0.0, 10.0, mjm.nv)
        inverse = free.inverse_matrix(np.zeros(mjm.nv))
        predicted = mjd.qvel + mjm.opt.timestep * inverse @ force
        np.testing.assert_allclose(free.step(force).qvel, predicted, rtol=1e-8, atol=1e-8)


# Whole steps, against analytic answers.


def test_free_fall_is_mujocos() -> None:
    """Without active constraints the step is C MuJoCo's, activations, damping and gyroscopic terms included."""
    tested = set()
    for name in ALL:
        mjm = models.load(name)
        for mjd in states(name):
            if mjm.nmocap or mjm.neq:
                continue
            data = mujoco.MjData(mjm)
            mujoco.mj_copyData(data, mjm, mjd)
            mujoco.mj_step(mjm, data)
            if data.nefc:
                continue
            tested.add(name)
            result = comfree.step(mjm, mjd, **GAINS)
            for field in ("qpos", "qvel", "act", "qacc", "time"):
                np.testing.assert_allclose(getattr(result, field), getattr(data, field), rtol=1e-12, atol=1e-12)
            assert not result.qfrc_constraint.any()
    assert {"sphere_frictionless", "tumbling_implicitfast"} <= tested


@pytest.mark.parametrize("name", ["arm", "muscle_leg", "finger_servo", "ball_chain", "tendons"])
def test_no_gains_is_mujoco_without_constraints(name: str) -> None:
    mjm = mujoco.MjModel.from_xml_string(models.CASES[name].xml)
    mjd = models.start(name)
    result = comfree.step(mjm, mjd, stiffness=0.0, damping=0.0)
    mjm.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    mujoco.mj_step(mjm, mjd)
    for field in ("qpos", "qvel", "act"):
        np.testing.assert_allclose(getattr(result, field), getattr(mjd, field), rtol=1e-12, atol=1e-12)


SPHERE = """
<mujoco><size memory="1M"/><option timestep="{dt}"/>
<worldbody><geom type="plane" size="1 1 1" condim="{dim}"/>
<body pos="0 0 0.1"><freejoint/><geom type="sphere" size="0.1" mass="0.7" condim="{dim}"/></body></worldbody></mujoco>
"""


@pytest.mark.parametrize("dim", [1, 3, 4, 6])
@pytest.mark.parametrize("dt", [0.001, 0.004])
def test_sphere_at_rest(dim: int, dt: float) -> None:
    """At rest n facets of K (|phi| + g dt^2) + D g dt carry the weight, since u = -g dt is the predicted velocity."""
    facets = 1 if dim == 1 else 2 * (dim - 1)
    k_user, mass, gravity = 0.2, 0.7, 9.81
    d_user = 0.006 / np.sqrt(facets)  # Near critical, so that the fall below settles.
    solimp = np.array([0.9, 0.95, 0.001, 0.5, 2.0])

    def support(depth: float) -> float:
        r = comfree.impedance_curve(solimp, depth)
        m_phi = r / (1 - r) * mass  # A sphere's translational invweight is 1/m, the plane's is 0.
        return facets * (k_user * m_phi / dt * (depth + gravity * dt**2) + d_user * m_phi / dt * gravity * dt)

    low, high = 0.0, 0.1
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if support(middle) > mass * gravity else (middle, high)
    mjm = mujoco.MjModel.from_xml_string(SPHERE.format(dt=dt, dim=dim))
    mjd = mujoco.MjData(mjm)
    mjd.qpos[2] = 0.1 - low
    result = comfree.step(mjm, mjd, stiffness=k_user, damping=d_user)
    np.testing.assert_allclose(result.qacc, 0.0, atol=1e-9)
    np.testing.assert_allclose(result.contact_force[0], [mass * gravity, 0, 0, 0, 0, 0], atol=1e-9)
    mjd.qpos[2] = 0.1  # And it is where a sphere put down on the plane ends up.
    for _ in range(400):
        comfree.advance(mjd, comfree.step(mjm, mjd, stiffness=k_user, damping=d_user))
    np.testing.assert_allclose(mjd.qpos[2], 0.1 - low, atol=1e-7)


@pytest.mark.parametrize("impedance", ["heuristic", "exact"])
@pytest.mark.parametrize("name", ALL)
def test_friction_is_inside_the_pyramid(name: str, impedance: str) -> None:
    """sum_i |f_i| / mu_i <= f_n: the primal cone (3), linearized, holds by construction."""
    mjm = models.load(name)
    for mjd in states(name):
        contacts = comfree.contacts_of(comfree.smooth_stage(mjm, mjd))
        result = comfree.step(mjm, mjd, **GAINS, impedance=impedance)
        for contact, force in zip(contacts, result.contact_force, strict=True):
            assert force[0] >= 0.0
            mu = contact.friction[: contact.dim - 1]
            assert np.all(np.abs(force[1 : contact.dim]) <= mu * force[0] + 1e-12)
            used = np.divide(np.abs(force[1 : contact.dim]), mu, out=np.zeros_like(mu), where=mu > 0)
            assert used.sum() <= force[0] * (1 + 1e-12)
            assert not force[contact.dim :].any()


@pytest.mark.parametrize("impedance", ["heuristic", "exact"])
@pytest.mark.parametrize("smoothing", [None, 2.0])
def test_contact_conserves_momentum(impedance: str, smoothing: float | None) -> None:
    """Between two free bodies the contact changes neither the linear nor the angular momentum."""
    mjm = mujoco.MjModel.from_xml_string("""
    <mujoco><size memory="1M"/><option gravity="0 0 0"/><default><geom condim="6" friction="0.8 0.05 0.02"/></default>
    <worldbody>
      <body><freejoint/><geom type="ellipsoid" size="0.1 0.15 0.2" mass="0.7"/></body>
      <body><freejoint/><geom type="capsule" size="0.1 0.15" mass="0.3"/></body>
    </worldbody></mujoco>""")
    rng = np.random.default_rng(0)
    touched = 0
    for _ in range(20):
        mjd = mujoco.MjData(mjm)
        mjd.qpos[:] = rng.normal(0.0, 1.0, mjm.nq)
        mjd.qpos[0:3] = 0.0
        mjd.qpos[7:10] *= 0.23 / np.linalg.norm(mjd.qpos[7:10])
        mujoco.mj_normalizeQuat(mjm, mjd.qpos)
        mjd.qvel[:] = rng.normal(0.0, 1.0, mjm.nv)
        result = comfree.step(mjm, mjd, **GAINS, impedance=impedance, smoothing=smoothing)
        data = comfree.smooth_stage(mjm, mjd)
        linear, angular = np.zeros(3), np.zeros(3)
        for body, adr in ((1, 0), (2, 6)):
            force = result.qfrc_constraint[adr : adr + 3]
            torque = data.xmat[body].reshape(3, 3) @ result.qfrc_constraint[adr + 3 : adr + 6]
            linear += force
            angular += torque + np.cross(data.xpos[body], force)
        touched += result.qfrc_constraint.any()
        np.testing.assert_allclose(linear, 0.0, atol=1e-11)
        np.testing.assert_allclose(angular, 0.0, atol=1e-11)
    assert touched >= 10


@pytest.mark.parametrize("name", ALL)
def test_exact_impedance(name: str) -> None:
    """With one facet, k = 1/dt, d = 0 and r = 1/2, the exact gains remove the violation in one step.

    Then K dt + D is the right side of (10), lambda = -(J H^-1 J^T)^-1 (u + phi/dt) / dt, and so
    J v+ = u + dt J H^-1 J^T lambda = -phi/dt.
    """
    mjm = mujoco.MjModel.from_xml_string(models.CASES[name].xml)
    for mjd in states(name):
        data = comfree.smooth_stage(mjm, mjd)
        for contact in comfree.contacts_of(data):
            alone = dataclasses.replace(contact, dim=1, solimp=np.array([0.5, 0.5, 0.001, 0.5, 2.0]))
            saved = mjm.opt.disableflags
            for bit in ("EQUALITY", "FRICTIONLOSS", "LIMIT"):
                mjm.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{bit}"))
            gains = {"stiffness": 1.0 / mjm.opt.timestep, "damping": 0.0, "max_gain": np.inf}
            result = comfree.step(mjm, mjd, **gains, impedance="exact", contacts=[alone])
            mjm.opt.disableflags = saved
            jac = comfree.contact_jacobian(mjm, data, alone)[0]
            phi = alone.dist - alone.includemargin
            inertia_free = comfree.step(mjm, mjd, **gains, contacts=[alone]).contact_force[0, 0]
            if result.contact_force[0, 0] > 50.0 * inertia_free:  # Near the floor: no force can help.
                continue
            # (10) leaves out the gyroscopic derivative of free bodies, which the implicitfast step has
            rtol = 1e-3 if mjm.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST else 1e-6
            if result.contact_force[0, 0] > 0.0:
                np.testing.assert_allclose(jac @ result.qvel, -phi / mjm.opt.timestep, rtol=rtol, atol=1e-8)
            else:
                assert phi >= 0.0 or jac @ result.v_smooth * mjm.opt.timestep + phi >= 0.0


def test_exact_impedance_is_the_dense_inverse() -> None:
    """(10) on an Euler model with damping: 1 / (J~ (M + dt D)^-1 J~^T), all facets, from dense matrices."""
    mjm, mjd = models.load("arm"), models.start("arm", 1)
    data = comfree.smooth_stage(mjm, mjd)
    inverse = np.linalg.inv(comfree.euler_matrix(mjm, data))
    result = comfree.step(mjm, mjd, **GAINS, impedance="exact")
    dt = mjm.opt.timestep
    np.testing.assert_allclose(result.v_smooth, mjd.qvel + dt * inverse @ data.qfrc_smooth, rtol=1e-10)
    for contact, force in zip(comfree.contacts_of(data), result.contact_force, strict=True):
        facets = comfree.facet_matrix(contact)
        jac = facets @ comfree.contact_jacobian(mjm, data, contact)
        r = comfree.impedance_curve(contact.solimp, contact.dist)
        m_phi = r / (1 - r) / np.diag(jac @ inverse @ jac.T)
        u = jac @ result.v_smooth
        expected = np.maximum(0.0, -0.2 * m_phi / dt * (u * dt + contact.dist) - 0.001 * m_phi / dt * u)
        np.testing.assert_allclose(force, facets.T @ expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(result.qvel, result.v_smooth + dt * inverse @ result.qfrc_constraint, rtol=1e-9)  # (9)


@pytest.mark.parametrize("name", ALL)
def test_smoothing_tends_to_the_positive_part(name: str) -> None:
    """softplus(beta x)/beta - (x)_+ lies between 0 and log(2)/beta for every facet."""
    mjm, mjd = models.load(name), models.start(name)
    contacts = comfree.contacts_of(comfree.smooth_stage(mjm, mjd))
    hard = comfree.step(mjm, mjd, **GAINS)
    for beta in (1.0, 1e6):
        soft = comfree.step(mjm, mjd, **GAINS, smoothing=beta)
        for contact, a, b in zip(contacts, soft.contact_force[:, 0], hard.contact_force[:, 0], strict=True):
            facets = len(comfree.facet_matrix(contact)) if contact.dist < contact.includemargin else 0
            assert -1e-12 <= a - b <= facets * np.log(2.0) / beta + 1e-12
    np.testing.assert_allclose(soft.qvel, hard.qvel, rtol=1e-4, atol=1e-4)


def test_equality_rows_are_linear_and_friction_saturates() -> None:
    mjm, mjd = models.load("couplings"), models.start("couplings")
    one = comfree.step(mjm, mjd, stiffness=0.1, damping=0.001)
    two = comfree.step(mjm, mjd, stiffness=0.2, damping=0.002)
    np.testing.assert_allclose(two.row_force[:3], 2.0 * one.row_force[:3], rtol=1e-12)
    stiff = comfree.step(mjm, mjd, stiffness=100.0, damping=1.0)
    np.testing.assert_allclose(np.abs(stiff.row_force[3]), mjm.tendon_frictionloss[0])
