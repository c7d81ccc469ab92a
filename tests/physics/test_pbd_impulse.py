"""`PbdR` as it is by default against a reference in NumPy, and what follows from a body's momentum alone."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import stickslip as ss
from stickslip.bench.baselines.pbd_paper.physics import PbdRAblated
from stickslip.physics.pbd import model
from stickslip.physics.pbd.find import GENTLE, RECOVERY
from stickslip.physics.pbd.physics import PbdR
from stickslip.physics.pbd.step import EARTH, MOMENTUM
from tests.reference import impulses as ref
from tests.reference.contacts import Plane, answer, cross_matrix, project
from tests.reference.free import (
    BOX,
    LYING,
    MEETING,
    PAIR,
    PILE,
    STEP,
    THROWN,
    Twin,
    floor,
    frame,
    make_twin,
    piled,
    single,
    slope,
    state_of,
    welded_pairs,
)

Array = NDArray[np.float64]

PLACE, VELOCITY = 1e-12, 1e-10
"""How far apart the two may be [m], [m/s]."""


def weighed(sim: ss.Simulation, packed: model.Body) -> tuple[float, Array, Array]:
    """Mass, centre of mass and inertia about it of MuJoCo's bodies that move as one, in the frame of the first."""
    mjm, parts = sim.mjm, []
    for member, pos, mat in packed.members:
        axes = mat @ frame(single(mjm.body_iquat[member]))
        inertia = axes @ np.diag(single(mjm.body_inertia[member])) @ axes.T
        parts.append((float(single(mjm.body_mass[member])), pos + mat @ single(mjm.body_ipos[member]), inertia))
    mass = sum(m for m, _, _ in parts)
    centre = np.sum([m * at for m, at, _ in parts], axis=0) / mass
    total = np.zeros((3, 3))
    for m, at, inertia in parts:
        r = at - centre
        total += inertia + m * (r @ r * np.eye(3) - np.outer(r, r))  # Steiner
    return mass, centre, total


def as_points(sim: ss.Simulation, packed: model.Body) -> tuple[float, Array, Array]:
    """The same of the particles of a body, which share its mass."""
    mass = sum(float(single(sim.mjm.body_mass[member])) for member, _, _ in packed.members)
    spread = np.cov(packed.centre.T, bias=True)
    return mass, packed.centre.mean(axis=0), mass * (np.trace(spread) * np.eye(3) - spread)


def twin(
    xml: str,
    physics: PbdR | PbdRAblated,
    device: str,
    qpos: ArrayLike,
    qvel: ArrayLike,
    *,
    planes: Sequence[Plane] = (),
    timestep: float = STEP,
    accuracy: tuple[float, float] = (PLACE, VELOCITY),
) -> Twin:
    """A simulation and its reference, with the law that its physics has."""
    choices = PbdRAblated(**dataclasses.asdict(physics))
    law = ref.Law(
        choices.iterations, choices.tolerance if choices.clamp == "substep" else 0.0, weight=float(EARTH),
        momentum=float(MOMENTUM), margin=model.MARGIN, recovery=float(RECOVERY), gentle=float(GENTLE),
        relative=choices.slip == "relative", accumulate=choices.clamp == "substep", relaxation=choices.relaxation,
    )  # fmt: skip
    weigh = weighed if choices.inertia == "true" else as_points
    return make_twin(
        ref, law, weigh, xml, physics, device, qpos, qvel, accuracy=accuracy, planes=planes, timestep=timestep
    )


# contacts

