"""The table of groups: who founds a group, what replaces what, what the log alone says of it."""

from __future__ import annotations

import pytest

from moldau.broker.coordinator.batches import encode_batch
from moldau.broker.coordinator.group.commits import commit, delete_group, delete_offsets
from moldau.broker.coordinator.group.contract import GroupKind
from moldau.broker.coordinator.group.groups import RETRY_MS, TOMBSTONES_AT_ONCE, Groups
from moldau.broker.coordinator.group.kinds import Kinds
from moldau.broker.coordinator.group.offsets import Offsets, tombstone
from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome
from moldau.broker.coordinator.shard import NO_PRODUCER
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.protocol.messages.delete_groups import DeleteGroupsResponse
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from moldau.protocol.messages.offset_commit import OffsetCommitResponse
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from moldau.records import Codec
from tests.broker.coordinator.consumer.world import Topics
from tests.broker.coordinator.table import OffsetWorld, Table, commit_request


def names(groups: Groups) -> dict[str, tuple[str, str]]:
    return {each.group_id: (each.kind.value, each.state_name) for each in groups}


def code(heard: object) -> int:
    """The one error of an answer."""
    if isinstance(heard, KafkaError):
        return heard.code
    if isinstance(heard, OffsetCommitResponse):
        return heard.topics[0].partitions[0].error_code
    return int(heard.error_code)  # type: ignore[attr-defined]


def test_the_first_join_founds_a_group_with_a_record() -> None:
    at = Table()
    first = at.join("first", "g", version=4)

    assert isinstance(first, JoinGroupResponse)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert [type(record.key) for _, record in at.log] == [GroupMetadataKey]
    assert names(at.groups) == names(at.reloaded()) == {"g": ("classic", "Empty")}


