"""Float64 NumPy reference of hydroelastic contact between two convex geoms.

The contact surface is where the pressures of two compliant geoms are equal, or the surface of a rigid geom inside the
field of a compliant one (Elandt et al., A pressure field model for fast, robust approximation of net contact force and
moment between nominally rigid objects). Here it is found without meshes:

* `hydro_fields`: the pressure fields;
* `hydro_cells`: plane, box and hull against each other: polygons, exact;
* `hydro_polar`: a round geom against anything convex: M x G points;
* `hydro_points`: what a quadrature point hands to the convex step;
* `hydro_exact`: closed forms that all this is tested with.

All is computed in the frame of geom 1, which is never the plane if geoms come in MuJoCo's order of types: places near
the origin keep their digits in single precision.
"""

from tests.reference import hydro_cells, hydro_polar
from tests.reference.hydro_fields import Geom, Pose
from tests.reference.hydro_points import Points, moved


def contact(
    a: Geom,
    pose_a: Pose,
    b: Geom,
    pose_b: Pose,
    margin: float = 0.0,
    *,
    cells: str = "fan",
    polar: tuple[int, int] = hydro_polar.RULE,
) -> Points:
    """Quadrature points of the patch between A = geom 0 and B = geom 1, in the world.

    Args:
        a, b: the geoms; at least one is compliant.
        pose_a, pose_b: where they are.
        margin: how far ahead of touch there are points, m.
        cells: quadrature of polygons: fan, three, centroids, one or mixed.
        polar: M and G of a polar patch.
    """
    place = pose_b.inverse() @ pose_a
    if a.flat and b.flat:
        found = hydro_cells.points(a, place, b, Pose(), margin, cells)
    else:
        found = hydro_polar.points(a, place, b, Pose(), margin, polar)
    return moved(found, pose_b.rot, pose_b.pos)