DEEP = [0.3, -0.2, 0.098, 1.0, 0.0, 0.0, 0.2], [0.5, -0.3, 0.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize("substeps", [1, 10])
@pytest.mark.parametrize("start", [THROWN, LYING, DEEP], ids=["thrown", "lying", "deep"])
def test_a_box_on_a_plane(device: str, start: tuple[list[float], list[float]], substeps: int) -> None:
    """One that falls on an edge with spin, and two that slide on a face and turn, of which one begins deep inside."""
    pair = twin(BOX, PbdR(substeps=substeps), device, *start, planes=[floor(0.4)], timestep=substeps * STEP)
    for _ in range(30 // substeps):
        pair.step()
        pair.check()
    _, qvel = pair.state()
    assert np.linalg.norm(qvel[0, :2] - single(start[1])[:2]) > 0.1  # friction has slowed it


@pytest.mark.parametrize("changes", [{"iterations": 7}, {"tolerance": 0.0}, {"tolerance": 0.1}, {"resolution": 2}])
def test_iterations_end_alike(device: str, changes: dict[str, float]) -> None:
    """By their number, which takes the last one's momentum away, or by what they still move."""
    pair = twin(BOX, PbdR(**changes), device, *LYING, planes=[floor(0.4)])  # type: ignore[arg-type]
    for _ in range(20):
        pair.step()
        pair.check()
    assert len(pair.sim.contacts()) >= 4


TALL = """<mujoco>
  <worldbody>
    <geom type="plane" size="5 5 0.1" friction="0.7"/>
    <body pos="0 0 1">
      <freejoint/>
      <geom type="box" size="0.04 0.06 0.12" pos="0.01 0 0.12" mass="0.8" friction="0.6"/>
    </body>
  </worldbody>
</mujoco>"""


def test_a_tall_box_tips(device: str) -> None:
    """Pushed above its middle, about its lower edge; its frame is at its foot."""
    qpos, qvel = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    push = single([8.0, 0.5, 0.0])
    pair = twin(TALL, PbdR(), device, qpos, qvel, planes=[floor(0.7)])
    pair.sim.xfrc_applied = np.array([np.zeros(6), [*push, 0.0, 0.8, 0.0]])
    for _ in range(60):
        pair.step([push], [single([0.0, 0.8, 0.0])])
        pair.check()
    tilt = np.arccos(frame(pair.state()[0][0, 3:])[2, 2])
    assert 0.05 < tilt < 0.5  # [rad]
    assert 4 <= len(pair.sim.contacts()) <= 6  # on an edge


ON_SLOPE = PILE[: PILE.index('    <body pos="0 0 2">')] + "  </worldbody></mujoco>"


def test_a_box_thrown_onto_a_slope(device: str) -> None:
    qpos, qvel = [0.0, 0.0, 0.21, 0.8, 0.4, -0.3, 0.2], [-1.0, 0.4, -2.0, 6.0, -9.0, 5.0]
    pair = twin(ON_SLOPE, PbdR(), device, qpos, qvel, planes=[slope()])
    for _ in range(50):
        pair.step()
        pair.check()
    assert np.linalg.norm(pair.state()[1][0, 3:] - qvel[3:]) > 1.0  # it has hit


BALL = """<mujoco>
  <worldbody>
    <geom type="plane" size="5 5 0.1" friction="0.5"/>
    <body pos="0 0 1"><freejoint/><geom type="sphere" size="0.05" mass="0.5" friction="0.5"/></body>
    <body pos="0 0 2"><freejoint/><geom type="sphere" size="0.03" mass="0.1" friction="0.3"/></body>
  </worldbody>
</mujoco>"""


def test_balls_roll_and_meet(device: str) -> None:
    """Spheres whose surface goes by fast: forces act in a point that is set back by how far it moves."""
    qpos = [0.0, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0], [0.1, 0.01, 0.03, 1.0, 0.0, 0.0, 0.0]
    qvel = [1.0, 0.0, 0.0, 5.0, 20.0, 1.0], [0.0, 0.0, 0.0, 0.0, 10.0, -10.0]
    pair = twin(BALL, PbdR(), device, qpos, qvel, planes=[floor(0.5)])
    touching = set()
    for _ in range(40):
        pair.step()
        pair.check()
        touching |= welded_pairs(pair.sim)
    assert touching == {(0, 1), (0, 2), (1, 2)}


def momenta(pair: Twin) -> tuple[Array, Array]:
    """Linear momentum of each body (n, 3), and angular momentum of all about the origin, as the simulation has them."""
    linear, angular = [], np.zeros(3)
    for packed, pose, velocity in zip(pair.sim.m.bodies, *pair.state(), strict=True):
        mass, centre, inertia = weighed(pair.sim, packed)
        mat = frame(pose[3:])
        arm, omega = mat @ centre, mat @ velocity[3:]
        linear.append(mass * (velocity[:3] + np.cross(omega, arm)))
        angular += mat @ inertia @ velocity[3:] + np.cross(pose[:3] + arm, linear[-1])
    return np.array(linear), angular


def test_two_boxes_collide(device: str) -> None:
    """Of different mass, particles and friction, off centre and with spin, in free space: P and L of both are kept.

    In the reference, and in the simulation, which is asked for them.
    """
    pair = twin(PAIR, PbdR(), device, *MEETING)

    def referred() -> tuple[Array, Array]:
        linear = np.array([body.linear for body in pair.bodies])
        return linear, np.sum([body.angular + np.cross(body.x, body.linear) for body in pair.bodies], axis=0)

    starts = [referred()]
    for _ in range(30):
        pair.step()
        pair.check()
        if len(starts) == 1:  # the simulation tells more digits from its first step on
            starts.append(momenta(pair))
    for before, after in zip(starts, (referred(), momenta(pair)), strict=True):
        assert np.linalg.norm(after[0][0] - before[0][0]) > 1.0  # they have met [kg m/s]
        np.testing.assert_allclose(after[0].sum(axis=0), before[0].sum(axis=0), rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(after[1], before[1], rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"slip": "absolute"}, False),  # each brakes by its own motion, which is no action and reaction
        ({"clamp": "iteration"}, True),
        ({"relaxation": 0.5}, True),
        ({"inertia": "packed"}, True),
        ({"slip": "absolute", "clamp": "iteration", "relaxation": 0.9, "iterations": 10, "inertia": "packed"}, False),
    ],
    ids=["absolute slip", "clamp in an iteration", "fixed relaxation", "inertia of points", "all of them"],
)
def test_two_boxes_collide_by_other_laws(device: str, changes: dict[str, Any], kept: bool) -> None:
    """Each of the choices by which `PbdR` differs from the paper, taken back: as the reference, with its P or not."""
    pair = twin(PAIR, PbdRAblated(**changes), device, *MEETING)
    start = np.array([body.linear for body in pair.bodies])
    for _ in range(30):
        pair.step()
        pair.check()
    end = np.array([body.linear for body in pair.bodies])
    assert np.linalg.norm(end[0] - start[0]) > 1.0  # they have met [kg m/s]
    lost = np.linalg.norm(end.sum(axis=0) - start.sum(axis=0))
    assert lost < 1e-12 if kept else lost > 1e-2


