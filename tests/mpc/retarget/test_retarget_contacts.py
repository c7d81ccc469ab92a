"""Contacts that are found by height and speed: against those that our own motions have, and after a file."""

import dataclasses

import numpy as np
import pytest

from stickslip.errors import InputError
from stickslip.mpc import retarget
from stickslip.mpc.retarget import g1, made
from stickslip.mpc.retarget.contacts import spans, speeds, standing
from stickslip.mpc.retarget.robots import ROBOTS, Options

G1 = ROBOTS["g1"]


@pytest.fixture(scope="module")
def mjm():
    return G1.build(Options()).compile()


@pytest.mark.parametrize("name", ["squat", "side-step", "kick"])
def test_they_are_those_of_our_motions(tmp_path, mjm, name):
    motion = made.make(name)
    bare = dataclasses.replace(motion, contacts={})
    found = retarget.detect_contacts(bare, mjm, G1.contacts, G1.base)
    for site, on in motion.contacts.items():
        assert np.mean(found.contacts[site] == on) > 0.95, site
    assert found.notes[-1].startswith("contacts with the floor found by height and speed: left_foot")
    read = retarget.load(retarget.export(motion, tmp_path / "motion.csv", "lafan1", fps=50.0), fps=50.0)
    assert not read.contacts
    again = retarget.detect_contacts(read, mjm, G1.contacts, G1.base)
    for site, on in found.contacts.items():
        assert np.mean(again.contacts[site] == on) > 0.99, site


def test_a_motion_that_is_sunk_has_the_same(mjm):
    motion = made.make("kick")
    sunk = retarget.detect_contacts(made.spoiled(motion, "sunk"), mjm, G1.contacts, G1.base)
    found = retarget.detect_contacts(motion, mjm, G1.contacts, G1.base)
    for site in G1.contacts:
        assert np.array_equal(sunk.contacts[site], found.contacts[site])


def test_hands_and_feet_of_a_cartwheel(mjm):
    motion = made.make("cartwheel")
    found = retarget.detect_contacts(dataclasses.replace(motion, contacts={}), mjm, G1.contacts, G1.base)
    for site, on in motion.contacts.items():
        assert np.mean(found.contacts[site] == on) > 0.9, site
    assert found.contacts["left_hand"].any() and found.contacts["right_hand"].any()


def test_a_robot_in_physics_stands_on_its_feet(mjm):
    motion, _ = made.feasible(duration=0.5)
    found = retarget.detect_contacts(motion, mjm, G1.contacts, G1.base)
    for foot in g1.FEET:
        assert found.contacts[foot].all()
    assert not any(found.contacts[hand].any() for hand in g1.HANDS)


def test_hysteresis_and_the_shortest_time():
    still = np.zeros(100)
    height = np.full(100, 0.1)
    height[20:60] = 0.025  # low enough to go on, not to begin
    assert not standing(height, still, 100.0).any()
    height[40] = 0.01
    assert spans(standing(height, still, 100.0)) == [(20, 60)]
    assert not standing(height, np.full(100, 1.0), 100.0).any()
    height[:] = 0.1
    height[10:15] = 0.0  # 0.05 s
    assert not standing(height, still, 100.0).any()
    places = np.outer(np.arange(10) / 50.0, [3.0, 0.0, 4.0])
    np.testing.assert_allclose(speeds(places, 50.0), 5.0)


def test_what_cannot_be_found_is_named(mjm):
    hand = made.make("cube-turn")
    with pytest.raises(InputError, match="no free base: contacts with the floor cannot be found"):
        retarget.detect_contacts(hand, ROBOTS["leap"].build(Options()).compile(), ROBOTS["leap"].contacts)
    with pytest.raises(InputError, match="no site 'toe'"):
        retarget.detect_contacts(made.make("squat"), mjm, ("toe",))
