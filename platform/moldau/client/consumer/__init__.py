"""The consumer: positions, fetches ahead of its user, and the records it gives out."""
