"""The sweeps of the cone sweep: friction cone, contacts of a pair, dofs of trees, extrapolation."""
