"""Partitions as logs: Kafka's files, byte for byte.

- one partition     `log.PartitionLog`, opened with `recovery.Opening` and `log_config.LogConfig`
- what is sent      `slice.LogSlice`, a piece of a file
- all of a broker   `directories.LogDirectories`, each a `directory.LogDirectory`
- acks after fsync  `group_commit.GroupCommit`
- compaction        `compaction`

A segment (`segment.py`) is a file of batches and its indexes. What a crash may leave, and what is
made of it, is in `recovery.py` and `replacement.py`. Producers, leader epochs and transactions are
cores beside the log: `producer_state.py`, `leader_epochs.py`, `transaction_index.py`.
"""
