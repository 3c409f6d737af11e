"""A sole voter that wins its election, as its shell lets it."""

from __future__ import annotations

from random import Random

from moldau.broker.raft.quorum import Quorum
from moldau.broker.raft.replica import Member, RaftReplica, RaftTimeouts


def lead(quorum: Quorum, now_ms: int) -> int:
    """The new epoch. Its first record is durable, and all before it committed."""
    member = Member(quorum.node_id, quorum.voters.ids)
    core = RaftReplica(member, quorum.state, quorum, Random(0), RaftTimeouts())
    core.start(now_ms)
    ready = core.take_ready()
    assert ready.state is not None, "it is not the only voter"
    assert core.leader is not None
    quorum.save_state(ready.state)
    quorum.begin_epoch(core.leader, ready.elected_by or (), now_ms)
    return core.epoch
