"""When an object counts as held by a hand."""

REACH = 0.1
"""A cube farther than this from where it started is not in the hand [m]."""
