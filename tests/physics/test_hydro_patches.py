"""Patches of the kernels against the reference in double precision, Drake's figures, and closed forms."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest

import stickslip as ss
from tests.reference import hydro_exact as exact
from tests.reference.hydro_cases import LYING, E, X, Y, Z, turn
from tests.reference.hydro_models import CORNERS, Body, model_of, patches_of, points_in
from tests.reference.hydro_points import Points, centre, force, moment, rocking, torsion

DRAKE = json.loads((pathlib.Path(__file__).parents[1] / "reference" / "hydro_drake.json").read_text())
TURNED = turn(X, 0.4) @ turn(Y, 0.3)
FLOOR, SLAB = Body("plane", modulus=0.0), Body("plane", depth=0.02)


def on_floor(type: str, size: tuple[float, ...], rot: np.ndarray, depth: float = 5e-4, **of: Any) -> Body:
    """A geom at (0.1, 0.2) whose lowest place is at minus the depth."""
    corners = CORNERS if type == "mesh" else np.array(size) * np.sign(CORNERS) if type == "box" else None
    if corners is not None:
        low = (corners @ rot.T)[:, 2].min()
    elif type == "cylinder":
        low = -size[0] * np.hypot(rot[2, 0], rot[2, 1]) - size[1] * abs(rot[2, 2])
    elif type == "capsule":
        low = -size[0] - size[1] * abs(rot[2, 2])
    elif type == "ellipsoid":
        low = -float(np.linalg.norm(rot[2] * np.array(size)))
    else:
        low = -size[0]
    return Body(type, size, (0.1, 0.2, -float(low) - depth), rot, **of)


SIZES: dict[str, tuple[float, ...]] = {
    "sphere": (0.05,),
    "capsule": (0.03, 0.04),
    "ellipsoid": (0.05, 0.03, 0.04),
    "cylinder": (0.04, 0.03),
    "box": (0.05, 0.04, 0.03),
    "mesh": (),
}
ON_PLANES = {
    f"{type} on {name}": (ground, on_floor(type, SIZES[type], TURNED))
    for ground, name, types in (
        (FLOOR, "rigid plane", ("capsule", "ellipsoid", "cylinder", "box", "mesh")),
        (SLAB, "slab", ("sphere", "cylinder", "mesh")),
    )
    for type in types
}
LAST = Body("box", (0.1, 0.1, 0.05), (0.1, 0.2, -0.05), modulus=3e6)
ON_BOXES = {
    f"{type} on box": (LAST, on_floor(type, SIZES[type], TURNED)) for type in ("sphere", "capsule", "ellipsoid", "mesh")
}
OTHERS = {
    "cylinder in the last geom": (
        Body("cylinder", (0.05, 0.1), (0.0, 0.0, 0.0)),
        Body("cylinder", (0.03, 0.1), (0.079, 0.0, 0.0), turn(X, 1.0), 3e6),
    ),
    "two hulls": (Body("mesh", pos=(0.0, 0.0, 0.0)), Body("mesh", pos=(0.03, 0.02, 0.059), rot=turn(Z, 0.5))),
    "rigid sphere in slab": (SLAB, on_floor("sphere", (0.05,), np.eye(3), 1e-3, modulus=0.0)),
}
PAIRS = {**ON_PLANES, **ON_BOXES, **OTHERS}


@pytest.fixture(scope="module", params=[0.0, 1e-4], ids=["touching", "ahead"])
def compared(request: pytest.FixtureRequest) -> dict[str, tuple[Points, Points]]:
    chosen = PAIRS
    if request.param:  # less than the margin deep, or not touching yet
        shallow = {"box": 2e-5, "mesh": 5e-5, "sphere": 2e-6}
        chosen = {
            f"{type} {depth:g} deep": (ground, on_floor(type, SIZES[type], turn(X, 1e-3), depth))
            for ground in (FLOOR, SLAB)
            for type, deep in shallow.items()
            for depth in (deep, -0.2 * deep)
        }
    return dict(zip(chosen, patches_of(list(chosen.values()), request.param), strict=True))


def test_kernels_against_the_reference(compared: dict[str, tuple[Points, Points]]) -> None:
    """Force, moment, stiffness, dissipation's weights; also before touch."""
    for name, (found, wanted) in compared.items():
        assert len(found) == len(wanted) > 0, name
        size = max(float(np.abs(wanted.f0).sum()), 1e-30)
        about = np.average(wanted.pos, axis=0, weights=wanted.k)
        np.testing.assert_allclose(force(found), force(wanted), atol=1e-5 * size, err_msg=name)
        np.testing.assert_allclose(moment(found, about), moment(wanted, about), atol=1e-6 * size, err_msg=name)
        assert found.f0.sum() == pytest.approx(wanted.f0.sum(), abs=1e-5 * size), name
        assert found.k.sum() == pytest.approx(wanted.k.sum(), rel=1e-5), name
        assert found.weight.sum() == pytest.approx(wanted.weight.sum(), rel=1e-5), name
        for axis in (X, Y):
            stiff = rocking(wanted, axis, about)
            assert rocking(found, axis, about) == pytest.approx(stiff, rel=1e-4), name


