"""ICF: one convex step per timestep. See README.md."""
