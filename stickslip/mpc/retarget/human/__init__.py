"""Motions of a human, and how they are brought onto a robot."""

from stickslip.mpc.retarget.human.skeleton import Human
from stickslip.mpc.retarget.human.solve import onto

__all__ = ["Human", "onto"]
