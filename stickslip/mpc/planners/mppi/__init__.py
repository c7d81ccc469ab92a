"""The planner `mppi`: sampling with any physics that can be captured."""