def test_who_comes_with_a_member_id_founds_nothing() -> None:
    at = Table()
    assert code(at.join("j", "g", "m")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(at.beat("b", "g", "m", 3)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code(at.beat("l", "g", "m", -1)) == ErrorCode.GROUP_ID_NOT_FOUND
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    heard = at.ask("h", lambda: at.groups.on_heartbeat(request, "h", at.now_ms))
    assert code(heard) == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(at.groups) == 0
    assert at.log == []


def test_who_would_be_called_by_more_than_an_answer_holds_founds_nothing() -> None:
    at = Table()
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id="i" * 32_750,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    heard = at.ask("j", lambda: at.groups.on_join_group(request, at.context(9), "j", at.now_ms))
    assert code(heard) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert at.log == []
    at.pass_ms(60_000)
    assert len(at.groups) == 0


def test_a_group_whose_first_record_is_refused_was_never_there() -> None:
    at = Table()
    outcomes: list[Outcome] = []
    kept = at.do
    at.do = lambda outcome, producer_id=-1: outcomes.append(outcome)  # type: ignore[method-assign]
    at.join("j", "g", version=4)
    at.beat("b", "h", "m", 0, "t")
    at.do = kept  # type: ignore[method-assign]
    for outcome in outcomes:
        at.refuse(outcome, KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS))

    assert len(at.groups) == 0
    assert at.groups.next_deadline_ms() is not None  # the search for old offsets alone


def test_a_commit_without_a_member_makes_a_simple_group() -> None:
    at = Table()
    assert code(at.commit("c", "g")) == ErrorCode.NONE

    assert names(at.groups) == names(at.reloaded()) == {"g": ("classic", "Empty")}
    assert [type(record.key) for _, record in at.log] == [OffsetCommitKey]
    found = at.groups.offsets.get("g", "t", 0)
    assert found is not None
    assert found.offset == 5


@pytest.mark.parametrize(
    ("version", "expected"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_commit_of_a_member_needs_its_group(version: int, expected: ErrorCode) -> None:
    at = Table()
    assert code(at.commit("c", "g", member="m", epoch=3, version=version)) == expected
    assert at.log == []


def test_a_member_that_has_moved_on_commits_under_its_old_epoch_only_what_it_had() -> None:
    """What is not its own may have an owner who is further on."""
    at = Table()
    first = at.beat("join", "g", "m", 0, "t").member_epoch
    at.pass_ms(5_000)  # assignments are apart
    at.beat("other", "g", "n", 0, "t")
    second = at.beat("on", "g", "m", first).member_epoch
    assert second > first

    assert code(at.commit("late", "g", member="m", epoch=first)) == ErrorCode.STALE_MEMBER_EPOCH
    assert at.groups.offsets.get("g", "t", 0) is None

    assert code(at.commit("now", "g", member="m", epoch=second)) == ErrorCode.NONE
    assert at.groups.offsets.get("g", "t", 0) is not None


def test_a_text_that_is_too_long_is_refused_and_the_rest_is_not() -> None:
    at = Table(offset_metadata_max_bytes=4)
    assert code(at.commit("c", "g", metadata="12345")) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert code(at.commit("d", "g", metadata="1234")) == ErrorCode.NONE
    assert code(at.commit("e", "g", metadata=None)) == ErrorCode.NONE
    emoji = "\U0001f600"
    assert code(at.commit("f", "g", metadata=emoji * 3)) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert [record.version for _, record in at.log] == [4, 4]
    (first, second) = (record.value for _, record in at.log)
    assert isinstance(first, OffsetCommitValue)
    assert isinstance(second, OffsetCommitValue)
    assert (first.metadata, second.metadata) == ("1234", "")


def test_a_refused_commit_is_told_as_kafka_does() -> None:
    at = Table()
    for number, (error, expected) in enumerate(
        (
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        )
    ):
        outcomes: list[Outcome] = []
        at.do = lambda outcome, producer_id=-1: outcomes.append(outcome)  # type: ignore[method-assign]  # noqa: B023
        at.commit(f"c{number}", "g")
        at.refuse(outcomes[0], KafkaError(error))
        assert code(at.heard[f"c{number}"]) == expected
    assert len(at.groups) == 0


def test_a_consumer_that_joins_takes_the_place_of_a_group_with_offsets_only() -> None:
    at = Table()
    at.commit("c", "g")
    answer = at.beat("b", "g", "m", 0, "t")

    assert answer.error_code == ErrorCode.NONE
    assert names(at.groups)["g"][0] == "consumer"
    assert names(at.reloaded())["g"][0] == "consumer"
    assert at.groups.offsets.has_any("g")


def test_a_classic_member_takes_the_place_of_an_empty_consumer_group() -> None:
    at = Table(group_initial_rebalance_delay_ms=0)
    assert at.beat("b", "g", "m", 0, "t").error_code == ErrorCode.NONE
    at.commit("c", "g", member="m", epoch=at.heard["b"].member_epoch)
    at.beat("l", "g", "m", -1)
    assert names(at.groups) == {"g": ("consumer", "Empty")}

    at.join("j", "g")
    at.pass_ms(1)

    assert at.heard["j"].error_code == ErrorCode.NONE
    assert names(at.groups)["g"][0] == names(at.reloaded())["g"][0] == "classic"
    assert at.groups.offsets.has_any("g")


def test_a_stranger_does_not_take_the_place_of_an_empty_consumer_group() -> None:
    at = Table()
    at.beat("a", "g", "one", 0)
    at.beat("b", "g", "one", -1)
    known = at.groups.get("g")
    count = len(at.log)

    assert code(at.join("c", "g", "stranger")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert at.groups.get("g") is known
    assert len(at.log) == count


def test_requests_about_one_kind_do_not_find_the_other() -> None:
    at = Table()
    at.commit("c", "classic")
    at.beat("b", "consumer", "m", 0, "t")

    assert at.groups.classic("classic").kind is GroupKind.CLASSIC
    assert at.groups.consumer("consumer").kind is GroupKind.CONSUMER
    for ask, group, words in (
        (at.groups.consumer, "classic", "Group classic is not a consumer group."),
        (at.groups.classic, "consumer", "Group consumer is not a classic group."),
        (at.groups.existing, "none", "Group none not found."),
    ):
        with pytest.raises(KafkaError) as refused:
            ask(group)
        assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND
        assert refused.value.reason == words


def test_a_simple_group_is_deleted_with_its_offsets() -> None:
    at = Table()
    at.commit("c", "g")
    heard = at.ask("d", lambda: delete_group(at.groups, "g", "d"))
    assert isinstance(heard, DeleteGroupsResponse)
    assert len(at.groups) == len(at.reloaded()) == 0

    again = at.ask("e", lambda: delete_group(at.groups, "g", "e"))
    assert code(again) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_is_not_deleted() -> None:
    at = Table()
    at.beat("b", "g", "m", 0, "t")
    heard = at.ask("d", lambda: delete_group(at.groups, "g", "d"))
    assert code(heard) == ErrorCode.NON_EMPTY_GROUP

    at.beat("l", "g", "m", -1)
    at.ask("e", lambda: delete_group(at.groups, "g", "e"))
    assert len(at.groups) == len(at.reloaded()) == 0


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    at = Table()
    at.commit("c", "g", "u")
    at.commit("d", "g", "t")
    at.beat("b", "g", "m", 0, "t")
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in ("t", "u")
        ],
    )
    heard = at.ask("delete", lambda: delete_offsets(at.groups, request, "delete"))

    assert isinstance(heard, OffsetDeleteResponse)
    codes = [each.partitions[0].error_code for each in heard.topics]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert list(at.groups.offsets.of_group("g")) == ["t"]


def test_offsets_of_a_deleted_topic_go() -> None:
    at = Table()
    for group in ("g", "h"):
        at.commit(f"c {group}", group, "t")
    at.commit("kept", "h", "u")
    for outcome in at.groups.on_topics_changed({"t"}, {"t"}, at.now_ms):
        at.do(outcome)

    assert list(at.groups.offsets.of_group("g")) == []
    assert list(at.groups.offsets.of_group("h")) == ["u"]


def test_the_shard_knows_who_waits_when_it_goes() -> None:
    at = Table()
    at.join("first", "g")
    at.join("second", "g")
    assert at.heard == {}

    assert set(at.groups.on_unloaded()) == {"first", "second"}


def test_records_of_other_kinds_are_left_alone() -> None:
    from moldau.protocol.schemas.share_group_log import ShareGroupMetadataKey

    at = Table()
    at.groups.replay(0, -1, ShareGroupMetadataKey(group_id="s"), None, 0)
    assert len(at.groups) == 0


def test_a_deadline_is_met_though_it_moved() -> None:
    """A member that sends heartbeats lives; the first that misses them goes when it is due."""
    at = Table(group_initial_rebalance_delay_ms=0)
    at.join("j", "g")
    at.pass_ms(1)
    member, generation = at.heard["j"].member_id, at.heard["j"].generation_id

    def live() -> int:
        request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
        ticket = f"h{at.now_ms}"
        heard = at.ask(ticket, lambda: at.groups.on_heartbeat(request, ticket, at.now_ms))
        return code(heard)

    for _ in range(5):
        at.pass_ms(8_000)
        assert live() == ErrorCode.NONE
    at.pass_ms(10_001)
    assert live() == ErrorCode.UNKNOWN_MEMBER_ID


def test_signs_of_life_leave_nothing_to_settle() -> None:
    """They are nearly all that a coordinator hears."""
    at = Table(group_initial_rebalance_delay_ms=0)
    at.join("j", "g")
    at.pass_ms(1)
    joined = at.heard["j"]
    at.sync("s", "g", joined.member_id, joined.generation_id)
    assert at.groups.is_settled
    due_ms = at.groups.next_deadline_ms()

    at.pass_ms(5_000)
    beat = HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
    )
    assert len(at.groups.on_heartbeat(beat, "h", at.now_ms).answers) == 1
    assert at.groups.is_settled
    request = commit_request("g", member=joined.member_id, epoch=joined.generation_id)
    (record,) = commit(at.groups, request, 8, "c", at.now_ms).records
    at.groups.replay(0, NO_PRODUCER, record.key, record.value, at.now_ms)
    assert at.groups.is_settled
    assert at.groups.next_deadline_ms() == due_ms


@pytest.mark.parametrize("sign", ["commit", "heartbeat"])
def test_a_sign_of_life_that_brings_a_deadline_nearer_is_seen_to(sign: str) -> None:
    """1. A member waits in a rebalance for longer than its session, which ends in vain. 2. The next
    deadline is that of a member with a longer session. 3. The first gives a sign of life, and has a
    session again."""
    at = Table(group_initial_rebalance_delay_ms=0)
    at.join("j", "g")
    at.pass_ms(1)
    joined = at.heard["j"]
    member, generation = joined.member_id, joined.generation_id
    at.join("another", "g", session_ms=40_000)
    at.join("again", "g", member)
    generation += 1
    at.sync("s", "g", member, generation)
    at.join("a third", "g")
    at.join("waits", "g", member)
    at.pass_ms(15_000)
    far_ms = at.groups.next_deadline_ms()
    assert far_ms is not None
    assert far_ms > 30_000

    if sign == "commit":
        request = commit_request("g", member=member, epoch=generation)
        at.do(commit(at.groups, request, 8, "c", at.now_ms))
        assert code(at.heard["c"]) == ErrorCode.NONE
    else:
        beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
        at.do(at.groups.on_heartbeat(beat, "c", at.now_ms))
        assert code(at.heard["c"]) == ErrorCode.REBALANCE_IN_PROGRESS
    assert at.groups.next_deadline_ms() == at.now_ms + 10_000


def test_what_is_made_or_to_be_forgotten_is_to_be_settled() -> None:
    at = Table()
    (record,) = commit(at.groups, commit_request("g"), 8, "c", 0).records
    at.groups.replay(0, NO_PRODUCER, record.key, record.value, 0)
    heard = [at.groups.is_settled]
    at.do(NOTHING)
    heard.append(at.groups.is_settled)

    at.groups.forget_if_bare("g")
    heard.append(at.groups.is_settled)
    at.do(Outcome((tombstone("g", "t", 0),)))
    heard.append(at.groups.is_settled)
    assert heard == [False, True, False, True]
    assert len(at.groups) == 0


class Reborn:
    """A shard that is loaded where these are the topics; its log holds these offsets."""

    def __init__(self, topics: Topics, *committed: tuple[str, int, Uuid]) -> None:
        offsets = Offsets()
        world = OffsetWorld({}, offsets)
        world.cluster = topics
        self.groups = Groups(world, Kinds(), offsets)
        for topic, partition, topic_id in committed:
            self.commit(topic, partition, topic_id)

    def commit(self, topic: str, partition: int, topic_id: Uuid, group: str = "g") -> None:
        key = OffsetCommitKey(group=group, topic=topic, partition=partition)
        value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=0, topic_id=topic_id)
        self._replay(LogRecord(key, value, 4))

    def _replay(self, record: LogRecord) -> None:
        self.groups.replay(0, NO_PRODUCER, record.key, record.value, 0)

    def settle(self, now_ms: int = 0) -> list[int]:
        """How many records each step wrote."""
        counts = []
        while (outcome := self.groups.settle(now_ms)) is not None:
            for record in outcome.records:
                self._replay(record)
            if outcome.records:
                counts.append(len(outcome.records))
        return counts

    def settle_within(self, size_bytes_max: int, now_ms: int = 0) -> list[int]:
        """How many records each step wrote to a log whose batches are no larger; 0 if refused."""
        counts = []
        while (outcome := self.groups.settle(now_ms)) is not None:
            if not outcome.records:
                continue
            counts.append(len(outcome.records))
            try:
                encode_batch(GROUP_LOG, outcome.records, 0, Codec.NONE, size_bytes_max)
            except KafkaError as error:
                self.refuse(outcome, now_ms, error)
                counts[-1] = 0
            else:
                for record in outcome.records:
                    self._replay(record)
        return counts

    def refuse(self, outcome: Outcome | None, now_ms: int, error: KafkaError | None = None) -> None:
        """The log does not take what deletes offsets; nobody waits for that."""
        assert outcome is not None
        assert outcome.records
        assert outcome.on_failure is not None
        error = error or KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert outcome.on_failure(error, now_ms) == Outcome()

    def left(self) -> list[tuple[str, int]]:
        known = self.groups.offsets.of_group("g")
        return [(topic, partition) for topic in known for partition in known[topic]]


