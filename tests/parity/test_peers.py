"""What the models of other projects brought to light: each once, in the smallest model that shows it."""

import itertools
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest
import warp as wp
from mujoco_warp._src import collision_sdf

import stickslip as ss
from stickslip import comfree, conesweep, mjcf
from stickslip.errors import InputError, Unsupported
from stickslip.physics.mjwarp import unfit

SLIDES = """<mujoco><worldbody><body>
    <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
    <joint name="across" type="slide" axis="1 1 0" armature="{armature}"/><geom size=".05" mass="1"/></body></worldbody>
  <actuator><motor joint="across" gear="2"/></actuator></mujoco>"""
"""Three slides in a plane: any motion of the third is one of the others, so that M has no inverse."""


@pytest.mark.parametrize("name", ["mujoco", "comfree", "cone-sweep", "icf", "cenic", "scm"])
def test_joints_that_cannot_be_told_apart_are_refused(name: str) -> None:
    """In single precision the accelerations were NaN, or noise of 1e7 m/s^2; MuJoCo in C warns and divides by 1e-15."""
    with pytest.warns(UserWarning, match="singular"):  # MuJoCo's own
        mjm = mjcf.load(SLIDES.format(armature=0))
    with pytest.raises(Unsupported, match=f"{name} does not support: a singular inertia matrix.*'x'.*give.*armature"):
        ss.PHYSICS[name]().check(mjm)


FAR = """<mujoco><worldbody>
    <body><joint name="rail" type="slide"/><geom size=".1"/>
      <body><joint name="near" axis="0 1 0" armature="{armature}"/><geom size=".05" pos="0 0 .1"/></body>
      <body pos="{far} 0 0"><geom size=".2"/></body></body></worldbody></mujoco>"""
"""A small body on a hinge, in one tree with a heavy one that is far away."""


@pytest.mark.parametrize("name", ["mujoco", "comfree", "cone-sweep", "icf", "cenic"])
def test_inertia_that_single_precision_cannot_tell_is_refused(name: str) -> None:
    """M is found about the centre of mass of the tree, a kilometre away: the inertia of the hinge was below zero."""
    with pytest.raises(
        Unsupported, match=f"{name} does not support: inertia .* cannot tell .joints 'near': .* at most 10"
    ):
        ss.PHYSICS[name]().check(mjcf.load(FAR.format(far=1000, armature=0)))
    for far, armature in ((1, 0), (1000, 1000)):
        ss.PHYSICS[name]().check(mjcf.load(FAR.format(far=far, armature=armature)))


@pytest.mark.parametrize("far", [30, 100])
def test_the_error_is_that_of_the_device(device: str, far: float) -> None:
    """What the check predicts is as large as what the device is wrong by, at distances that are still allowed."""
    mjm = mjcf.load(FAR.format(far=far, armature=0))
    ss.ConeSweep().check(mjm)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_forward(mjm, mjd)
    sim = ss.Simulation(mjm, ss.ConeSweep(), nworld=1, device=device)
    sim.forward()
    hinge = mjm.M_rowadr[1] + mjm.M_rownnz[1] - 1
    found = abs(sim.d.M.numpy().ravel()[hinge] / mjd.M[hinge] - 1.0)
    tried = [unfit.rigid_inertia(mjm, mjd, np.float32, shift)[hinge] for shift in unfit.SHIFTS]
    predicted = np.abs(np.array(tried) / mjd.M[hinge] - 1.0).max()
    assert 1e-4 < found < 0.1 and 0.1 < predicted / found < 10.0
    for shift in unfit.SHIFTS:
        np.testing.assert_allclose(unfit.rigid_inertia(mjm, mjd, np.float64, shift), mjd.M, rtol=1e-9)


DAMPED = """<mujoco><option integrator="implicitfast" gravity="0 0 0"/><worldbody>
    <body pos=".3 0 0"><freejoint/><geom type="box" size=".1 .05 .02" mass="1"/><site name="a" pos=".1 .05 0"/></body>
    <body><site name="b"/></body></worldbody>
  <tendon><spatial damping="500"><site site="a"/><site site="b"/></spatial></tendon></mujoco>"""


