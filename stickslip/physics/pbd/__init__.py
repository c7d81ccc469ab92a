"""Rigid bodies made of particles: position based dynamics, with the right momentum."""
