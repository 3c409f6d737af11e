"""Sends and reads a million records through a broker: the example that `make demo` runs."""
