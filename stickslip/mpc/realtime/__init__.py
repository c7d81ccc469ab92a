"""Planning in real time: a planner and a plant in two processes, each at its own rate, and a message bus between."""
