"""The judge of groups' stories, told stories that are right and stories that are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from moldau.client import TopicPartition
from moldau.client.group.subscription_bytes import encode_assignment
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.schemas.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.conformance.group_log import GroupLog, Round, runs
from tests.conformance.member_kinds import Owned, Read, check_owned

GROUP = "group"
TOPIC = "topic"


class Coordinator:
    """Writes a group's log."""

    def __init__(self) -> None:
        self.log = GroupLog(GROUP, TOPIC)
        self._place = 0

    def generation(self, leader: str, shares: Mapping[str, Sequence[int]]) -> None:
        members = [
            MemberMetadata(
                member_id=f"id of {name}",
                client_id=name,
                client_host="",
                session_timeout=1,
                subscription=b"",
                assignment=encode_assignment(TopicPartition(TOPIC, each) for each in share),
            )
            for name, share in shares.items()
        ]
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader=f"id of {leader}",
            members=members,
        )
        self._write(GroupMetadataKey(group=GROUP), value, 3)

    def commit(self, partition: int, offset: int, leader_epoch: int = -1) -> None:
        value = OffsetCommitValue(
            offset=offset, leader_epoch=leader_epoch, metadata="", commit_timestamp=0
        )
        key = OffsetCommitKey(group=GROUP, topic=TOPIC, partition=partition)
        self._write(key, value, 3)

    def member(self, name: str) -> None:
        value = ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id=name,
            client_host="",
            subscribed_topic_names=[TOPIC],
            subscribed_topic_regex=None,
            server_assignor=None,
        )
        key = ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=f"id of {name}")
        self._write(key, value, 0)

    def reconciled(self, name: str, assigned: list[int], pending: list[int]) -> None:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=1,
            previous_member_epoch=0,
            state=0,
            assigned_partitions=[TopicPartitions(topic_id=bytes(16), partitions=assigned)],
            partitions_pending_revocation=[TopicPartitions(topic_id=bytes(16), partitions=pending)],
        )
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=f"id of {name}")
        self._write(key, value, 0)

    def _write(self, key: LogKey, value: LogValue, version: int) -> None:
        told = GROUP_LOG.encode_key(key), GROUP_LOG.encode_value(value, version)
        self.log.take(self._place, *told)
        self._place += 1


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_partition_begins_at_what_is_committed_when_it_comes(coordinator: Coordinator) -> None:
    coordinator.generation("a", {"a": [0, 1]})
    coordinator.commit(0, 5)
    coordinator.commit(0, 8)
    coordinator.generation("a", {"a": [1], "b": [0]})
    coordinator.commit(0, 12)
    coordinator.generation("b", {"b": [0, 1]})
    log = coordinator.log
    assert log.starts("a", 0) == {0, 5, 8}
    assert log.starts("b", 0) == {8, 12}
    assert log.starts("b", 1) == {0}
    assert log.starts("c", 0) == set()
    assert log.committed() == {0: 12}
    assert log.rounds[1] == Round("range", "a", {"a": frozenset({1}), "b": frozenset({0})})


@pytest.mark.parametrize("first", [7, 9], ids=["again", "left-out"])
def test_who_begins_elsewhere_is_found(coordinator: Coordinator, first: int) -> None:
    coordinator.generation("a", {"a": [0]})
    coordinator.commit(0, 8)
    coordinator.generation("b", {"b": [0]})
    coordinator.log.check_starts("b", [(0, 8), (0, 9), (0, 8)])
    with pytest.raises(AssertionError, match=rf"b began at \[{first}\] in partition 0"):
        coordinator.log.check_starts("b", [(0, first), (0, first + 1)])


def test_who_is_set_back_by_the_epoch_of_a_commit_begins_where_that_ended(
    coordinator: Coordinator,
) -> None:
    log = coordinator.log
    log.epoch_ends = {(0, 0): 6, (0, 1): 12, (1, 0): 4}
    coordinator.generation("a", {"a": [0, 1]})
    coordinator.commit(0, 8, leader_epoch=0)
    coordinator.commit(0, 9, leader_epoch=1)
    coordinator.commit(1, 4, leader_epoch=0)
    assert log.starts("a", 0) == {0, 6, 8, 9}
    assert log.set_back() == {0}
    log.check_starts("a", [(0, 6)])
    with pytest.raises(AssertionError, match=r"a began at \[7\] in partition 0"):
        log.check_starts("a", [(0, 7)])
    coordinator.commit(0, 7, leader_epoch=1)
    coordinator.commit(1, 3, leader_epoch=0)
    assert log.committed() == {0: 9, 1: 3}


