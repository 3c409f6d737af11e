"""A broker, a million records sent and read: what `make demo` shows."""
