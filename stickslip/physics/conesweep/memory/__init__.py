"""What a step of the cone sweep takes from the previous one, and what it reports."""
