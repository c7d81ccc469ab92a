"""Identification against closed forms: parameters come back, intervals hold the truth, unknown ones are said so."""

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip.identification import Delay, Fit, Friction, JointDamping, JointFriction, Mass, ModelField

GRAVITY, DT = 9.81, 0.002
NAME = "friction of box"
BOX = f"""
<mujoco>
  <option timestep="{DT}" gravity="0 0 -{GRAVITY}" cone="elliptic"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1" friction="0.01"/>
    <body name="box" pos="0 0 .05"><freejoint/><geom name="box" type="box" size=".1 .1 .05" mass="2"/></body>
  </worldbody>
</mujoco>
"""
CART = f"""
<mujoco>
  <option timestep="{DT}" gravity="0 0 0"/>
  <worldbody>
    <body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom size=".05" mass="1"/></body>
  </worldbody>
  <actuator><motor joint="x"/></actuator>
  <sensor><jointpos name="place" joint="x"/></sensor>
</mujoco>
"""
TIME = np.arange(0.0, 0.41, 0.02)


def slide(
    speed: float, friction: float, noise: float = 1e-3, rng: np.random.Generator | None = None, name: str = "slide"
) -> ss.Trial:
    """A box that slides to rest on a floor: v falls by mu g dt in each step, down to 0."""
    v = np.maximum(speed - friction * GRAVITY * DT * np.arange(1, round(TIME[-1] / DT) + 1), 0.0)
    x = np.concatenate([[0.0], np.cumsum(v) * DT])[:: round(TIME[1] / DT), None]
    if rng is not None:
        x = x + rng.normal(0.0, noise, x.shape)
    return ss.Trial(TIME, x, noise, "qpos[0]", qvel=[speed, 0, 0, 0, 0, 0], name=name)


def push(mass: float, damping: float, force: float, noise: float = 1e-4, late: float = 0.0) -> ss.Trial:
    """A cart with damping under a constant force, seen late: (m + d dt) v+ = m v + F dt."""
    v, x = 0.0, [0.0]
    for _ in range(round(TIME[-1] / DT)):
        v = (mass * v + force * DT) / (mass + damping * DT)
        x.append(x[-1] + DT * v)
    seen = np.interp(TIME - late, DT * np.arange(len(x)), x)
    return ss.Trial(TIME, seen[:, None], noise, "qpos", ctrl=[[force]])


def fit_box(trials: list[ss.Trial], physics: str = "cone-sweep", low: float = 0.05, high: float = 2.0, **more) -> Fit:
    given = {"held_out": (), "nworld": 16, "device": "cpu", "parameters": [Friction("box", low, high)]} | more
    return ss.identify(BOX, physics, data=trials, **given)


@pytest.mark.parametrize("physics", ["cone-sweep", "mujoco", "icf", "cenic"])
def test_friction_of_a_sliding_box_is_that_of_the_closed_form(physics):
    found = fit_box([slide(1.5, 0.4)], physics, held_out=[slide(1.0, 0.4)])
    estimate = found.estimates[NAME]
    assert estimate.identified
    assert abs(estimate.value - 0.4) < (0.02 if physics == "mujoco" else 0.01) * 0.4
    assert found.residual < 1.0
    assert found.held_out is not None and found.held_out < 1.5
    assert found.held_out_floor is not None and found.held_out_floor < 2.0
    assert "explains the measurements" in found.verdict


def test_the_truth_lies_within_the_interval_of_18_seeds_of_20():
    mjm = ss.load(BOX, timestep=0.005)
    time = 0.01 * np.arange(31)
    speed = np.maximum(1.2 - 0.3 * GRAVITY * 0.005 * np.arange(1, 61), 0.0)
    place = np.concatenate([[0.0], 0.005 * np.cumsum(speed)])[::2, None]
    held = 0
    for seed in range(20):
        measured = place + np.random.default_rng(seed).normal(0.0, 2e-3, place.shape)
        trial = ss.Trial(time, measured, 2e-3, "qpos[0]", qvel=[1.2, 0, 0, 0, 0, 0])
        found = ss.identify(
            mjm, data=[trial], held_out=(), parameters=[Friction("box", 0.1, 1.0)], nworld=8, device="cpu", seed=seed
        )
        estimate = found.estimates[NAME]
        assert estimate.identified
        assert estimate.high < 1.1 * estimate.low  # no interval that holds anything
        held += estimate.low <= 0.3 <= estimate.high
    assert held >= 18


def test_mass_and_damping_of_a_cart_come_back():
    found = ss.identify(
        CART, data=[push(1.7, 2.5, 3.0), push(1.7, 2.5, -6.0)], held_out=[push(1.7, 2.5, 1.0)],
        parameters=[Mass("cart", 0.1, 10.0), JointDamping("x", 0.1, 20.0)], nworld=64, device="cpu",
    )  # fmt: skip
    assert found.values["mass of cart"] == pytest.approx(1.7, rel=0.01)
    assert found.values["damping of x"] == pytest.approx(2.5, rel=0.01)
    assert all(found.identified.values())
    for name, truth in (("mass of cart", 1.7), ("damping of x", 2.5)):
        low, high = found.intervals[name]
        assert low < truth < high


