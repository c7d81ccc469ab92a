"""Systems of the user's own that act on a model: against closed forms, bounded, stiff, one state a world."""

import math

import numpy as np
import pytest
import warp as wp
from numpy.typing import NDArray

import stickslip as ss
from stickslip.errors import InputError
from tests import support

wp.set_module_options({"enable_backward": False})

MASS = 2.0
SLIDE = """<mujoco>
  <option gravity="3 0 0" timestep="0.05"/>
  <worldbody><body><joint type="slide" axis="1 0 0" {spring}/><geom size="0.1" mass="2"/></body></worldbody>
</mujoco>"""
ONE = SLIDE.format(spring="")

PLANE = """<mujoco>
  <option gravity="0 0 0" timestep="0.05"/>
  <worldbody>
    <body><freejoint/><geom size="0.1" mass="1" contype="0" conaffinity="0"/></body>
    <body pos="0 0 1">
      <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><geom size="0.1" mass="2"/>
    </body>
  </worldbody>
</mujoco>"""
"""Two slides behind a free body, so that positions and dofs are numbered differently."""


@wp.func
def pid(qpos: wp.array[wp.float64], qvel: wp.array[wp.float64], z: wp.array[wp.float64], out: wp.array[wp.float64]):
    out[0] = -wp.float64(1.0e4) * qpos[0] - wp.float64(1.0e2) * qvel[0] - wp.float64(1.0e3) * z[0]


@wp.func
def integral(
    qpos: wp.array[wp.float64], qvel: wp.array[wp.float64], z: wp.array[wp.float64], out: wp.array[wp.float64]
):
    out[0] = qpos[0]


@wp.func
def servo(qpos: wp.array[wp.float64], qvel: wp.array[wp.float64], z: wp.array[wp.float64], out: wp.array[wp.float64]):
    out[0] = z[0] * (wp.float64(1.0) - qpos[0] - qvel[0])


@wp.func
def constant(
    qpos: wp.array[wp.float64], qvel: wp.array[wp.float64], z: wp.array[wp.float64], out: wp.array[wp.float64]
):
    out[0] = wp.float64(0.0)


@wp.func
def spring(qpos: wp.array[wp.float64], qvel: wp.array[wp.float64], z: wp.array[wp.float64], out: wp.array[wp.float64]):
    out[0] = -wp.float64(200.0) * qpos[0]


@wp.func
def magnetic(
    qpos: wp.array[wp.float64], qvel: wp.array[wp.float64], z: wp.array[wp.float64], out: wp.array[wp.float64]
):
    out[0] = wp.float64(6.0) * qvel[7]
    out[1] = -wp.float64(6.0) * qvel[6]


PID = ss.External(dofs=[0], force=pid, derivative=integral, start=[0.0])


def state_of(sim: ss.Simulation) -> NDArray:
    """The state of the external system of every world."""
    return sim.d.convex.system.z.numpy().copy()


def closed_loop(t: float, start: float) -> NDArray:
    """Position, velocity and integral of the slide under the controller, by eigenvectors."""
    a = np.array([[0.0, 1.0, 0.0], [-1e4 / MASS, -1e2 / MASS, -1e3 / MASS], [1.0, 0.0, 0.0]])
    rest = -np.linalg.solve(a, [0.0, 3.0, 0.0])
    rates, modes = np.linalg.eig(a)
    return (rest + modes @ (np.exp(rates * t) * np.linalg.solve(modes, [start, 0.0, 0.0] - rest))).real


def errors(physics: ss.Physics, device: str, seconds: float, **options: float) -> NDArray:
    """Of position and integral after that time."""
    sim = ss.Simulation(ONE, physics, device=device, **options)
    sim.qpos = [0.1]
    sim.step(round(seconds / sim.mjm.opt.timestep))
    want = closed_loop(seconds, float(np.float32(0.1)))
    return np.abs([support.exact(sim)[0][0, 0] - want[0], state_of(sim)[0, 0] - want[2]])


