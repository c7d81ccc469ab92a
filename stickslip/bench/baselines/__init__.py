"""Methods to compare with, not to use: QP, Drake, MJX and gradient planners."""
