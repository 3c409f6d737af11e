"""Several workers of an app on one machine: one process each, restarted when they die."""