@pytest.mark.parametrize("name", ["cone-sweep", "comfree"])
def test_a_damped_tendon_does_not_throw_a_free_body_away(device: str, name: str) -> None:
    """MuJoCo Warp's implicitfast leaves the damping of tendons out for free bodies: 775 rad/s after 0.1 s.

    C has all of it, and here a body whose M is diagonal has the diagonal of it.
    """
    mjm, qvel = mjcf.load(DAMPED), np.array([1.0, 0.5, 0.2, 3.0, 2.0, 5.0])
    mjd = mujoco.MjData(mjm)
    mjd.qvel[:] = qvel
    mujoco.mj_step(mjm, mjd, 50)
    far = {}
    for which in (name, "mujoco"):
        sim = ss.Simulation(mjm, ss.PHYSICS[which](), nworld=1, device=device)
        sim.qvel = qvel[None]
        sim.step(50)
        far[which] = np.linalg.norm(sim.qvel.numpy()[0] - mjd.qvel)
    assert far[name] < 0.3 * np.linalg.norm(mjd.qvel) and far["mujoco"] > 100.0 * far[name]


def test_armature_tells_joints_apart(device: str) -> None:
    sim = ss.Simulation(mjcf.load(SLIDES.format(armature=0.1)), ss.ConeSweep(), nworld=1, device=device)
    sim.ctrl = np.ones((1, 1))
    sim.step()
    # the force acts on the third slide alone: 2 N move 0.1 kg, and the body, held by nothing else, stays
    np.testing.assert_allclose(sim.qvel.numpy()[0] / 0.002, [-20.0 / 2**0.5, -20.0 / 2**0.5, 20.0], rtol=1e-4)


APART = """<mujoco><worldbody>
    <body name="b"><freejoint/><geom name="box" type="box" size=".1 .1 .1"/></body>
    <body name="c" pos="0 0 .5"><geom name="other" type="box" size=".1 .2 .1" euler="0 0 30"/><geom size=".05"/></body>
  </worldbody>
  <sensor><distance {between} cutoff="1"/><normal {between} cutoff="1"/><fromto {between} cutoff="1"/></sensor>
</mujoco>"""


@pytest.mark.parametrize("between", ['geom1="box" geom2="other"', 'body1="c" geom2="box"', 'body1="b" body2="c"'])
@pytest.mark.parametrize("name", ["comfree", "cone-sweep", "icf"])
def test_distance_between_boxes(device: str, name: str, between: str) -> None:
    """The sensor said `cutoff`, since the routine that finds all points of two boxes knows none that are apart."""
    mjm = mjcf.load(APART.format(between=between))
    mjd = mujoco.MjData(mjm)
    mujoco.mj_forward(mjm, mjd)
    sim = ss.Simulation(mjm, ss.PHYSICS[name](), nworld=1, device=device)
    sim.forward()
    got = sim.sensordata.numpy()[0]
    assert 0.29 < got[0] < 0.31
    # where two faces lie above each other, the segment may be anywhere between them
    np.testing.assert_allclose(
        np.r_[got[:4], got[6], got[9]], np.r_[mjd.sensordata[:4], mjd.sensordata[[6, 9]]], atol=1e-4
    )


ADHESION = """<mujoco><option cone="{cone}" integrator="{integrator}"/><worldbody>
    <geom type="plane" size="9 9 1"/>
    <body name="a" pos="0 0 .099"><freejoint/>
      <geom type="box" size=".1 .1 .1" condim="{condim}" euler="5 3 0"/>
      <body name="b" pos="0 0 .2"><joint axis="0 1 0" damping=".1"/><joint axis="1 0 0"/>
        <geom size=".05" pos=".2 0 .01" margin=".02"/></body></body>
    <body name="c" pos=".2 0 .4"><joint type="slide" axis="0 0 1"/><geom size=".05" gap=".06"/>
      <geom type="capsule" size=".02 .1" pos="9 0 -.282" euler="0 90 0"/></body>
    <body name="far" pos="3 0 .1005"><freejoint/><geom size=".1"/></body>
  </worldbody>
  <actuator><adhesion body="a" gain="7" ctrlrange="0 1"/><adhesion body="b" gain="3" ctrlrange="0 1"/>
    <adhesion body="c" gain="2" ctrlrange="0 1"/><adhesion body="far" gain="9" ctrlrange="0 1"/></actuator></mujoco>"""
