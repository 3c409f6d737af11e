"""Members of groups against a model of the coordinator: cores alone, and whole consumers."""