@pytest.mark.parametrize("scheme", ["doubling", "trapezoid"])
def test_controller_converges_to_the_matrix_exponential(device: str, scheme: str) -> None:
    """Position and integral: three times closer a decade of accuracy, as an error of first order in the step is."""
    accuracies = (1e-4, 1e-5, 1e-6)
    error = np.array([errors(ss.Cenic(accuracy=a, scheme=scheme, external=PID), device, 0.1) for a in accuracies])
    slope = np.polyfit(np.log10(accuracies), np.log10(error), 1)[0]
    assert (slope > 0.4).all(), f"{slope} {error}"
    assert (error[-1] < [1e-3, 1e-5]).all(), error


def test_controller_at_fixed_steps_is_of_first_order(device: str) -> None:
    """Half the step, half the error."""
    coarse, fine = (errors(ss.Icf(external=PID), device, 0.05, timestep=dt) for dt in (1e-4, 5e-5))
    np.testing.assert_allclose(coarse / fine, 2.0, rtol=0.05)


@pytest.mark.parametrize("physics", [ss.Icf, ss.Cenic])
def test_effort_is_never_exceeded(device: str, physics: type[ss.Icf] | type[ss.Cenic]) -> None:
    """The controller asks for 1000 N and gets 5, exactly."""
    limited = ss.External(dofs=[0], force=pid, derivative=integral, start=[0.0], effort=5.0)
    sim = ss.Simulation(ONE, physics(external=limited), device=device, timestep=1e-3)
    sim.qpos = [0.1]
    sim.step(20)
    np.testing.assert_allclose(support.exact(sim)[1][0, 0], (3.0 - 5.0 / MASS) * 0.02, rtol=1e-6)
    sim.qpos, sim.qvel = [-0.1], [0.0]
    sim.step(20)
    np.testing.assert_allclose(support.exact(sim)[1][0, 0], (3.0 + 5.0 / MASS) * 0.02, rtol=1e-6)


def test_stiff_system_takes_no_more_steps(device: str) -> None:
    """Gains of 1e2 to 1e6, kept as the state of the system: the slide nears its target as exp(-t) in as many steps.

    But for a few with the least gain, whose start takes long enough to be seen.
    """
    steps = []
    for gain in (1e2, 1e4, 1e6):
        system = ss.External(dofs=[0], force=servo, derivative=constant, start=[gain])
        sim = ss.Simulation(ONE, ss.Cenic(external=system), device=device, timestep=0.1)
        sim.step(20)
        assert sim.health().ok
        assert state_of(sim)[0, 0] == gain
        steps.append(int(sim.stats().steps[0]))
        offset = 3.0 * MASS / gain
        np.testing.assert_allclose(support.exact(sim)[0][0, 0], (1.0 + offset) * (1.0 - math.exp(-2.0)), rtol=0.03)
    assert max(steps) <= 1.1 * min(steps) + 1, steps