@pytest.fixture(scope="module")
def drake() -> dict[str, np.ndarray]:
    """Forces on the second geom, of the pairs of Drake's figures."""
    pairs = {}
    for case in DRAKE["boxes"]:
        for kind in ("compliant", "rigid_b"):
            modulus = DRAKE["modulus_b"] if kind == "compliant" else 0.0
            pairs[f"{case['name']}, {kind}"] = (
                Body("box", tuple(DRAKE["half_a"]), case["pos_a"], np.array(case["rot_a"]), DRAKE["modulus_a"]),
                Body("box", tuple(DRAKE["half_b"]), case["pos_b"], np.array(case["rot_b"]), modulus),
            )
    for case in DRAKE["rounds"]:
        rots = (np.array(case["rot_a"]), np.eye(3))
        geoms = zip(case["geoms"], (case["pos_a"], case["pos_b"]), rots, case["moduli"], strict=True)
        one, two = (Body(type, tuple(size), pos, rot, modulus or 0.0) for (type, size), pos, rot, modulus in geoms)
        pairs[case["name"]] = (one, two)
    mjm = model_of(list(pairs.values()))
    sim = ss.Simulation(mjm, ss.Icf(speculative_margin=0.0), nconmax=40 * len(pairs))
    sim.forward()
    found = points_in(sim)
    signed = {}
    for i, name in enumerate(pairs):
        if (2 * i, 2 * i + 1) in found:
            signed[name] = force(found[2 * i, 2 * i + 1])
        else:  # MuJoCo's order of types
            signed[name] = -force(found[2 * i + 1, 2 * i])
    return signed


def test_boxes_of_drake(drake: dict[str, np.ndarray]) -> None:
    """The force between boxes; what single precision of the poses and the merging of the smallest cells leave."""
    for case in DRAKE["boxes"]:
        for kind in ("compliant", "rigid_b"):
            wanted = np.array(case[kind]["force_on_a"])
            found = -drake[f"{case['name']}, {kind}"]
            total = float(np.linalg.norm(wanted))
            assert np.linalg.norm(found) == pytest.approx(total, rel=2e-5), case["name"]
            np.testing.assert_allclose(found, wanted, atol=2e-5 * total)


def test_round_shapes_of_drake(drake: dict[str, np.ndarray]) -> None:
    """Drake's forces as its meshes get finer, extrapolated; edges across the patch cost up to 1 %."""
    for case in DRAKE["rounds"]:
        middle, fine = (np.array(f["force_on_a"]) for f in case["forces"][1:])
        limit = fine + (fine - middle) / 3.0
        smooth = case["name"] in ("sphere on rigid box", "two spheres", "sphere on compliant box", "ellipsoid on a box")
        atol = (1e-4 if smooth else 1e-2) * float(np.linalg.norm(limit))
        np.testing.assert_allclose(-drake[case["name"]], limit, atol=atol, err_msg=case["name"])


