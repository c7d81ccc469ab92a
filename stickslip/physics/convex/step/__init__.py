"""The convex step that `icf` and `cenic` share: problem, potentials, solve."""
