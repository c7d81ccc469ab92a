"""The order of the branches that a GPU runs beside each other: on the CPU it gives the same bits as stage by stage.

Streams differ only in when; a stage that reads what a branch has not yet written would read old values here too.
"""

import copy
import importlib

import numpy as np
import pytest
import warp as wp

import stickslip as ss
from stickslip import mjcf, scenes
from stickslip.mpc.tasks import TASKS
from stickslip.physics import stages
from tests import support

NWORLD, STEPS = 2, 40
SCENES = {
    "scaling": True,  # free bodies
    "hand": False,  # its sensors keep all in one line
    "leap": True,  # hinges, servos, damping
}


def _model(name: str):
    return mjcf.load(TASKS["leap-yaw"].build("cube")) if name == "leap" else mjcf.load(name)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("physics", [ss.ComFree(), ss.ConeSweep()], ids=["comfree", "cone-sweep"])
def test_branches_give_the_same_bits(scene: str, physics: ss.Physics) -> None:
    mjm = _model(scene)
    nconmax, njmax = (64, 256) if scene == "leap" else scenes.buffers(scene)
    folder = physics.name.replace("-", "")
    pipeline = importlib.import_module(f"stickslip.physics.{folder}.pipeline")
    state = support.perturbed(mjm, NWORLD)
    with wp.ScopedDevice("cpu"):
        m = physics.put_model(mjm)
        one, other = (
            physics.set_state(m, physics.make_data(mjm, NWORLD, nconmax=nconmax, njmax=njmax), copy.deepcopy(state))
            for _ in range(2)
        )
        assert stages._splits(m) == SCENES[scene]
        touched = 0
        for _ in range(STEPS):
            for _, stage in pipeline.stages(m, one):
                stage()
            made: dict = {}
            stages.run(pipeline.stages(m, other, made), m, other, made, apart=True)
            touched += int(one.nacon.numpy()[0])
            for name in ("qpos", "qvel", "qacc", "qacc_warmstart", "qfrc_constraint", "qfrc_actuator", "time"):
                assert support.same_bits(getattr(one, name).numpy(), getattr(other, name).numpy()), name
    assert touched > 0
    assert np.isfinite(one.qpos.numpy()).all()