def test_offsets_of_a_topic_that_went_while_nobody_led_the_shard_go_when_it_is_loaded() -> None:
    """1. the shard is closed, 2. a topic is deleted, and made again, 3. the shard is loaded: who
    reads the new topic from the old one's offset leaves records out."""
    topics = Topics({GROUP_LOG.topic: 1, "again": 1, "kept": 2})
    ids = {name: facts.topic_id for name in topics.names() if (facts := topics.by_name(name))}
    before = [("again", 0, b"o" * 16), ("gone", 0, b"g" * 16)]
    good = [("kept", 0, ids["kept"]), ("kept", 1, ZERO_UUID), ("nameless", 0, ZERO_UUID)]
    at = Reborn(topics, *before, *good)
    assert at.settle() == [2]
    assert at.left() == [("kept", 0), ("kept", 1), ("nameless", 0)]
    assert at.settle() == []

    many = [("gone", index, b"g" * 16) for index in range(TOMBSTONES_AT_ONCE + 1)]
    at = Reborn(topics, *many)
    assert at.settle() == [TOMBSTONES_AT_ONCE, 1]
    assert at.left() == []


def test_offsets_stay_while_no_metadata_are_known() -> None:
    at = Reborn(Topics(), ("t", 0, b"t" * 16))
    assert at.settle() == []
    assert at.left() == [("t", 0)]


