"""What the physics with a convex step refuse, by name and limit; and whose word on a contact parameter counts."""

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.errors import InputError, Unsupported

NAN, INF = float("nan"), float("inf")
BOTH = [ss.Icf, ss.Cenic]
Kind = type[ss.Icf] | type[ss.Cenic]

BALL = """<mujoco>
  <option timestep="0.01"/>
  <size nuser_geom="3"/>
  <custom>{custom}</custom>
  <worldbody>
    <geom type="plane" size="1 1 1" {floor}/>
    <body pos="0 0 0.1"><freejoint/><geom type="sphere" size="0.1" mass="1" {ball}/></body>
  </worldbody>
</mujoco>"""


def ball(**parts: str) -> mujoco.MjModel:
    """A ball on a floor, with numbers of the model and attributes of geoms."""
    return mujoco.MjModel.from_xml_string(BALL.format(**{"custom": "", "floor": "", "ball": ""} | parts))


# Parameters.


@pytest.mark.parametrize("physics", BOTH)
@pytest.mark.parametrize("value", [0.0, -1.0, NAN, INF, True, "stiff", [1.0]], ids=repr)
@pytest.mark.parametrize("name, limit", [("stiffness", "up to 1e+15"), ("stiction", "up to 1")])
def test_contact_parameters_are_positive(physics: Kind, name: str, limit: str, value: object) -> None:
    """Stiffness and stiction velocity: finite, positive numbers, or None."""
    refused(physics, name, value, "above 0", limit, "None")


@pytest.mark.parametrize("physics", BOTH)
@pytest.mark.parametrize("value", [-1.0, NAN, INF, False, True, "much", [1.0]], ids=repr)
@pytest.mark.parametrize("name", ["dissipation", "speculative_margin"])
def test_contact_parameters_that_may_be_zero(physics: Kind, name: str, value: object) -> None:
    """Dissipation and speculative margin: not negative."""
    refused(physics, name, value, "number", "from 0 to 1")
    getattr(physics(**{name: 0.0}), name)


@pytest.mark.parametrize("physics", BOTH)
@pytest.mark.parametrize("name", ["iterations", "passes"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "many", None], ids=repr)
def test_counts(physics: Kind, name: str, value: object) -> None:
    """Whole numbers, at least 1."""
    refused(physics, name, value, "whole number", "at least 1")


@pytest.mark.parametrize("value", [0.0, -1e-3, NAN, INF, 1.5, True, "fine", None], ids=repr)
@pytest.mark.parametrize("name", ["accuracy", "max_step", "min_step"])
def test_accuracy_and_steps(name: str, value: object) -> None:
    """Above 0, up to 1."""
    refused(ss.Cenic, name, value, "above 0", "up to 1")


@pytest.mark.parametrize("value", [0.0, -1e-3, NAN, INF, 1.5, True, "fine", None], ids=repr)
def test_tolerance(value: object) -> None:
    """Above 0, up to 1."""
    refused(ss.Icf, "tolerance", value, "above 0", "up to 1")


@pytest.mark.parametrize("value", [-1, 2.5, True, None], ids=repr)
def test_trace(value: object) -> None:
    """A whole number, 0 for none."""
    refused(ss.Cenic, "trace", value, "whole number", "at least 0")


@pytest.mark.parametrize("value", [0, "yes", None], ids=repr)
def test_reuse(value: object) -> None:
    """True or False."""
    refused(ss.Cenic, "reuse", value, "true or false")


@pytest.mark.parametrize("low, high", [(0.1, 0.1), (0.1, 0.01)])
def test_shortest_step_is_below_the_longest(low: float, high: float) -> None:
    """Both are named."""
    with pytest.raises(InputError, match=f"min_step is {low}.*below max_step, {high}"):
        ss.Cenic(min_step=low, max_step=high)


@pytest.mark.parametrize("scheme", ["euler", "Doubling", "", None, 2])
def test_unknown_scheme(scheme: object) -> None:
    """The message has those there are."""
    refused(ss.Cenic, "scheme", scheme, "'doubling'", "'trapezoid'")


@pytest.mark.parametrize("value", [-1.0, NAN, INF, True, "heavy", None], ids=repr)
def test_weights_are_numbers(value: object) -> None:
    """The one that is wrong is named by its place."""
    with pytest.raises(InputError) as caught:
        ss.Cenic(weights=[1.0, value])
    assert f"weights[1] is {value!r}" in str(caught.value) and "at least 0" in str(caught.value)


@pytest.mark.parametrize("value", [1.0, 3, True, []], ids=repr)
def test_weights_are_several(value: object) -> None:
    """A single number, or none, does not give one for each position."""
    with pytest.raises(InputError, match="weights"):
        ss.Cenic(weights=value)


@pytest.mark.parametrize("count", [6, 8])
def test_weights_fit_the_model(count: int) -> None:
    """One for each position; the message has both numbers."""
    with pytest.raises(InputError, match=f"weights has {count} numbers.*7 positions"):
        ss.Simulation("sliding-cube", ss.Cenic(weights=np.ones(count)), device="cpu")


def refused(physics: Kind, name: str, value: object, *words: str) -> None:
    """Assert that a parameter is refused, in a message with its name, the value and these words."""
    with pytest.raises(InputError) as caught:
        physics(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} is "), message
    for word in (str(value), *words):
        assert word in message, f"{word!r} is not in: {message}"


