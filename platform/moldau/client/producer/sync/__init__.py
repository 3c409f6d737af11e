"""The blocking clients of this room, for programs with threads and no event loop."""