"""Contacts that touch, within a margin, within a gap, and one that is nearer than a physics looks ahead."""


@pytest.mark.parametrize("name, cone, integrator, condim", [
    ("comfree", "pyramidal", "Euler", 3),
    ("cone-sweep", "elliptic", "implicitfast", 4),
    ("cone-sweep", "pyramidal", "Euler", 1),
    ("icf", "pyramidal", "Euler", 6),
    ("cenic", "elliptic", "Euler", 3),
])  # fmt: skip
def test_adhesion_actuators_pull_as_in_c(device: str, name: str, cone: str, integrator: str, condim: int) -> None:
    """Forces on dofs, from the geometry of contacts, in two worlds with controls of their own."""
    mjm = mjcf.load(ADHESION.format(cone=cone, integrator=integrator, condim=condim))
    sim = ss.Simulation(mjm, ss.PHYSICS[name](), nworld=2, device=device)
    sim.ctrl = ctrl = np.array([[1.0, 0.5, 0.8, 1.0], [0.0, 0.3, 0.6, 1.0]])
    sim.forward()
    for world in range(2):
        mjd = mujoco.MjData(mjm)
        mjd.ctrl[:] = ctrl[world]
        mujoco.mj_forward(mjm, mjd)
        assert np.count_nonzero(np.abs(mjd.qfrc_actuator[:9]) > 0.1) > 3
        # an edge of a tilted box: MuJoCo in C and the routine for all points place it a little differently
        np.testing.assert_allclose(sim.d.qfrc_actuator.numpy()[world], mjd.qfrc_actuator, atol=2e-3)


CEILING = """<mujoco><worldbody>
    <geom type="box" size="1 1 .1" pos="0 0 1.1"/>
    <body name="ball" pos="0 0 .9"><freejoint/><geom size=".1" mass="1" gap=".01"/></body></worldbody>
  <actuator><adhesion body="ball" gain="20" ctrlrange="0 1"/></actuator></mujoco>"""


@pytest.mark.parametrize("name", ["comfree", "cone-sweep", "icf", "cenic"])
def test_adhesion_holds_a_ball_at_the_ceiling(device: str, name: str) -> None:
    """20 N hold 9.81 N; 8 N do not, and the ball falls freely once it is beyond the gap."""
    sim = ss.Simulation(mjcf.load(CEILING), ss.PHYSICS[name](), nworld=2, device=device)
    sim.ctrl = np.array([[1.0], [0.4]])
    sim.step(200)
    height, speed = sim.qpos.numpy()[:, 2], sim.qvel.numpy()[:, 2]
    assert abs(height[0] - 0.9) < 2e-3 and abs(speed[0]) < 1e-2
    assert height[1] < 0.7 and speed[1] < -2.0


@pytest.mark.parametrize("module", [conesweep, comfree])
def test_adhesion_behind_mujoco_warps_names(device: str, module: Any) -> None:
    """The function by itself, and the two halves of a step."""
    mjm = mjcf.load(CEILING)
    mjd = mujoco.MjData(mjm)
    mjd.ctrl[:] = 1.0
    mujoco.mj_forward(mjm, mjd)
    m, d = module.put_model(mjm), module.put_data(mjm, mjd)
    d.actuator_moment.zero_()
    module.collision(m, d)
    module.transmission(m, d)
    np.testing.assert_allclose(d.actuator_moment.numpy()[0, :6], [0, 0, 1, 0, 0, 0], atol=1e-6)
    d.qfrc_actuator.zero_()
    module.step1(m, d)
    module.step2(m, d)
    np.testing.assert_allclose(d.qfrc_actuator.numpy()[0], mjd.qfrc_actuator, atol=1e-5)
    assert mjd.qfrc_actuator[2] == pytest.approx(20.0)


