"""The runtime of a shard: appends, replays, parks, gathers, loads, refuses, ticks; on a real log on
a simulated disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

from moldau.broker.coordinator.group.offsets import tombstone
from moldau.broker.coordinator.metrics import CoordinatorMetrics
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket, answered
from moldau.broker.coordinator.running_shard import (
    RunningShard,
    ShardServices,
    ShardSettings,
    ShardState,
)
from moldau.broker.log.producer_state import Origin
from moldau.broker.replication.partition import Leadership
from moldau.broker.replication.topic_config import topic_config
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.metrics import Registry
from moldau.protocol.declare import LogKey, LogValue, Response
from moldau.protocol.messages.heartbeat import HeartbeatResponse
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import OffsetCommitKey, OffsetCommitValue
from moldau.records import Codec, ControlType, Producer, encode_batch, encode_control_batch, walk
from tests.broker.api.serving import Serving, serving

TOPIC = "__consumer_offsets"
FINE = HeartbeatResponse(error_code=0)


def written(number: int, text: str = "") -> LogRecord:
    return LogRecord(
        OffsetCommitKey(group="g", topic="t", partition=number),
        OffsetCommitValue(offset=number, metadata=text, commit_timestamp=0),
    )


class Toy:
    """A shard that remembers what was replayed."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.pending: list[tuple[int, int]] = []
        self.ended: list[tuple[int, bool]] = []
        self.parked: list[Ticket] = []
        self.is_settled = False
        self.settled = 0
        self.due_ms: int | None = None
        self.ticks: list[int] = []
        self.more: list[Outcome] = []
        self.breaks = False

    def replay(
        self, offset: int, producer_id: int, key: LogKey, value: LogValue | None, now_ms: int
    ) -> None:
        if self.breaks:
            raise ValueError("a bug")
        assert isinstance(key, OffsetCommitKey)
        if producer_id >= 0:
            self.pending.append((producer_id, key.partition))
        else:
            self.seen.append(key.partition)

    def replay_end(self, producer_id: int, *, is_commit: bool) -> None:
        self.ended.append((producer_id, is_commit))

    def settle(self, now_ms: int) -> Outcome | None:
        self.settled += 1
        return self.more.pop() if self.more else None

    def next_deadline_ms(self) -> int | None:
        return self.due_ms

    def on_tick(self, now_ms: int) -> Outcome:
        self.ticks.append(now_ms)
        if self.breaks:
            raise ValueError("a bug")
        self.due_ms = None
        return Outcome()

    def on_topics_changed(
        self, changed: Collection[str], deleted: Collection[str], now_ms: int
    ) -> Iterable[Outcome]:
        return ()

    def on_unloaded(self) -> tuple[Ticket, ...]:
        return tuple(self.parked)


class Shop:
    """A shard at work on a partition of node 1, and what its askers heard."""

    def __init__(self, at: Serving, **configs: str) -> None:
        self.at = at
        if at.node.image.topics.by_name(TOPIC) is None:
            at.create(TOPIC, 1, cleanup__policy="compact", **configs)
        self.heard: list[tuple[str, object]] = []
        self.linger_ms = -1
        self.metrics = CoordinatorMetrics(Registry(), "toy")
        self.toy = Toy()
        self.shell = self._begin(self.toy)

    def _begin(self, toy: Toy) -> RunningShard[Toy]:
        at = self.at
        ground = ShardServices(
            runtime=at.runtime,
            purgatory=at.replicas.purgatory,
            log=at.node.log,
            schema=GROUP_LOG,
            terms=lambda: ShardSettings(Codec.NONE, 200, 5_000, self.linger_ms),
            metrics=self.metrics,
        )
        return RunningShard(ground, at.partition(TOPIC), toy)

    async def loaded(self) -> None:
        while self.shell.state is ShardState.LOADING:
            await self.at.pass_ms(1)
        assert self.shell.state is ShardState.ACTIVE, self.at.lines

    def again(self) -> Toy:
        """Another life of the shard; `loaded` waits for it."""
        self.shell.close()
        self.toy = Toy()
        self.shell = self._begin(self.toy)
        return self.toy

    def ticket(self, name: str) -> Callable[[Response | KafkaError], None]:
        return lambda answer: self.heard.append(
            (name, answer.code if isinstance(answer, KafkaError) else "fine")
        )

    def ask(self, name: str, *records: LogRecord, gather: bool = False, **more: Any) -> None:
        ticket = self.ticket(name)
        run = self.shell.gather if gather else self.shell.run
        run(lambda toy, now_ms: Outcome(records, ((ticket, FINE),), **more), ticket)

    def batches(self) -> list[int]:
        """How many records are in each batch of the log."""
        partition = self.at.partition(TOPIC)
        data = partition.log.read(0, 1 << 20).read()
        return [batch.header.record_count for batch in walk(data)]


