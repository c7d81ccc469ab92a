"""The contacts of one pair against each other, four at a time in registers.

Forces are resolved in coordinates in which the relative mobility of the two bodies is the identity: a force along z,
times the timestep, changes the relative velocity by z. The C++ is in `settle.h`. Most pairs have at most four contacts;
those with more take turns in registers, in blocks of four. Rolling and anisotropic friction go through memory: see
`settle_any`.
"""

import pathlib

import warp as wp

from stickslip.physics.conesweep.pack import FORCE, PULL, TOUCH, TURN
from stickslip.physics.conesweep.sweep.cone import MIN_FRICTION

wp.set_module_options({"enable_backward": False})

PUSH_OUT = wp.constant(1.0)
"""Largest speed at which depth is corrected [m/s or rad/s]."""

GROWTH = wp.constant(2.0)
"""How much more of a depth is corrected where it is deep: there is no resting contact to disturb."""
DEEP = wp.constant(5.0e-4)
"""Depth beyond the slop at which half of that is added [m]."""

FEW = 4
"""Contacts that fit into registers."""

vec12 = wp.types.vector(length=12, dtype=float)


_BODY = pathlib.Path(__file__).with_name("settle.h").read_text()


def _source(is_spinning: bool) -> str:
    """The C++ of `settle_smooth` or `settle_spin`: constants, then `settle.h`."""
    numbers = {
        "few": FEW,
        "touch_rows": int(TOUCH),
        "pull_rows": int(PULL),
        "turn_rows": int(TURN),
        "force_rows": int(FORCE),
    }
    reals = {"growth": GROWTH, "deep": DEEP, "fastest": PUSH_OUT, "least": MIN_FRICTION}
    constants = [f"constexpr bool spinning = {'true' if is_spinning else 'false'};"]
    constants += [f"constexpr int {name} = {value};" for name, value in numbers.items()]
    constants += [f"constexpr float {name} = {float(value)!r}f;" for name, value in reals.items()]
    return "\n".join([*constants, _BODY])


@wp.func_native(_source(is_spinning=False))
def settle_smooth(
    touch: wp.array[wp.vec4],
    pull: wp.array[wp.vec4],
    turn: wp.array[wp.vec4],
    f: wp.array[wp.vec4],
    first: int,
    count: int,
    U: wp.spatial_vector,
    X: wp.spatial_vector,
    dt: float,
    h: float,
    share: float,
    slop: float,
    restitution: float,
    passes: int,
    is_last: bool,
) -> vec12:
    """Resolve contacts without spin and rolling, in sequence, forth and back; more than FEW in blocks.

    Args:
        touch: records of contacts, as in `Work`
        pull: records of contacts
        turn: records of contacts
        f: records of contacts; updated
        first: first contact of the pair
        count: number of contacts
        U: relative velocity of the two bodies at the pair's point
        X: their displacement since the start of the step
        dt: timestep
        h: substep
        share: of the depth that is corrected
        slop: depth that is not corrected
        restitution: share of an approach that bounces back
        passes: passes over the contacts
        is_last: whether depth is corrected

    Returns:
        what was added to the wrench on the second body; what displaces it without velocity
    """
    ...


@wp.func_native(_source(is_spinning=True))
def settle_spin(
    touch: wp.array[wp.vec4],
    pull: wp.array[wp.vec4],
    turn: wp.array[wp.vec4],
    f: wp.array[wp.vec4],
    first: int,
    count: int,
    U: wp.spatial_vector,
    X: wp.spatial_vector,
    dt: float,
    h: float,
    share: float,
    slop: float,
    restitution: float,
    passes: int,
    is_last: bool,
) -> vec12:
    """Resolve contacts, some with spin, none with rolling; see `settle_smooth`."""
    ...


@wp.func
def contact_wrench(frame: wp.mat33, arm: wp.vec3, f: wp.spatial_vector) -> wp.spatial_vector:
    """Wrench about the pair's point of a contact's normal, tangential, spin and rolling forces."""
    turned = wp.transpose(frame)
    force = turned @ wp.vec3(f[0], f[1], f[2])
    torque = turned @ wp.vec3(f[3], f[4], f[5])
    return wp.spatial_vector(torque + wp.cross(arm, force), force)
