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
from stickslip.physics.mjwarp.plan import MAIN, PlanStage, StepPlan
from stickslip.physics.mjwarp.stages import streams_of
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
        assert streams_of(m).smooth == SCENES[scene]
        touched = 0
        for _ in range(STEPS):
            for stage in pipeline.plan(m, one).stages:
                stage.run()
            for stage in pipeline.plan(m, other).concurrent_order():
                stage.run()
            touched += int(one.nacon.numpy()[0])
            for name in ("qpos", "qvel", "qacc", "qacc_warmstart", "qfrc_constraint", "qfrc_actuator", "time"):
                assert support.same_bits(getattr(one, name).numpy(), getattr(other, name).numpy()), name
    assert touched > 0
    assert np.isfinite(one.qpos.numpy()).all()


def _plan(*stages: PlanStage) -> StepPlan:
    return StepPlan(stages)


def _nothing() -> None:
    pass


def _order(plan: StepPlan) -> list[str]:
    return [stage.name for stage in plan.concurrent_order()]


def test_stages_beside_the_main_stream_are_launched_as_early_as_they_may() -> None:
    """A side stage goes before main stages that come first in the plan, but after all that it needs."""
    plan = _plan(
        PlanStage("a", _nothing),
        PlanStage("b", _nothing, ("a",)),
        PlanStage("side", _nothing, ("a",), "side"),
        PlanStage("c", _nothing, ("b",)),
        PlanStage("late", _nothing, ("side", "c"), "side"),
        PlanStage("d", _nothing, ("late",)),
    )
    assert _order(plan) == ["a", "side", "b", "c", "late", "d"]
    assert [name for name, _ in plan.timed()] == ["a", "b", "side", "c", "late", "d"]


def test_a_stage_that_is_needed_stands_for_its_parts() -> None:
    parts = (PlanStage("first", _nothing, ("a",), "side"), PlanStage("second", _nothing, ("first",), MAIN))
    plan = _plan(
        PlanStage("a", _nothing),
        PlanStage("whole", _nothing, ("a",), parts=parts),
        PlanStage("after", _nothing, ("whole",), "other"),
    )
    assert _order(plan) == ["a", "first", "second", "after"]
    assert [name for name, _ in plan.timed()] == ["a", "whole", "after"]


@pytest.mark.parametrize(
    "after, words", [(("nothing",), "comes after nothing"), (("b",), "comes after b")], ids=["unknown", "later"]
)
def test_a_plan_whose_stages_need_what_is_not_before_them_is_refused(after: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _plan(PlanStage("a", _nothing, after), PlanStage("b", _nothing))