@serving()
async def test_records_are_appended_replayed_and_answered(at: Serving) -> None:
    shop = Shop(at)
    shop.ask("too soon")
    shop.ask("too soon to gather", gather=True)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert shop.heard == [("too soon", loading), ("too soon to gather", loading)]
    shop.heard.clear()
    await shop.loaded()

    shop.ask("one", written(1), written(2))
    shop.ask("none")
    shop.ask("two", tombstone("g", "t", 1))

    assert shop.heard == [("one", "fine"), ("none", "fine"), ("two", "fine")]
    assert shop.toy.seen == [1, 2, 1]
    assert shop.batches() == [2, 1]


@serving()
async def test_answers_wait_until_all_before_them_is_committed(at: Serving) -> None:
    """Also those of decisions without records, which may tell of what is not safe yet."""
    shop = Shop(at, flush__messages="1")
    await shop.loaded()
    shop.ask("one", written(1))
    shop.ask("reads what one wrote")
    assert shop.toy.seen == [1]
    assert shop.heard == []

    await at.pass_ms(1000)
    assert shop.heard == [("one", "fine"), ("reads what one wrote", "fine")]


@serving()
async def test_what_another_leadership_commits_answers_no_request_of_this_one(at: Serving) -> None:
    """1. a record waits to be committed, 2. the leadership is lost and won again within a turn of
    the event loop, in which the record may have been truncated, 3. all of the log is committed."""
    shop = Shop(at, flush__messages="1")
    await shop.loaded()
    shop.ask("one", written(1))
    assert shop.heard == []

    made, config = at.partition(TOPIC), topic_config(at.node.topic_settings(TOPIC))
    epoch = made.leader_epoch
    lost = Leadership(TOPIC, 0, made.topic_id, epoch + 1, (2,), (1, 2), leader=2)
    at.replicas.follow(lost, config)
    won = Leadership(TOPIC, 0, made.topic_id, epoch + 2, (1,), (1,))
    at.replicas.lead(won, config)
    assert at.partition(TOPIC) is made
    assert made.is_leader

    await at.pass_ms(1000)
    assert made.high_watermark == made.log.log_end_offset
    assert shop.heard == [("one", ErrorCode.NOT_COORDINATOR)]


@serving()
async def test_a_refused_append_changes_nothing(at: Serving) -> None:
    shop = Shop(at, min__insync__replicas="2")
    await shop.loaded()
    made = at.partition(TOPIC)
    alone = Leadership(TOPIC, 0, made.topic_id, made.leader_epoch, (1,), (1, 2))
    at.replicas.lead(alone, topic_config(at.node.topic_settings(TOPIC)))
    told: list[ErrorCode] = []

    def on_failure(error: KafkaError, now_ms: int) -> Outcome:
        told.append(error.code)
        return answered(shop.ticket("instead"), FINE)

    shop.ask("plain", written(1))
    shop.ask("with care", written(2), on_failure=on_failure)
    shop.ask("gathered", written(3), gather=True)
    shop.ask("gathered too", written(4), gather=True)
    await at.pass_ms(1)

    assert shop.toy.seen == []
    assert told == [ErrorCode.NOT_ENOUGH_REPLICAS]
    gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shop.heard == [
        ("plain", gone),
        ("instead", "fine"),
        ("gathered", gone),
        ("gathered too", gone),
    ]
    assert shop.batches() == []


@serving()
async def test_a_disk_that_fails_within_the_append_leaves_nobody_to_decide_anew(
    at: Serving,
) -> None:
    """The node closes the shards of a directory that fails while they are still appending. All who
    waited there have heard so; what the core had begun is over."""
    shop = Shop(at)
    await shop.loaded()
    at.replicas.on_directory_failure = lambda directory: shop.shell.close()
    at.disk.fail_next("write", path_part=TOPIC)
    shop.toy.parked.append(shop.ticket("parked in the core"))
    told: list[ErrorCode] = []

    def on_failure(error: KafkaError, now_ms: int) -> Outcome:
        told.append(error.code)
        return answered(shop.ticket("instead"), FINE)

    shop.ask("with care", written(1), on_failure=on_failure)

    assert shop.shell.state is ShardState.CLOSED
    assert told == []
    gone = ErrorCode.NOT_COORDINATOR
    assert shop.heard == [("parked in the core", gone), ("with care", gone)]


