"""One program a client: it does the jobs of `tests.conformance.program` with that client alone."""
