"""The convex step at a fixed size."""
