"""A shop: its database becomes topics, statistics, a lake and a page. What `make demo` shows."""