def test_closed_forms() -> None:
    """Force, stiffness and torsion of patches on planes."""
    x = 1e-3
    up, lying = np.eye(3), LYING
    pairs = [
        (FLOOR, on_floor("sphere", (0.05,), up, x)),
        (FLOOR, on_floor("ellipsoid", (0.05, 0.03, 0.04), up, x)),
        (FLOOR, on_floor("box", (0.05, 0.04, 0.03), up, x)),
        (FLOOR, on_floor("cylinder", (0.05, 0.03), up, x)),
        (FLOOR, on_floor("cylinder", (0.012, 0.1), lying, x)),
        (FLOOR, on_floor("capsule", (0.03, 0.04), lying, x)),
        (SLAB, on_floor("sphere", (0.05,), up, x, modulus=0.0)),
        (Body("sphere", (0.05,), (0.0, 0.0, 0.0)), Body("sphere", (0.03,), (0.0, 0.0, 0.079), modulus=3e6)),
    ]
    sim = ss.Simulation(model_of(pairs), ss.Icf(speculative_margin=0.0), nconmax=32 * len(pairs))
    sim.forward()
    found = list(points_in(sim).values())
    wanted = [
        (exact.sphere_on_plane(E, 0.05, x), 1e-4),
        (exact.ellipsoid_on_plane(E, 0.05, 0.03, 0.04, x), 1e-4),
        (exact.box_on_plane(E / 0.03, 0.1, 0.08, x), 1e-4),
        (exact.cylinder_cap(E / 0.03, 0.05, x), 0.006),  # the pressure falls within x of the rim
        (exact.cylinder_flank(E / 0.012, 0.012, 0.2, x), 0.01),  # leaves out the caps, of order x/L
        (exact.capsule_on_plane(E, 0.03, 0.08, x), 1e-3),
        (exact.rigid_sphere_on_slab(E / 0.02, 0.05, x), 1e-4),
        (exact.two_spheres(E, 0.05, 3e6, 0.03, x), 1e-4),
    ]
    for points, (total, within) in zip(found, wanted, strict=True):
        assert float(np.linalg.norm(force(points))) == pytest.approx(total, rel=within)
    # the pressure is 0 on the rim, so stiffnesses add up to the slope of the force
    assert found[0].k.sum() == pytest.approx(exact.sphere_on_plane_stiffness(E, 0.05, x), rel=1e-4)
    arm = torsion(found[3], Z, centre(found[3])) / force(found[3])[2]
    assert arm == pytest.approx(exact.disc_torque(0.05), rel=0.02)
    square = torsion(found[2], Z, centre(found[2])) / force(found[2])[2]
    assert square == pytest.approx(exact.rectangle_torque(0.1 - x, 0.08 - x), rel=0.02)
    arm = torsion(found[0], Z, centre(found[0])) / force(found[0])[2]
    assert arm == pytest.approx(exact.sphere_torque(np.sqrt(2 * 0.05 * x - x**2)), rel=0.035)
    assert [len(p) for p in found] == [16, 16, 16, 16, 16, 16, 16, 16]


def test_more_points() -> None:
    """`hydroelastic_points` sets the points of a polar patch; more of them find torsion more exactly."""
    numeric = '<numeric name="hydroelastic_points" data="12 3"/>'
    mjm = model_of([(FLOOR, on_floor("sphere", (0.05,), np.eye(3), 1e-3))], numeric)
    sim = ss.Simulation(mjm, ss.Icf(speculative_margin=0.0), nconmax=64)
    sim.forward()
    (points,) = points_in(sim).values()
    arm = torsion(points, Z, centre(points)) / force(points)[2]
    assert len(points) == 36
    assert force(points)[2] == pytest.approx(exact.sphere_on_plane(E, 0.05, 1e-3), rel=1e-4)
    assert arm == pytest.approx(exact.sphere_torque(np.sqrt(2 * 0.05 * 1e-3 - 1e-6)), rel=0.015)