def test_a_delay_is_told_apart_from_mass():
    cart = CART.replace('axis="1 0 0"', 'axis="1 0 0" damping="2.5"')
    found = ss.identify(
        cart, data=[push(1.7, 2.5, 8.0, late=0.033)], held_out=(),
        parameters=[Mass("cart", 0.1, 10.0), Delay(0.0, 0.1)], nworld=64, device="cpu", measure="sensor:place",
    )  # fmt: skip
    assert found.values["mass of cart"] == pytest.approx(1.7, rel=0.01)
    assert found.values["delay of measurements"] == pytest.approx(0.033, abs=1e-3)


def test_controls_that_act_late_are_found():
    mjm = ss.load(CART)
    mjd = mujoco.MjData(mjm)
    ctrl = 5.0 * np.sign(np.sin(40.0 * np.arange(220) * DT))[:, None]
    x = [0.0]
    for k in range(210):
        mjd.ctrl[:] = ctrl[max(k - 7, 0)]
        mujoco.mj_step(mjm, mjd)
        x.append(mjd.qpos[0])
    trial = ss.Trial(np.arange(0, 211, 10) * DT, np.array(x)[::10, None], 1e-5, ctrl=ctrl)
    found = ss.identify(
        CART, data=[trial], held_out=(), parameters=[Delay(0.0, 0.05, "controls")], nworld=16, device="cpu"
    )
    assert found.values["delay of controls"] == pytest.approx(7 * DT, abs=2e-4)


def test_the_mass_of_a_box_that_slides_freely_is_not_identified():
    both = [Friction("box", 0.05, 2.0), Mass("box", 0.2, 20.0)]
    with pytest.raises(ss.InputError, match="no measurement depends on the mass of box, from 0.2 to 20"):
        fit_box([slide(1.5, 0.4)], parameters=both)  # bit for bit
    found = fit_box([slide(1.5, 0.4)], "icf", parameters=both, nworld=32)  # by how deep it rests
    assert found.identified == {NAME: True, "mass of box": False}
    assert found.values[NAME] == pytest.approx(0.4, rel=0.01)
    assert "not identified" in str(found)


def test_the_friction_of_a_box_that_never_slides_is_bounded_on_one_side_only():
    """Tilted gravity below the friction angle for 0.3 s, a slide before that: above tan 0.3 nothing more is told."""
    slope = BOX.replace(f"0 0 -{GRAVITY}", f"{GRAVITY * np.sin(0.3)} 0 -{GRAVITY * np.cos(0.3)}")
    still = ss.Trial(TIME, np.zeros((len(TIME), 1)), 1e-3, "qpos[0]")
    with pytest.raises(ss.InputError, match="nothing moves in the data"):
        ss.identify(slope, data=[still], held_out=(), parameters=[Friction("box", 0.05, 2.0)], device="cpu")
    drop = np.stack([np.zeros(len(TIME)), 0.1 - 0.5 * GRAVITY * np.cos(0.3) * TIME**2], axis=1)
    lifted = ss.Trial(
        TIME[:4], drop[:4] * [0, 1] + [[0.5 * GRAVITY * np.sin(0.3) * t**2, 0.0] for t in TIME[:4]], 1e-3,
        ["qpos[0]", "qpos[2]"], qpos=[0, 0, 0.1, 1, 0, 0, 0],
    )  # fmt: skip
    still = ss.Trial(TIME, np.tile([0.0, 0.05], (len(TIME), 1)), 1e-3, ["qpos[0]", "qpos[2]"])
    found = ss.identify(
        slope, data=[lifted, still], held_out=(), parameters=[Friction("box", 0.05, 2.0)], nworld=32, device="cpu"
    )
    estimate = found.estimates[NAME]
    assert not estimate.identified
    assert estimate.low == pytest.approx(np.tan(0.3), rel=0.05)
    assert estimate.high == pytest.approx(2.0, rel=0.01)
    assert "upper bound" in estimate.reason


def test_bounds_that_exclude_the_truth_are_named():
    found = fit_box([slide(1.5, 0.4)], low=0.5, high=2.0)
    assert not found.identified[NAME]
    assert "lower bound, 0.5" in found.estimates[NAME].reason
    assert 0.5 <= found.values[NAME] < 0.51


