"""Smooth dynamics in one launch: all that MuJoCo Warp works out between a state and its contacts."""
