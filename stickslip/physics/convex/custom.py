"""Parameters of contact that a model names itself: `<custom><numeric>`, and `user` of its geoms."""

import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from stickslip.errors import InputError

GEOM_USER = ("stiffness", "dissipation", "static friction", "hydroelastic modulus", "hydroelastic depth")
"""What the numbers in `user` of a geom are, from the first on."""


def numeric(mjm: mujoco.MjModel, name: str, *, above: bool = True) -> float | None:
    """A number of the model, `<custom><numeric name=.../>`; None if it has none.

    Args:
        mjm: the model
        name: of the number
        above: whether it must be above 0, or can be 0
    """
    index = mujoco.mj_name2id(mjm, mujoco.mjtObj.mjOBJ_NUMERIC, name)
    if index < 0:
        return None
    value = float(mjm.numeric_data[mjm.numeric_adr[index]])
    if not (math.isfinite(value) and value >= 0.0) or (above and value == 0.0):
        limit = "positive" if above else "positive, or 0"
        raise InputError(
            f"<numeric name={name!r}> is {value}: it must be finite and {limit}; leave it out for the default"
        )
    return value


def geom_user(mjm: mujoco.MjModel, column: int) -> NDArray[np.float64]:
    """A number in `user` of every geom, 0 where it names none: the default                 (ngeom,)."""
    if mjm.nuser_geom <= column:
        return np.zeros(mjm.ngeom)
    own = mjm.geom_user[:, column].astype(float)
    bad = np.flatnonzero(~(np.isfinite(own) & (own >= 0.0)))
    if bad.size:
        raise InputError(
            f"user[{column}] of geom {called(mjm, int(bad[0]))}, its {GEOM_USER[column]}, is {own[bad[0]]}: "
            "it must be finite and positive, or 0 for the default"
        )
    return own


def called(mjm: mujoco.MjModel, geom: int) -> str:
    """A geom's name, or its number if it has none."""
    name = mjm.geom(geom).name
    return repr(name) if name else str(geom)
