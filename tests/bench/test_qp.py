"""The method `qp`: its program against the conditions of optimality, closed forms, and what is done from outside."""

import sys

import mujoco
import numpy as np
import pytest

from stickslip.bench import runner
from stickslip.bench.baselines.qp import QpModel, solve
from stickslip.bench.experiments.friction.stick import Stick
from stickslip.bench.result import load
from stickslip.errors import HealthWarning, InputError, MissingExtra, Unsupported
from stickslip.simulation import Simulation
from tests.support import same_bits

needs_osqp = pytest.mark.usefixtures("osqp")
MASS, RADIUS, MU, DT, G = 0.2, 0.05, 0.3, 0.01, 9.81


@pytest.fixture
def osqp():
    return pytest.importorskip("osqp", reason="the method qp needs OSQP: pip install 'stickslip[bench]'")


def ball(*, height: float = RADIUS, condim: int = 3, more: str = "", joints: str = "") -> str:
    """A sphere that may slide along all axes, above a plane."""
    slides = "".join(f'<joint type="slide" axis="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1"))
    return f"""
    <mujoco>
      <option timestep="{DT}"/>
      <worldbody>
        <geom name="floor" type="plane" size="0 0 1" friction="{MU} 0.02 0.0001" condim="{condim}"/>
        <body name="ball" pos="0 0 {height}">
          {joints or slides}
          <geom type="sphere" size="{RADIUS}" mass="{MASS}" friction="{MU} 0.02 0.0001" condim="{condim}"/>
        </body>
        {more}
      </worldbody>
    </mujoco>
    """


def stepped(scene: str, velocity: list[float], steps: int = 1, **parameters: float) -> Simulation:
    sim = Simulation(scene, QpModel(**parameters), device="cpu")
    sim.qvel = velocity
    sim.step(steps)
    return sim


@needs_osqp
@pytest.mark.parametrize("mass", [1e-3, 1.0, 1e3])
def test_solution_fulfils_the_conditions_of_optimality(mass):
    random = np.random.default_rng(0)
    for _ in range(10):
        root = random.normal(size=(8, 8))
        inertia = mass * (root @ root.T + 8 * np.eye(8))
        momentum, facets, gap = mass * random.normal(size=8), random.normal(size=(6, 8)), random.normal(size=6)
        velocity, impulse, seconds = solve(inertia, momentum, facets, gap, 1e-6)
        slack = facets @ velocity + gap
        assert np.abs(inertia @ velocity - momentum - facets.T @ impulse).max() < 1e-5 * mass
        assert slack.min() > -1e-5
        assert impulse.min() >= 0.0
        assert np.abs(slack * impulse).max() < 1e-5 * mass
        assert seconds > 0.0 or not impulse.any()


@needs_osqp
def test_without_contact_a_step_is_mujocos():
    scene = """
    <mujoco>
      <worldbody>
        <body><freejoint/><geom type="box" size="0.1 0.2 0.3"/></body>
        <body pos="2 0 0"><joint name="arm" axis="0 1 0" damping="3"/><geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.1"/></body>
      </worldbody>
      <actuator><position joint="arm" kp="50" kv="1" ctrlrange="-1 1"/></actuator>
    </mujoco>
    """  # noqa: E501
    sim = Simulation(scene, QpModel(), device="cpu")
    reference = mujoco.MjData(sim.mjm)
    reference.qvel[:] = [1.0, -2.0, 0.5, 3.0, -4.0, 5.0, 1.5]
    reference.ctrl[:] = 0.7
    reference.xfrc_applied[1] = [1.0, 2.0, 3.0, 0.4, 0.5, 0.6]
    sim.qvel, sim.ctrl, sim.xfrc_applied = reference.qvel, reference.ctrl, reference.xfrc_applied
    for _ in range(20):
        mujoco.mj_step(sim.mjm, reference)
    sim.step(20)
    np.testing.assert_allclose(sim.qpos.numpy()[0], reference.qpos, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sim.qvel.numpy()[0], reference.qvel, rtol=1e-5, atol=1e-5)
    assert sim.contact_count() == 0


@needs_osqp
@pytest.mark.parametrize("speed", [0.1, 2.0])
def test_sliding_lifts(speed):
    """The facet that brakes is active: v_z = mu v_x, and the impulse J solves v = v_free + J/m (-mu, 0, 1)."""
    sim = stepped(ball(), [speed, 0.0, 0.0])
    along = (speed - MU * G * DT) / (1 + MU**2)
    np.testing.assert_allclose(sim.qvel.numpy()[0], [along, 0.0, MU * along], atol=1e-5)
    normal = MASS * (MU * along + G * DT) / DT
    contacts = sim.contacts()
    np.testing.assert_allclose(contacts.force[0, 0], normal, rtol=1e-4)
    world = contacts.frame[0].T @ contacts.force[0, :3]
    np.testing.assert_allclose(world, [-MU * normal, 0.0, normal], rtol=1e-4, atol=1e-4)


@needs_osqp
def test_slow_sliding_sticks():
    sim = stepped(ball(), [0.9 * MU * G * DT, 0.0, 0.0])
    np.testing.assert_allclose(sim.qvel.numpy()[0], 0.0, atol=1e-6)
    assert sim.contacts().force[0, 0] == pytest.approx(MASS * G, rel=1e-4)


@needs_osqp
def test_a_gap_is_closed_and_no_more():
    sim = stepped(ball(height=RADIUS + 0.002), [0.0, 0.0, -1.0])
    assert sim.qpos.numpy()[0, 2] == pytest.approx(-0.002, abs=1e-7)
    missed = stepped(ball(height=RADIUS + 0.002), [0.0, 0.0, -1.0], margin=0.001)
    assert missed.qpos.numpy()[0, 2] == pytest.approx(DT * (-1.0 - G * DT), abs=1e-7)


@needs_osqp
def test_a_depth_is_undone_in_one_step_and_leaves_its_speed():
    sim = stepped(ball(height=RADIUS - 0.003), [0.0, 0.0, 0.0])
    assert sim.contacts().dist[0] == pytest.approx(-0.003, abs=1e-7)
    np.testing.assert_allclose(sim.qpos.numpy()[0], [0.0, 0.0, 0.003], atol=1e-7)
    np.testing.assert_allclose(sim.qvel.numpy()[0], [0.0, 0.0, 0.3], atol=1e-5)


@needs_osqp
def test_a_contact_without_friction_does_not_brake():
    sim = stepped(ball(condim=1), [1.0, 0.0, 0.0])
    np.testing.assert_allclose(sim.qvel.numpy()[0], [1.0, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(sim.contacts().force[0], [MASS * G, 0.0, 0.0, 0.0, 0.0, 0.0], rtol=1e-5, atol=1e-6)


@needs_osqp
def test_torsional_friction_is_a_facet_too():
    """v_z = c omega: both share the impulse J, v_z = -g dt + J/m, omega = omega0 - c J/I."""
    joints = '<joint type="slide" axis="0 0 1"/><joint type="hinge" axis="0 0 1"/>'
    sim = stepped(ball(condim=4, joints=joints), [0.0, 5.0])
    c, inertia = 0.02, 0.4 * MASS * RADIUS**2
    impulse = (c * 5.0 + G * DT) / (1 / MASS + c**2 / inertia)
    np.testing.assert_allclose(sim.qvel.numpy()[0, 1], 5.0 - c * impulse / inertia, rtol=1e-4)
    np.testing.assert_allclose(sim.qvel.numpy()[0, 0], c * sim.qvel.numpy()[0, 1], rtol=1e-3)
    np.testing.assert_allclose(abs(sim.contacts().force[0, 3]), c * impulse / DT, rtol=1e-4)


@needs_osqp
def test_a_box_at_rest_stays_and_is_carried():
    sim = Simulation("box-on-slope:angle=0,overlap=0", QpModel(), device="cpu")
    start = sim.qpos.numpy()
    sim.step(20)
    np.testing.assert_allclose(sim.qpos.numpy(), start, atol=1e-7)
    force = sim.contacts().force
    assert len(force) == sim.contact_count() == 4
    assert force[:, 0].sum() == pytest.approx(4.0 * G, rel=1e-5)


@needs_osqp
def test_unsupported_features_are_all_named():
    hinge = '<body><joint name="h" limited="true" range="-1 1" frictionloss="1"/><geom size="0.1"/></body>'
    scene = f"""
    <mujoco>
      <option integrator="implicitfast"/>
      <worldbody>{hinge}</worldbody>
      <equality><joint joint1="h"/></equality>
      <actuator><intvelocity joint="h" actrange="-1 1"/></actuator>
    </mujoco>
    """
    named = r"equality constraints \(1\), limits \(1\), dry friction \(1\), activations \(1\), integrators other than"
    with pytest.raises(Unsupported, match=named):
        Simulation(scene, QpModel(), device="cpu")
    sim = Simulation(ball(), QpModel(), device="cpu")
    with pytest.raises(Unsupported, match="body_mass"):
        sim.set_model(body_mass=np.ones(sim.mjm.nbody))


@pytest.mark.parametrize(("name", "value"), [("margin", -1.0), ("margin", float("nan")), ("tolerance", 0.0)])
def test_parameters_are_checked(name, value):
    with pytest.raises(InputError, match=name):
        QpModel(**{name: value})


@needs_osqp
def test_what_is_written_from_outside_counts():
    sim = Simulation(ball(height=1.0), QpModel(), nworld=2, device="cpu")
    sim.step(3)
    qpos, qvel = sim.qpos.numpy(), sim.qvel.numpy()
    qpos[1], qvel[1] = [0.5, 0.6, 0.7], [1.0, 2.0, 3.0]
    sim.qpos, sim.qvel = qpos, qvel
    np.testing.assert_array_equal(sim.state.qpos, qpos)
    sim.qfrc_applied = [[0.0, 0.0, 0.0], [0.0, 0.0, MASS * G]]
    sim.step()
    np.testing.assert_allclose(sim.qvel.numpy()[1], [1.0, 2.0, 3.0], rtol=1e-6)
    np.testing.assert_allclose(sim.qpos.numpy()[1], [0.51, 0.62, 0.73], rtol=1e-6)
    np.testing.assert_allclose(sim.qvel.numpy()[0], [0.0, 0.0, -4 * G * DT], rtol=1e-6)
    np.testing.assert_allclose(sim.state.time, 4 * DT, rtol=1e-6)
    state = sim.state
    sim.step(5)
    sim.state = state
    np.testing.assert_array_equal(sim.state.qpos, state.qpos)
    np.testing.assert_array_equal(sim.state.time, state.time)


@needs_osqp
def test_reset_brings_back_one_world_and_nothing_else():
    sim = Simulation(ball(height=RADIUS), QpModel(), nworld=2, device="cpu")
    sim.qfrc_applied = [1.0, 0.0, 0.0]
    sim.step(3)
    assert sim.contact_count() == 2
    velocity = sim.qvel.numpy()
    velocity[1] = [7.0, 0.0, 0.0]
    sim.qvel = velocity
    sim.reset([True, False])
    np.testing.assert_array_equal(sim.qpos.numpy()[0], 0.0)
    np.testing.assert_array_equal(sim.qfrc_applied.numpy(), [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(sim.qvel.numpy(), [[0.0, 0.0, 0.0], [7.0, 0.0, 0.0]])
    assert len(sim.contacts()) == sim.contact_count() == 1
    assert list(sim.contacts().world) == [1]
    with pytest.raises(InputError, match="mask"):
        sim.reset([True])


@needs_osqp
def test_a_program_without_solution_gives_nan():
    """A lid 1 mm too low: no velocity leaves both planes."""
    lid = f'<geom type="plane" size="0 0 1" pos="0 0 {2 * RADIUS - 0.001}" euler="180 0 0"/>'
    sim = stepped(ball(more=lid), [0.0, 0.0, 0.0])
    assert np.isnan(sim.qvel.numpy()).all()
    assert sim.health().nan_worlds == (0,)
    sim.step(2)
    with pytest.warns(HealthWarning, match="no longer finite"):
        assert len(sim.contacts()) == 0
    sim.reset()
    assert sim.health().ok


@needs_osqp
def test_two_runs_agree_to_the_last_bit():
    def end() -> np.ndarray:
        return stepped("sliding-cube", [2.0, 0.0, 0.0, 0.1, 0.1, 0.1], 60).qpos.numpy()

    assert same_bits(end(), end())


@needs_osqp
def test_time_of_the_solver_is_told():
    sim = stepped(ball(), [1.0, 0.0, 0.0], 5)
    assert isinstance(sim.physics, QpModel)
    assert sim.physics.solver_seconds(sim.d) > 0.0
    sim.reset()
    assert sim.physics.solver_seconds(sim.d) == 0.0


@pytest.mark.parametrize("package", ["osqp", "scipy"])
def test_without_osqp_the_method_is_listed_with_the_fix(package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r"pip install 'stickslip\[bench\]'"):
        Simulation(ball(), QpModel(), device="cpu")
    result = load(runner.run(Stick(), tmp_path, methods=["qp"], device="cpu", quick=True, picture=False))
    assert all("pip install 'stickslip[bench]'" in reason for reason in result.unsupported("qp").values())
    assert set(result.unsupported("qp")) == set(result.cases)
