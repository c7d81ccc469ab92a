"""`Fit.plot`: a picture whatever there is to draw."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.identification import Delay, Estimate, Fit, Friction, Mass, ModelField, Parameter, Trial
from stickslip.identification.picture import MOST_TRIALS


def estimate(parameter: Parameter, value: float, error: float, reason: str = "") -> Estimate:
    """A parabola about a value, within the bounds."""
    at = np.clip(value + error * np.linspace(-4.0, 4.0, 9), parameter.low, parameter.high)
    low, high = np.clip([value - 1.96 * error, value + 1.96 * error], parameter.low, parameter.high)
    return Estimate(
        parameter, value, float(low), float(high), reason, np.stack([at, ((at - value) / error) ** 2], axis=1)
    )


def trial(name: str, offset: float) -> tuple[Trial, np.ndarray]:
    time = np.linspace(0.0, 1.0, 21)
    truth = np.stack([np.sin(6.0 * time), time, 1e-3 * time, time**2, np.cos(time)], axis=1)
    noise = np.full(truth.shape, 0.02)
    noise[5:8, 0] = np.inf
    noise[:, 4] = np.inf  # never measured
    return Trial(time, truth, noise, ("qpos[0:3]", "sensor:force"), name=name), truth + offset


def fit(count: int, held_out: int, estimates: list[Estimate]) -> Fit:
    fitted = [trial(f"push {k}", 0.01 * k) for k in range(count)]
    tested = [trial(f"test {k}", 0.05) for k in range(held_out)]
    fitted[0][1][10:] = np.nan
    return Fit(
        estimates={one.parameter.name: one for one in estimates},
        residual=1.3,
        floor=1.2,
        held_out=1.4 if held_out else None,
        held_out_floor=1.3 if held_out else None,
        physics="cone-sweep:substeps=10",
        trials=tuple(one for one, _ in fitted),
        held_out_trials=tuple(one for one, _ in tested),
        predicted=tuple(found for _, found in fitted),
        held_out_predicted=tuple(found for _, found in tested),
        rollouts=1,
        lost=0,
        seconds=1.0,
        history=(1.0,),
        mjm=mujoco.MjSpec().compile(),
    )


MANY = [
    estimate(Friction(None, 0.05, 2.0), 0.4, 0.001),
    estimate(Mass("T", 0.1, 3.0), 0.8, 2.0, "anything fits as well"),
    estimate(Delay(0.0, 0.1), 0.004, 0.003),
    estimate(ModelField("gravity", 0, -1.0, 1.0, linear=True), 0.1, 0.1),
    estimate(ModelField("geom_solref", (3, 0), 0.004, 0.1), 0.01, 0.004, "too wide"),
]


@pytest.mark.parametrize(("count", "held_out", "estimates"), [(1, 0, MANY[:1]), (2 * MOST_TRIALS, 5, MANY)])
def test_a_picture_of_few_and_of_much(tmp_path: Path, count: int, held_out: int, estimates: list[Estimate]) -> None:
    found = fit(count, held_out, estimates)
    assert found.plot(tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")


def test_other_formats(tmp_path: Path) -> None:
    found = fit(1, 1, MANY[:1])
    assert "<svg" in found.plot(str(tmp_path / "fit.svg")).read_text()
    assert found.plot(tmp_path / "new/fit.pdf").read_bytes().startswith(b"%PDF")


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fit.jpg: a picture is \.png, \.pdf, \.svg"):
        fit(1, 1, MANY[:1]).plot(tmp_path / "fit.jpg")
