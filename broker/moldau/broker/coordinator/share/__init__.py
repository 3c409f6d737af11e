"""The share coordinator's core: the state of the share partitions whose keys belong to one
partition of `__share_group_state` (KIP-932). Leaders of partitions read and write it.

`state` has what is stored of a share partition, `combining` joins runs of offsets, `requests`
decides. `states` is the shard: it keeps the table, and knows the time. `effects` prunes the log.
"""
