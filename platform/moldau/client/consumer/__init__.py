"""The consumer: positions, prefetching, and the records that polls return."""
