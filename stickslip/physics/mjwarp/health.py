"""Health of MuJoCo Warp's data: what overflowed and what to raise, worlds that are not finite, peaks."""

from typing import TYPE_CHECKING

import mujoco_warp as mjw
import numpy as np
from numpy.typing import NDArray

from stickslip.physics.base import Health

if TYPE_CHECKING:
    from stickslip.physics.mjwarp.data import Data


def health_of(d: "Data", broken: NDArray[np.bool_], rows_are_reported_only: bool) -> Health:
    """What the record of the data says.

    Args:
        d: data
        broken: whether each world is no longer finite
        rows_are_reported_only: whether the motion does not depend on rows that are dropped
    """
    bits = int(np.bitwise_or.reduce(d.overflow.numpy()))
    ncon_peak, _, nefc_peak = (int(v) for v in d.peak.numpy())
    overflow, notes = explain_overflow(bits, d, rows_are_reported_only)
    return Health(overflow, notes, tuple(int(w) for w in np.flatnonzero(broken)), ncon_peak, nefc_peak)


def explain_overflow(bits: int, d: "Data", rows_are_reported_only: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sentences for the overflow bits: those that change the motion, and those that do not.

    Dropped contacts and rows were not all counted, so the advice has slack: four contacts for each pair of geoms that
    came close, and twice the rows that were asked for, or that the contacts, dropped ones included, would need.
    """
    T = mjw.OverflowType
    ncon, npair, nefc = (int(v) for v in d.peak.numpy())
    nconmax = -(-max(ncon, 4 * npair, d.naconmax + 1) // d.nworld)
    dropped = bits & (T.BROADPHASE | T.NARROWPHASE | T.CCD)
    needed = max(nefc, (nconmax if dropped else -(-ncon // d.nworld)) * d.contact.efc_address.shape[1])
    raise_ncon = f"raise nconmax from {d.naconmax // d.nworld} to at least {nconmax}"
    raise_njmax = f"raise njmax from {d.njmax} to at least {2 * max(needed, d.njmax)}"
    causes = {
        T.BROADPHASE: f"geom pairs were dropped before the narrow phase: {raise_ncon}",
        T.NARROWPHASE: f"contacts were dropped: {raise_ncon}",
        T.CCD: f"convex collision pairs were dropped: {raise_ncon}",
        T.HFIELD: "contacts with a height field were dropped: use a coarser height field",
        T.CONTACT_MATCH: "contact sensors matched too many contacts: raise opt.contact_sensor_maxmatch",
        T.EPA_HORIZON: "penetration of two convex geoms was not resolved exactly: use simpler meshes",
        T.TACTILE: "tactile sensors dropped collision pairs",
    }
    overflow = list(dict.fromkeys(text for bit, text in causes.items() if bits & bit))
    notes = ["MuJoCo's solver stopped at its iteration limit"] if bits & (T.ITERATIONS | T.LS_ITERATIONS) else []
    if bits & (T.NEFC | T.NJMAX_NNZ):
        if rows_are_reported_only:
            notes.append(f"some forces are missing in contacts() and sensors, the motion is right: {raise_njmax}")
        else:
            overflow.insert(0, f"constraint rows were dropped: {raise_njmax}")
    elif dropped and needed > d.njmax:
        sentence = f"so many contacts will need more constraint rows: {raise_njmax}"
        (notes if rows_are_reported_only else overflow).append(sentence)
    return tuple(overflow), tuple(notes)
