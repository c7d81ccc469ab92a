"""The quasi-dynamic contact model in NumPy, CasADi and JAX: by hand, by its limits, by finite differences."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest

from stickslip import mjcf
from stickslip.errors import InputError, Unsupported
from stickslip.mpc.model import cost, kinematics, quasidynamic
from stickslip.mpc.model.contact_rows import EDGES, ContactRows, Rows
from stickslip.mpc.task import Problem, QuasiDynamic, compile_problem
from stickslip.mpc.tasks import TASKS
from tests.reference import quasidynamic_qp as qp_model

MODEL = TASKS["fingertips-rotate"].model
GOAL = (np.array([0.02, -0.01, 0.03]), np.array([math.cos(0.4), 0.0, 0.0, math.sin(0.4)]))


@pytest.fixture(scope="module")
def problem() -> Problem:
    return compile_problem(TASKS["fingertips-rotate"], "cube")


def held(problem: Problem, depth: float = 5e-4) -> np.ndarray:
    """The cube on the floor, two fingertips on opposite faces and one beside, all `depth` deep [m]."""
    side = 0.04 - depth
    return np.array([side, 0, 0.03, -side, 0.002, 0.03, 0, 0.06, 0.03, 0, 0, 0.03 - depth, 1, 0, 0, 0])


@pytest.fixture(scope="module")
def contacts(problem: Problem) -> Rows:
    return ContactRows(problem, MODEL).at(held(problem))


def controls(n: int = 30, size: float = 0.004) -> np.ndarray:
    return np.random.default_rng(0).normal(0.0, size, (n, 9))


def difference(f: Callable[[np.ndarray], Any], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Derivative of f by each entry of x, in the last axis."""
    by = [(np.asarray(f(x + d)) - np.asarray(f(x - d))) / (2 * step) for d in step * np.eye(len(x))]
    return np.stack(by, axis=-1)


# ---- by hand


def test_a_fingertip_pushes_along_the_normal() -> None:
    """One joint along x and a body before it; mu = 0 makes the four edges one. Each gives lambda of the closed form."""
    model = dataclasses.replace(MODEL, friction=0.0, gravity=0.0, joints=100.0, translation=50.0, sharpness=1e6)
    row = np.array([-1.0, 1.0, 0, 0, 0, 0, 0])  # the distance shrinks as the joint moves on, grows as the body does
    phi, u = -0.001, 0.003
    got = quasidynamic.displacement(np, model, np.tile(row, (4, 1)), np.full(4, phi), np.array([u]))
    pushed = 4 * model.contact * (u * (1 + model.damping / model.step) - model.distance * phi)
    np.testing.assert_allclose(got, [u - pushed / 100.0, pushed / 50.0, 0, 0, 0, 0, 0], rtol=1e-6)


def test_without_contact_a_step_is_free() -> None:
    u = controls(1)[0]
    drop = -MODEL.mass * MODEL.gravity / MODEL.translation
    want = np.concatenate([u, [0, 0, drop, 0, 0, 0]])
    none = quasidynamic.displacement(np, MODEL, np.zeros((0, 15)), np.zeros(0), u)
    far = quasidynamic.displacement(np, MODEL, np.zeros((40, 15)), np.ones(40), u)
    np.testing.assert_allclose(none, want)
    np.testing.assert_allclose(far, want)


def test_softplus_nears_the_larger_of_two() -> None:
    x = np.linspace(-1.0, 1.0, 41)
    for sharpness in (1e2, 1e4, 1e6):
        off = quasidynamic.softplus(np, x, sharpness) - np.maximum(x, 0.0)
        assert off.min() >= -1e-15 and off.max() <= math.log(2.0) / sharpness + 1e-15
    assert np.isfinite(quasidynamic.softplus(np, np.array([-1e5, 1e5]), 100.0)).all()


def test_rows_are_distances_that_change(problem: Problem, contacts: Rows) -> None:
    """The mean of a contact's edges is how its distance changes with a motion; the edges differ by friction alone."""
    mean = contacts.rows.reshape(-1, EDGES, 15).mean(axis=1)
    tip = np.flatnonzero(np.abs(mean[:, 0]) > 0.9)
    assert len(tip) == 1 and contacts.phi.max() < 0.0
    detector = ContactRows(problem, MODEL)
    qpos = held(problem)
    qpos[0] -= 1e-4
    deeper = detector.at(qpos)
    change = (deeper.phi - contacts.phi)[EDGES * tip[0]]
    assert change == pytest.approx(-1e-4 * mean[tip[0], 0], rel=1e-6)


