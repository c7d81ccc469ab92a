"""Penalty contact for stickslip."""

from stickslip.physics.registry import Entry

ENTRY = Entry(
    name="example",
    where="stickslip_example.physics:Penalty",
    summary="penalty contact: a spring and a damper at every contact point",
    good_at="being read: the shortest physics there is",
    weak_at="soft contact; friction creeps; stiff contact needs short time steps; force sensors do not see contact",
    colour="#555555",
)
