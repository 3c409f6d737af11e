"""A whole broker under faults, from seeds: what was promised to clients is kept."""