def test_friction_stays_in_its_cone(contacts: Rows) -> None:
    """Edge forces push, and tangential force, along each axis together, is at most mu times the normal force."""
    for u in controls():
        force = quasidynamic.force(np, MODEL, contacts.rows, contacts.phi, u).reshape(-1, EDGES)
        assert (force >= 0.0).all()
        normal = force.sum(axis=1)
        tangent = MODEL.friction * (np.abs(force[:, 0] - force[:, 1]) + np.abs(force[:, 2] - force[:, 3]))
        assert (tangent <= MODEL.friction * normal * (1 + 1e-12)).all()
        # the same on the object, whose rows are the world's axes: the floor's push up holds its friction
        rows = contacts.rows.reshape(-1, EDGES, 15)[:, :, 9:12]
        on_object = np.einsum("ce,cei->ci", force, rows)
        along = rows.mean(axis=1)
        push = np.einsum("ci,ci->c", on_object, along)
        side = np.linalg.norm(on_object - push[:, None] * along, axis=1)
        assert (side <= MODEL.friction * push * (1 + 1e-9)).all()


def test_slots_keep_the_deepest() -> None:
    rows = Rows(np.arange(24.0).reshape(12, 2), np.repeat([0.1, -0.2, -0.1], EDGES))
    kept = rows.padded(2)
    np.testing.assert_array_equal(kept.phi, np.repeat([-0.2, -0.1], EDGES))
    np.testing.assert_array_equal(kept.rows, rows.rows[4:])
    wide = rows.padded(4)
    assert wide.rows.shape == (16, 2) and (wide.rows[12:] == 0.0).all() and (wide.phi[12:] > 0.5).all()


# ---- the convex model that it approximates


@pytest.fixture
def osqp() -> None:
    pytest.importorskip("osqp", reason="needs the extra `mpc`")
    pytest.importorskip("scipy", reason="needs the extra `mpc`")


@pytest.mark.usefixtures("osqp")
def test_the_convex_model_satisfies_its_conditions(contacts: Rows) -> None:
    stiffness = 1.0 / quasidynamic.compliance(MODEL, 9)
    for u in controls(10):
        motion = qp_model.step(MODEL, contacts.rows, contacts.phi, u)
        gap = contacts.rows @ motion.delta + MODEL.distance * contacts.phi
        free = stiffness * quasidynamic.free_motion(np, MODEL, u)
        assert gap.min() > -1e-7 and (motion.force >= 0.0).all()
        np.testing.assert_allclose(stiffness * motion.delta, free + contacts.rows.T @ motion.force, atol=1e-5)
        assert np.abs(motion.force * gap).max() < 1e-7


@pytest.mark.usefixtures("osqp")
def test_the_closed_form_is_a_softer_convex_model() -> None:
    """For one edge the two are the same when K = 1 / (r Q^-1 r'), without damping and smoothing."""
    row = np.array([[-1.0, 1.0, 0.3, 0, 0, 0, 0.02]])
    phi, u = np.array([-0.001]), np.array([0.003])
    exact = 1.0 / float((row**2 @ quasidynamic.compliance(MODEL, 1))[0])
    model = dataclasses.replace(MODEL, contact=exact, damping=0.0, sharpness=1e9)
    want = qp_model.step(model, row, phi, u)
    np.testing.assert_allclose(quasidynamic.displacement(np, model, row, phi, u), want.delta, atol=1e-8)
    np.testing.assert_allclose(quasidynamic.force(np, model, row, phi, u), want.force, rtol=1e-4)


@pytest.mark.usefixtures("osqp")
def test_both_models_hold_the_object_up(contacts: Rows) -> None:
    """Without control the floor carries the object: it does not sink as it would alone, nor jump out by much."""
    alone = MODEL.mass * MODEL.gravity / MODEL.translation
    still = np.zeros(9)
    for delta in (
        qp_model.step(MODEL, contacts.rows, contacts.phi, still).delta,
        quasidynamic.displacement(np, MODEL, contacts.rows, contacts.phi, still),
    ):
        assert -0.5 * alone < delta[11] < 2.0 * alone


