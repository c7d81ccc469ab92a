"""`stickslip.identification.sysid`: MuJoCo's toolbox with our physics does what it does with MuJoCo in C."""

from typing import Any

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.identification import sysid as adapter

sysid: Any = adapter.mujoco_sysid()
needed = pytest.mark.skipif(not hasattr(sysid, "SystemTrajectory"), reason="mujoco.sysid lacks packages: mujoco[sysid]")

MODEL = """
<mujoco>
  <option timestep="0.004"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1"/>
    <body name="box" pos="0 0 .05">
      <freejoint/>
      <geom name="box" type="box" size=".05 .05 .05" mass=".5" friction=".4"/>
      <site name="top" pos="0 0 .05"/>
    </body>
    <body name="arm" pos="1 0 .5">
      <joint name="hinge" axis="0 1 0" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass="1"/>
    </body>
  </worldbody>
  <actuator><position name="servo" joint="hinge" kp="20"/></actuator>
  <sensor>
    <framepos name="place" objtype="site" objname="top"/>
    <framelinvel name="speed" objtype="site" objname="top"/>
    <jointpos name="angle" joint="hinge"/>
  </sensor>
</mujoco>
"""
STEPS = 100


def candidate(friction: float, mass: float, damping: float = 0.1) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_string(MODEL)
    for name in ("floor", "box"):
        spec.geom(name).friction[0] = friction
    spec.geom("box").mass = mass
    spec.joint("hinge").damping[0] = damping
    return spec.compile()


def given(models: list[mujoco.MjModel]) -> dict[str, Any]:
    """What the residual of `mujoco.sysid` calls a rollout with; trajectories of two starts."""
    mjm = models[0]
    times = np.arange(STEPS) * mjm.opt.timestep
    qpos, qvel, act, ctrl = sysid.TimeSeries.compute_all_state_mappings(mjm)
    signal = sysid.TimeSeries(times, 0.5 * np.sin(5.0 * times)[:, None], ctrl)
    starts = [
        sysid.create_initial_state(mjm, mjm.qpos0, np.array([speed, 0.5, 0, 0, 0, 0, 0])) for speed in (0.8, -0.3)
    ]
    return {
        "models": [model for model in models for _ in starts],
        "datas": [mujoco.MjData(mjm)],
        "control_signal": [signal] * (2 * len(models)),
        "initial_states": starts * len(models),
        "rollout_signal_mapping": sysid.TimeSeries.compute_all_sensor_mapping(mjm),
        "rollout_state_mapping": qpos | qvel | act,
        "ctrl_mapping": ctrl,
    }


@needed
@pytest.mark.parametrize("nworld", [None, 4])
def test_rollouts_are_those_of_the_toolbox(nworld: int | None) -> None:
    asked = given([candidate(0.4, 0.5), candidate(0.2, 1.5, 1.0), candidate(0.8, 0.3)])
    ours = adapter.rollout("mujoco", device="cpu", nworld=nworld)(**asked, param_dicts=[{}] * 3)
    theirs = sysid.sysid_rollout(**asked)
    assert len(ours) == len(theirs) == 6
    for found, expected in zip(ours, theirs, strict=True):
        assert found.model is expected.model
        for part in ("state", "sensordata", "control"):
            own, other = getattr(found, part), getattr(expected, part)
            np.testing.assert_allclose(own.times, other.times, atol=1e-12)
            np.testing.assert_allclose(own.data, other.data, atol=5e-4)
            assert own.signal_mapping is other.signal_mapping
        np.testing.assert_array_equal(found.initial_state, expected.initial_state)


@needed
def test_the_toolbox_finds_friction_with_our_physics() -> None:
    def build(parameters: Any, spec: mujoco.MjSpec) -> mujoco.MjModel:
        del spec
        return candidate(parameters["friction"].value[0], 0.5, parameters["damping"].value[0])

    asked = given([candidate(0.3, 0.5, 0.5)])
    kept = {name: [value[0]] for name, value in asked.items() if isinstance(value, list)}
    truth = adapter.rollout("cone-sweep", device="cpu")(**{**asked, **kept})[0]
    sensors = sysid.TimeSeries(truth.sensordata.times, truth.sensordata.data, asked["rollout_signal_mapping"])
    speeds = [(name, sysid.SignalType.MjSensor) for name in ("place", "angle")]
    sequences = sysid.ModelSequences(
        "box", mujoco.MjSpec.from_string(MODEL), "push", kept["initial_states"][0], kept["control_signal"][0], sensors
    )
    residual = sysid.build_residual_fn(
        models_sequences=[sequences],
        build_model=build,
        custom_rollout=adapter.rollout(ss.ConeSweep(), device="cpu"),
        enabled_observations=speeds,
    )
    parameters = sysid.ParameterDict(
        {
            name: sysid.Parameter(name, value, low, high)
            for name, value, low, high in (("friction", 0.4, 0.05, 2.0), ("damping", 0.2, 0.01, 5.0))
        }
    )
    found, _ = sysid.optimize(parameters, residual, verbose=False, eps=1e-3)
    np.testing.assert_allclose(found.as_vector(), [0.3, 0.5], rtol=0.02)


@needed
def test_what_worlds_share_is_refused_by_name() -> None:
    other = candidate(0.4, 0.5)
    other.geom_condim[:] = 1
    with pytest.raises(ss.Unsupported, match="geom_condim"):
        adapter.rollout("mujoco", device="cpu")(**given([candidate(0.4, 0.5), other]))
    named = mujoco.MjSpec.from_string(MODEL.replace('name="arm"', 'name="rod"')).compile()
    with pytest.raises(ss.Unsupported, match="other names or sizes"):
        adapter.rollout("mujoco", device="cpu")(**given([candidate(0.4, 0.5), named]))


@needed
def test_input_is_checked() -> None:
    with pytest.raises(ss.InputError, match="nworld is 0"):
        adapter.rollout(nworld=0)
    with pytest.raises(ss.InputError, match="cone-sweep"):
        adapter.rollout("cone-swep")


@pytest.mark.skipif(hasattr(sysid, "SystemTrajectory"), reason="mujoco.sysid has its packages")
def test_without_its_packages_the_error_says_what_to_install() -> None:
    with pytest.raises(ss.MissingExtra, match=r"mujoco\[sysid\]"):
        adapter.rollout()
