"""Makes `hydro_drake.json`: forces of Drake's contact surfaces, for `test_hydro_drake`.

It needs a Python with Drake, and no test runs it: ``python tests/reference/hydro_drake_figures.py``.
"""

import importlib
import json
import pathlib
from importlib.metadata import version
from typing import Any

import numpy as np

HALF_A, HALF_B = (0.05, 0.04, 0.03), (0.1, 0.08, 0.05)
MODULUS_A, MODULUS_B = 1e7, 3e6
RESOLUTIONS = (0.005, 0.0025, 0.00125)
NOTE = (
    "Contact surfaces of Drake through SceneGraph and ComputeContactSurfaces, as polygons (kPolygon). "
    "Forces on geom a: sum over polygons of area, pressure at the centroid and face normal. Moments about the origin, "
    "exact for the linear pressure of a polygon. Pa, m, N. Made by hydro_drake_figures.py; resolution hint 0.02 m for "
    "compliant boxes, 1 m for the rigid one."
)

drake: Any = importlib.import_module("pydrake.geometry")
maths: Any = importlib.import_module("pydrake.math")


def turn(axis: int, angle: float) -> np.ndarray:
    """Rotation about a coordinate axis."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    rot = np.eye(3)
    rot[i, i] = rot[j, j] = np.cos(angle)
    rot[j, i], rot[i, j] = np.sin(angle), -np.sin(angle)
    return rot


def random_rotation(rng: np.random.Generator) -> np.ndarray:
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.linalg.det(q)


def properties(modulus: float | None, resolution: float) -> Any:
    """Of a compliant geom, or of a rigid one."""
    found = drake.ProximityProperties()
    if modulus is None:
        drake.AddRigidHydroelasticProperties(resolution, found)
    else:
        drake.AddCompliantHydroelasticProperties(resolution, modulus, found)
    return found


def total(shapes: list[Any], of: list[Any], poses: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Force and moment on the first of two geoms, number of polygons and area."""
    graph = drake.SceneGraph()
    source = graph.RegisterSource("source")
    placed = drake.FramePoseVector()
    ids = []
    for i, (shape, own, (rot, pos)) in enumerate(zip(shapes, of, poses, strict=True)):
        frame = graph.RegisterFrame(source, drake.GeometryFrame(f"frame {i}"))
        geom = drake.GeometryInstance(maths.RigidTransform(), shape, f"geom {i}")
        geom.set_proximity_properties(own)
        ids.append(graph.RegisterGeometry(source, frame, geom))
        placed.set_value(frame, maths.RigidTransform(maths.RotationMatrix(rot), pos))
    context = graph.CreateDefaultContext()
    graph.get_source_pose_port(source).FixValue(context, placed)
    query = graph.get_query_output_port().Eval(context)
    force, moment, polygons, area = np.zeros(3), np.zeros(3), 0, 0.0
    for surface in query.ComputeContactSurfaces(drake.HydroelasticContactRepresentation.kPolygon):
        mesh, pressure = surface.poly_mesh_W(), surface.poly_e_MN()
        sign = 1.0 if surface.id_M() == ids[0] else -1.0  # Normals point into M.
        for i in range(surface.num_faces()):
            centre, normal = surface.centroid(i), sign * surface.face_normal(i)
            force += surface.area(i) * pressure.EvaluateCartesian(i, centre) * normal
            face = mesh.element(i)
            corners = [np.array(mesh.vertex(face.vertex(j))) for j in range(face.num_vertices())]
            for p, q in zip(corners, corners[1:] + corners[:1], strict=True):
                third = np.linalg.norm(np.cross(p - centre, q - centre)) / 6.0
                for x in (0.5 * (p + q), 0.5 * (q + centre), 0.5 * (p + centre)):
                    moment += np.cross(x, third * pressure.EvaluateCartesian(i, x) * normal)
        polygons += surface.num_faces()
        area += surface.total_area()
    return {"force_on_a": force.tolist(), "moment_on_a": moment.tolist(), "polygons": polygons, "area": area}


def two_boxes(poses: list[tuple[np.ndarray, np.ndarray]], modulus_b: float | None = MODULUS_B) -> dict[str, Any]:
    shapes = [drake.Box(*(2.0 * np.array(half))) for half in (HALF_A, HALF_B)]
    return total(shapes, [properties(MODULUS_A, 0.02), properties(modulus_b, 0.02 if modulus_b else 1.0)], poses)


