"""Share partitions: what the members of share groups hold of the partitions that this node leads
(KIP-932).

`window` is the pure core: which records are available, acquired or done. `partition` runs one on
the node: loads it, stores its changes, wakes it. `partitions` has those of a node, `sessions` the
share sessions of members, `batches` what the headers of a slice say. The handlers of requests are
in `moldau.broker.api`.
"""
