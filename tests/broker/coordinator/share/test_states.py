"""States of share partitions: what is written is read, late writers are fenced, logs stay short."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.broker.coordinator.share.combining import Run
from moldau.broker.coordinator.share.effects import Prune
from moldau.broker.coordinator.share.state import SharePartitionKey, ShareState
from moldau.errors.codes import ErrorCode, KafkaError
from tests.broker.coordinator.share.table import KEY, TOPIC_ID, Table

ACKNOWLEDGED, ARCHIVED, AVAILABLE = 2, 4, 0
OTHER = SharePartitionKey("mailer", TOPIC_ID, 1)


def state(at: Table, key: SharePartitionKey = KEY) -> ShareState:
    found = at.shard.get(key)
    assert found is not None
    return found


def code(of: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        of()
    return caught.value.code


def test_a_leader_reads_what_was_written() -> None:
    at = Table()
    at.initialize(start=5)
    at.write(Run(5, 7, ACKNOWLEDGED, 1), Run(8, 9, AVAILABLE, 2), start=5)
    at.write(Run(8, 8, ARCHIVED, 3), start=8)
    found = at.read(leader_epoch=4)
    assert (found.start_offset, found.state_epoch) == (8, 0)
    runs = [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in found.state_batches
    ]
    assert runs == [(8, 8, ARCHIVED, 3), (9, 9, AVAILABLE, 2)]
    assert at.reloaded().get(KEY) == state(at)


def test_a_read_with_a_newer_leader_epoch_fences_the_leader_before() -> None:
    at = Table()
    at.initialize(start=0)
    at.read(leader_epoch=3)
    assert len(at.log) == 2
    assert at.read(leader_epoch=3).error_code == 0
    assert len(at.log) == 2, "the epoch is known"
    assert code(lambda: at.write(leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(lambda: at.read(leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
    at.write(leader_epoch=3)


def test_a_state_that_began_anew_fences_who_knows_the_old_one() -> None:
    at = Table()
    at.initialize(start=0, epoch=1)
    at.write(Run(0, 9, ACKNOWLEDGED, 1), epoch=1)
    at.initialize(start=4, epoch=2)
    assert state(at).runs == ()
    assert code(lambda: at.write(epoch=1)) is ErrorCode.FENCED_STATE_EPOCH
    assert code(lambda: at.initialize(epoch=1)) is ErrorCode.FENCED_STATE_EPOCH
    assert at.read().state_epoch == 2


def test_only_an_initialized_state_is_read_and_written() -> None:
    at = Table()
    assert code(at.read) is ErrorCode.INVALID_REQUEST
    assert code(at.write) is ErrorCode.INVALID_REQUEST
    unknown = at.summarize()
    assert (unknown.start_offset, unknown.delivery_complete_count) == (-1, -1)
    assert at.delete().error_code == 0
    assert at.log == []


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (KEY._replace(partition=-1), ErrorCode.INVALID_REQUEST),
        (KEY._replace(partition=2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (KEY._replace(topic_id=bytes(16)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_partition_must_exist(key: SharePartitionKey, expected: ErrorCode) -> None:
    at = Table()
    assert code(lambda: at.initialize(key)) is expected
    assert code(lambda: at.summarize(key)) is expected
    assert code(lambda: at.delete(key)) is expected


def test_a_snapshot_follows_a_number_of_updates() -> None:
    name = "share.coordinator.snapshot.update.records.per.snapshot"
    at = Table(**{name.replace(".", "__"): "3"})
    at.initialize(start=0)
    for offset in range(8):
        at.write(Run(offset, offset, ACKNOWLEDGED, 1), start=0)
    kinds = [key[:2] for key, _ in at.log]
    snapshot, update = b"\x00\x00", b"\x00\x01"
    assert kinds == [snapshot, *[update] * 3, snapshot, *[update] * 3, snapshot]
    assert state(at).runs == (Run(0, 7, ACKNOWLEDGED, 1),)
    assert state(at).snapshot_epoch == 2
    assert at.reloaded().get(KEY) == state(at)


def test_a_deleted_state_is_gone() -> None:
    at = Table()
    at.initialize(start=3)
    at.delete()
    assert at.shard.get(KEY) is None
    assert at.reloaded().get(KEY) is None
    assert at.summarize().start_offset == -1


def test_the_states_of_a_deleted_topic_are_deleted() -> None:
    at = Table()
    at.initialize()
    at.initialize(OTHER)
    del at.world.topics[TOPIC_ID]
    assert tuple(at.shard.on_topics_changed(["t"], ["t"], 0)) == ()
    assert not at.shard.is_settled
    at.tidy()
    assert len(at.shard) == 0
    assert len(at.reloaded()) == 0


def test_a_loaded_shard_deletes_states_of_topics_that_went_meanwhile() -> None:
    at = Table()
    at.initialize()
    del at.world.topics[TOPIC_ID]
    at.shard = at.reloaded()
    at.tidy()
    assert len(at.shard) == 0


def test_the_log_before_the_oldest_snapshot_is_pruned() -> None:
    at = Table(share__coordinator__snapshot__update__records__per__snapshot="1")
    at.initialize()
    at.initialize(OTHER)
    for offset in range(6):
        at.write(Run(offset, offset, ACKNOWLEDGED, 1))
    at.tick(300_000)
    # the other state was written again, because it would have kept the log of the first
    assert state(at, OTHER).snapshot_epoch == 1
    at.tick(300_000)
    pruned = [each.offset for each in at.effects if isinstance(each, Prune)]
    assert pruned
    assert pruned[-1] > 2
    needed = at.log[pruned[-1] :]
    at.log = needed
    shard = at.reloaded()
    assert shard.get(KEY) == state(at)
    assert shard.get(OTHER) == state(at, OTHER)


def test_a_log_at_rest_is_not_written_again() -> None:
    at = Table()
    at.initialize()
    at.tick(300_000)
    count = len(at.log)
    for _ in range(5):
        at.tick(300_000)
    assert len(at.log) == count


@pytest.mark.parametrize(
    "text", ["", "g", "g:x", "g:x:0", " :AAAAAAAAAAAAAAAAAAAAAA:0", "g:AA:zero"]
)
def test_a_key_that_is_none_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        SharePartitionKey.parse(text)


def test_a_key_reads_as_it_is_written() -> None:
    key = SharePartitionKey("a:b", TOPIC_ID, 7)
    assert SharePartitionKey.parse(str(key)) == key


def test_the_start_does_not_fall_when_a_leader_did_not_hear_of_the_last_change() -> None:
    at = Table()
    at.initialize(start=0)
    at.write(Run(0, 4, ACKNOWLEDGED, 1), Run(5, 5, AVAILABLE, 2), start=5)
    at.write(Run(0, 1, AVAILABLE, 1), start=0)
    assert (state(at).start_offset, state(at).runs) == (5, (Run(5, 5, AVAILABLE, 2),))
    assert at.reloaded().get(KEY) == state(at)


def test_an_initialization_that_is_sent_again_changes_nothing() -> None:
    at = Table()
    at.initialize(start=-1, epoch=3)
    at.write(Run(0, 4, ACKNOWLEDGED, 1), start=5, epoch=3)
    at.initialize(start=-1, epoch=3)
    assert state(at).start_offset == 5
    at.initialize(start=2, epoch=3)
    assert state(at).start_offset == 2, "a reset says where to begin"
    at.initialize(start=-1, epoch=4)
    assert state(at).start_offset == -1
