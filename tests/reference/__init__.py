"""Slow, plain float64 references that the Warp implementations are compared with."""