def castle(n: int) -> str:
    """A cube of n x n x n sticky balls, a little pressed together."""
    at = itertools.product(range(n), repeat=3)
    ball = '<body pos="{} {} {}"><freejoint/><geom size=".05" mass=".05" gap=".01" adhesion=".6"/></body>'
    balls = (ball.format(0.1 * x, 0.1 * y, 0.05 + 0.099 * z) for x, y, z in at)
    return f'<mujoco><worldbody><geom type="plane" size="9 9 1"/>{"".join(balls)}</worldbody></mujoco>'


@pytest.mark.parametrize("name", ["cone-sweep", "icf", "cenic"])
def test_a_sand_castle_stands(device: str, name: str) -> None:
    """Geoms that stick pull passively, in the middle of a pile: nothing creeps, and nothing flies apart."""
    sim = ss.Simulation(mjcf.load(castle(2)), ss.PHYSICS[name](), nworld=1, device=device)
    start = sim.qpos.numpy().copy()
    for _ in range(5):
        sim.step(20)
        assert np.abs(sim.qvel.numpy()).max() < 0.05
    np.testing.assert_allclose(sim.qpos.numpy(), start, atol=2e-3)


TORUS = """<mujoco><extension><plugin plugin="mujoco.sdf.torus"><instance name="torus"/></plugin></extension>
  <asset><mesh name="torus"><plugin instance="torus"/></mesh></asset>
  <worldbody><geom type="plane" size="9 9 1"/><body pos="0 0 1"><freejoint/>
    <geom name="ring" type="sdf" mesh="torus"><plugin instance="torus"/></geom></body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def torus() -> mujoco.MjModel:
    return mjcf.load(TORUS)


@pytest.mark.parametrize("name", ["mujoco", "comfree", "cone-sweep", "icf", "cenic", "pbd-r", "scm"])
def test_signed_distances_of_plugins_are_refused(torus: mujoco.MjModel, name: str) -> None:
    """MuJoCo Warp printed a line for every distance and took it as 0: a nut and a bolt flew apart."""
    with pytest.raises(Unsupported, match=f"{name} does not support: .*plugin"):
        ss.PHYSICS[name]().check(torus)


def test_signed_distances_of_plugins_with_their_functions(
    torus: mujoco.MjModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who have given MuJoCo Warp the functions are not refused."""

    @wp.func
    def distance(p: wp.vec3, attr: collision_sdf.vec_pluginattr, sdf_type: int) -> float:
        return wp.length(p) - 0.5

    for name in ("user_sdf", "user_sdf_grad"):
        monkeypatch.setattr(collision_sdf, name, distance)
    ss.ConeSweep().check(torus)


@pytest.mark.parametrize("name", ["mujoco", "comfree", "cone-sweep", "icf", "cenic", "pbd-r"])
def test_the_flag_against_automatic_resets_is_honoured(name: str) -> None:
    """Nothing here resets itself; the model itself keeps the flag."""
    flag = '<option><flag autoreset="disable"/></option>'
    mjm = mjcf.load(f'<mujoco>{flag}<worldbody><body><freejoint/><geom size=".05"/></body></worldbody></mujoco>')
    ss.PHYSICS[name]().check(mjm)
    assert mjm.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_AUTORESET


PRESSED = """<mujoco><option gravity="0 0 0"/><worldbody>
    <body><joint axis="0 1 0" range="-30 20"/><geom size=".05" mass=".1" pos="0 0 .3"/></body>
    <body pos="1 0 0"><joint name="s" type="slide" range="-1 9"/><geom size=".05" mass=".1"/></body></worldbody>
  <tendon><fixed limited="true" range="-.1 .2"><joint joint="s" coef="1"/></fixed></tendon>
  <actuator><motor joint="s"/></actuator></mujoco>"""


