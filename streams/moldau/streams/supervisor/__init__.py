"""Several workers of an app on one machine: one process each, started anew when they die."""
