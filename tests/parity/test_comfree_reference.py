"""ComFree on Warp against the float64 reference: one step, many states of many small models.

The reference gets the contacts that Warp detected, so that the narrow phase, which is not ComFree's, cannot hide or
cause a difference; a test of its own compares the contacts with C MuJoCo's. States and inputs are rounded to single
precision first, so both sides start from the same numbers.

Errors are relative to the largest entry of a kinematic tree, over its dofs: |a - b| / (max |b| + floor). The floor is a
thousandth of the terms that a quantity is the sum of, added up without their signs (see `comfree.Result`): at rest,
acceleration and velocity are what remains of a weight and facet forces that cancel, and single precision resolves no
more than 1e-7 of each term. The tolerance of 1e-4 times the floor is that 1e-7 and nothing more.
"""

import mujoco
import numpy as np
import pytest
import warp as wp

import stickslip as ss
from tests.reference import comfree, models, worlds
from tests.reference.worlds import labels, states

ALL = sorted(models.CASES)
TOLERANCE = 2e-4 if wp.is_cuda_available() else 1e-4  # a GPU fuses multiply and add, so its rounding differs
FLOOR = 1e-3

SETTINGS = {
    "release": {"stiffness": 0.2, "damping": 0.001},
    "g1": {"stiffness": 0.55, "damping": 0.00055},
    "exact": {"stiffness": 0.1, "damping": 0.002, "impedance": "exact"},
    "smooth": {"stiffness": 0.2, "damping": 0.001, "smoothing": 5.0},
    "tangential": {"stiffness": 0.2, "damping": 0.001, "tangential": 1.0},
    "exact_smooth": {"stiffness": 0.3, "damping": 0.01, "impedance": "exact", "smoothing": 20.0},
    "tangential_exact_smooth": {
        "stiffness": 0.3,
        "damping": 0.01,
        "impedance": "exact",
        "smoothing": 20.0,
        "tangential": 0.5,
    },
}


def step_warp(name: str, **parameters) -> worlds.Stepped:
    """One step of the Warp implementation, every state a world."""
    return worlds.step(name, ss.ComFree(**parameters))


def relative_error(mjm: mujoco.MjModel, got: np.ndarray, want: np.ndarray, scale: np.ndarray) -> float:
    """Largest error over the kinematic trees, each relative to its own largest entry plus the floor."""
    worst = 0.0
    for tree in range(mjm.ntree):
        dofs = np.flatnonzero(mjm.dof_treeid == tree)
        size = np.abs(want[dofs]).max() + FLOOR * np.abs(scale[dofs]).max()
        difference = np.abs(got[dofs] - want[dofs]).max()
        worst = max(worst, float(difference / size) if difference > 0.0 else 0.0)
    return worst


def errors(name: str, stepped: worlds.Stepped, world: int, **parameters) -> dict[str, float]:
    """Relative error of every field of one world."""
    mjm, mjd = models.load(name), states(name)[world]
    want = comfree.step(mjm, mjd, **parameters, contacts=stepped.contacts[world])
    scales = {
        "qfrc_constraint": want.qfrc_terms,
        "qacc": want.qacc_terms,
        "qvel": np.abs(mjd.qvel) + mjm.opt.timestep * want.qacc_terms,
    }
    out = {f: relative_error(mjm, stepped.fields[f][world], getattr(want, f), scales[f]) for f in scales}
    for field in ("qpos", "act"):  # Of order one by construction of the models.
        got, ref = stepped.fields[field][world], getattr(want, field)
        out[field] = float((np.abs(got - ref) / (np.abs(ref) + 1.0)).max(initial=0.0))
    return out


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ALL)
def test_step_matches_reference(name: str, setting: str) -> None:
    """Acceleration, constraint force, velocity, position and activation after one step, to 1e-4."""
    parameters = SETTINGS[setting]
    stepped = step_warp(name, **parameters)
    assert not stepped.overflow
    wrong = []
    for world, label in enumerate(labels(name)):
        for field, error in errors(name, stepped, world, **parameters).items():
            if not error <= TOLERANCE:
                wrong.append(f"{label}: {field} {error:.1e}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["pile", "arm", "loops"])
def test_gains_of_every_world(name: str) -> None:
    """World w uses stiffness[w % len] and damping[w % len]."""
    stiffness, damping = (0.05, 0.2, 0.6), (0.001, 0.003)
    stepped = step_warp(name, stiffness=stiffness, damping=damping)
    for world, label in enumerate(labels(name)):
        found = errors(name, stepped, world, stiffness=stiffness[world % 3], damping=damping[world % 2])
        assert max(found.values()) <= TOLERANCE, (label, found)


@pytest.mark.parametrize("name", [n for n in ALL if models.CASES[n].same_contacts])
def test_contacts_match_mujoco(name: str) -> None:
    """The same active contacts, pair of geoms by pair, and distances to 1e-4 m, as C MuJoCo finds."""
    mjm = models.load(name)
    stepped = step_warp(name, **SETTINGS["release"])
    for mjd, label, found in zip(states(name), labels(name), stepped.contacts, strict=True):
        want = comfree.contacts_of(comfree.smooth_stage(mjm, mjd))

        def by_pair(contacts: list[comfree.Contact]) -> dict[tuple[int, ...], list[float]]:
            out: dict[tuple[int, ...], list[float]] = {}
            for c in contacts:
                if c.dist < c.includemargin:
                    out.setdefault(tuple(sorted(c.geom)), []).append(c.dist)
            return {pair: sorted(dists) for pair, dists in out.items()}

        got_pairs, want_pairs = by_pair(found), by_pair(want)
        assert got_pairs.keys() == want_pairs.keys(), label
        for pair, dists in want_pairs.items():
            assert len(got_pairs[pair]) == len(dists), (label, pair)
            np.testing.assert_allclose(got_pairs[pair], dists, atol=1e-4, err_msg=f"{label} {pair}")


@pytest.mark.parametrize("name", ["tumbling_implicitfast", "finger_servo", "gantry", "pile"])
@pytest.mark.parametrize("tangential", [None, 2.0])
def test_bound_matches_reference(name: str, tangential: float | None) -> None:
    """With gains so stiff that forces are cut, the step, and the forces that contacts report."""
    parameters = {"stiffness": 0.2, "damping": 0.3, "tangential": tangential}
    stepped = step_warp(name, **parameters)
    cut = 0
    for world, label in enumerate(labels(name)):
        found = errors(name, stepped, world, **parameters)
        assert max(found.values()) <= TOLERANCE, (label, found)
        want = comfree.step(models.load(name), states(name)[world], **parameters, contacts=stepped.contacts[world])
        cut += want.share < 1.0
        scale = np.abs(want.contact_force).max(initial=0.0) + FLOOR
        np.testing.assert_allclose(
            stepped.contact_force[world], want.contact_force, atol=TOLERANCE * scale, err_msg=label
        )
    assert cut
