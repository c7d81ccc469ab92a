"""PBD-R as published, contact by contact on bodies, against every particle by itself.

The physics sums over contacts, the reference over particles; between substeps both keep rigid bodies. What they have in
common is the paper, and exact arithmetic.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import warp as wp
from numpy.typing import ArrayLike, NDArray

import stickslip as ss
from stickslip.bench.baselines.pbd_paper.physics import PbdRAblated
from stickslip.physics.pbd import model
from stickslip.physics.pbd.find import GENTLE, RECOVERY
from stickslip.physics.pbd.rigid import rotation_of
from stickslip.physics.pbd.step import EARTH, MOMENTUM
from tests.reference import particles as ref
from tests.reference.contacts import Around
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
    rotation,
    single,
    slope,
    welded_pairs,
)

wp.set_module_options({"enable_backward": False})

Array = NDArray[np.float64]

PLACE, VELOCITY = 1e-13, 1e-11
"""How far apart the two may be [m], [m/s]."""


def as_published(slip: str = "relative", substeps: int | None = None) -> PbdRAblated:
    return PbdRAblated(
        relaxation=0.9,
        inertia="packed",
        contact="centre",
        slip=slip,  # type: ignore[arg-type]
        clamp="iteration",
        iterations=10,
        substeps=substeps,
    )


def mass_of(sim: ss.Simulation, packed: model.Body) -> tuple[float]:
    """Of MuJoCo's bodies that move as one."""
    return (sum(single(sim.mjm.body_mass[member[0]]) for member in packed.members),)


def twin(xml: str, physics: PbdRAblated, device: str, qpos: ArrayLike, qvel: ArrayLike, **options: Any) -> Twin:
    """A simulation and its reference, with the law that its physics has; options of `make_twin`."""
    law = ref.Law(
        physics.iterations, physics.relaxation, relative=physics.slip == "relative", rigid=True,
        accumulate=physics.clamp == "substep", tolerance=physics.tolerance if physics.clamp == "substep" else 0.0,
        weight=float(EARTH), momentum=float(MOMENTUM), margin=model.MARGIN, recovery=float(RECOVERY),
        gentle=float(GENTLE),
    )  # fmt: skip
    return make_twin(ref, law, mass_of, xml, physics, device, qpos, qvel, accuracy=(PLACE, VELOCITY), **options)


# contacts