@pytest.mark.usefixtures("osqp")
def test_without_contact_both_models_are_free() -> None:
    u = controls(1)[0]
    motion = qp_model.step(MODEL, np.zeros((0, 15)), np.zeros(0), u)
    np.testing.assert_array_equal(motion.delta, quasidynamic.free_motion(np, MODEL, u))
    with pytest.raises(InputError, match=r"\(3, 15\)"):
        qp_model.step(MODEL, np.zeros((3, 14)), np.zeros(3), u)


# ---- kinematics


@pytest.mark.parametrize("scene", ["hand", "fingertips"])
def test_fingertips_are_where_mujoco_has_them(scene: str, problem: Problem) -> None:
    mjm = mjcf.load("hand") if scene == "hand" else problem.mjm
    mjd = mujoco.MjData(mjm)
    for seed in range(5):
        mjd.qpos[:-7] = np.random.default_rng(seed).normal(size=mjm.nq - 7)
        mujoco.mj_kinematics(mjm, mjd)
        for site in range(mjm.nsite):
            got = kinematics.chain(mjm, site).position(np, mjd.qpos)
            np.testing.assert_allclose(got, mjd.site_xpos[site], atol=1e-14)


def test_a_chain_follows_anchors_references_and_several_joints() -> None:
    mjm = mujoco.MjModel.from_xml_string("""<mujoco><worldbody><body pos=".1 .2 .3" euler="20 30 40">
      <joint type="hinge" axis="1 2 3" pos=".1 -.2 .3"/><joint type="slide" axis="0 1 1" ref=".2"/>
      <joint type="hinge" axis="0 1 0" pos="0 .1 0" ref="30"/><geom size=".1"/>
      <body pos="0 0 .5" euler="0 90 0"><joint axis="0 0 1"/><geom size=".1"/><site name="s" pos=".1 .2 .3"/></body>
      </body></worldbody></mujoco>""")
    mjd = mujoco.MjData(mjm)
    mjd.qpos[:] = [0.3, -0.4, 0.5, 0.6]
    mujoco.mj_kinematics(mjm, mjd)
    np.testing.assert_allclose(kinematics.chain(mjm, 0).position(np, mjd.qpos), mjd.site_xpos[0], atol=1e-14)


def test_a_ball_joint_on_the_way_is_refused() -> None:
    xml = "<mujoco><worldbody><body><joint name='b' type='ball'/><geom size='.1'/><site/></body></worldbody></mujoco>"
    with pytest.raises(Unsupported, match="'b'"):
        kinematics.chain(mujoco.MjModel.from_xml_string(xml), 0)


def test_a_turn_is_seen_from_the_body() -> None:
    """As MuJoCo integrates it, for turns up to pi, and none."""
    rng = np.random.default_rng(1)
    for size in (0.0, 1e-9, 0.3, 3.1):
        quat, turn = rng.normal(size=4), rng.normal(size=3)
        quat, turn = quat / np.linalg.norm(quat), size * turn / np.linalg.norm(turn)
        want = quat.copy()
        mujoco.mju_quatIntegrate(want, turn, 1.0)
        got = kinematics.move(np, np.concatenate([np.zeros(3), quat]), np.concatenate([np.zeros(3), turn]))
        np.testing.assert_allclose(got[3:], want, atol=1e-12)


# ---- CasADi and JAX


def of_plan(problem: Problem, xp: Any, contacts: Rows, u: Any) -> Any:
    weights, model = problem.smooth("newton")
    chains, posture = kinematics.chains(problem.mjm, weights.sites), problem.mjm.qpos0[:9]
    weights = dataclasses.replace(weights, posture=2.0)
    goal, qpos = (xp.asarray(GOAL[0]), xp.asarray(GOAL[1])), xp.asarray(held(problem))
    rows, phi = xp.asarray(contacts.rows), xp.asarray(contacts.phi)
    steps = [u[9 * t : 9 * (t + 1)] for t in range(2)]
    return cost.of_plan(xp, weights, model, chains, posture, goal, qpos, rows, phi, steps)


