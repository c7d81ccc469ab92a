"""Materials of soft contact from force and depth, against the law of Hunt and Crossley in double precision."""

import numpy as np
import pytest

import stickslip as ss
from stickslip.identification import Dissipation, Modulus, StaticFriction, Stiffness

DT, MASS, STIFFNESS, DISSIPATION = 0.0002, 1.0, 2e4, 3.0
HALF, DEPTH = (0.05, 0.05, 0.05), 0.05
AREA = 4.0 * HALF[0] * HALF[1]
TIME = 0.002 * np.arange(31)


def pad(user: str, floor: str = "0 0 0 0 0") -> str:
    return f"""
    <mujoco>
      <option timestep="{DT}" gravity="0 0 0"/>
      <size nuser_geom="5"/>
      <worldbody>
        <geom name="floor" type="plane" size="1 1 .1" user="{floor}"/>
        <body name="pad" pos="0 0 {HALF[2]}">
          <joint name="z" type="slide" axis="0 0 -1"/>
          <geom name="pad" type="box" size="{HALF[0]} {HALF[1]} {HALF[2]}" mass="{MASS}" user="{user}"/>
        </body>
      </worldbody>
      <actuator><motor joint="z"/></actuator>
    </mujoco>
    """


def press(force: float, patches: bool, noise: float, seed: int) -> ss.Trial:
    """A pad that a force presses on the floor: m dv/dt = F - k x (1 + d v), by Runge and Kutta's method.

    The pressure of a patch falls to 0 towards the edges of the face, over a width of the depth x: instead of x A, it
    has x A - x^2 P / 2 + 4 x^3 / 3, with the perimeter P.
    """
    perimeter = 4.0 * (HALF[0] + HALF[1])

    def elastic(x: float) -> float:
        share = 1.0 - x * perimeter / (2.0 * AREA) + 4.0 * x**2 / (3.0 * AREA) if patches else 1.0
        return STIFFNESS * max(x, 0.0) * share

    def slope(y: np.ndarray) -> np.ndarray:
        x, v = y
        return np.array([v, (force - elastic(x) * max(1.0 + DISSIPATION * v, 0.0)) / MASS])

    h, y, out = 1e-5, np.zeros(2), [0.0]
    for _ in range(len(TIME) - 1):
        for _ in range(round(0.002 / h)):
            a = slope(y)
            b = slope(y + 0.5 * h * a)
            c = slope(y + 0.5 * h * b)
            y = y + h / 6.0 * (a + 2.0 * b + 2.0 * c + slope(y + h * c))
        out.append(y[0])
    measured = np.array(out)[:, None] + np.random.default_rng(seed).normal(0.0, noise, (len(out), 1))
    return ss.Trial(TIME, measured, noise, "joint:z", ctrl=[[force]], name=f"{force:g} N")


@pytest.mark.parametrize("patches", [False, True], ids=["points", "patches"])
def test_stiffness_and_dissipation_of_a_pad_come_back(patches):
    modulus = STIFFNESS * DEPTH / AREA
    user = f"0 1 0 {modulus / 5.0} {DEPTH}" if patches else f"{STIFFNESS} 1 0 0 0"
    spring = Modulus("pad", modulus / 30.0, modulus * 30.0) if patches else Stiffness("pad", 1e2, 1e5)
    truth = modulus if patches else STIFFNESS / 4.0  # a face touches at four points
    found = ss.identify(
        pad(user), ss.Cenic(accuracy=1e-5), data=[press(20.0, patches, 5e-6, 0)],
        held_out=[press(10.0, patches, 5e-6, 1)],
        parameters=[spring, Dissipation("pad", 0.1, 100.0)], nworld=16, device="cpu",
    )  # fmt: skip
    assert found.values[spring.name] == pytest.approx(truth, rel=0.01)
    assert found.values["dissipation of pad"] == pytest.approx(DISSIPATION, rel=0.05)
    assert all(found.identified.values())
    low, high = found.intervals[spring.name]
    assert low < truth < high
    assert found.residual < 1.5 and found.held_out is not None and found.held_out < 1.5


def test_static_friction_is_told_by_where_a_box_breaks_loose():
    """A ramp of force: the box stays until mu_s m g, so that its place at the end tells mu_s."""
    model = """
    <mujoco>
      <option timestep="0.002"/>
      <size nuser_geom="5"/>
      <worldbody>
        <geom name="floor" type="plane" size="5 5 .1" friction="0.01"/>
        <body name="box" pos="0 0 .05"><freejoint/>
          <geom name="box" type="box" size=".1 .1 .05" mass="1" friction="0.2" user="1e6 0 0.3 0 0"/>
          <site name="hook" pos="0 0 -.05"/></body>
      </worldbody>
      <actuator><general name="pull" site="hook" gear="1 0 0 0 0 0"/></actuator>
    </mujoco>
    """
    physics = ss.Cenic(accuracy=1e-4)
    ramp = np.linspace(0.0, 8.0, 200)[:, None]
    sim = ss.Simulation(model, physics, device="cpu")
    static = 0.45
    values = np.zeros(sim.mjm.ngeom)
    values[sim.mjm.geom("box").id] = static
    sim.set_model(geom_static_friction=values)
    path = sim.rollout(ramp, outputs=("qpos",))["qpos"][0, 9::10, 0]
    trial = ss.Trial(0.02 * np.arange(1, 21), path[:, None], 1e-4, "qpos[0]", ctrl=ramp)
    found = ss.identify(
        model, physics, data=[trial], held_out=(), parameters=[StaticFriction("box", 0.25, 1.0)], nworld=16,
        device="cpu",
    )  # fmt: skip
    assert found.values["static friction of box"] == pytest.approx(static, rel=0.01)
