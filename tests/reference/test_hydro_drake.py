"""The reference of hydroelastic contact against Drake's contact surfaces, from `hydro_drake_figures`."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from tests.reference import hydro_cells, hydro_fields
from tests.reference.hydro import contact
from tests.reference.hydro_fields import Material, Pose, box
from tests.reference.hydro_points import force, moment

DRAKE = json.loads((pathlib.Path(__file__).parent / "hydro_drake.json").read_text())


@pytest.mark.parametrize("case", DRAKE["boxes"], ids=lambda case: case["name"])
@pytest.mark.parametrize("kind", ["compliant", "rigid_b"])
def test_boxes_of_drake(case: dict[str, Any], kind: str) -> None:
    """Force, moment and area of the contact surface of two boxes."""
    (ax, ay, az), (bx, by, bz) = DRAKE["half_a"], DRAKE["half_b"]
    a = box(ax, ay, az, Material(DRAKE["modulus_a"]))
    b = box(bx, by, bz, Material(DRAKE["modulus_b"]) if kind == "compliant" else Material())
    pose_a = Pose(np.array(case["rot_a"]), np.array(case["pos_a"]))
    pose_b = Pose(np.array(case["rot_b"]), np.array(case["pos_b"]))
    cells = hydro_cells.cells(a, pose_a, b, pose_b, merge=False)
    total = float(np.linalg.norm(case[kind]["force_on_a"]))
    np.testing.assert_allclose(sum(c.force * c.normal for c in cells), case[kind]["force_on_a"], atol=1e-11 * total)
    assert sum(cell.area for cell in cells) == pytest.approx(case[kind]["area"], rel=1e-11)
    assert max(len(cell.polygon) for cell in cells) <= hydro_cells.CORNERS
    found = contact(a, pose_a, b, pose_b)  # Merged: the force keeps its size, the direction is that of the large cells.
    np.testing.assert_allclose(-force(found), case[kind]["force_on_a"], atol=1e-4 * total)
    np.testing.assert_allclose(-moment(found), case[kind]["moment_on_a"], atol=1e-5 * total)
    few = contact(a, pose_a, b, pose_b, cells="mixed")
    np.testing.assert_allclose(force(few), force(found), atol=1e-10 * total)
    np.testing.assert_allclose(moment(few), moment(found), atol=1e-4 * total)
    assert len(few) < 32 and np.all(few.p0 >= 0.0)


@pytest.mark.parametrize("case", DRAKE["rounds"], ids=lambda case: case["name"])
def test_round_shapes_of_drake(case: dict[str, Any]) -> None:
    """Drake's forces as the mesh gets finer, order 2, extrapolated; edges across the patch cost up to 1 %."""
    a, b = (
        getattr(hydro_fields, shape)(*size, Material(modulus) if modulus else Material())
        for (shape, size), modulus in zip(case["geoms"], case["moduli"], strict=True)
    )
    found = contact(a, Pose(np.array(case["rot_a"]), np.array(case["pos_a"])), b, Pose(pos=np.array(case["pos_b"])))
    coarse, middle, fine = (np.array(f["force_on_a"]) for f in case["forces"])
    limit = fine + (fine - middle) / 3.0
    total = float(np.linalg.norm(limit))
    assert np.linalg.norm(middle - coarse) / np.linalg.norm(fine - middle) == pytest.approx(4.0, abs=0.8)
    smooth = case["name"] in ("sphere on rigid box", "two spheres", "sphere on compliant box", "ellipsoid on a box")
    np.testing.assert_allclose(-force(found), limit, atol=(1e-4 if smooth else 1e-2) * total)
    middle, fine = (np.array(f["moment_on_a"]) for f in case["forces"][1:])
    np.testing.assert_allclose(-moment(found), fine + (fine - middle) / 3.0, atol=(1e-5 if smooth else 6e-4) * total)
