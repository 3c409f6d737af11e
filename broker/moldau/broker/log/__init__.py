"""Partitions as logs: Kafka's files, byte for byte.

- one partition     `log.PartitionLog`, opened with `recovery.Opening` and `log_config.LogConfig`
- a part to send    `slice.LogSlice`, a slice of a file
- a broker's logs   `directories.LogDirectories`, each a `directory.LogDirectory`
- acks after fsync  `group_commit.GroupCommit`
- compaction        `compaction`

A segment (`segment.py`) is a file of batches and its indexes. `recovery.py` and `replacement.py`
describe what a crash may leave behind and how it is repaired. Producers, leader epochs and
transactions are cores beside the log: `producer_state.py`, `leader_epochs.py`,
`transaction_index.py`.
"""
