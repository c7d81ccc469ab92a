"""Contact space: the sweeps of worlds with joints, rows on dofs or equalities."""