@pytest.mark.parametrize(
    "changes",
    [{"clamp": "iteration"}, {"relaxation": 0.3}, {"inertia": "packed"}],
    ids=["clamp", "relaxation", "inertia"],
)
def test_a_box_on_a_plane_by_other_laws(device: str, changes: dict[str, Any]) -> None:
    """It falls on an edge, with spin."""
    pair = twin(BOX, PbdRAblated(**changes), device, *THROWN, planes=[floor(0.4)])
    for _ in range(30):
        pair.step()
        pair.check()
    assert np.linalg.norm(pair.state()[1][0, :2] - single(THROWN[1])[:2]) > 0.1  # friction has slowed it


STACK = """<mujoco>
  <worldbody>
    <geom type="plane" size="5 5 0.1" friction="0.5"/>
    <body pos="0 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="4" friction="0.5"/></body>
    <body pos="0 0 0.28"><freejoint/><geom type="box" size="0.06 0.09 0.08" mass="1" friction="0.3"/></body>
    <body pos="0 0 0.40"><freejoint/><geom type="box" size="0.05 0.05 0.04" mass="3" friction="0.6"/></body>
  </worldbody>
</mujoco>"""


def test_a_stack_is_struck(device: str) -> None:
    """Three boxes of different grids, one on the other, a little askew; the middle one is given a push."""
    qpos = (
        [0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0],
        [0.01, 0.0, 0.2799, 1.0, 0.0, 0.0, 0.1],
        [-0.01, 0.005, 0.4, 1.0, 0.002, 0.0, 0.3],
    )
    qvel = [0.0] * 6, [0.8, 0.1, 0.0, 0.0, 0.0, 1.0], [0.0] * 6
    pair = twin(STACK, PbdR(), device, qpos, qvel, planes=[floor(0.5)])
    touching = set()
    for _ in range(20):
        pair.step()
        pair.check()
        touching |= welded_pairs(pair.sim)
    assert touching == {(0, 1), (1, 2), (2, 3)}


def test_three_bodies_on_a_slope(device: str) -> None:
    """A box, another that falls on it, and beside them a body of two geoms, off its frame and welded at an angle."""
    pile = twin(PILE, PbdR(), device, *piled(), planes=[slope()])
    touching = set()
    for _ in range(20):
        pile.step()
        pile.check()
        touching |= welded_pairs(pile.sim)
    assert touching >= {(0, 1), (0, 3), (1, 2)}


