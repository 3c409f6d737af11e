"""Every pair of choices of the broker meets: clients, clusters, faults."""
