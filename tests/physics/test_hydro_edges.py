"""A cylinder across the side of a box: the polar patch of the kernels against a dense integral over the volume."""

import numpy as np

import stickslip as ss
from tests.reference.hydro_cases import Y, Z, turn
from tests.reference.hydro_fields import Geom, Pose, pressure
from tests.reference.hydro_models import Body, geom_of, model_of, points_in
from tests.reference.hydro_points import force

SIZE = (0.05, 0.02)
HALF = (0.1, 0.1, 0.05)
DEPTH = 1e-3
CELLS = (96, 96, 24)


def across(x: float, y: float, yaw: float, modulus: float) -> tuple[Body, Body]:
    """A box whose top is at z = 0, and a cylinder that lies on it, its axis turned by `yaw` [deg] from x."""
    rot = turn(Z, np.radians(yaw)) @ turn(Y, np.pi / 2)
    return Body("box", HALF, (0.0, 0.0, -HALF[2]), modulus=modulus), Body(
        "cylinder", SIZE, (x, y, SIZE[0] - DEPTH), rot
    )


def dense_force(geom: Geom, pose: Pose, box: Geom, under: Pose) -> np.ndarray:
    """On the box: the integral of the gradient of p over 0 < p < p of the box, by the divergence theorem.

    What bounds that volume is the contact surface, and the surface of the geom, where p is 0.
    """
    half = SIZE[0] * np.hypot(pose.rot[:, 0], pose.rot[:, 1]) + SIZE[1] * np.abs(pose.rot[:, 2])
    low, high = np.maximum(pose.pos - half, under.pos - HALF), np.minimum(pose.pos + half, under.pos + HALF)
    wide = np.sqrt(2.0 * SIZE[0] * DEPTH) + SIZE[1]
    low[:2], high[:2] = np.maximum(low[:2], pose.pos[:2] - wide), np.minimum(high[:2], pose.pos[:2] + wide)
    sides = [a + (b - a) * (np.arange(n) + 0.5) / n for a, b, n in zip(low, high, CELLS, strict=True)]
    places = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 3)
    p, slope = pressure(geom, pose, places)
    other = pressure(box, under, places)[0]
    own = (p > 0.0) & (other > 0.0 if box.rigid else p < other)
    return slope[own].sum(axis=0) * np.prod((high - low) / CELLS)


def errors(pairs: list[tuple[Body, Body]]) -> list[float]:
    """Of the force between the geoms of each pair, over the force."""
    mjm = model_of(pairs)
    sim = ss.Simulation(mjm, ss.Icf(speculative_margin=0.0), nconmax=32 * len(pairs))
    sim.forward()
    found = points_in(sim)
    xpos, xmat = (getattr(sim.d, name).numpy()[0].astype(float) for name in ("geom_xpos", "geom_xmat"))
    out = []
    for i, (box, cylinder) in enumerate(pairs):
        below, above = (geom_of(mjm, 2 * i + side, body) for side, body in enumerate((box, cylinder)))
        poses = [Pose(xmat[g], xpos[g]) for g in (2 * i, 2 * i + 1)]
        wanted = dense_force(above, poses[1], below, poses[0])
        on_box = force(found[2 * i + 1, 2 * i])  # MuJoCo's order: cylinder, box
        out.append(min(float(np.linalg.norm(on_box - sign * wanted) / np.linalg.norm(wanted)) for sign in (1.0, -1.0)))
    return out


def test_cylinder_at_the_side_of_a_box() -> None:
    """Within 12 % where the axis crosses the side, 30 % where it lies along it and beyond; 2 % away from it."""
    beyond, stiff, crossing, away = errors(
        [
            across(0.107, 0.0, 90.0, 3e6),
            across(0.107, 0.0, 90.0, 0.0),
            across(0.1, 0.0, 45.0, 3e6),
            across(0.05, 0.0, 45.0, 0.0),
        ]
    )
    assert beyond < 0.3 and stiff < 0.2
    assert crossing < 0.12
    assert away < 0.02


def test_cylinder_that_stands_over_the_side_of_a_box() -> None:
    """Its force falls with the area on the box, from that of the whole cap, without a jump."""
    places = np.linspace(0.07, 0.1, 31)
    pairs = [
        (
            Body("box", HALF, (0.0, 0.0, -0.05), modulus=1e7),
            Body("cylinder", (0.02, 0.05), (x, y, 0.04903), modulus=1e7),
        )
        for x in places.tolist()
        for y in (0.0, 0.013)
    ]
    sim = ss.Simulation(model_of(pairs), ss.Icf(speculative_margin=0.0), nconmax=32 * len(pairs))
    sim.forward()
    found = points_in(sim)
    forces = np.array([-force(found[2 * i + 1, 2 * i]) for i in range(len(pairs))]).reshape(-1, 2, 3)
    np.testing.assert_allclose(forces[:, 1], forces[:, 0], atol=1e-2)  # the side is straight
    up = forces[:, 0, 2]
    assert (np.abs(forces[:, 0, 0]) < 0.05 * up).all()
    assert (np.diff(up) < 0.01).all() and (np.diff(up) > -0.05 * up[0]).all()
    assert 0.45 < up[-1] / up[0] < 0.52  # half of the cap