@pytest.mark.parametrize("physics", [ss.Icf, ss.Cenic])
def test_a_system_without_state_is_a_spring(device: str, physics: type[ss.Icf] | type[ss.Cenic]) -> None:
    """A spring of the user's own moves the slide as one of the model does."""
    system = ss.External(dofs=[0], force=spring)
    own = ss.Simulation(ONE, physics(external=system), device=device, timestep=0.01)
    model = ss.Simulation(SLIDE.format(spring='stiffness="200"'), physics(), device=device, timestep=0.01)
    for sim in (own, model):
        sim.qpos = [0.1]
        sim.step(50)
    for a, b in zip(support.exact(own), support.exact(model), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("scheme", ["doubling", "trapezoid"])
def test_forces_across_dofs_are_felt(device: str, scheme: str) -> None:
    """A force square to the velocity, c v, turns it by c t / m; the dofs stand behind those of a free body."""
    system = ss.External(dofs=[6, 7], force=magnetic)
    error = []
    for accuracy in (1e-4, 1e-6):
        sim = ss.Simulation(PLANE, ss.Cenic(accuracy=accuracy, scheme=scheme, external=system), device=device)
        sim.qvel = [0, 0, 0, 0, 0, 0, 1, 0]
        sim.step(10)
        turn = 6.0 / MASS * 0.5
        error.append(np.abs(support.exact(sim)[1][0, 6:] - [math.cos(turn), -math.sin(turn)]).max())
    assert error[1] < 0.02 and error[1] < 0.2 * error[0], error


@pytest.mark.parametrize("physics", [ss.Icf(external=PID), ss.Cenic(external=PID)], ids=lambda physics: physics.name)
def test_every_world_has_a_state_of_its_own(device: str, physics: ss.Physics) -> None:
    """Three worlds from different places, each as by itself."""
    start = np.array([[0.1], [0.0], [-0.3]])
    sim = ss.Simulation(ONE, physics, nworld=3, device=device, timestep=0.01)
    sim.qpos = start
    sim.step(5)
    together = state_of(sim)
    assert np.ptp(together) > 1e-4
    for w in range(3):
        one = ss.Simulation(ONE, physics, device=device, timestep=0.01)
        one.qpos = start[w : w + 1]
        one.step(5)
        np.testing.assert_allclose(state_of(one)[0], together[w], rtol=1e-9)


@pytest.mark.parametrize("physics", [ss.Icf, ss.Cenic])
def test_reset_restarts_the_state(device: str, physics: type[ss.Icf] | type[ss.Cenic]) -> None:
    """Of the worlds in the mask alone; assigning a state restarts all."""
    system = ss.External(dofs=[0], force=pid, derivative=integral, start=[0.25])
    sim = ss.Simulation(ONE, physics(external=system), nworld=2, device=device, timestep=0.01)
    np.testing.assert_array_equal(state_of(sim), 0.25)
    first = sim.state
    sim.step(5)
    moved = state_of(sim)
    assert (moved != 0.25).all()
    sim.reset([True, False])
    np.testing.assert_array_equal(state_of(sim), [[0.25], moved[1]])
    sim.state = first
    np.testing.assert_array_equal(state_of(sim), 0.25)
    sim.step(5)
    np.testing.assert_allclose(state_of(sim), moved, rtol=1e-9)


# What is refused.


def plain(qpos: NDArray, qvel: NDArray, z: NDArray, out: NDArray) -> None:
    """A function that Warp has not seen."""


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"dofs": []}, "dofs.*one dof or more"),
        ({"dofs": [0, 0]}, "dofs.*each of them once"),
        ({"force": plain}, "force.*wp.func"),
        ({"force": None}, "force.*wp.func"),
        ({"derivative": plain}, "derivative.*wp.func"),
        ({"start": []}, "derivative.*start"),
        ({"derivative": None}, "derivative.*start"),
        ({"start": [float("nan")]}, "start.*nan.*finite"),
        ({"start": [float("inf")]}, "start.*inf.*finite"),
        ({"effort": 0.0}, "effort is 0.0.*positive"),
        ({"effort": -1.0}, "effort is -1.0.*positive"),
        ({"effort": float("nan")}, "effort has nan.*finite"),
    ],
)
def test_a_system_that_makes_no_sense(arguments: dict[str, object], words: str) -> None:
    """The message names the argument and what it must be."""
    given = {"dofs": [0], "force": pid, "derivative": integral, "start": [0.0]} | arguments
    with pytest.raises(InputError, match=words):
        ss.External(**given)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"effort": [1.0, 2.0, 3.0]}, "effort"),
        ({"effort": "strong"}, "effort"),
        ({"dofs": ["first"]}, "dofs"),
        ({"dofs": [0.5]}, "dofs"),
        ({"start": ["zero"]}, "start"),
    ],
)
def test_a_system_of_the_wrong_kind(arguments: dict[str, object], words: str) -> None:
    """Values that are no numbers, too many of them, or a dof that is not whole, are told as InputError, too."""
    given = {"dofs": [0], "force": pid, "derivative": integral, "start": [0.0]} | arguments
    with pytest.raises(InputError, match=words):
        ss.External(**given)


@pytest.mark.parametrize("physics", [ss.Icf, ss.Cenic])
def test_a_system_must_fit_the_model(physics: type[ss.Icf] | type[ss.Cenic]) -> None:
    """A dof that the model does not have, and something that is no system at all."""
    for dof in (-1, 1, 7):
        system = ss.External(dofs=[dof], force=spring)
        with pytest.raises(InputError, match=f"dofs has {dof}: the model has dofs 0 to 0"):
            ss.Simulation(ONE, physics(external=system), device="cpu")
    with pytest.raises(InputError, match="external is 'servo'.*stickslip.External"):
        physics(external="servo")
