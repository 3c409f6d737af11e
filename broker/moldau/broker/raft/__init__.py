"""The Raft log under `__cluster_metadata`, in Kafka's files (KIP-595, KIP-630, KIP-853).

- `quorum`         the replica on files: open, lead, append, flush, snapshot
- `leader`         a leader's view of the voters, as a pure core: what is committed
- `voters`         the voters, and the control records that name them
- `quorum_state`   the file `quorum-state`: epoch, vote and leader that must survive
- `empty_disk`     how a voter votes that may have forgotten what it acknowledged
- `snapshots`      `.checkpoint` files, and `bootstrap.checkpoint`, which has the same form
"""
