"""A log on three nodes that loses nothing it has confirmed: the first thing to read in moldau.

Read in this order; it is how every part of moldau is built:
1. `messages`  what the nodes say to each other and to clients: declared, not packed.
2. `log`, `replica`, `leadership`  the pure core: leader election and replication, with no
   clock, socket or file. It takes events and hands out a `Ready`.
3. `store`     what is on disk, and what is durable when.
4. `framing`, `server`, `peer`, `client`  the shell: asyncio on `moldau.runtime`, with no decision
   in it.
5. `cluster`, `story`  all of it in one process, in virtual time, under crashes, cuts and power
   losses: `python -m examples.replicated_log --seed 7`.

The protocol is Raft in Kafka's words: epochs (terms), offsets (indexes), a high watermark (commit
index, exclusive). Nodes have numbers; the cluster never changes. Not here: snapshots, a growing
cluster, repair of a rotten or lost disk (its node refuses to start; a majority goes on without it).
"""
