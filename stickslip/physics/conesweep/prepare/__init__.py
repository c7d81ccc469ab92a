"""What a step of the cone sweep prepares: topology, pairs and colours, inertia, rows."""