def test_a_limit_holds_what_presses_it(device: str) -> None:
    """Limits of ComFree took 1.3 % of a velocity away in a step: motors drove a humanoid through them until it was NaN.

    Half of it leaves a joint at rest where stiffness makes up for the other half: a dt (dt + d/k) beyond the limit.
    """
    sim = ss.Simulation(mjcf.load(PRESSED), ss.ComFree(stiffness=0.2, damping=0.001), nworld=1, device=device)
    inertia = float(sim.mjm.body_mass[1] * 0.3**2 + sim.mjm.body_inertia[1, 1])
    sim.qfrc_applied = np.array([[1000.0 * inertia, 0.0]])
    sim.ctrl = np.array([[-100.0]])  # the same acceleration, 1000 / s^2, of a slide on a tendon
    sim.step(300)
    beyond = 1000.0 * 0.002 * (0.002 + 0.001 / 0.2)
    np.testing.assert_allclose(sim.qpos.numpy()[0], [np.deg2rad(20.0) + beyond, -0.1 - beyond], rtol=1e-3)


def chain(option: str, n: int = 1) -> str:
    """A chain of n hinges."""
    body = '<body pos="0 0 -.1"><joint axis="0 1 0" armature=".01"/><geom size=".02"/>'
    return f"<mujoco><option {option}/><worldbody>{body * n}{'</body>' * n}</worldbody></mujoco>"


@pytest.mark.parametrize("name", ["comfree", "cone-sweep", "icf", "cenic"])
@pytest.mark.parametrize("option", ['solver="PGS"', 'jacobian="dense"'])
def test_options_of_a_solver_do_not_matter_without_one(device: str, name: str, option: str) -> None:
    """Gymnasium's humanoid asks for PGS; MuJoCo Warp has none, and dense Jacobians of up to 60 dofs only."""
    mjm = mjcf.load(chain(option, n=61))
    ss.Simulation(mjm, ss.PHYSICS[name](), nworld=1, device=device).step()


@pytest.mark.parametrize(
    "model, cure",
    [
        (chain('solver="PGS"'), "use the solver Newton or CG"),
        (chain('jacobian="dense"', n=61), "use jacobian auto or sparse"),
        (chain('solver="CG"><flag sleep="enable"/></option><option'), "use the solver Newton"),
        (chain('gravity="0 0 1"><flag fwdinv="enable"/></option><option'), "clear that flag"),
    ],
)
def test_what_mujoco_warp_refuses_comes_with_a_cure(model: str, cure: str) -> None:
    """Two of these were a ValueError that names no physics."""
    with pytest.raises(Unsupported, match=f"mujoco does not support: .*{cure}"):
        ss.MuJoCo().check(mjcf.load(model))


@pytest.mark.parametrize("module", [conesweep, comfree])
def test_the_integrator_implicit_by_its_name(device: str, module: Any) -> None:
    """With the integrator set later it wrote factors into an array of no size, and the process died."""
    mjm = mjcf.load(chain('integrator="implicitfast"', n=3))
    mjd = mujoco.MjData(mjm)
    mjd.qvel[:] = 1.0
    m, d = module.put_model(mjm), module.put_data(mjm, mjd)
    module.forward(m, d)
    module.implicit(m, d)
    mujoco.mj_step(mjm, mjd)
    np.testing.assert_allclose(d.qvel.numpy()[0], mjd.qvel, atol=1e-5)
    m.opt.integrator = mjw.IntegratorType.IMPLICIT
    with pytest.raises(Unsupported, match="integrator IMPLICIT .use Euler or implicitfast"):
        module.implicit(m, d)


def test_arguments_of_put_model_are_no_features(device: str) -> None:
    with pytest.raises(InputError, match="cone-sweep: .*'missing' is not a batched array field"):
        conesweep.put_model(mjcf.load(chain("")), batch_sizes={"missing": 2})
