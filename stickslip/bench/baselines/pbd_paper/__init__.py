"""Position-based dynamics as published: baselines to compare `pbd-r` with, not to simulate with."""
