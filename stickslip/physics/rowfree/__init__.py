"""What physics without Jacobian rows share: model and data, the step around the solve, rows, drop-in module."""
