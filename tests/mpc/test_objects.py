"""Objects stand where they say, as MuJoCo has them: nothing reaches below the depth of any orientation."""

import importlib.util

import mujoco
import numpy as np
import pytest

from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS, objects
from stickslip.mpc.trial import trial

SCENE = """
<mujoco>
  <compiler angle="radian"/>
  <default>
    <default class="object"/>
    <default class="goal"><geom contype="0" conaffinity="0" mass="0"/></default>
  </default>
  <worldbody>
    <geom type="plane" size="1 1 1" margin="0.002"/>
    <body name="object"><freejoint name="object"/><geom size="1"/></body>
    <body name="goal" mocap="true"><geom size="1"/></body>
  </worldbody>
</mujoco>
"""
READS_BUNNY = importlib.util.find_spec("pxr") is not None


@pytest.mark.parametrize("name", [*objects.THINGS, objects.BUNNY])
def test_depth_is_where_mujoco_touches(name: str) -> None:
    """Turned at random and put that high, the object touches the floor and no more."""
    if name == objects.BUNNY and not READS_BUNNY:
        pytest.skip("usd-core is not installed: the bunny cannot be read")
    thing = objects.thing(name)
    spec = mujoco.MjSpec.from_string(SCENE)
    for material in {part.material for part in thing.parts}:
        spec.add_material(name=material)
    objects.place(spec, thing, (0.0, 0.0, thing.height))
    mjm = spec.compile()
    mjd = mujoco.MjData(mjm)
    assert mjm.body_mass[mjm.body("object").id] == pytest.approx(thing.mass, rel=1e-3)
    rng = np.random.default_rng(0)
    for quat in [np.array([1.0, 0.0, 0.0, 0.0]), *rng.normal(size=(20, 4))]:
        quat = quat / np.linalg.norm(quat)
        mjd.qpos[:] = [0.0, 0.0, thing.depth(quat), *quat]
        mujoco.mj_forward(mjm, mjd)
        assert min(contact.dist for contact in mjd.contact) == pytest.approx(0.0, abs=1e-5)
    assert thing.depth(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx(thing.height, abs=1e-6)


@pytest.mark.skipif(not READS_BUNNY, reason="usd-core is not installed: the bunny cannot be read")
def test_bunny_can_be_moved() -> None:
    from stickslip.mpc.planners.newton.planner import Newton

    problem = compile_problem(TASKS["fingertips-rotate"], objects.BUNNY)
    assert trial.run(problem, Newton(problem), 0).success