@serving()
async def test_a_decision_that_refuses_is_answered_at_once(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()

    def refuse(toy: Toy, now_ms: int) -> Outcome:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    shop.shell.run(refuse, shop.ticket("run"))
    shop.shell.gather(refuse, shop.ticket("gather"))
    assert shop.heard == [
        ("run", ErrorCode.UNKNOWN_MEMBER_ID),
        ("gather", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


@serving()
async def test_what_is_gathered_in_a_turn_shares_a_batch(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    for number in range(4):
        shop.ask(f"commit {number}", written(number), gather=True)
    assert shop.toy.seen == []
    assert shop.heard == []
    await at.pass_ms(1)
    assert shop.toy.seen == [0, 1, 2, 3]
    assert [name for name, _ in shop.heard] == [f"commit {number}" for number in range(4)]
    assert shop.batches() == [4]

    shop.ask("commit", written(5), gather=True)
    shop.ask("another thing", written(6))
    assert shop.toy.seen == [0, 1, 2, 3, 5, 6]
    assert shop.batches() == [4, 1, 1]


@serving()
async def test_gathering_takes_as_long_as_it_is_set_to(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    shop.linger_ms = 20
    shop.ask("first", written(1), gather=True)
    await at.pass_ms(10)
    shop.ask("second", written(2), gather=True)
    assert shop.heard == []
    await at.pass_ms(11)
    assert shop.batches() == [2]


@serving()
async def test_no_other_write_waits_for_what_is_gathered(at: Serving) -> None:
    """Nor is it held back itself: it ends the gathering."""
    shop = Shop(at)
    await shop.loaded()
    shop.linger_ms = 20
    shop.ask("join", written(1))
    assert shop.heard == [("join", "fine")]
    shop.ask("commit", written(2), gather=True)
    assert shop.batches() == [1]
    shop.ask("heartbeat")
    assert shop.heard[1:] == [("commit", "fine"), ("heartbeat", "fine")]
    assert shop.batches() == [1, 1]


@serving()
async def test_what_is_too_large_together_is_written_one_by_one(at: Serving) -> None:
    shop = Shop(at, max__message__bytes="1000")
    await shop.loaded()
    shop.ask("half", written(1, "x" * 600), gather=True)
    shop.ask("too much", written(2, "x" * 2000), gather=True)
    shop.ask("other half", written(3, "x" * 600), gather=True)
    await at.pass_ms(1)

    assert shop.toy.seen == [1, 3]
    too_much = ("too much", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert shop.heard == [("half", "fine"), too_much, ("other half", "fine")]


@serving()
async def test_who_asks_for_what_no_record_can_hold_is_answered_and_so_are_the_others(
    at: Serving,
) -> None:
    shop = Shop(at)
    await shop.loaded()
    refused = ("a bug", ErrorCode.UNKNOWN_SERVER_ERROR)
    shop.ask("a bug", written(2**40), gather=True)
    await at.pass_ms(1)
    assert shop.heard == [refused]

    shop.ask("one", written(1), gather=True)
    shop.ask("a bug", written(2**40), gather=True)
    shop.ask("two", written(2), gather=True)
    await at.pass_ms(1)
    assert shop.heard == [refused, ("one", "fine"), refused, ("two", "fine")]
    assert shop.toy.seen == [1, 2]
    assert any("does not fit its schema" in line for line in at.lines)


@serving()
async def test_a_deadline_that_fails_is_tried_again_after_a_pause(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    toy = shop.toy
    toy.due_ms, toy.breaks = at.now_ms, True
    with pytest.raises(ValueError, match="a bug"):
        shop.shell._on_timer()
    toy.breaks = False
    await at.pass_ms(500)
    assert len(toy.ticks) == 1
    await at.pass_ms(600)
    assert len(toy.ticks) == 2
    assert toy.due_ms is None


@serving()
async def test_who_waits_hears_that_the_shard_is_gone(at: Serving) -> None:
    shop = Shop(at, flush__messages="1")
    await shop.loaded()
    shop.toy.parked.append(shop.ticket("parked in the core"))
    shop.ask("being committed", written(1))
    shop.ask("gathered", written(2), gather=True)
    at.partition(TOPIC).stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    shop.shell.close()
    await at.pass_ms(10)

    names = sorted(name for name, code in shop.heard if code == ErrorCode.NOT_COORDINATOR)
    assert names == ["being committed", "gathered", "parked in the core"]
    shop.ask("too late")
    assert shop.heard[-1] == ("too late", ErrorCode.NOT_COORDINATOR)


@serving()
async def test_the_log_alone_makes_the_shard_anew(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    for number in range(50):
        shop.ask(f"{number}", written(number), written(number + 1000))
    seen = shop.toy.seen
    other = shop.again()
    await shop.loaded()

    assert other.seen == seen
    assert any("loaded a coordinator's shard" in line for line in at.lines)


@serving()
async def test_what_others_wrote_is_read_or_left_out(at: Serving) -> None:
    """Transactions with their markers; kinds of records that nobody here knows."""
    shop = Shop(at)
    await shop.loaded()
    partition = at.partition(TOPIC)
    record = written(7)
    assert record.value is not None
    key = GROUP_LOG.encode_key(record.key)
    value = GROUP_LOG.encode_value(record.value, 4)
    producer = Producer(5, 0, 0, True)
    unknown = encode_batch([(0, b"\x00\x63odd", b"", ()), (0, key, value, ())])
    partition.append(unknown, -1, at.wall_ms)
    partition.append(encode_batch([(0, key, value, ())], producer=producer), -1, at.wall_ms)
    marker = encode_control_batch(
        [(ControlType.COMMIT, bytes(6))], 0, producer=Producer(5, 0, -1, True)
    )
    partition.log.append_as_leader(marker, 0, at.wall_ms, origin=Origin.COORDINATOR)
    toy = shop.again()
    await shop.loaded()

    assert toy.seen == [7]
    assert toy.pending == [(5, 7)]
    assert toy.ended == [(5, True)]
    assert any("kinds that are not known" in line for line in at.lines)
    assert partition.log_end_offset == 4


@serving()
async def test_a_shard_whose_log_cannot_be_read_stays_closed(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    bad = encode_batch([(0, b"\x00\x01\x00", b"", ())])
    at.partition(TOPIC).append(bad, -1, at.wall_ms)
    shop.again()
    while shop.shell.state is ShardState.LOADING:
        await at.pass_ms(1)

    assert shop.shell.state is ShardState.CLOSED
    assert any("cannot be loaded" in line for line in at.lines)


@serving()
async def test_a_shard_that_cannot_follow_its_own_log_stays_closed(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    shop.toy.breaks = True
    with pytest.raises(ValueError, match="a bug"):
        shop.ask("one", written(1))
    assert shop.shell.state is ShardState.CLOSED
    assert any("replaying what was appended failed" in line for line in at.lines)


@serving()
async def test_what_settling_asks_for_is_done(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    shop.toy.more.append(Outcome((written(9),), ((shop.ticket("more"), FINE),)))
    shop.ask("one", written(1))

    assert shop.toy.seen == [1, 9]
    assert [name for name, _ in shop.heard] == ["one", "more"]


@serving()
async def test_ticks_come_when_they_are_due(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    start = at.now_ms
    shop.toy.due_ms = start + 500
    shop.ask("sets the timer")
    shop.toy.due_ms = start + 200
    shop.ask("sets it earlier")
    await at.pass_ms(199)
    assert shop.toy.ticks == []
    await at.pass_ms(2)
    assert shop.toy.ticks == [start + 200]

    shop.toy.due_ms = start + 300
    shop.ask("once more")
    shop.shell.close()
    await at.pass_ms(1000)
    assert len(shop.toy.ticks) == 1


@serving()
async def test_a_shard_that_has_nothing_to_settle_is_not_asked_to(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    shop.ask("one")
    assert shop.toy.settled == 2  # once when it was loaded

    shop.toy.is_settled = True
    shop.ask("two")
    shop.ask("three", written(3))
    shop.ask("four", written(4), gather=True)
    shop.ask("five", written(5), gather=True)
    await at.pass_ms(1)
    assert shop.toy.settled == 2
    assert [name for name, _ in shop.heard] == ["one", "two", "three", "four", "five"]


@serving()
async def test_changes_are_made_one_after_the_other(at: Serving) -> None:
    shop = Shop(at)
    shop.shell.each(lambda toy, now_ms: [Outcome((written(1),))])
    assert shop.toy.seen == []  # it is loading: nobody is told
    await shop.loaded()
    shop.shell.each(lambda toy, now_ms: [Outcome((written(1),)), Outcome((written(2),))])
    assert shop.toy.seen == [1, 2]
    assert shop.batches() == [1, 1]


def with_follower(at: Serving) -> None:
    """Node 2 is in the ISR: nothing is committed before it fetches."""
    made = at.partition(TOPIC)
    both = Leadership(TOPIC, 0, made.topic_id, made.leader_epoch, (1, 2), (1, 2))
    at.replicas.lead(both, topic_config(at.node.topic_settings(TOPIC)))


def follower_fetches(at: Serving) -> None:
    made = at.partition(TOPIC)
    made.on_fetch(2, made.log_end_offset, 0, at.now_ms, -1)


@serving()
async def test_each_answer_waits_as_long_as_it_may_and_no_longer(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    with_follower(at)
    shop.ask("first", written(1))
    await at.pass_ms(3_000)
    shop.ask("second", written(2))
    shop.ask("third")
    await at.pass_ms(1_999)
    assert shop.heard == []
    await at.pass_ms(3)
    gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shop.heard == [("first", gone)]
    await at.pass_ms(2_995)
    assert len(shop.heard) == 1
    await at.pass_ms(5)
    assert shop.heard[1:] == [("second", gone), ("third", gone)]
    assert len(at.replicas.purgatory) == 0

    shop.ask("fourth", written(4))
    follower_fetches(at)
    await at.pass_ms(1)
    assert shop.heard[3:] == [("fourth", "fine")]
    assert len(at.replicas.purgatory) == 0


@serving()
async def test_an_answer_that_fails_harms_no_other(at: Serving) -> None:
    """The purgatory drops an operation that fails; the event loop reports the error."""
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: reported.append(context.get("exception"))
    )
    shop = Shop(at)
    await shop.loaded()
    with_follower(at)

    def fails(answer: Response | KafkaError) -> None:
        raise ConnectionError

    shop.ask("before", written(1))
    shop.shell.run(lambda toy, now_ms: Outcome((written(2),), ((fails, FINE),)), fails)
    shop.ask("after", written(3))
    follower_fetches(at)
    await at.pass_ms(2)
    assert shop.heard == [("before", "fine"), ("after", "fine")]
    assert [type(each) for each in reported] == [ConnectionError]
    assert len(at.replicas.purgatory) == 0


@serving()
async def test_the_records_of_a_transaction_are_in_a_batch_of_their_producer(at: Serving) -> None:
    shop = Shop(at)
    await shop.loaded()
    ticket = shop.ticket("txn")
    shop.ask("gathered", written(1), gather=True)
    shop.shell.run(
        lambda toy, now_ms: Outcome((written(7),), ((ticket, FINE),)),
        ticket,
        Producer(5, 2, 0, True),
    )
    data = at.partition(TOPIC).log.read(0, 1 << 20).read()
    told = [(each.header.producer_id, each.header.producer_epoch) for each in walk(data)]
    assert told == [(-1, -1), (5, 2)]
    assert shop.toy.seen == [1]
    assert shop.toy.pending == [(5, 7)]
    assert shop.heard == [("gathered", "fine"), ("txn", "fine")]


@pytest.mark.parametrize("sequence", [-1, 0])
def test_each_batch_of_a_transaction_is_written_and_loaded_again(sequence: int) -> None:
    """Two batches of one producer, which no coordinator numbers; and one more after a reload."""

    @serving()
    async def scenario(at: Serving) -> None:
        shop = Shop(at)
        await shop.loaded()
        producer = Producer(5, 2, sequence, True)

        def commit(name: str, number: int) -> None:
            ticket = shop.ticket(name)
            outcome = Outcome((written(number),), ((ticket, FINE),))
            shop.shell.run(lambda toy, now_ms: outcome, ticket, producer)

        commit("one", 7)
        commit("two", 8)
        assert shop.toy.pending == [(5, 7), (5, 8)]
        again = shop.again()
        await shop.loaded()
        assert again.pending == [(5, 7), (5, 8)]
        commit("three", 9)
        assert again.pending == [(5, 7), (5, 8), (5, 9)]
        assert shop.batches() == [1, 1, 1]
        assert shop.heard == [("one", "fine"), ("two", "fine"), ("three", "fine")]

    scenario()
