"""A log on three nodes that loses nothing it has confirmed: the first thing to read in moldau.

Read in this order; every part of moldau is built like this:
1. `messages`  what nodes send to each other and to clients: declared, not packed.
2. `log`, `replica`, `leadership`  the pure core: leader election and replication, without a
   clock, socket or file. It takes events and returns a `Ready`.
3. `store`     what is on disk, and what is durable when.
4. `framing`, `server`, `peer`, `client`  the shell: asyncio on `moldau.runtime`, without any
   decision in it.
5. `cluster`, `story`  all of it in one process, in virtual time, with crashes, network partitions
   and power losses: `python -m examples.replicated_log --seed 7`.

The protocol is Raft in Kafka's words: epochs (terms), offsets (indexes), a high watermark (commit
index, exclusive). Nodes have numbers; the cluster never changes. Not included: snapshots, a growing
cluster, repair of a corrupt or lost disk (its node refuses to start; a majority goes on without
it).
"""
