"""Every error: its class, that it names the value, the limit and the fix, and that the state stays as it was."""

import re
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.errors import BufferOverflow, DeviceError, Diverged, InputError, SceneError, StickslipError, Unsupported
from tests import support


@pytest.fixture(params=support.COMPILED_BY_WARP)
def physics(request: pytest.FixtureRequest) -> ss.Physics:
    """Every physics there is, at its defaults."""
    return ss.PHYSICS[request.param]()


def refused(sim: ss.Simulation, action: Callable[[], object], error: type[StickslipError], *words: str) -> str:
    """Assert that an action raises, says all these words, and leaves state and inputs as they were, bit for bit."""
    names = ("qpos", "qvel", "ctrl", "qfrc_applied", "xfrc_applied")
    before, inputs = sim.state, {name: getattr(sim, name).numpy().copy() for name in names}
    with pytest.raises(error) as caught:
        action()
    message = str(caught.value)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    after = sim.state
    for name in support.FIELDS:
        assert support.same_bits(getattr(after, name), getattr(before, name)), name
    for name in names:
        assert support.same_bits(getattr(sim, name).numpy(), inputs[name]), name
    return message


def test_errors_are_also_builtin_ones() -> None:
    """`except ValueError` and the like keep working."""
    assert issubclass(InputError, ValueError) and issubclass(SceneError, ValueError)
    assert issubclass(DeviceError, RuntimeError) and issubclass(BufferOverflow, RuntimeError)
    assert issubclass(Unsupported, NotImplementedError) and issubclass(Diverged, RuntimeError)


# Making a simulation.


@pytest.mark.parametrize(
    "given, close", [("humanoit", "humanoid"), ("drop_test", "drop-test"), ("slidingcube", "sliding-cube")]
)
def test_unknown_scene(given: str, close: str) -> None:
    with pytest.raises(SceneError) as caught:
        ss.Simulation(given, device="cpu")
    for word in (repr(given), repr(close), "stickslip scenes"):
        assert word in str(caught.value)


def test_malformed_mjcf(tmp_path: Path) -> None:
    """The file and the line; and for text the line."""
    text = '<mujoco>\n  <worldbody>\n    <geom type="sphere" siz="1"/>\n  </worldbody>\n</mujoco>\n'
    path = tmp_path / "broken.xml"
    path.write_text(text)
    for scene, origin in ((path, str(path)), (text, "XML string")):
        with pytest.raises(SceneError) as caught:
            ss.Simulation(scene, device="cpu")
        assert origin in str(caught.value) and "line 3" in str(caught.value) and "siz" in str(caught.value)


@pytest.mark.parametrize("value", [0.0, -1, True, "x", float("nan"), float("inf"), [], 1e-12])
def test_length_of_a_step(value: object) -> None:
    with pytest.raises(ss.InputError) as caught:
        ss.load("sliding-cube", timestep=value)  # type: ignore[arg-type]
    assert f"timestep={value}" in str(caught.value) and "0.002 suits most scenes" in str(caught.value)


@pytest.mark.parametrize("name", ["nconmax", "njmax"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True, "x", float("nan"), float("inf"), []])
def test_sizes_of_buffers(name: str, value: object) -> None:
    with pytest.raises(ss.InputError) as caught:
        ss.Simulation("sliding-cube", ss.ComFree(), device="cpu", **{name: value})  # type: ignore[arg-type]
    assert name in str(caught.value) and repr(value) in str(caught.value) and "at least 1" in str(caught.value)


def test_sizes_beyond_what_an_array_can_have() -> None:
    with pytest.raises(ss.InputError, match=r"nconmax is 1073741824: 2 worlds have room for 1073741823 each"):
        ss.Simulation("sliding-cube", ss.ComFree(), nworld=2, device="cpu", nconmax=2**30)


def test_a_device_that_is_no_name() -> None:
    with pytest.raises(ss.DeviceError, match=r"no device \[\] on this machine; there are: cpu"):
        ss.Simulation("sliding-cube", device=[])  # type: ignore[arg-type]


@pytest.mark.parametrize("nworld", [0, -3, 1.5, True, "2"])
def test_number_of_worlds(nworld: object, physics: ss.Physics) -> None:
    with pytest.raises(InputError) as caught:
        ss.Simulation("sliding-cube", physics, nworld=nworld, device="cpu")
    assert "nworld" in str(caught.value) and repr(nworld) in str(caught.value) and "at least 1" in str(caught.value)


