"""Parameters declared once: checks, text, former names, tables; and the notation name:key=value."""

import dataclasses
import re

import numpy as np
import pytest

from stickslip import parameters, spec
from stickslip.errors import InputError, unknown
from stickslip.parameters import parameter


@parameters.checked
@dataclasses.dataclass(frozen=True)
class Gains:
    stiffness: float = parameter(0.2, "share of the depth that a step removes", 0.0, 1.0)
    substeps: int | None = parameter(None, "parts of a step", 1, 1000, kind=int)
    warm_start: bool = parameter(True, "start from the forces of the last step", was="carry")
    mode: str = parameter("soft", "how hard contact is", choices=("soft", "hard"))
    timesteps: tuple[float, ...] = parameter((0.001, 0.002), "lengths of a step [s]", 0.0, above=True)
    gain: float | tuple[float, ...] = parameter(1.0, "strength", 0.0, per_world=True)
    weights: tuple[float, ...] | None = parameter(None, "of each position", 0.0, kind=float, several=True)


def test_defaults_are_the_defaults_and_valid_values_pass():
    assert Gains() == Gains(0.2, None, True, "soft", (0.001, 0.002))
    assert Gains(stiffness=1, substeps=np.int64(3)).substeps == 3
    assert dataclasses.replace(Gains(), stiffness=0.5).stiffness == 0.5


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"stiffness": 2.0}, r"stiffness is 2.0: it must be a number from 0 to 1"),
        ({"stiffness": float("nan")}, "stiffness is nan"),
        ({"stiffness": "0.1"}, "stiffness is '0.1'"),
        ({"stiffness": True}, "stiffness is True"),
        ({"stiffness": None}, "stiffness is None"),
        ({"substeps": 0}, "substeps is 0: it must be a whole number from 1 to 1000, or None"),
        ({"substeps": 2.5}, "substeps is 2.5"),
        ({"warm_start": 1}, "warm_start is 1: it must be true or false"),
        ({"mode": "firm"}, "mode is 'firm': it must be one of 'soft', 'hard'"),
        ({"timesteps": ()}, "timesteps is ()"),
        ({"timesteps": (0.0,)}, "one or more, each a number above 0"),
        ({"timesteps": 0.1}, "timesteps is 0.1"),
        ({"gain": (1.0, -1.0)}, "gain[1] is -1.0: it must be a number of at least 0, or one per world"),
        ({"gain": ()}, "gain is ()"),
        ({"weights": 1.0}, "weights is 1.0: it must be one or more, each a number of at least 0, or None"),
        ({"carry": True}, "'carry' is called 'warm_start' now"),
        ({"stifness": 0.1}, "no parameter named 'stifness'; did you mean 'stiffness'"),
    ],
)
def test_invalid_values_name_value_and_limit(given, match):
    with pytest.raises(InputError, match=re.escape(match)):
        Gains(**given)


def test_text_becomes_values_of_the_declared_kind():
    made = spec.resolve(
        "gains:stiffness=1,substeps=3.0,warm_start=False,mode=hard,timesteps=0.1,2e-1", {"gains": Gains}, ""
    )
    assert made == Gains(1.0, 3, False, "hard", (0.1, 0.2))
    assert isinstance(made.stiffness, float) and isinstance(made.substeps, int)
    assert spec.resolve("gains:substeps=none,weights=none", {"gains": Gains}, "") == Gains()
    assert spec.resolve("gains:gain=3", {"gains": Gains}, "").gain == 3.0
    assert spec.resolve("gains:gain=3,4,weights=1", {"gains": Gains}, "") == Gains(gain=(3.0, 4.0), weights=(1.0,))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("gans", "no physics named 'gans'; did you mean 'gains'"),
        ("gains:stiffness", "'stiffness' is not key=value"),
        ("gains:=1", "'=1' is not key=value"),
        ("gains:stiffness=", "is not key=value"),
        ("gains:stiffness=1,stiffness=1", "given twice"),
        ("gains:stiffness=stiff", "stiffness is 'stiff'"),
        ("gains:stiffness=1e999", "stiffness is inf"),
        ("gains:stiffness=(1,2)", "stiffness is '\\(1,2\\)'"),
        ("gains:substeps=true", "substeps is 'true'"),
        ("gains:warm_start=1", "warm_start is '1'"),
        ("gains:carry=true", "of gains is called 'warm_start' now"),
        ("gains:nothing=1", "no parameter of gains named 'nothing'"),
    ],
)
def test_text_that_is_no_value_is_refused(text, match):
    with pytest.raises(InputError, match=match):
        spec.resolve(text, {"gains": Gains}, "physics")


def test_every_value_survives_its_text():
    for name, field in parameters.fields(Gains).items():
        assert parameters.convert(name, field, parameters.text(field.default)) == field.default


def test_rows_and_descriptions_follow_from_the_declarations():
    assert list(parameters.rows(Gains))[1] == (
        "substeps",
        "none",
        "a whole number from 1 to 1000, or None",
        "parts of a step",
    )
    described = parameters.describe(parameters.fields(Gains)["stiffness"])
    assert described == "stiffness=0.2 (a number from 0 to 1): share of the depth that a step removes"


def test_a_default_of_none_needs_a_kind():
    with pytest.raises(TypeError, match="needs a kind"):
        parameter(None, "anything")


def test_unknown_names_list_what_there_is():
    assert str(unknown("scene", "zzz", ["pile", "hand"])) == "no scene named 'zzz'; there are: pile, hand"
