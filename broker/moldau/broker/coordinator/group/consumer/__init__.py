"""Consumer groups (KIP-848): the broker assigns partitions to the members. Begin with `group`."""
