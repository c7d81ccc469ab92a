"""States of a baseline that keeps its worlds elsewhere and shows them in arrays."""

from collections.abc import Mapping

import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip import arrays
from stickslip.state import State, parts_of


def arrays_state(own: Mapping[str, wp.array], signature: int) -> State:
    """The parts of the signature that there are arrays for, on the host; no memory."""
    parts = {name: own[name].numpy().copy() for name in parts_of(signature) if name in own}
    return State(**{**dict.fromkeys(("time", "qpos", "qvel", "act")), **parts})


def put_state(own: Mapping[str, wp.array], state: State, mask: wp.array | None) -> NDArray[np.bool_]:
    """Write a state into the arrays of the worlds in the mask, or of all; which worlds these are, (nworld,)."""
    state.numpy().check({name: arrays.shape_of(array) for name, array in own.items()})
    given = {name: arrays.like(f"state.{name}", part, own[name]) for name, part in state.parts.items()}
    nworld = own["qpos"].shape[0]
    chosen = np.ones(nworld, dtype=bool) if mask is None else mask.numpy().astype(bool)
    for name, part in given.items():
        rows = own[name].numpy().copy()
        rows[chosen] = np.broadcast_to(part.numpy(), rows.shape)[chosen]
        own[name].assign(rows)
    return chosen
