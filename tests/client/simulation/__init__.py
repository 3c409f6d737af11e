"""Real clients in groups on a whole broker under faults, from seeds."""