@pytest.mark.parametrize("name", ["cuda:7", "gpu", "tpu:0"])
def test_no_such_device(name: str) -> None:
    with pytest.raises(DeviceError) as caught:
        ss.Simulation("sliding-cube", device=name)
    assert repr(name) in str(caught.value) and "cpu" in str(caught.value)


@pytest.mark.parametrize("knob", ["nconmax", "njmax"])
@pytest.mark.parametrize("value", [0, -1])
def test_buffer_sizes(knob: str, value: int, physics: ss.Physics) -> None:
    with pytest.raises(InputError) as caught:
        ss.Simulation("sliding-cube", physics, device="cpu", **{knob: value})
    assert knob in str(caught.value) and str(value) in str(caught.value) and "at least 1" in str(caught.value)


@pytest.mark.parametrize("timestep", [0.0, -0.001, float("nan"), float("inf")])
def test_timestep(timestep: float) -> None:
    with pytest.raises(InputError, match="timestep"):
        ss.Simulation("sliding-cube", device="cpu", timestep=timestep)


@pytest.mark.parametrize("name", ["stiffness", "damping"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), [0.2, -1.0], [], "stiff", [[0.1]]])
def test_comfree_gains(name: str, value: object) -> None:
    """Negative, NaN, infinite, empty: for the physics and for put_model of the drop-in."""
    import stickslip.comfree as cf

    mjm = ss.load("sliding-cube")
    for make in (lambda: ss.ComFree(**{name: value}), lambda: cf.put_model(mjm, **{name: value})):
        with pytest.raises(InputError) as caught:
            make()
        message = str(caught.value)
        assert name in message
        assert re.search(r"at least 0|number|one per world", message), message
        if isinstance(value, float):
            assert str(value) in message
        if value == [0.2, -1.0]:
            assert f"{name}[1]" in message and "-1.0" in message


