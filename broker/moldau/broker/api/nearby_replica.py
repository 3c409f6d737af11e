"""Choose the replica that a consumer should read from: one in its rack (KIP-392). Pure.

Invariants: only a replica in sync that holds the offset is named, and never the leader itself: the
consumer is there already. A leader in the consumer's rack is the nearest. Without a rack, or
without a replica in it, the consumer reads from the leader.
"""

from __future__ import annotations

from collections.abc import Mapping


def nearby_replica(
    rack: str,
    leader_id: int,
    racks: Mapping[int, str | None],
    followers: Mapping[int, tuple[int, int]],
) -> int | None:
    """Return the most advanced follower in the rack; None means the leader. `racks` has the brokers
    that consumers can reach. `followers` are in sync and hold the offset; each has its log end and
    the time when it last had all records."""
    if not rack or racks.get(leader_id) == rack:
        return None
    near = [each for each in followers if racks.get(each) == rack]
    return max(near, key=lambda each: (*followers[each], -each), default=None)
