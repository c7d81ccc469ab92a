"""Hydroelastic contact in the scenes that are there for it: what points cannot hold still, patches do."""

import math

import numpy as np
import pytest

import stickslip as ss


@pytest.mark.parametrize("modulus", [2e6, 0.0], ids=["patches", "points"])
def test_a_plate_held_by_its_edge_swings_on_points_and_stays_on_patches(modulus):
    """In 0.1 s it turns by 30 degrees on points, since nothing holds it; patches could hold three times its moment."""
    sim = ss.Simulation(f"edge-grip:modulus={modulus}", ss.Icf(), device="cpu")
    sim.step(50)
    turn = 2.0 * np.arctan2(*sim.qpos.numpy()[0, [-2, -4]])
    assert (abs(turn) < math.radians(0.1)) if modulus else (turn > math.radians(20.0))
    assert sim.health().ok


def test_a_gripper_keeps_its_peg_by_patches():
    """Through the impact: 200 N on each finger, as with corners."""
    sim = ss.Simulation("gripper:modulus=2e9", ss.Icf(), device="cpu")
    sim.step(250)
    post, height = sim.qpos.numpy()[0, [0, 3]]
    assert post == pytest.approx(-0.1, abs=1e-4)
    assert height == pytest.approx(0.14, abs=1e-4)
    contacts = sim.contacts()
    left = contacts.geom[:, 0] == sim.mjm.geom("left").id
    left |= contacts.geom[:, 1] == sim.mjm.geom("left").id
    assert contacts.force[left, 0].sum() == pytest.approx(200.0, rel=0.02)
