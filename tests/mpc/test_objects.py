"""Objects stand where they say, as MuJoCo has them: nothing reaches below the depth of any orientation."""

import importlib.util

import mujoco
import numpy as np
import pytest

from stickslip.mpc import trial
from stickslip.mpc.task import compile_problem
from stickslip.mpc.tasks import TASKS, objects

READS_BUNNY = importlib.util.find_spec("pxr") is not None


@pytest.mark.parametrize("name", [*objects.THINGS, objects.BUNNY])
def test_depth_is_where_mujoco_touches(name: str) -> None:
    """Turned at random and put that high, the object touches the floor and no more."""
    if name == objects.BUNNY and not READS_BUNNY:
        pytest.skip("usd-core is not installed: the bunny cannot be read")
    thing = objects.thing(name)
    text = (
        f"<mujoco><compiler angle='radian'/><asset>{thing.asset}"
        + "".join(f"<material name='{part.material}'/>" for part in {p.material: p for p in thing.parts}.values())
        + f"</asset><default>{objects.DEFAULTS}</default><worldbody><geom type='plane' size='1 1 1' margin='0.002'/>"
        + objects.bodies(thing, (0.0, 0.0, thing.height))
        + "</worldbody></mujoco>"
    )
    mjm = mujoco.MjModel.from_xml_string(text)
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
    from stickslip.mpc.newton import Newton

    problem = compile_problem(TASKS["fingertips-rotate"], objects.BUNNY)
    assert trial.run(problem, Newton(problem), 0).success
