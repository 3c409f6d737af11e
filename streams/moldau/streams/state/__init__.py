"""State stores: a cache of objects above rows of bytes."""
