"""What `identify` refuses, before it simulates: the value, the limit and what to do are named."""

import numpy as np
import pytest

import stickslip as ss
from stickslip.identification import Delay, Friction, Mass, Measure, ModelField, PairFriction, ServoGain, Stiffness
from stickslip.identification import measure as channels
from tests.identification.test_identify import BOX, CART, fit_box, slide

TRIAL = slide(1.5, 0.4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Friction("box", 2.0, 0.05), "bounds of friction of box are 2 to 0.05"),
        (lambda: Friction("box", 0.0, 1.0), "by its logarithm, from 0 on"),
        (lambda: Mass("box", 0.1, float("nan")), "high of mass of box is nan"),
        (lambda: Mass("box", 0.1, "1"), "high of mass of box is '1': it must be a number"),
        (lambda: Delay(-0.1, 0.1), "low of delay of measurements is -0.1 s"),
        (lambda: Delay(0.0, 0.1, "eyes"), "of is 'eyes'"),
    ],
)
def test_bounds_that_are_none_are_refused(make, message):
    with pytest.raises(ss.InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (Friction("bx", 0.05, 2.0), "neither a body nor a geom is named 'bx'.*did you mean 'box'"),
        (Mass("bx", 0.1, 2.0), "no body named 'bx'; did you mean 'box'"),
        (PairFriction("bx", 0.1, 2.0), "no pair named 'bx'"),
        (ServoGain("drive", 0.1, 2.0), "no actuator named 'drive'"),
        (ModelField("geom_size", (0, 7), 0.1, 2.0), r"geom_size\[0, 7\]: geom_size of a world has shape \(2, 3\)"),
        (ModelField("geom_shape", 0, 0.1, 2.0), "geom_shape"),
        (Stiffness("box", 1e3, 1e6), "stiffness of box: only icf and cenic have it"),
        (Friction("floor", 0.001, 0.002), "no measurement depends on the friction of floor, .* name both"),
    ],
)
def test_what_the_model_or_the_physics_does_not_have_is_named(parameter, message):
    with pytest.raises(ss.InputError, match=message):
        fit_box([TRIAL], parameters=[parameter])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": []}, "data is empty"),
        ({"data": TRIAL}, "data must be a list of trials"),
        ({"held_out": [1.0]}, "held_out must be a list of trials"),
        ({"parameters": []}, "parameters is empty"),
        ({"parameters": ["friction"]}, "parameters must be Friction, Mass"),
        ({"parameters": [Friction("box", 0.1, 1.0), Friction("box", 0.2, 1.0)]}, "two parameters are the friction of"),
        ({"nworld": 2}, "nworld is 2: .* 4 worlds here"),
        ({"generations": 0}, "generations is 0"),
        ({"measure": "sensor:gyro"}, "no sensor named 'gyro'"),
        ({"measure": "qpos"}, "measured of slide has 1 columns, its channels have 7"),
        ({"measure": Measure(lambda out: out["qpos"][0], ("qpos",))}, "what is measured has shape"),
        ({"physics": "rigid"}, "no physics named 'rigid'"),
    ],
)
def test_what_cannot_be_identified_from_is_refused(given, message):
    whole = {"data": [TRIAL], "held_out": (), "parameters": [Friction("box", 0.05, 2.0)], "nworld": 8, "device": "cpu"}
    with pytest.raises(ss.InputError, match=message):
        ss.identify(BOX, **(whole | given))


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        (
            ss.Trial([0.0, 0.1], [[0.0], [1.0]], 0.1, "qpos[0]", qpos=[0.0]),
            "qpos of trial has 1 numbers, that of the model",
        ),
        (ss.Trial([0.0, 0.1], [[0.0], [1.0]], 0.1, "qpos[0]", ctrl=[[0.0]]), "ctrl of trial has 1 columns"),
        (ss.Trial([0.0, 0.1], [[0.0], [0.1]], 0.1, "qpos[0]"), "nothing moves in the data"),
        (ss.Trial([0.0, 0.1], [[0.0], [1.0]], 0.1, "qpos[9]"), "qpos has 7 numbers, a channel asks for number 9"),
    ],
)
def test_trials_of_another_model_are_refused(trial, message):
    with pytest.raises(ss.InputError, match=message):
        fit_box([trial])


def test_trials_that_measure_different_things_are_refused():
    other = ss.Trial([0.0, 0.1], [[0.0], [1.0]], 0.1, "qpos[1]", name="other")
    with pytest.raises(ss.InputError, match=r"other measures qpos\[1\], slide measures qpos\[0\]"):
        fit_box([TRIAL, other])


@pytest.mark.parametrize(
    ("channel", "output", "columns"),
    [
        ("qpos[2:4]", "qpos", [2, 3]),
        ("joint:x", "qpos", [0]),
        ("sensor:place", "sensordata", [0]),
        ("xpos:cart", "xpos", [3, 4, 5]),
        ("xquat:cart[1]", "xquat", [5]),
    ],
)
def test_a_channel_picks_its_numbers(channel, output, columns):
    mjm = ss.load(CART)
    assert channels.find(mjm, [channel]).outputs == (output,)
    array = np.arange(24.0).reshape(1, 1, 24)
    assert channels.find(mjm, [channel]).function({output: array})[0, 0].tolist() == columns


@pytest.mark.parametrize("channel", ["xpos:wheel", "place", "qpos[3:2]", "xpos:cart[3]", "mass:cart", 3, ""])
def test_a_channel_that_is_none_is_refused(channel):
    mjm = ss.load(CART)
    with pytest.raises((ss.InputError, ss.Unsupported)):
        found = channels.find(mjm, [channel])
        ss.Simulation(mjm, device="cpu").rollout(1, outputs=found.outputs)
