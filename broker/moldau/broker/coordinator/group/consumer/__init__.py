"""Consumer groups (KIP-848): members that the broker assigns partitions to. Begin with `group`."""
