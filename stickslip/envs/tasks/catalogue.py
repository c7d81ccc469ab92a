"""The names of the tasks; imports nothing."""

NAMES = (
    "push-t",
    "cube-lift",
    "stack-two",
    "peg-in-hole",
    "hand-cube",
    "go1-velocity",
    "g1-velocity",
)