def test_who_commits_with_an_old_epoch_is_named_unless_it_found_that(
    coordinator: Coordinator,
) -> None:
    log = coordinator.log
    log.epoch_ends = {(0, 0): 6, (0, 1): 20}
    coordinator.generation("a", {"a": [0]})
    coordinator.commit(0, 6, leader_epoch=0)
    log.check_epochs([])
    coordinator.commit(0, 8, leader_epoch=0)
    log.check_epochs(["a"])
    with pytest.raises(
        AssertionError, match=r"\['a'\] committed offset 8 of partition 0 with the l"
    ):
        log.check_epochs(["b"])
    coordinator.generation("b", {"b": [0]})
    coordinator.commit(0, 8, leader_epoch=0)
    log.check_epochs(["a"])
    with pytest.raises(AssertionError, match=r"\['a'\] committed offset 8"):
        log.check_epochs(["b"])


def test_who_leaves_one_out_in_the_midst_is_found(coordinator: Coordinator) -> None:
    coordinator.generation("a", {"a": [0]})
    with pytest.raises(AssertionError, match=r"a began at \[0, 3\]"):
        coordinator.log.check_starts("a", [(0, 0), (0, 1), (0, 3)])


def test_who_committed_what_nobody_has_read_is_named(coordinator: Coordinator) -> None:
    coordinator.generation("a", {"a": [0]})
    coordinator.commit(0, 8)
    coordinator.generation("b", {"b": [0]})
    coordinator.commit(0, 10)
    assert coordinator.log.who_passed(0, 7) == ["a"]
    assert coordinator.log.who_passed(0, 8) == ["b"]
    assert coordinator.log.who_passed(0, 10) == []


def test_a_record_is_excused_only_if_it_was_dropped_by_one_who_may_and_only_once(
    coordinator: Coordinator,
) -> None:
    coordinator.generation("a", {"a": [0, 1]})
    coordinator.commit(0, 8)
    coordinator.commit(1, 4)
    coordinator.generation("b", {"b": [0, 1]})
    coordinator.commit(0, 10)
    check = coordinator.log.check_dropped
    check([], {})
    check([(0, 7)], {"a": [(0, 7), (1, 3)]})
    check([(0, 7), (0, 9)], {"a": [(0, 7)], "b": [(0, 9)]})
    with pytest.raises(AssertionError, match="a passed over 0:7, and may have dropped one of"):
        check([(0, 7)], {"b": [(0, 7)]})
    with pytest.raises(AssertionError, match="a passed over 0:6"):
        check([(0, 6)], {"a": [(0, 7)]})
    with pytest.raises(AssertionError, match="a passed over 1:3"):
        check([(0, 7), (1, 3)], {"a": [(0, 7), (1, 3)]})
    with pytest.raises(AssertionError, match=r"0:10 was passed over by \[\]"):
        check([(0, 10)], {"b": [(0, 10)]})


def test_who_reads_before_it_is_given_the_partition_is_found(coordinator: Coordinator) -> None:
    coordinator.generation("a", {"a": [0], "b": [1]})
    with pytest.raises(AssertionError, match="b began"):
        coordinator.log.check_starts("b", [(0, 0)])


def test_leaders_that_give_a_partition_twice_are_found(coordinator: Coordinator) -> None:
    with pytest.raises(AssertionError, match="held twice"):
        coordinator.generation("a", {"a": [0, 1], "b": [1]})


def test_what_is_to_be_given_up_is_still_held(coordinator: Coordinator) -> None:
    for name in ("a", "b"):
        coordinator.member(name)
    coordinator.reconciled("a", [0, 1], [])
    coordinator.reconciled("b", [], [])
    coordinator.reconciled("a", [0], [1])
    coordinator.commit(1, 4)
    with pytest.raises(AssertionError, match="held twice"):
        coordinator.reconciled("b", [1], [])
    coordinator.reconciled("a", [0], [])
    coordinator.reconciled("b", [1], [])
    assert coordinator.log.starts("a", 1) == {0, 4}
    assert coordinator.log.starts("b", 1) == {4}


def test_other_groups_do_not_count(coordinator: Coordinator) -> None:
    coordinator.log.group = "another"
    coordinator.generation("a", {"a": [0]})
    coordinator.commit(0, 5)
    assert (coordinator.log.rounds, coordinator.log.committed()) == ([], {})


def test_offsets_are_cut_into_runs() -> None:
    assert runs([]) == []
    assert runs([3, 4, 5, 4, 5, 9]) == [[3, 4, 5], [4, 5], [9]]


def test_who_reads_what_it_does_not_own_is_found() -> None:
    came = Owned(frozenset({0}))
    check_owned("a", [came, Read(0, 1), Owned(frozenset())])
    with pytest.raises(AssertionError, match=r"a read .*partition=0.* and owned \[\]"):
        check_owned("a", [came, Owned(frozenset()), Read(0, 1)])
