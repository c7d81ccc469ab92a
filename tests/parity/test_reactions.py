"""Forces between bodies in one launch, against MuJoCo Warp's `rne_postconstraint`."""

import mujoco
import mujoco_warp as mjw
import numpy as np
import pytest
from numpy.typing import NDArray

import stickslip as ss
from stickslip import mjcf
from stickslip.physics.mjwarp.smooth.smooth import find_reactions, is_fused

FOUND = ("cacc", "cfrc_ext", "cfrc_int")

LOADED = """<mujoco><option timestep=".004" cone="{cone}"><flag {flag}/></option>
  <default><geom condim="{condim}" friction=".8 .02 .001"/></default>
  <worldbody><geom type="plane" size="9 9 1"/>
    <body name="table" pos="0 0 .1"><geom type="box" size=".3 .3 .1"/><site name="on" pos="0 0 .1"/></body>
    <body name="a" pos="0 0 .26"><freejoint/><geom type="box" size=".05 .05 .05"/><site name="sa" pos=".05 0 0"/>
      <body name="b" pos=".1 0 .05" gravcomp=".3"><joint name="jb" axis="0 1 0" damping=".1"/>
        <geom size=".03" mass=".4"/><site name="sb" pos=".02 .03 0" quat=".9 .1 .3 0"/>
        <body name="c" pos="0 0 .1"><joint name="jc" type="ball"/><geom size=".02" mass=".2"/>
          <site name="sc" pos="0 .02 .02"/></body></body></body>
    <body name="e" pos=".5 0 .06"><freejoint/><geom type="capsule" size=".05 .1"/>
      <site name="se" quat="1 .2 0 .1"/></body>
    <body name="f" pos="-.5 0 .2"><joint type="slide" axis="0 0 1" range="-.01 .1" limited="true"/>
      <joint name="jf" axis="1 0 0" frictionloss=".05"/><geom size=".05"/><site name="sf" pos="0 .04 .05"/></body>
  </worldbody>
  <equality><connect body1="c" body2="f" anchor="0 .01 .02"/><weld body1="e" body2="b" torquescale=".7"/>
    <weld site1="sc" site2="se"/><connect site1="sf" site2="on"/>
    <tendon tendon1="t1" tendon2="t2" polycoef="0 .5 .2 .1 0"/>
    <joint joint1="jb" joint2="jf"/></equality>
  <tendon>
    <spatial name="t1" limited="true" range=".1 .2" frictionloss=".3" stiffness="20" damping="1" springlength=".1 .15">
      <site site="sa"/><site site="sc"/><site site="sf"/></spatial>
    <spatial name="t2" limited="true" range=".9 1.2"><site site="on"/><site site="sb"/><site site="se"/></spatial>
    <fixed name="t3" limited="true" range=".1 .2" frictionloss=".2"><joint joint="jb" coef="1"/></fixed></tendon>
  <actuator><motor tendon="t1" gear="3"/><position tendon="t2" kp="5"/><motor joint="jb" gear="2"/></actuator>
  <sensor><force site="sb"/><torque site="sc"/><accelerometer site="se"/><force site="on"/></sensor></mujoco>"""


def check(sim: ss.Simulation) -> dict[str, NDArray]:
    """Both from the same forces; returns those of the one launch."""
    assert is_fused(sim.m)
    sim.physics.forward(sim.m, sim.d)
    find_reactions(sim.m, sim.d)
    got = {name: getattr(sim.d, name).numpy() for name in FOUND}
    mjw.rne_postconstraint(sim.m, sim.d)
    for name, value in got.items():
        want = getattr(sim.d, name).numpy()
        np.testing.assert_allclose(value, want, rtol=0.0, atol=2e-5 * max(1.0, np.abs(want).max()), err_msg=name)
    return got


@pytest.mark.parametrize("name", ["comfree", "cone-sweep", "icf"])
@pytest.mark.parametrize("scene", ["humanoid", "hand", "stack", "gripper"])
def test_scenes(device: str, name: str, scene: str) -> None:
    sim = ss.Simulation(mjcf.load(scene), ss.PHYSICS[name](), nworld=2, device=device)
    sim.step(50)
    sim.d.xfrc_applied.assign(np.random.default_rng(0).normal(size=sim.d.xfrc_applied.numpy().shape))
    got = check(sim)
    assert np.abs(got["cfrc_ext"]).max() > 0.1


@pytest.mark.parametrize("name", ["comfree", "cone-sweep"])
@pytest.mark.parametrize(
    ("cone", "condim", "flag"),
    [
        ("pyramidal", 1, ""),
        ("pyramidal", 4, 'spring="disable"'),
        ("elliptic", 3, 'damper="disable"'),
        ("elliptic", 6, 'gravity="disable"'),
        ("pyramidal", 6, 'constraint="disable"'),
    ],
)
def test_every_kind_of_constraint(device: str, name: str, cone: str, condim: int, flag: str) -> None:
    """Contacts, connects and welds of bodies and sites, spatial tendons with all that pulls them."""
    mjm = mujoco.MjModel.from_xml_string(LOADED.format(cone=cone, condim=condim, flag=flag))
    sim = ss.Simulation(mjm, ss.PHYSICS[name](), nworld=2, device=device)
    sim.d.ctrl.assign(np.array([[0.5, -0.4, 0.3], [-0.2, 0.6, 0.1]], dtype=np.float32))
    sim.step(3)
    got = check(sim)
    assert np.abs(got["cfrc_int"]).max() > 0.1


def test_rows_that_do_not_fit(device: str) -> None:
    """Contacts without rows have no force here, as in MuJoCo Warp, whatever an earlier step left in the rows."""
    sim = ss.Simulation(mjcf.load("stack"), ss.ComFree(), device=device, njmax=200)
    sim.step(50)
    check(sim)
    sim.d.njmax = 30
    sim.step()
    assert sim.d.nefc.numpy()[0] > 30
    check(sim)
