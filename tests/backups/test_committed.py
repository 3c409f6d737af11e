"""Offsets as the log of commits has them at a time: transactions count from their commit on."""

from __future__ import annotations

from moldau.backups.committed import CommittedOffsets
from moldau.backups.manifest import cut_in
from moldau.broker.log.marker import Marker
from moldau.client.base.arguments import OffsetAndMetadata
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from moldau.records import NO_PRODUCER, Batch, Producer, encode_batch, open_batch, stamp

WHERE = ("g", "orders", 0)
OPEN = Producer(7, 0, 0, is_transactional=True)


def commit(offset: int | None, producer: Producer = NO_PRODUCER, at_ms: int = 0) -> Batch:
    key = GROUP_LOG.encode_key(OffsetCommitKey(group="g", topic="orders", partition=0))
    value = None
    if offset is not None:
        told = OffsetCommitValue(offset=offset, metadata="m", commit_timestamp=at_ms)
        value = GROUP_LOG.encode_value(told, 3)
    return open_batch(encode_batch([(at_ms, key, value, ())], producer=producer))


def end(*, is_commit: bool) -> Batch:
    return open_batch(Marker(7, 0, is_commit, 0, 1).batch(0))


def offsets_of(*batches: Batch) -> dict[tuple[str, str, int], OffsetAndMetadata]:
    found = CommittedOffsets()
    found.replay(batches)
    return found.offsets


def test_the_last_commit_counts_and_a_tombstone_removes_it() -> None:
    assert offsets_of(commit(5), commit(9)) == {WHERE: OffsetAndMetadata(9, "m", -1)}
    assert offsets_of(commit(5), commit(None)) == {}


def test_a_commit_in_a_transaction_counts_from_its_commit_on() -> None:
    assert offsets_of(commit(5), commit(9, OPEN))[WHERE].offset == 5
    assert offsets_of(commit(5), commit(9, OPEN), end(is_commit=False))[WHERE].offset == 5
    assert offsets_of(commit(5), commit(9, OPEN), end(is_commit=True))[WHERE].offset == 9
    later = offsets_of(commit(5, OPEN), commit(9), end(is_commit=True))
    assert later[WHERE].offset == 5


def test_other_records_of_the_log_are_passed_over() -> None:
    key = GROUP_LOG.encode_key(GroupMetadataKey(group="g"))
    assert offsets_of(open_batch(encode_batch([(0, key, b"any", ())]))) == {}


def test_a_log_ends_before_the_first_batch_with_a_later_record() -> None:
    batches = []
    for offset, at_ms in enumerate((10, 30, 20, 40)):
        data = bytearray(commit(offset, at_ms=at_ms).data)
        stamp(data, offset, 0)
        batches.append(bytes(data))
    log = b"".join(batches)
    for time_ms, expected in ((5, 0), (10, 0), (11, 1), (30, 1), (31, 3)):
        assert cut_in(log, time_ms, 0) == (expected, True)
    assert cut_in(log, 41, 0) == (4, False)


def test_a_log_that_is_cut_behind_a_gap_ends_before_it() -> None:
    data = bytearray(commit(5, at_ms=30).data)
    stamp(data, 7, 0)
    assert cut_in(data, 30, 4) == (4, True)
    assert cut_in(data, 30, 9) == (7, True)
