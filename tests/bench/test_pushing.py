"""The quasi-static reference of the rod that pushes a box, held against a solution found in another way."""

import math

import numpy as np
import pytest

from stickslip.bench.references.pushing import Push, corner_ratio, first_half, parted, patch_ratio, pushed, touch


def test_ratio_is_the_mean_distance_of_the_patch_from_its_middle():
    middle = (np.arange(1000) + 0.5) / 1000 * 0.2 - 0.1
    x, y = np.meshgrid(middle, middle)
    assert patch_ratio(0.1) == pytest.approx(np.hypot(x, y).mean(), rel=1e-5)
    assert patch_ratio(0.1) == pytest.approx(0.0765, abs=5e-5)
    assert corner_ratio(0.1) == pytest.approx(np.mean([math.hypot(x, y) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]))


def by_search(push: Push, travel: float, step: float) -> tuple[float, float, float, int, int]:
    """The box's pose after a travel of the rod, and how many steps stuck and slid, without any of the formulas tested.

    In every step the direction of the force is searched for: the box moves along the ellipsoid's normal as far as the
    rod, in its new place, needs it to; the rod sticks if the point of contact wanders on the face by what rolls off the
    rod. If no direction inside the friction cone gives that, the force lies on the edge that opposes the slip.
    """
    x = y = angle = 0.0
    stuck = slid = 0
    way = push.gap

    def seen(x: float, y: float, angle: float, way: float) -> tuple[float, float]:
        """Place along the face and gap, from the corners of the face."""
        upper = (x - push.half * math.cos(angle) - push.half * math.sin(angle),
                 y - push.half * math.sin(angle) + push.half * math.cos(angle))  # fmt: skip
        rod = (way - push.distance - upper[0], push.offset - upper[1])
        along = -math.sin(angle) * rod[0] + math.cos(angle) * rod[1]
        return along + push.half, -math.cos(angle) * rod[0] - math.sin(angle) * rod[1] - push.radius

    for _ in range(round((travel - push.gap) / step)):
        place, _ = seen(x, y, angle, way)
        goal = way + step

        def move(tangent: float, place: float = place, goal: float = goal, now=(x, y, angle)) -> tuple:
            force = (math.cos(tangent), math.sin(tangent))
            spin = (-push.half * force[1] - place * force[0]) / push.ratio**2
            ahead = (math.cos(now[2]) * force[0] - math.sin(now[2]) * force[1],
                     math.sin(now[2]) * force[0] + math.cos(now[2]) * force[1])  # fmt: skip
            low, high = 0.0, step  # how far: the gap falls below zero unless the box gives way
            for _ in range(4):
                gap = [
                    seen(now[0] + k * ahead[0], now[1] + k * ahead[1], now[2] + k * spin, goal)[1] for k in (low, high)
                ]
                low, high = high, high - gap[1] * (high - low) / (gap[1] - gap[0]) if gap[1] != gap[0] else high
            after = (now[0] + high * ahead[0], now[1] + high * ahead[1], now[2] + high * spin)
            return after, seen(*after, goal)[0] - place - push.radius * (after[2] - now[2])

        edge = math.atan(push.mu)
        low, high = -edge, edge
        if move(high)[1] > 0.0:
            low, slid = high, slid + 1
        elif move(low)[1] < 0.0:
            high, slid = low, slid + 1
        else:
            stuck += 1
            for _ in range(22):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if move(middle)[1] > 0.0 else (low, middle)
        (x, y, angle), _ = move(0.5 * (low + high))
        way = goal
    return x, y, angle, stuck, slid


@pytest.mark.parametrize(
    ("push", "modes"),
    [
        (Push(offset=0.01), {"stick"}),
        (Push(offset=-0.05, ratio=corner_ratio(0.1)), {"stick"}),
        (Push(offset=0.07, mu=0.1), {"stick", "slide"}),
        (Push(offset=0.06, mu=0.3, radius=0.01), {"stick", "slide"}),
    ],
)
def test_push_is_what_a_search_for_the_force_gives(push, modes):
    travel = push.gap + 0.1
    coarse, fine = (by_search(push, travel, step) for step in (2e-4, 1e-4))
    expected = 2.0 * np.array(fine[:3]) - np.array(coarse[:3])  # its steps are of first order
    path = pushed(push, travel, step=1e-3)
    np.testing.assert_allclose(path.pose[-1], expected, atol=1e-5)
    assert abs(expected[2]) > 0.05
    assert {mode for mode, count in zip(("stick", "slide"), fine[3:], strict=True) if count} == modes