@pytest.mark.parametrize("substeps", [1, 10])
@pytest.mark.parametrize("start", [THROWN, LYING], ids=["thrown", "lying"])
def test_a_box_on_a_plane(device: str, start: tuple[list[float], list[float]], substeps: int) -> None:
    """One that falls on an edge with spin, and one that slides on a face and turns, for 30 ms."""
    physics = as_published("absolute", substeps)
    pair = twin(BOX, physics, device, *start, planes=[floor(0.4)], timestep=substeps * STEP)
    for _ in range(30 // substeps):
        pair.step()
        pair.check()
    _, qvel = pair.state()
    assert np.linalg.norm(qvel[0, :2] - single(start[1])[:2]) > 0.1  # friction has slowed it


@pytest.mark.parametrize("slip", ["absolute", "relative"])
def test_two_boxes_collide(device: str, slip: str) -> None:
    """Of different mass, particles and friction, off centre and with spin, in free space."""
    pair = twin(PAIR, as_published(slip), device, *MEETING)
    start = [ref.momentum_of(body.mass, body.x, body.v)[0] for body in pair.bodies]
    for _ in range(30):
        pair.step()
        pair.check()
    end = [ref.momentum_of(body.mass, body.x, body.v)[0] for body in pair.bodies]
    assert np.linalg.norm(end[0] - start[0]) > 1.0  # they have met [kg m/s]
    kept = np.linalg.norm(sum(end) - sum(start))
    if slip == "relative":
        assert kept < 1e-12
    else:  # each brakes by its own velocity, which is no action and reaction
        assert kept > 1e-2


@pytest.mark.parametrize(
    "changes",
    [{}, {"relaxation": 0.5}, {"slip": "absolute"}, {"iterations": 7}],
    ids=["as it is", "fixed relaxation", "absolute slip", "few iterations"],
)
def test_two_boxes_collide_with_bounds_over_a_substep(device: str, changes: dict[str, Any]) -> None:
    """Fitted to their particles, by projected gradients."""
    pair = twin(PAIR, PbdRAblated(contact="centre", inertia="packed", **changes), device, *MEETING)
    start = ref.momentum_of(pair.bodies[0].mass, pair.bodies[0].x, pair.bodies[0].v)[0]
    for _ in range(30):
        pair.step()
        pair.check()
    end = ref.momentum_of(pair.bodies[0].mass, pair.bodies[0].x, pair.bodies[0].v)[0]
    assert np.linalg.norm(end - start) > 1.0  # they have met [kg m/s]


def test_a_fitted_box_comes_out_of_a_plane_gently(device: str) -> None:
    """One that slides on a face and turns, and begins deep inside."""
    deep = [0.3, -0.2, 0.098, 1.0, 0.0, 0.0, 0.2], [0.5, -0.3, 0.0, 0.0, 0.0, 2.0]
    pair = twin(BOX, PbdRAblated(contact="centre", inertia="packed"), device, *deep, planes=[floor(0.4)])
    for _ in range(30):
        pair.step()
        pair.check()
    assert 0.0985 < pair.state()[0][0, 2] < 0.1


@pytest.mark.parametrize("slip", ["absolute", "relative"])
def test_three_bodies_on_a_slope(device: str, slip: str) -> None:
    """A box, another that falls on it, and beside them a body of two geoms, off its frame and welded at an angle."""
    pile = twin(PILE, as_published(slip), device, *piled(), planes=[slope()])
    assert len(pile.bodies[2].x) > 64  # both geoms
    touching = set()
    for _ in range(30):
        pile.step()
        pile.check()
        touching |= welded_pairs(pile.sim)
    assert touching >= {(0, 1), (0, 3), (1, 2), (1, 3)}


# forces

OFFSET = """<mujoco>
  <option gravity="0 0 -9.81"/>
  <worldbody>
    <body>
      <freejoint/>{inertial}
      <geom type="box" size="0.1 0.15 0.05" pos="{pos}" euler="20 30 40" mass="2"/>
    </body>
  </worldbody>
</mujoco>"""
BODIES = {
    "centred": OFFSET.format(pos="0 0 0", inertial=""),
    "off its frame": OFFSET.format(pos="0.2 -0.1 0.3", inertial=""),
    "weighted": OFFSET.format(
        pos="0.2 -0.1 0.3", inertial='<inertial pos="0.05 0.1 0" mass="3" diaginertia="0.1 0.1 0.1"/>'
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_wrench_in_free_flight(device: str, name: str) -> None:
    """A force acts in the centre of mass, which is that of the particles, wherever the model has it."""
    force, torque = single([3.0, -2.0, 25.0]), single([0.1, 0.3, -0.2])
    qpos, qvel = [0.1, 0.2, 1.0, 0.8, -0.2, 0.5, 0.1], [0.5, -1.0, 2.0, 3.0, -5.0, 4.0]
    flight = twin(BODIES[name], as_published(), device, qpos, qvel)
    flight.sim.xfrc_applied = np.concatenate([np.zeros(6), force, torque]).reshape(2, 6)
    (packed,) = flight.sim.m.bodies
    arm = single(flight.sim.mjm.body_ipos[1]) - packed.centre.mean(axis=0)
    assert np.linalg.norm(arm) < 1e-7 or name == "weighted"
    for _ in range(30):
        flight.step([force], [torque])
        flight.check()


def test_a_generalized_force_in_free_flight(device: str) -> None:
    """It acts at the origin of the body, and turns in the body's frame."""
    given = single([3.0, -2.0, 25.0, 0.1, 0.3, -0.2])
    qpos, qvel = [0.1, 0.2, 1.0, 0.8, -0.2, 0.5, 0.1], [0.5, -1.0, 2.0, 3.0, -5.0, 4.0]
    flight = twin(BODIES["weighted"], as_published(), device, qpos, qvel)
    flight.sim.qfrc_applied = given
    (packed,) = flight.sim.m.bodies
    mat = frame(single(qpos)[3:])
    for _ in range(30):
        arm = mat @ packed.centre.mean(axis=0)
        flight.step([given[:3]], [mat @ given[3:] - np.cross(arm, given[:3])])
        flight.check()
        mat = frame(flight.state()[0][0, 3:])


# the reference itself


def grid(counts: Sequence[int], side: ArrayLike) -> Array:
    """Places on a grid about the origin."""
    place = np.array(list(itertools.product(*(range(n) for n in counts))), dtype=float)
    return (place - place.mean(axis=0)) * side


GRIDS = {
    "flat": grid((4, 3, 1), 0.05),
    "near-symmetric": grid((4, 4, 4), [0.05, 0.05 * (1 + 1e-7), 0.05 * (1 - 1e-7)]),
    "generic": grid((2, 3, 5), [0.05, 0.04, 0.03]),
}


def tumbling(**options: Any) -> ref.Body:
    return ref.make_body(
        GRIDS["generic"], np.full(30, 0.02), 2.0, 0.4,
        pos=(0.0, 0.0, 0.11), mat=rotation(np.random.default_rng(4)), vel=(1.0, -0.5, -0.7), omega=(5.0, -3.0, 4.0),
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("momentum", [True, False])
@pytest.mark.parametrize("rigid", [True, False])
def test_both_velocity_updates_are_the_same(momentum: bool, rigid: bool) -> None:
    """(1) is (2), but for rounding."""
    law = ref.Law(linear=momentum, angular=momentum, rigid=rigid)
    around = Around([floor(0.4)], gravity=(0.0, 0.0, -9.81))
    one, other = tumbling(), tumbling()
    for _ in range(30):
        ref.substep([one], STEP, law, around)
        ref.substep([other], STEP, dataclasses.replace(law, incremental=False), around)
    assert np.abs(one.v - tumbling().v).max() > 0.3  # they have touched
    np.testing.assert_allclose(one.x, other.x, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(one.v, other.v, rtol=0.0, atol=1e-10)


def flown(body: ref.Body, dt: float, law: ref.Law) -> tuple[Array, Array]:
    """How much momentum a free flight of 40 ms adds to a body, in parts of what it had."""
    linear, angular = ref.momentum_of(body.mass, body.x, body.v)
    for _ in range(round(0.04 / dt)):
        ref.substep([body], dt, law)
    after = ref.momentum_of(body.mass, body.x, body.v)
    return (after[0] - linear) / np.linalg.norm(linear), (after[1] - angular) / np.linalg.norm(angular)


@pytest.mark.parametrize("rigid", [True, False])
def test_free_flight_keeps_momentum(rigid: bool) -> None:
    """P to rounding. L not quite: (4) is solved for velocities, and turns places too: (omega dt)^3 a substep."""
    law = ref.Law(rigid=rigid)
    body = tumbling()
    lost = {dt: flown(tumbling() if dt > STEP else body, dt, law) for dt in (2.0 * STEP, STEP)}
    assert max(np.abs(linear).max() for linear, _ in lost.values()) < 1e-12
    coarse, fine = (np.linalg.norm(angular) for _, angular in lost.values())
    assert fine < 1e-6
    assert coarse / fine == pytest.approx(4.0, rel=0.05)
    if rigid:
        shape = ref.centre_of(body.mass, body.x) + body.rest @ ref.rotation_of(body).T
        np.testing.assert_allclose(body.x, shape, rtol=0.0, atol=1e-15)


def test_shape_matching_alone_keeps_linear_momentum_only() -> None:
    """Without (4), angular momentum is lost by truncation, (omega dt)^2 in each substep, in any precision."""
    law = ref.Law(linear=False, angular=False)
    (linear, coarse), (_, fine) = (flown(tumbling(), dt, law) for dt in (2.0 * STEP, STEP))
    assert np.abs(linear).max() < 1e-12
    assert np.linalg.norm(fine) > 1e-4
    assert np.linalg.norm(coarse) / np.linalg.norm(fine) == pytest.approx(2.0, rel=0.05)


def test_single_precision_drifts_without_each_part() -> None:
    """At 16 m the update of velocities by (1), and shape matching without (3), change the velocity of a body."""
    velocity = np.array([0.3, -0.2, 0.1])
    error = {}
    for name in ("all", "incremental", "linear"):
        body = tumbling(dtype=np.float32)
        body.x += np.float32(16.0)
        body.v[:] = velocity
        law = ref.Law() if name == "all" else dataclasses.replace(ref.Law(), **{name: False})
        for _ in range(20):
            ref.substep([body], STEP, law)
        assert body.x.dtype == body.v.dtype == np.float32
        mean, _ = ref.momentum_of(*(a.astype(float) for a in (body.mass / 2.0, body.x, body.v)))
        error[name] = np.abs(mean - velocity).max()
    assert error["all"] < 2e-6
    assert error["incremental"] > 3e-4
    assert error["linear"] > 0.1


@pytest.mark.parametrize("name", GRIDS)
def test_shape_matching_finds_the_rotation(name: str) -> None:
    rng = np.random.default_rng(7)
    for angle in [None] * 20 + [3.1, np.pi]:
        mat = rotation(rng, angle)
        n = len(GRIDS[name])
        body = ref.make_body(GRIDS[name], np.full(n, 0.02), 1.0, pos=rng.normal(size=3), mat=mat)
        np.testing.assert_allclose(ref.rotation_of(body), mat, rtol=0.0, atol=1e-13)
        body.x += 1e-3 * rng.normal(size=(n, 3))  # somewhere near if the particles are
        np.testing.assert_allclose(ref.rotation_of(body), mat, rtol=0.0, atol=0.05)


# the rotation of a covariance


@wp.kernel
def _fit(a: wp.array[wp.mat33d], guess: wp.array[wp.mat33d], out: wp.array[wp.mat33d]):
    i = wp.tid()
    out[i] = rotation_of(a[i], guess[i])


def fitted(a: Array, guess: Array) -> Array:
    out = wp.zeros(len(a), dtype=wp.mat33d)
    inputs = [wp.array(each, dtype=wp.mat33d) for each in (a, guess)]
    wp.launch(_fit, dim=len(a), inputs=inputs, outputs=[out])
    return out.numpy()


SPREADS = {
    "generic": (1.0, 2.0, 3.0),
    "near-symmetric": (1.0, 1.0 + 1e-9, 1.0 - 1e-9),
    "flat": (1.0, 2.0, 0.0),
    "slender": (1.0, 1e-4, 1e-4),
    "blade": (1.0, 1e-4, 0.0),
    "light": (1e-9, 2e-9, 3e-9),
}


@pytest.mark.parametrize("angle", [0.0, 1e-6, 1e-3, 0.1, 1.0, 2.0, 3.0, np.pi])
def test_the_rotation_of_a_body(device: str, angle: float) -> None:
    """That has turned by an angle since the guess, about any axis."""
    rng = np.random.default_rng(1)
    guess = np.array([rotation(rng) for _ in range(50 * len(SPREADS))])
    turned = np.array([rotation(rng, angle) for _ in guess]) @ guess
    spread = np.repeat([np.diag(each) for each in SPREADS.values()], 50, axis=0)
    np.testing.assert_allclose(fitted(turned @ spread, guess), turned, rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("kind", ["random", "flat", "near-symmetric", "reflected", "barely reflected"])
def test_the_rotation_of_any_matrix(device: str, kind: str) -> None:
    """By singular values in NumPy, from any guess."""
    rng = np.random.default_rng(2)
    u, v, guess = (np.array([rotation(rng) for _ in range(300)]) for _ in range(3))
    values = np.sort(rng.uniform(0.1, 1.0, size=(300, 3)))[:, ::-1] + [0.2, 0.1, 0.0]
    if kind == "flat":
        values[:, 2] = 0.0
    elif kind == "near-symmetric":
        values = 1.0 + 1e-6 * values
    elif kind == "reflected":
        values[:, 2] *= -1.0
    elif kind == "barely reflected":
        values[:, 2] *= -1e-6
    a = rng.normal(size=(300, 3, 3)) if kind == "random" else u @ (values[:, :, None] * v)
    want = np.array([ref.polar_rotation(each) for each in a])
    got = fitted(a, guess)
    np.testing.assert_allclose(got @ np.swapaxes(got, 1, 2), np.tile(np.eye(3), (300, 1, 1)), rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(np.linalg.det(got), 1.0, rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(got, want, rtol=0.0, atol=1e-12)
    if kind != "random":  # the singular vectors are known
        np.testing.assert_allclose(got, u @ v, rtol=0.0, atol=1e-12)
