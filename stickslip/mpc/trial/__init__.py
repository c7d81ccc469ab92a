"""Closed-loop trials: planner and plant in turn, one by one or in batches, and pictures of them."""
