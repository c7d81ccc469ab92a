"""Health: what stays on record, what is a note, and advice that is enough when it is followed once."""

import re

import numpy as np
import pytest

import stickslip as ss
from stickslip.errors import BufferOverflow
from tests import support

REPORTED_ONLY = ["comfree", "cone-sweep"]
"""Physics without constraint rows: `njmax` is room for their report."""


@pytest.mark.parametrize("name", ["mujoco", "cone-sweep"])
def test_a_checked_step_does_not_clear_an_earlier_overflow(name: str, device: str) -> None:
    """Contacts were dropped, unchecked. Back at the start a checked step finds nothing; the record stays."""
    sim = ss.Simulation("scaling", ss.PHYSICS[name](), nworld=2, device=device, nconmax=1)
    start = sim.qpos.numpy().copy()
    sim.step(60)
    assert sim.health().overflow
    sim.qpos, sim.qvel = start, np.zeros(sim.mjm.nv)
    sim.step(5, check=True)  # in the air nothing overflows
    assert sim.contact_count() == 0
    assert sim.health().overflow and not sim.health().ok
    sim.reset(np.array([True, False]))
    assert sim.health().overflow  # of the other world
    sim.reset()
    assert sim.health().ok
    sim.step(5, check=True)
    assert sim.health().ok


def test_a_checked_step_that_fails_keeps_the_record(device: str) -> None:
    sim = ss.Simulation("scaling", device=device, nconmax=1)
    with pytest.raises(BufferOverflow):
        sim.step(60, check=True)
    assert sim.health().ok  # those steps were undone
    sim.step(60)
    record = sim.health().overflow
    with pytest.raises(BufferOverflow):
        sim.step(60, check=True)
    assert sim.health().overflow == record


@pytest.mark.parametrize("name", REPORTED_ONLY)
def test_rows_that_are_only_reported_are_a_note(name: str, device: str) -> None:
    """The motion is the same with njmax=1; health says which forces are missing, and the number to raise."""
    small, large = (ss.Simulation("scaling", ss.PHYSICS[name](), device=device, nconmax=100, njmax=n) for n in (1, 400))
    for sim in (small, large):
        sim.step(60, check=True)
    support.assert_same(small.state, large.state, device)
    health = small.health()
    assert health.ok and not health.messages and not large.health().notes
    assert len(health.notes) == 1 and "missing in contacts() and sensors" in health.notes[0]
    njmax = raised_to(health.notes, "njmax")
    enough = ss.Simulation("scaling", ss.PHYSICS[name](), device=device, nconmax=100, njmax=njmax)
    enough.step(60)
    assert not enough.health().notes
    np.testing.assert_allclose(enough.contacts().force, large.contacts().force, atol=1e-4)


def raised_to(sentences: tuple[str, ...], knob: str) -> int:
    """The number that they say to raise a knob to, or 0."""
    found = re.search(rf"raise {knob} from \d+ to at least (\d+)", "; ".join(sentences))
    return int(found[1]) if found else 0


@pytest.mark.parametrize("name", ["mujoco", "icf", "cone-sweep"])
def test_advice_is_enough_in_one_round(name: str, device: str) -> None:
    """Both buffers are too small for a pile. Raised once to what health says, nothing is dropped or missing."""
    sim = ss.Simulation("scaling", ss.PHYSICS[name](), device=device, nconmax=2, njmax=8)
    sim.step(100)
    said = (*sim.health().overflow, *sim.health().notes)
    sizes = {"nconmax": raised_to(said, "nconmax"), "njmax": raised_to(said, "njmax")}
    assert sizes["nconmax"] > 2 and sizes["njmax"] > 8
    again = ss.Simulation("scaling", ss.PHYSICS[name](), device=device, **sizes)
    again.step(100)
    health = again.health()
    assert health.ok and not any("njmax" in note for note in health.notes)
    assert health.ncon_peak > 2
