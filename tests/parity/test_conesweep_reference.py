"""The cone sweep, run to convergence, against the float64 reference of rigid contact with Coulomb friction.

A thousand sweeps in one substep, from no carried forces and without taking out depth, have to end where the laws of
`tests/reference/coulomb.py` hold. The reference gets the contacts that Warp detected. Errors are velocities, relative
to the largest of the world with and without constraints; an error of forces is the velocity that it makes in a step.
"""

import numpy as np
import pytest

import stickslip as ss
from tests.reference import coulomb, models, worlds

ALL = sorted(models.CASES)
TOLERANCE = 1e-4
CONVERGED = ss.ConeSweep(substeps=1, sweeps=1000, jump=0.0, correction=0.0)

# The four corners of a box that slides and turns can share its weight in many ways, each with a friction of its own.
AMBIGUOUS = {("box_slope", "key 0")}
# A contact on the edge between sticking and slipping: the reference takes tens of thousands of sweeps.
SLOW = {("arm", "random 1"), ("finger_servo", "key 1"), ("finger_servo", "random 0")}


def problem(name: str, stepped: worlds.Stepped, w: int) -> coulomb.Problem:
    """What a world started from, with the contacts that Warp found."""
    return coulomb.problem(models.load(name), worlds.states(name)[w], stepped.contacts[w])


def scale(p: coulomb.Problem, qvel: np.ndarray) -> float:
    """Largest velocity of the world."""
    return float(np.abs(p.v_free).max() + np.abs(qvel).max())


def worst_violation(name: str, stepped: worlds.Stepped, w: int) -> tuple[float, str]:
    """The law that holds least in a world, and by how much."""
    qvel = stepped.fields["qvel"][w]
    p = problem(name, stepped, w)
    found = coulomb.violations(p, qvel, stepped.fields["qfrc_constraint"][w], stepped.contact_force[w])
    law = max(found, key=lambda law: found[law])
    return found[law] / scale(p, qvel), law


@pytest.mark.parametrize("name", ALL)
def test_a_step_obeys_the_laws(name: str) -> None:
    """Motion, normals, friction, equalities and limits, in every state, also where the solution is not unique."""
    stepped = worlds.step(name, CONVERGED)
    assert not stepped.overflow
    wrong = []
    for w, label in enumerate(worlds.labels(name)):
        error, law = worst_violation(name, stepped, w)
        if not error <= TOLERANCE:
            wrong.append(f"{label}: {law} {error:.1e}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ALL)
def test_a_step_is_the_references(name: str) -> None:
    """The velocity, and the constraint force, in every state that has one solution."""
    stepped = worlds.step(name, CONVERGED)
    wrong, pushed = [], 0
    for w, label in enumerate(worlds.labels(name)):
        if (name, label) in AMBIGUOUS | SLOW:
            continue
        p = problem(name, stepped, w)
        want = coulomb.solve(p)
        qvel, force = stepped.fields["qvel"][w], stepped.fields["qfrc_constraint"][w]
        errors = {
            "velocity": np.abs(qvel - want.qvel).max(),
            "force": p.dt * np.abs(p.inverse @ (force - want.qfrc_constraint)).max(),
        }
        wrong += [f"{label}: {k} {e:.1e}" for k, e in errors.items() if not e <= TOLERANCE * scale(p, want.qvel)]
        pushed += bool(np.abs(want.qfrc_constraint).max() > 0.0)
    assert not wrong, "\n".join(wrong)
    assert pushed > 1


@pytest.mark.parametrize("name", ["pile", "finger_servo", "tendons"])
def test_more_sweeps_come_nearer(name: str) -> None:
    """Ten times the sweeps leave less of every violation: free bodies, a hand, rows on dofs."""
    worst = []
    for sweeps in (1, 10, 100):
        stepped = worlds.step(name, ss.ConeSweep(substeps=1, sweeps=sweeps, jump=0.0, correction=0.0))
        worst.append(max(worst_violation(name, stepped, w)[0] for w in range(len(worlds.labels(name)))))
    assert worst[0] > 1.5 * worst[1] > 7.5 * worst[2], worst


def test_the_reference_obeys_its_own_laws() -> None:
    """Its solutions, to 1e-9; and forces that break a law are found out."""
    for name in ("pile", "loops", "tendons"):
        for mjd in worlds.states(name)[:3]:
            p = coulomb.problem(models.load(name), mjd)
            got = coulomb.solve(p)
            found = coulomb.violations(p, got.qvel, got.qfrc_constraint, got.contact_force)
            assert max(found.values()) < 1e-9, found
            nothing = coulomb.violations(p, p.v_free, 0.0 * got.qfrc_constraint, 0.0 * got.contact_force)
            assert max(nothing.values()) > 1e-2, nothing
