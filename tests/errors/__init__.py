"""The families of errors, and the one table of codes."""