def test_what_the_log_refused_to_delete_goes_a_moment_later() -> None:
    many = [("gone", index, b"g" * 16) for index in range(TOMBSTONES_AT_ONCE + 1)]
    at = Reborn(Topics({GROUP_LOG.topic: 1}), *many)
    at.refuse(at.groups.settle(1_000), 1_000)
    assert at.settle(1_000) == [], "nothing is tried again at once, or it would be for ever"
    assert not at.groups.is_settled
    assert len(at.left()) == len(many)

    due_ms = 1_000 + RETRY_MS
    assert at.groups.next_deadline_ms() == due_ms
    assert at.settle(due_ms - 1) == []
    assert at.groups.on_tick(due_ms) == Outcome()
    assert at.settle(due_ms) == [TOMBSTONES_AT_ONCE, 1]
    assert at.left() == []
    assert at.groups.next_deadline_ms() != due_ms


def test_what_is_too_large_for_one_batch_goes_in_smaller_ones() -> None:
    """1,000 tombstones of a group with a long id, where message.max.bytes is small."""
    at = Reborn(Topics({GROUP_LOG.topic: 1}))
    long = "g" * 500
    for index in range(TOMBSTONES_AT_ONCE):
        at.commit("gone", index, b"g" * 16, long)
    counts = at.settle_within(100_000)

    assert at.groups.offsets.count() == 0
    assert counts == [0, 0, 0, *[125] * 8]

    for index in range(TOMBSTONES_AT_ONCE):
        at.commit("gone", index, b"g" * 16)
    for outcome in at.groups.on_topics_changed({"gone"}, {"gone"}, 0):
        at.refuse(outcome, 0)
    assert at.settle_within(100_000, RETRY_MS) == [TOMBSTONES_AT_ONCE], "as many again as before"


