"""The planner `newton`: Gauss-Newton on the controls of the horizon, in one Warp kernel."""