# Numbers of the model.


@pytest.mark.parametrize("physics", BOTH)
@pytest.mark.parametrize("value", [-1.0, NAN, INF])
@pytest.mark.parametrize("name", ["contact_stiffness", "contact_dissipation", "static_friction", "stiction_velocity"])
def test_numbers_of_the_model(physics: Kind, name: str, value: float) -> None:
    """<numeric> that is negative or not finite: refused by name, when a simulation is made and by check."""
    mjm = ball(custom=f'<numeric name="{name}" data="1"/>')
    mjm.numeric_data[0] = value
    for make in (lambda: ss.Simulation(mjm, physics(), device="cpu"), lambda: physics().check(mjm)):
        with pytest.raises(InputError, match=f"{name}.*{value}.*finite and positive"):
            make()


def test_stiction_velocity_of_the_model_is_not_zero() -> None:
    """0 would be friction without a slope."""
    with pytest.raises(InputError, match="stiction_velocity.*0.0.*positive"):
        ss.Icf().check(ball(custom='<numeric name="stiction_velocity" data="0"/>'))


@pytest.mark.parametrize("physics", BOTH)
@pytest.mark.parametrize("value", [-1.0, NAN, INF])
@pytest.mark.parametrize("column, what", [(0, "stiffness"), (1, "dissipation"), (2, "static friction")])
def test_numbers_of_a_geom(physics: Kind, column: int, what: str, value: float) -> None:
    """`user` that is negative or not finite: the message has the geom, the place and what it means."""
    mjm = ball()
    mjm.geom_user[1, column] = value
    with pytest.raises(InputError, match=rf"user\[{column}\] of geom 1, its {what}, is {value}.*finite and positive"):
        ss.Simulation(mjm, physics(), device="cpu")


@pytest.mark.parametrize(
    "physics, parts, stiffness",
    [
        (ss.Icf(stiffness=1e4), {"custom": '<numeric name="contact_stiffness" data="2e4"/>'}, 0.5e4),
        (ss.Icf(stiffness=1e4), {"ball": 'user="4e4"', "floor": 'user="4e4"'}, 0.5e4),
        (ss.Icf(), {"custom": '<numeric name="contact_stiffness" data="2e4"/>'}, 1e4),
        (ss.Icf(), {"custom": '<numeric name="contact_stiffness" data="2e4"/>', "ball": 'user="6e4"'}, 1.5e4),
        (ss.Icf(), {"ball": 'user="4e4"'}, 4e4),
    ],
    ids=["physics-model", "physics-geom", "model", "geom-model", "geom-rigid"],
)
def test_whose_stiffness_counts(physics: ss.Icf, parts: dict[str, str], stiffness: float, device: str) -> None:
    """The physics' before a geom's own before the model's, both sides in series: so deep lies a ball of 1 kg."""
    sim = ss.Simulation(ball(**parts), physics, device=device)
    sim.step(300)
    np.testing.assert_allclose(0.1 - sim.d.convex.qpos.numpy()[0, 2], 9.81 / stiffness, rtol=0.01)


# Features of a model.

FEATURES = """<mujoco>
  <option>{flag}</option>
  <worldbody>
    {flex}
    <body pos="0 0 1"><joint name="a" type="slide"/><geom type="sphere" size="0.1"/></body>
    <body name="b" pos="1 0 1"><freejoint/><geom type="sphere" size="0.1"/></body>
  </worldbody>
  <actuator>{actuator}</actuator>
</mujoco>"""
CLOTH = '<flexcomp name="cloth" type="grid" count="3 3 1" spacing="0.1 0.1 0.1" radius="0.01" dim="2" mass="1"/>'


@pytest.mark.parametrize("physics", BOTH)
@pytest.mark.parametrize(
    "parts, word",
    [
        ({"flex": CLOTH}, "flex"),
        ({"flag": '<flag sleep="enable"/>'}, "sleep"),
        ({"actuator": '<motor joint="a" delay="0.01" nsample="10"/>'}, "delay"),
    ],
    ids=["flex", "sleep", "delay"],
)
def test_unsupported_features(physics: Kind, parts: dict[str, str], word: str) -> None:
    """One feature, one name, with that of the physics; check says the same as making a simulation."""
    mjm = mujoco.MjModel.from_xml_string(FEATURES.format(**{"flag": "", "flex": "", "actuator": ""} | parts))
    for make in (lambda: ss.Simulation(mjm, physics(), device="cpu"), lambda: physics().check(mjm)):
        with pytest.raises(Unsupported) as caught:
            make()
        assert word in str(caught.value) and physics.name in str(caught.value)
        assert ";" not in str(caught.value)


@pytest.mark.parametrize("physics", BOTH)
def test_options_without_effect(physics: Kind) -> None:
    """noslip and impratio are told to be unused."""
    mjm = ss.load("sliding-cube")
    mjm.opt.noslip_iterations, mjm.opt.impratio = 5, 10.0
    with pytest.warns(UserWarning, match=rf"{physics.name} sticks without them.*noslip_iterations=5.*impratio=10"):
        ss.Simulation(mjm, physics(), device="cpu")