@pytest.mark.parametrize(
    "options, words",
    [
        ({"impedance": "best"}, "'best'.*heuristic.*exact"),
        ({"smoothing": 0.0}, "smoothing is 0"),
        ({"smoothing": float("nan")}, "smoothing is nan"),
    ],
)
def test_comfree_options(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ss.ComFree(**options)


# Inputs and state.

_HANDS: dict[tuple[str, str], ss.Simulation] = {}


@pytest.fixture
def hand(physics: ss.Physics, device: str) -> ss.Simulation:
    """Two hands after three steps, the same for all tests: what is refused leaves them as they were."""
    key = (physics.name, device)
    if key not in _HANDS:
        _HANDS[key] = support.simulate("hand", physics, nworld=2, device=device)
        _HANDS[key].step(3)
    return _HANDS[key]


def test_wrong_ctrl_shape(hand: ss.Simulation) -> None:
    """The shape given and the shape wanted; nothing is written."""
    sim = hand
    for wrong in (np.zeros(15), np.zeros((3, 16)), np.zeros((2, 17)), 0.0):
        refused(
            sim, lambda wrong=wrong: setattr(sim, "ctrl", wrong), InputError, "ctrl", str(np.shape(wrong)), "(2, 16)"
        )
    refused(sim, lambda: setattr(sim, "ctrl", "a lot"), InputError, "ctrl")


@pytest.mark.parametrize("name", ["ctrl", "qpos", "qvel", "qfrc_applied", "xfrc_applied"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_not_finite_input(name: str, bad: float, hand: ss.Simulation) -> None:
    """Which entry, and what it is."""
    sim = hand
    value = getattr(sim, name).numpy().copy()
    value[(1,) + (2,) * (value.ndim - 1)] = bad
    index = ", ".join(["1"] + ["2"] * (value.ndim - 1))
    refused(sim, lambda: setattr(sim, name, value), InputError, f"{name}[{index}]", str(bad), "finite")


@pytest.mark.parametrize("name", ["time", "qpos", "qvel"])
def test_not_finite_state(name: str, hand: ss.Simulation) -> None:
    sim, state = hand, hand.state
    getattr(state, name).reshape(2, -1)[1, 0] = np.nan
    refused(sim, lambda: setattr(sim, "state", state), InputError, f"state.{name}[1", "nan", "finite")


def test_state_of_another_size(hand: ss.Simulation) -> None:
    sim, other = hand, support.perturbed(hand.mjm, 3)
    refused(sim, lambda: setattr(sim, "state", other), InputError, "state.time", "(3,)", "(2,)")


@pytest.mark.parametrize("mask", [np.array([True]), np.array([1, 0]), np.zeros((2, 1), dtype=bool)], ids=str)
def test_wrong_mask(mask: np.ndarray, hand: ss.Simulation) -> None:
    refused(hand, lambda: hand.reset(mask), InputError, "mask", "(2,)", str(mask.shape), str(mask.dtype))


@pytest.mark.parametrize("n", [-1, 2.5, True])
def test_wrong_number_of_steps(n: object, physics: ss.Physics, device: str) -> None:
    sim = ss.Simulation("sliding-cube", physics, device=device)
    refused(sim, lambda: sim.step(n), InputError, repr(n), "at least 0")


def test_wrong_model_fields(physics: ss.Physics, device: str) -> None:
    """An unknown field, a wrong shape, NaN, a step of 0; and none of the good ones that came along is set."""
    sim = ss.Simulation("sliding-cube", physics, nworld=2, device=device)
    sim.step(3)
    before = sim.m.body_mass
    good = sim.mjm.body_mass * 2
    refused(sim, lambda: sim.set_model(body_mass=good, geom_fricton=1.0), InputError, "'geom_fricton'", "geom_friction")
    refused(sim, lambda: sim.set_model(body_mass=np.ones((3, 2))), InputError, "body_mass", "(3, 2)", "(2, 2)")
    refused(
        sim, lambda: sim.set_model(body_mass=good, timestep=[0.002, 0.0]), InputError, "timestep", "0.0", "positive"
    )
    refused(sim, lambda: sim.set_model(body_mass=good * np.nan), InputError, "body_mass[", "nan", "finite")
    assert sim.m.body_mass is before


# Overflow and divergence.


@pytest.fixture
def small(physics: ss.Physics) -> ss.Physics:
    """Every physics whose buffers a scene of a few bodies can overflow."""
    if physics.name in support.FREE_BODIES_ONLY:
        pytest.skip(f"{physics.name} has no rows, and room for two contacts a particle: test_pbd.py overflows that")
    return physics


def raised_to(message: str, knob: str) -> int:
    """The number that a message says to raise a knob to."""
    found = re.search(rf"raise {knob} from \d+ to at least (\d+)", message)
    assert found, message
    return int(found[1])


@pytest.mark.parametrize("nworld", [1, 3])
def test_contact_overflow(small: ss.Physics, nworld: int, device: str) -> None:
    """nconmax=1 is too small for a pile; what the message says is enough."""
    options = {"nworld": nworld, "device": device, "njmax": 400}
    sim = ss.Simulation("scaling", small, nconmax=1, **options)
    sim.step(5, check=True)  # in the air nothing overflows
    message = refused(sim, lambda: sim.step(60, check=True), BufferOverflow, "nconmax", "from 1 to", "60 steps")
    sim = ss.Simulation("scaling", small, nconmax=raised_to(message, "nconmax"), **options)
    sim.step(65, check=True)
    assert sim.health().ok
    roomy = ss.Simulation("scaling", small, nconmax=200, **options)
    roomy.step(65)
    np.testing.assert_allclose(sim.state.qpos, roomy.state.qpos, atol=2e-5)


@pytest.fixture
def with_rows(small: ss.Physics) -> ss.Physics:
    """Every physics whose motion depends on constraint rows."""
    if small.rows_are_reported_only:
        pytest.skip(f"{small.name} needs no rows: tests/test_simulation_health.py")
    return small


def test_row_overflow(with_rows: ss.Physics, device: str) -> None:
    """njmax=8 is too small; raised to what the message says, it works."""
    small, options = with_rows, {"nworld": 2, "device": device, "nconmax": 60}
    sim = ss.Simulation("scaling", small, njmax=8, **options)
    message = refused(sim, lambda: sim.step(60, check=True), BufferOverflow, "njmax", "from 8 to")
    sim = ss.Simulation("scaling", small, njmax=raised_to(message, "njmax"), **options)
    sim.step(60, check=True)


def test_row_overflow_of_limits_and_equalities(with_rows: ss.Physics, device: str) -> None:
    """Rows that are no contacts' overflow too: the humanoid has more than ten from its joints alone."""
    sim = support.simulate("humanoid", with_rows, nworld=2, device=device, njmax=10)
    refused(sim, lambda: sim.step(5, check=True), BufferOverflow, "njmax", "10")


def test_overflow_without_check_warns_once(small: ss.Physics, device: str) -> None:
    """Reading the state says that something was dropped, once."""
    sim = ss.Simulation("scaling", small, device=device, nconmax=1)
    sim.step(60)
    with pytest.warns(UserWarning, match="nconmax"):
        _ = sim.state
    _ = sim.state  # pytest turns no warning into an error, so look that the second is silent
    assert not sim.health().ok


def test_diverged(physics: ss.Physics, device: str) -> None:
    """A velocity that is none: the world is named, and every world is back where it was."""
    sim = ss.Simulation("scaling", physics, nworld=3, device=device)
    velocity = sim.qvel.numpy().copy()
    velocity[1] = np.nan
    sim.qvel.assign(velocity)  # not through the property, which lets no such number in
    message = refused(
        sim, lambda: sim.step(20, check=True), Diverged, "1 world(s)", "(1)", "reset", "timestep", "20 steps"
    )
    assert "nconmax" not in message
    sim.reset(np.array([False, True, False]))
    sim.step(20, check=True)  # and after the advice was followed it goes on
    assert sim.health().ok


# Features of a model.

FLEX = """
<mujoco>
  <option integrator="{integrator}">{flag}</option>
  <worldbody>
    {flex}
    <body pos="0 0 1"><freejoint/><geom type="sphere" size="0.1"/></body>
  </worldbody>
</mujoco>
"""
FLEXCOMP = '<flexcomp name="cloth" type="grid" count="3 3 1" spacing="0.1 0.1 0.1" radius="0.01" dim="2" mass="1"/>'


def test_comfree_names_every_feature_it_cannot_honour() -> None:
    """Flex, RK4 and sleeping, all in one message, with what to do about them."""
    text = FLEX.format(integrator="RK4", flag='<flag sleep="enable"/>', flex=FLEXCOMP)
    with pytest.raises(Unsupported) as caught:
        ss.Simulation(text, ss.ComFree(), device="cpu")
    message = str(caught.value)
    for word in ("comfree", "flex", "RK4", "Euler", "implicitfast", "sleep"):
        assert word in message, message


@pytest.mark.parametrize(
    "parts, word",
    [
        ({"flex": FLEXCOMP}, "flex"),
        ({"integrator": "RK4"}, "RK4"),
        ({"integrator": "implicit"}, "IMPLICIT "),
        ({"flag": '<flag sleep="enable"/>'}, "sleep"),
    ],
)
def test_comfree_names_only_what_is_there(parts: dict[str, str], word: str) -> None:
    """One feature, one name; and the drop-in's put_model refuses the same."""
    import stickslip.comfree as cf

    mjm = ss.load(FLEX.format(**{"integrator": "Euler", "flag": "", "flex": ""} | parts))
    for make in (lambda: ss.ComFree().put_model(mjm), lambda: cf.put_model(mjm)):
        with pytest.raises(Unsupported) as caught:
            make()
        assert word in str(caught.value)
        assert ";" not in str(caught.value)


def test_comfree_warns_of_options_without_effect() -> None:
    """noslip and impratio belong to a solver that ComFree does not have."""
    mjm = ss.load("sliding-cube")
    mjm.opt.noslip_iterations, mjm.opt.impratio = 5, 10.0
    with pytest.warns(UserWarning, match=r"noslip_iterations=5.*impratio=10"):
        ss.Simulation(mjm, ss.ComFree(), device="cpu")


def test_mujoco_names_what_mujoco_warp_cannot_do() -> None:
    """What MuJoCo Warp refuses comes as Unsupported, too."""
    mjm = ss.load("sliding-cube")
    mjm.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_FWDINV
    for physics in (ss.MuJoCo(), ss.ComFree()):
        with pytest.raises(Unsupported, match=f"{physics.name} does not support.*FWDINV.*clear that flag"):
            ss.Simulation(mjm, physics, device="cpu")