# free flight

FREE = """<mujoco>
  <option gravity="0 0 0"/>
  <worldbody>
    <body>
      <freejoint/>
      <geom type="box" size="0.06 0.1 0.15" mass="2" pos="0.01 0.02 -0.03" euler="10 20 30"/>
    </body>
  </worldbody>
</mujoco>"""
POSE = [0.0, 0.0, 1.0, 0.9, 0.1, -0.2, 0.3]


def flying(dt: float, speed: float, **changes: str) -> ss.Simulation:
    """A box with three different moments of inertia, off its frame, with so much angular velocity [rad/s].

    That is nearly about the axis of its middle one, so that it turns over, again and again.
    """
    sim = ss.Simulation(FREE, PbdRAblated(substeps=1, **changes), timestep=dt)  # type: ignore[arg-type]
    _, _, inertia = weighed(sim, sim.m.bodies[0])
    axes = np.linalg.eigh(inertia)[1]
    sim.qpos, sim.qvel = POSE, [0.3, -0.1, 0.2, *(speed * axes @ [0.1, 1.0, 0.2])]
    return sim


def rotating(sim: ss.Simulation) -> tuple[Array, float, Array]:
    """Angular momentum about the centre of mass, energy of rotation, and rotation of the one body."""
    _, _, inertia = weighed(sim, sim.m.bodies[0])
    (pose,), (velocity,) = state_of(sim)
    mat, omega = frame(pose[3:]), velocity[3:]
    return mat @ inertia @ omega, 0.5 * float(omega @ inertia @ omega), mat


@pytest.mark.parametrize(("speed", "place", "velocity"), [(5.0, PLACE, VELOCITY), (100.0, 3e-11, 3e-9)])
def test_a_box_spins(device: str, speed: float, place: float, velocity: float) -> None:
    """Under gravity, and a torque; at many radians a second the physics' rotation is what its last step leaves."""
    torque = single([0.1, 0.3, -0.2])
    omega = speed * np.array([0.6, 0.5, 0.62])
    pair = twin(BOX, PbdR(), device, POSE, [0.3, -0.1, 0.2, *omega], accuracy=(place, velocity))
    pair.sim.xfrc_applied = np.array([np.zeros(6), [0.0, 0.0, 0.0, *torque]])
    pair.planes = (floor(0.4),)
    for _ in range(50):
        pair.step(None, [torque])
        pair.check()


@pytest.mark.parametrize("dt", [1e-3, 4e-3])
def test_a_free_body_keeps_angular_momentum_and_energy(device: str, dt: float) -> None:
    """Both to rounding, whatever the substep: its rotations are those of Moser and Veselov, who keep every integral."""
    sim = flying(dt, 10.0)
    told = []
    for _ in range(1000):
        sim.step()
        told.append(rotating(sim))
    angular, energy = np.array([each[0] for each in told]), np.array([each[1] for each in told])
    size = float(np.linalg.norm(angular[0]))
    np.testing.assert_allclose(angular, np.tile(angular[0], (1000, 1)), rtol=0.0, atol=1e-12 * size)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-9)
    body = np.array([each[2].T @ each[0] for each in told]) / size
    assert np.ptp(body, axis=0).max() > 1.5  # it does turn over


def test_a_free_body_is_late_by_the_square_of_the_substep(device: str) -> None:
    """It goes the right way, only at a slightly wrong rate."""
    turns = []
    for dt in (4e-3, 2e-3, 1e-3, 2.5e-4):
        sim = flying(dt, 10.0)
        sim.step(round(0.4 / dt))
        turns.append(rotating(sim)[2])
    off = [np.abs(turn - turns[-1]).max() for turn in turns[:-1]]
    assert off[0] < 0.02
    # of squares, less that of the last: (16 - 1/16) / (4 - 1/16), and (4 - 1/16) / (1 - 1/16)
    assert off[0] / off[1] == pytest.approx(4.05, rel=0.05)
    assert off[1] / off[2] == pytest.approx(4.2, rel=0.05)


