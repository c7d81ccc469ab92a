"""The memory of the cone sweep: what a step starts from besides the state."""

import dataclasses

import warp as wp

from stickslip.physics.conesweep.layout import Equalities, PreviousContacts, RowSet
from stickslip.physics.mjwarp.memory import Memory, entries, per_world


@dataclasses.dataclass
class WarmStart(Memory):
    """Contacts and forces of the previous step; N is naconmax.

    Attributes:
        num: contacts of each world; 0: nothing is known of any                    (nworld,)
        adr: where they begin                                                      (nworld,)
        key, local1, local2, normal, geom, dim, friction, margin, age, force1, force2: of each contact, see
            `layout.PreviousContacts`; only `num` of a world are read              (N,)
        rows: forces of limits, dry friction and couplings                         (nworld, nrow)
        equalities: wrenches of connects and welds                                      (nworld, nequality)
    """

    num: wp.array = per_world()
    adr: wp.array = per_world(reset=False)
    key: wp.array = entries()
    local1: wp.array = entries()
    local2: wp.array = entries()
    normal: wp.array = entries()
    geom: wp.array = entries()
    dim: wp.array = entries()
    friction: wp.array = entries()
    margin: wp.array = entries()
    age: wp.array = entries()
    force1: wp.array = entries()
    force2: wp.array = entries()
    rows: wp.array = per_world()
    equalities: wp.array = per_world()


def make_memory(previous: PreviousContacts, rows: RowSet, equalities: Equalities) -> WarmStart:
    """The memory whose arrays these structs hold."""
    return WarmStart(
        num=previous.num,
        adr=previous.adr,
        key=previous.key,
        local1=previous.local1,
        local2=previous.local2,
        normal=previous.normal,
        geom=previous.geom,
        dim=previous.dim,
        friction=previous.friction,
        margin=previous.margin,
        age=previous.age,
        force1=previous.force1,
        force2=previous.force2,
        rows=rows.warm_start,
        equalities=equalities.warm_start,
    )
