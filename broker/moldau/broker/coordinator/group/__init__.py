"""Groups and their offsets: the content of one partition of `__consumer_offsets`."""
