"""The start of a worker, before it reads."""