def test_what_fits_no_batch_is_given_up_and_does_not_stand_before_others() -> None:
    at = Reborn(Topics({GROUP_LOG.topic: 1}))
    long = "g" * 2_000
    for index in range(2_500):
        at.commit("gone", index, b"g" * 16, long if index in (7, 2_499) else "g")
    for number in range(10):  # what is tried again is tried again later
        at.settle_within(1_900, number * RETRY_MS)

    assert list(at.groups.offsets.groups()) == [long]
    assert at.groups.offsets.count() == 2
    assert at.settle_within(1_900, 10 * RETRY_MS) == []


def test_who_is_refused_for_a_moment_lets_others_go_first() -> None:
    many = [("gone", index, b"g" * 16) for index in range(TOMBSTONES_AT_ONCE + 1)]
    at = Reborn(Topics({GROUP_LOG.topic: 1}), *many)
    at.refuse(at.groups.settle(0), 0)

    outcome = at.groups.settle(RETRY_MS)
    assert outcome is not None
    first = outcome.records[-1].key
    assert isinstance(first, OffsetCommitKey)
    assert first.partition == 0, "the one whose turn had not come"


def test_the_end_of_a_topics_offsets_is_not_forgotten_when_the_log_refuses_it() -> None:
    """1. a topic is deleted, 2. the log refuses to delete its offsets, 3. the topic is made again,
    4. somebody commits to one partition of it: the offset of the other one has to go."""
    topics = Topics({GROUP_LOG.topic: 1})
    before, after = topics.put("t", 2).topic_id, b"n" * 16
    at = Reborn(topics, ("t", 0, before), ("t", 1, before))
    assert at.settle() == []

    topics.remove("t")
    for outcome in at.groups.on_topics_changed({"t"}, {"t"}, 0):
        at.refuse(outcome, 0)
    assert at.settle() == []
    topics.adopt("t", after, 2)
    at.commit("t", 1, after)

    assert at.settle(RETRY_MS) == [1]
    assert at.left() == [("t", 1)]
