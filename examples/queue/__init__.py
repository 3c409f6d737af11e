"""Workers of a queue, as docs/queues.md shows them."""
