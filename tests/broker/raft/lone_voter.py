"""The only voter of a quorum, and the values in its log."""

from __future__ import annotations

from moldau.broker.raft.quorum import DIRECTORY, Membership, Quorum

NOW = 1_700_000_000_000

ALONE = Membership(1, (1,))

FOLDER = f"/p/{DIRECTORY}"


def values(quorum: Quorum) -> list[int]:
    return [int(each.value or b"-1") for batch in quorum.batches() for each in batch.records()]