def test_a_model_that_cannot_be_right_is_said_to_be_wrong():
    """A box that sticks on a slope, for ComFree, which creeps whatever its friction."""
    slope = BOX.replace(f"0 0 -{GRAVITY}", f"{GRAVITY * np.sin(0.25)} 0 -{GRAVITY * np.cos(0.25)}")
    stop = slide(0.3, 0.4)  # moves at first
    deceleration = GRAVITY * (0.4 * np.cos(0.25) - np.sin(0.25))
    t = np.minimum(TIME, 0.3 / deceleration)
    trial = ss.Trial(TIME, (0.3 * t - 0.5 * deceleration * t**2)[:, None], 2e-4, "qpos[0]", qvel=stop.qvel)
    found = ss.identify(
        slope, "comfree", data=[trial], held_out=(), parameters=[Friction("box", 0.2, 0.6)], nworld=32, device="cpu"
    )
    assert found.residual > 5.0
    assert "the model is wrong" in found.verdict and "do not carry them to another task" in found.verdict
    right = ss.identify(
        slope, data=[trial], held_out=(), parameters=[Friction("box", 0.2, 0.6)], nworld=32, device="cpu"
    )
    assert right.residual < 1.5
    assert right.values[NAME] == pytest.approx(0.4, rel=0.01)


def test_the_same_seed_gives_the_same_result():
    rng = np.random.default_rng(3)
    trial = slide(1.2, 0.3, 2e-3, rng)
    one, two = (fit_box([trial], seed=5) for _ in range(2))
    assert one.values == two.values and one.intervals == two.intervals and one.history == two.history


def test_held_out_trials_may_be_off_by_what_the_intervals_leave_open():
    """Friction from a bad camera, tested with a good one: nothing is wrong. With another friction, something is."""
    rng = np.random.default_rng(1)
    data = [slide(1.5, 0.4, 1e-2, rng)]
    right, wrong = (fit_box(data, held_out=[slide(2.0, mu, 1e-4, rng)]) for mu in (0.4, 0.5))
    assert right.held_out is not None and right.held_out_floor is not None
    assert right.held_out > 2.0 and right.held_out_floor > 2.0  # so many times its noise
    assert right.carries and f"a model that is right has about {right.held_out_floor:.3g}" in right.verdict
    assert not wrong.carries and "do not carry the parameters" in wrong.verdict


def test_without_held_out_trials_the_verdict_says_that_there_was_no_test():
    assert "There was no test" in fit_box([slide(1.5, 0.4)]).verdict


def test_dropped_frames_and_missing_numbers_change_nothing_but_the_interval():
    rng = np.random.default_rng(0)
    whole = slide(1.5, 0.4, 1e-3, rng)
    kept = rng.permutation(len(TIME))[: len(TIME) // 2]
    noise = np.full(whole.measured.shape, 1e-3)
    noise[-3:] = np.inf
    measured = whole.measured.copy()
    measured[-3:] = np.nan
    some = ss.Trial(TIME, np.nan_to_num(measured, nan=99.0), noise, "qpos[0]", qvel=whole.qvel)
    rows = np.sort(kept)
    frames = ss.Trial(TIME[rows], whole.measured[rows], 1e-3, "qpos[0]", qvel=whole.qvel)
    width = [high - low for low, high in (fit_box([t]).intervals[NAME] for t in (whole, some, frames))]
    for trial in (some, frames):
        low, high = fit_box([trial]).intervals[NAME]
        assert low < 0.4 < high
    assert min(width[1:]) > 0.8 * width[0]  # their residuals differ, too


def test_a_fit_is_put_into_a_model_and_into_a_simulation(tmp_path):
    found = fit_box([slide(1.5, 0.4)])
    mjm = found.model()
    assert mjm.geom("box").friction[0] == pytest.approx(found.values[NAME])
    sim = ss.Simulation(BOX, nworld=2, device="cpu")
    found.apply(sim)
    own = sim.physics.model_field(sim.m, "geom_friction").numpy()
    assert own[:, mjm.geom("box").id, 0] == pytest.approx(found.values[NAME])
    assert (tmp_path / "fit.json") == found.save(tmp_path / "fit.json")
    assert '"verdict"' in (tmp_path / "fit.json").read_text()


def test_a_field_by_its_index_and_dry_friction_of_a_joint():
    speed, loss = 1.0, 1.5
    t = np.minimum(TIME, speed / loss)
    trial = ss.Trial(TIME, (speed * t - 0.5 * loss * t**2)[:, None], 1e-4, "joint:x", qvel=[speed])
    cart = CART.replace('axis="1 0 0"', 'axis="1 0 0" frictionloss="0.1"')
    by_name = ss.identify(
        cart, data=[trial], held_out=(), parameters=[JointFriction("x", 0.1, 10.0)], nworld=16, device="cpu"
    )
    assert by_name.values["dry friction of x"] == pytest.approx(loss, rel=0.01)
    by_index = ss.identify(
        cart, data=[trial], held_out=(), parameters=[ModelField("dof_frictionloss", 0, 0.1, 10.0)], nworld=16,
        device="cpu",
    )  # fmt: skip
    assert by_index.values["dof_frictionloss[0]"] == pytest.approx(loss, rel=0.01)
