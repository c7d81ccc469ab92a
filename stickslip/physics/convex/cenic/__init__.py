"""CENIC: error-controlled integration of the convex step. See README.md."""
