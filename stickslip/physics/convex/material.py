"""Contact parameters that `set_model` takes: of each geom and world, and the stiction velocity of each world."""

from typing import Any

import numpy as np

from stickslip.physics.convex.hydro.pairs import Hydro
from stickslip.physics.convex.step.layout import Material
from stickslip.physics.mjwarp.fields import TINY, Limits

HYDROELASTIC = "geom_hydroelastic"
MOST_STIFFNESS, MOST_DISSIPATION, MOST_FRICTION, MOST_STICTION = 1e15, 1e6, 1e6, 1.0
"""N/m (and Pa), s/m, 1, m/s."""


def owners(material: Material, hydro: Hydro | None) -> dict[str, Any]:
    """Names of parameters, and the structs that have their arrays."""
    own = {name: material for name in ("geom_stiffness", "geom_dissipation", "geom_static_friction", "stiction")}
    return own if hydro is None else {**own, HYDROELASTIC: hydro.fields}


def limits_of(ngeom: int, hydro: Hydro | None) -> dict[str, Limits]:
    """Their limits; which geoms have a hydroelastic modulus cannot change, since pairs and fields follow from it."""
    of_geom = np.zeros(ngeom)
    limits = {
        "geom_stiffness": Limits(of_geom, of_geom + MOST_STIFFNESS, note="0 is the one from solref and mass"),
        "geom_dissipation": Limits(
            of_geom, of_geom + MOST_DISSIPATION, besides=-1.0, note="or -1, the one from solref"
        ),
        "geom_static_friction": Limits(of_geom, of_geom + MOST_FRICTION, note="0 is the dynamic one"),
        "stiction": Limits(TINY, MOST_STICTION),
    }
    if hydro is not None:
        is_soft = hydro.fields.geom_hydroelastic.numpy()[0] > 0.0
        limits[HYDROELASTIC] = Limits(
            np.where(is_soft, TINY, 0.0),
            np.where(is_soft, MOST_STIFFNESS, 0.0),
            note="geoms with a modulus keep one, and others have none, until you build another simulation",
        )
    return limits
