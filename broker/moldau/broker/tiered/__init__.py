"""Tiered storage: old segments of a partition in an object store (KIP-405).

`remote_segment` has a segment and its states, `metadata_records` its records in
`__remote_log_metadata`, `remote_partition` the fold of those of one partition. `copying` and
`expiry` decide what is copied, deleted and cut; `remote_log` is the core that does so for one
partition on one node.
"""
