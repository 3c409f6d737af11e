"""Groups and their offsets: what lives in one partition of `__consumer_offsets`."""
