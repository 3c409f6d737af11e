"""Share groups (KIP-932): members that read the same partitions as a queue.

`group` satisfies the contract of groups, `state` is the fold of the records, `heartbeat` decides,
`assignor` shares out, `initialization` sets up the states of share partitions at the share
coordinator, `description` describes.
"""