@pytest.mark.parametrize("inertia", ["true", "packed"])
def test_both_forms_fly_alike(device: str, inertia: str) -> None:
    """A body that follows its momentum, and one that is fitted to its particles: to the fourth order in a substep.

    The latter keeps its angular momentum to the second order only, and so is off by as much in the course of time.
    """
    first, later, momentum = [], [], []
    for dt in (2e-3, 1e-3):
        sims = [flying(dt, 10.0, contact=each, inertia=inertia) for each in ("surface", "centre")]
        for off, steps in ((first, 1), (later, round(0.08 / dt) - 1)):
            for sim in sims:
                sim.step(steps)
            off.append(np.linalg.norm(rotating(sims[0])[2] - rotating(sims[1])[2]))
        momentum.append(np.linalg.norm(rotating(sims[0])[0] - rotating(sims[1])[0]))
    assert first[0] < 1e-8
    assert first[0] / first[1] == pytest.approx(16.0, rel=0.08)
    assert later[0] / later[1] == pytest.approx(4.0, rel=0.08)
    assert momentum[0] / momentum[1] == pytest.approx(4.0, rel=0.08)


@pytest.mark.parametrize("speed", [1.2e3, 1e4, 1e6])
def test_more_than_a_radian_in_a_substep(device: str, speed: float) -> None:
    """No rotation has that much angular momentum then: the body still turns, is rigid, and keeps what it has."""
    sim = flying(1e-3, speed)
    told = []
    for _ in range(200):
        sim.step()
        told.append(rotating(sim))
    with pytest.raises(ArithmeticError):
        _, _, inertia = weighed(sim, sim.m.bodies[0])
        ref.rotation_for(told[-1][2] @ inertia @ told[-1][2].T, 1e-3 * told[-1][0])
    angular = np.array([each[0] for each in told])
    np.testing.assert_allclose(angular, np.tile(angular[0], (200, 1)), rtol=0.0, atol=1e-12 * np.abs(angular).max())
    values = np.linalg.eigvalsh(weighed(sim, sim.m.bodies[0])[2])
    least, most = 0.5 * np.sum(angular[0] ** 2) / values[[2, 0]]
    assert all(least * (1 - 1e-9) <= each[1] <= most * (1 + 1e-9) for each in told)
    assert abs(np.linalg.norm(state_of(sim)[0][0, 3:]) - 1.0) < 1e-14
    turn = told[1][2] @ told[0][2].T
    assert np.arccos(0.5 * (np.trace(turn) - 1.0)) > 1.0  # [rad]


# the reference itself


def test_the_rotation_for_a_moment() -> None:
    """Spheres one by one have the angular momentum that was asked for, on the average of the substep."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        place, mass = rng.normal(size=(10, 3)), rng.uniform(0.5, 1.5, 10)
        inertia = np.einsum("n,nk,nk", mass, place, place) * np.eye(3) - np.einsum("n,ni,nj->ij", mass, place, place)
        moment = inertia @ rng.normal(size=3) * 0.2
        turn = ref.rotation_for(inertia, moment)
        np.testing.assert_allclose(turn @ turn.T, np.eye(3), rtol=0.0, atol=1e-14)
        np.testing.assert_allclose(mass @ np.cross(place, place @ turn.T), moment, rtol=0.0, atol=1e-13)


def test_the_answer_bounds_the_largest_eigenvalue() -> None:
    """From above, by no more than six to the sixteenth root."""
    rng = np.random.default_rng(6)
    for _ in range(20):
        place, mass = rng.normal(size=(12, 3)), rng.uniform(0.1, 1.0, 12)
        body = ref.make_body(place, np.ones(12), 3.0, np.zeros(3), np.diag([1.0, 2.0, 2.5]))
        rows = np.vstack(
            [np.hstack([np.eye(3), -cross_matrix(r)]) * np.sqrt(m) for r, m in zip(place, mass, strict=True)]
        )
        inverse = np.diag([1 / 3.0] * 3 + [1.0, 0.5, 0.4])
        largest = np.linalg.eigvalsh(rows @ inverse @ rows.T)[-1]  # the same values, seen from contacts
        assert largest * (1 - 1e-12) <= answer(body.mass, body.inertia_now, place, mass) <= 6.0 ** (1 / 16) * largest


def test_projection_onto_the_cone() -> None:
    n = np.tile([0.0, 0.0, 1.0], (4, 1))
    given = np.array([[3.0, 4.0, 2.0], [0.3, 0.4, 2.0], [3.0, 4.0, -1.0], [0.0, 0.0, 1.0]])
    wanted = [[0.6, 0.8, 2.0], [0.3, 0.4, 2.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    np.testing.assert_allclose(project(given, n, np.full(4, 0.5)), wanted, rtol=0.0, atol=1e-15)
