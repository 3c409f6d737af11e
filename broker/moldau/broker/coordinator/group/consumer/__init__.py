"""Consumer groups (KIP-848), whose members get their assignment from the broker. Begin with
`group`."""