def test_casadi_is_numpy(problem: Problem, contacts: Rows) -> None:
    ca = pytest.importorskip("casadi", reason="needs the extra `mpc`")
    from stickslip.mpc.planners.shooting.casadi_form import Arrays

    for kind in (ca.SX, ca.MX):
        u = kind.sym("u", 9)
        delta = quasidynamic.displacement(Arrays(), MODEL, ca.DM(contacts.rows), ca.DM(contacts.phi), u)
        f = ca.Function("f", [u], [delta, ca.jacobian(delta, u)])
        for x in controls(5):
            got, by = (np.asarray(a) for a in f(x))
            want = lambda x: quasidynamic.displacement(np, MODEL, contacts.rows, contacts.phi, x)  # noqa: E731
            np.testing.assert_allclose(got.reshape(-1), want(x), rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(by, difference(want, x), rtol=1e-6, atol=1e-8)
    u = ca.SX.sym("u", 18)
    total = of_plan(problem, Arrays(), contacts, u)
    hessian, gradient = ca.hessian(total, u)
    f = ca.Function("f", [u], [total, gradient, hessian])
    x = controls(2).reshape(-1)
    got, slope, curvature = (np.asarray(a) for a in f(x))
    assert got.item() == pytest.approx(of_plan(problem, np, contacts, x), rel=1e-12)
    by = difference(lambda x: of_plan(problem, np, contacts, x), x)
    np.testing.assert_allclose(slope.reshape(-1), by, rtol=1e-5, atol=1e-5 * np.abs(by).max())
    by = difference(lambda x: np.asarray(f(x)[1]).reshape(-1), x)
    np.testing.assert_allclose(curvature, by, atol=1e-5 * np.abs(by).max())


def test_logaddexp_of_casadi_has_all_its_derivatives() -> None:
    """At 0, where its halves meet, and far away."""
    ca = pytest.importorskip("casadi", reason="needs the extra `mpc`")
    from stickslip.mpc.planners.shooting.casadi_form import Arrays

    x = ca.SX.sym("x")
    y = Arrays().logaddexp(x, 0.0 * x)
    curvature, slope = ca.hessian(y, x)
    f = ca.Function("f", [x], [y, slope, curvature])
    for at in (0.0, 1e-12, -1e-12, 2.0, -2.0, 40.0, -40.0, 1e4, -1e4):
        share = 1.0 / (1.0 + math.exp(-at)) if abs(at) < 700 else float(at > 0)
        want = [np.logaddexp(at, 0.0), share, share * (1.0 - share)]
        np.testing.assert_allclose([float(v) for v in f(at)], want, rtol=1e-9, atol=1e-15)


def test_jax_is_numpy(problem: Problem, contacts: Rows) -> None:
    jax = pytest.importorskip("jax", reason="needs the extra `jax`")
    from tests.reference import quasidynamic_jax

    with jax.enable_x64(True):
        for x in controls(5):
            want = lambda x: quasidynamic.displacement(np, MODEL, contacts.rows, contacts.phi, x)  # noqa: E731
            got = quasidynamic_jax.displacement(MODEL, contacts.rows, contacts.phi, x)
            by = quasidynamic_jax.jacobian(MODEL, contacts.rows, contacts.phi, x)
            np.testing.assert_allclose(got, want(x), rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(by, difference(want, x), rtol=1e-6, atol=1e-8)
        weights = dataclasses.replace(problem.smooth("newton")[0], posture=2.0)
        f = quasidynamic_jax.plan_cost(
            weights, MODEL, kinematics.chains(problem.mjm, weights.sites), problem.mjm.qpos0[:9]
        )
        x = controls(2)
        got, slope = f(GOAL, held(problem), contacts.rows, contacts.phi, x)
        flat = x.reshape(-1)
        assert float(got) == pytest.approx(of_plan(problem, np, contacts, flat), rel=1e-12)
        by = difference(lambda x: of_plan(problem, np, contacts, x), flat).reshape(2, 9)
        np.testing.assert_allclose(slope, by, rtol=1e-5, atol=1e-5 * np.abs(by).max())


def test_parameters_are_hashable() -> None:
    """JAX compiles a function once for each set of them."""
    assert hash(QuasiDynamic()) == hash(QuasiDynamic())
