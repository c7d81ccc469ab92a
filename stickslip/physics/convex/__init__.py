"""The convex contact step, which `icf` takes at a fixed size and `cenic` at sizes of its own."""
