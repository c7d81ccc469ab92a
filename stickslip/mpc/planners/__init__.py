"""Planners, by name in `catalogue`: sampling (`mppi`), gradients (`newton`) and nonlinear programs (`shooting`)."""
