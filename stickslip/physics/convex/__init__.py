"""The convex contact step that `icf` takes at a fixed size and `cenic` at sizes of its own: problem, potentials, solve."""
