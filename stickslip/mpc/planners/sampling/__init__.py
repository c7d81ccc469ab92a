"""The sampling planners `mppi`, `predictive`, `cem` and `dial`, with any physics that can be captured."""
