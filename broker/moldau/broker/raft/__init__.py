"""The Raft log under `__cluster_metadata`, in Kafka's files (KIP-595, KIP-630, KIP-853).

- `quorum`         the replica on files: open, lead, append, flush, snapshot
- `leader`         a leader's view of the voters, as a pure core: what is committed
- `voters`         the voters, and the control records that name them
- `quorum_state`   the file `quorum-state`: epoch, vote and leader, which must survive
- `empty_disk`     the rules of a voter that may have forgotten acknowledged records
- `snapshots`      `.checkpoint` files, and `bootstrap.checkpoint`, which has the same form
"""
