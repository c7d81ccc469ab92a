"""Hydroelastic contact: pressure fields of convex geoms, and the quadrature of their contact surface."""