def boxes() -> list[dict[str, Any]]:
    """Named and random poses of two boxes, B compliant and rigid."""
    degree = np.pi / 180.0
    below = (np.eye(3), np.array([0.0, 0.0, -0.05]))
    named = [
        ("yawed faces", turn(2, 0.3), 1e-3, 0.01, 0.02, below),
        ("yawed faces, over the side", turn(2, 0.3), 1e-3, 0.09, 0.05, below),
        ("edge on face", turn(2, 0.2) @ turn(1, 40 * degree), 2e-3, 0.0, 0.0, below),
        ("corner on face", turn(0, 35 * degree) @ turn(1, 40 * degree), 3e-3, 0.02, -0.01, below),
        ("tilted 0.05 degrees", turn(1, 0.05 * degree) @ turn(2, 0.1), 1e-4, 0.0, 0.0, below),
    ]
    edge = turn(0, 45 * degree)
    under = (edge, np.array([0.0, 0.0, -(np.abs(edge) @ HALF_B)[2]]))
    named.append(("edge on edge", turn(2, 0.25) @ turn(1, 45 * degree), 2e-3, 0.01, 0.0, under))
    poses = []
    for name, rot, depth, x, y, other in named:
        poses.append((name, (rot, np.array([x, y, (np.abs(rot) @ HALF_A)[2] - depth])), other))
    rng = np.random.default_rng(7)
    while len(poses) < len(named) + 8:
        way = rng.normal(size=3)
        a = (random_rotation(rng), way / np.linalg.norm(way) * rng.uniform(0.06, 0.13))
        b = (random_rotation(rng), np.zeros(3))
        if 10.0 < np.linalg.norm(two_boxes([a, b])["force_on_a"]) < 3000.0:
            poses.append((f"random {len(poses) - len(named)}", a, b))
    return [
        {
            "name": name,
            "rot_a": a[0].tolist(),
            "pos_a": a[1].tolist(),
            "rot_b": b[0].tolist(),
            "pos_b": b[1].tolist(),
            "compliant": two_boxes([a, b]),
            "rigid_b": two_boxes([a, b], None),
        }
        for name, a, b in poses
    ]


def rounds() -> list[dict[str, Any]]:
    """Forces of round geoms as their meshes get finer; sizes are MuJoCo's."""
    makers = {
        "sphere": lambda r: drake.Sphere(r),
        "box": lambda a, b, c: drake.Box(2 * a, 2 * b, 2 * c),
        "cylinder": lambda r, half: drake.Cylinder(r, 2 * half),
        "capsule": lambda r, half: drake.Capsule(r, 2 * half),
        "ellipsoid": lambda a, b, c: drake.Ellipsoid(a, b, c),
    }
    ball, table, below = ("sphere", (0.05,)), ("box", HALF_B), (0.0, 0.0, -0.05)
    low = 0.03 * np.cos(0.5) + 0.04 * np.sin(0.5)
    lying = turn(2, 0.3) @ turn(1, np.pi / 2)
    cases = [
        ("sphere on rigid box", ball, table, None, np.eye(3), (0.01, 0.02, 0.048), below),
        ("two spheres", ball, ("sphere", (0.03,)), 3e6, np.eye(3), (0.01, 0.02, 0.077), (0.01, 0.02, 0.0)),
        ("sphere on compliant box", ball, table, 3e6, np.eye(3), (0.01, 0.02, 0.048), below),
        ("sphere over a side of a box", ball, table, 3e6, np.eye(3), (0.11, 0.02, 0.043), below),
        (
            "cylinder tilted on a box",
            ("cylinder", (0.04, 0.03)),
            table,
            3e6,
            turn(1, 0.5),
            (0.01, 0.02, low - 3e-3),
            below,
        ),
        ("ellipsoid on a box", ("ellipsoid", (0.05, 0.03, 0.04)), table, 3e6, turn(2, 0.4), (0.01, 0.02, 0.038), below),
        ("capsule on a box", ("capsule", (0.03, 0.04)), table, 3e6, lying, (0.01, 0.02, 0.028), below),
    ]
    found = []
    for name, a, b, modulus, rot, pos_a, pos_b in cases:
        shapes = [makers[shape](*size) for shape, size in (a, b)]
        poses = [(rot, np.array(pos_a)), (np.eye(3), np.array(pos_b))]
        forces = []
        for resolution in RESOLUTIONS:
            of = [properties(1e7, resolution), properties(modulus, resolution)]
            forces.append({"resolution": resolution, **total(shapes, of, poses)})
        same = {"geoms": [a, b], "moduli": [1e7, modulus], "rot_a": rot.tolist(), "pos_a": pos_a, "pos_b": pos_b}
        found.append({"name": name, **same, "forces": forces})
    return found


def main() -> None:
    head = {"note": NOTE, "drake": version("drake"), "half_a": HALF_A, "half_b": HALF_B}
    head |= {"modulus_a": MODULUS_A, "modulus_b": MODULUS_B}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, cases in (("boxes", boxes()), ("rounds", rounds())):
        lines.append(f"{json.dumps(key)}: [\n  " + ",\n  ".join(map(json.dumps, cases)) + "\n ]")
    text = "{\n " + ",\n ".join(lines) + "\n}\n"
    (pathlib.Path(__file__).parent / "hydro_drake.json").write_text(text)


if __name__ == "__main__":
    main()