def test_push_does_not_depend_on_its_steps_and_keeps_touching():
    push = Push()
    coarse, fine = pushed(push, 0.7, step=2e-3), pushed(push, 0.7, step=5e-4)
    np.testing.assert_allclose(coarse.pose[-1], fine.pose[-1], atol=1e-6)
    rods = np.array([push.rod(way) for way in fine.travel])
    assert np.abs(touch(fine.pose, rods, push)[1][1:]).max() < 1e-9


def test_centred_push_goes_straight_and_a_mirrored_one_mirrors():
    straight = pushed(Push(offset=0.0), 1.0)
    np.testing.assert_allclose(straight.pose[-1], [0.97, 0.0, 0.0], atol=1e-9)
    assert straight.lost == math.inf
    left, right = pushed(Push(offset=0.02), 0.3), pushed(Push(offset=-0.02), 0.3)
    np.testing.assert_allclose(left.pose[-1], right.pose[-1] * [1, -1, -1], atol=1e-12)


def test_the_rod_passes_the_end_of_the_face_and_the_box_stays():
    push = Push()
    path = pushed(push, 2.5)
    assert path.lost == pytest.approx(0.7236, abs=2e-4)
    place = np.interp(path.lost, path.travel, touch(path.pose, np.array([push.rod(w) for w in path.travel]), push)[0])
    assert place == pytest.approx(push.half, abs=1e-6)
    np.testing.assert_array_equal(path.at(np.array([2.0, 2.5]))[0], path.pose[-1])
    assert pushed(Push(offset=0.2), 1.0).lost == pytest.approx(0.03)


def test_before_it_touches_nothing_moves():
    path = pushed(Push(), 1.0)
    np.testing.assert_array_equal(path.at(np.array([0.0, 0.02, 0.03])), 0.0)


def test_first_half_goes_from_the_first_touch_to_half_of_the_way_from_there():
    travel = np.linspace(0.0, 1.0, 1001)
    chosen = travel[first_half(travel, Push(), 0.73)]
    np.testing.assert_allclose(chosen[[0, -1]], [0.03, 0.38], atol=1.1e-3)
    np.testing.assert_allclose(travel[first_half(travel, Push(), math.inf)][-1], 0.515, atol=1.1e-3)
    short = np.linspace(0.0, 0.01, 11)  # does not get to the box
    np.testing.assert_allclose(short[first_half(short, Push(), math.inf)][[0, -1]], [0.0, 0.005], atol=1e-3)
    assert len(travel[first_half(travel, Push(), 0.03)]) == 1


def test_rod_and_box_part_where_the_rod_passes_the_end_leaves_the_face_or_goes_through():
    push, way = Push(), np.linspace(0.0, 1.0, 501)
    rods = np.array([push.rod(each) for each in way])
    path = pushed(push, 1.0)
    found = parted(path.at(way), rods, push)
    assert found is not None
    assert way[found] == pytest.approx(path.lost, abs=4e-3)
    assert parted(path.at(way)[:300], rods[:300], push) is None
    ahead = path.at(way) + np.where(way > 0.2, 0.003, 0.0)[:, None] * [1.0, 0.0, 0.0]
    found = parted(ahead, rods, push)
    assert found is not None
    assert way[found] == pytest.approx(0.2, abs=4e-3)
    assert parted(np.zeros((10, 3)), rods[:10], push) is None  # not yet touched
    found = parted(np.zeros((501, 3)), rods, push)
    assert found is not None
    assert way[found] == pytest.approx(0.13, abs=4e-3)  # went through a box that stayed, to its middle
