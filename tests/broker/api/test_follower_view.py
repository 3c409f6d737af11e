"""A follower's session that looks only at partitions with news tells what a full look would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from moldau.broker.api.fetch_reader import FetchReader
from moldau.broker.api.fetch_session_cache import FetchContext
from moldau.broker.api.follower_view import FollowerView
from moldau.broker.replication.partition import Leadership, Partition
from moldau.broker.replication.topic_config import topic_config
from moldau.broker.settings import topic_settings
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.fetch import FetchResponse, ReplicaState
from tests.broker.api.requests import NOW, batch, fetch, want
from tests.broker.api.serving import Sent, Serving, fetched, serving
from tests.broker.controller.cluster import topic as new_topic

PARTITIONS: Final = 4
REPLICAS: Final = (2, 3)
SIZE: Final = len(batch())
LAG_MS: Final = 30
VERSION: Final = 17


def lead(at: Serving, index: int, **more: Any) -> None:
    """Publish the partition with another epoch or ISR."""
    made = at.node.image.topics.by_name("t")
    assert made is not None
    known = at.replicas._hosted.get(("t", index))
    fields: dict[str, Any] = {
        "leader_epoch": 0 if known is None else known.leader_epoch,
        "isr": (1, *REPLICAS),
        "replicas": (1, *REPLICAS),
        **more,
    }
    at.replicas.lead(
        Leadership("t", index, made.topic_id, **fields),
        topic_config(at.node.topic_settings("t")),
    )


def create(
    at: Serving, partitions: int = PARTITIONS, configs: dict[str, str | None] | None = None
) -> bytes:
    """The id of a topic with two followers."""
    for broker in REPLICAS:
        at.cluster.join(broker)
    placed = {index: [1, *REPLICAS] for index in range(partitions)}
    (made,) = at.cluster.create(new_topic("t", placed=placed, configs=configs))
    assert made.error_code == 0
    for index in range(partitions):
        lead(at, index, is_new=True)
    return made.topic_id


@dataclass
class Follower:
    """A broker that follows node 1, in a session of the protocol."""

    at: Serving
    replica_id: int
    topic_id: bytes
    broker_epoch: int = 1
    session_id: int = 0
    epoch: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    known: dict[int, Any] = field(default_factory=dict)
    """What the leader knows."""
    sent: Sent | None = None

    def fetch(self, wait_ms: int = 500, min_bytes: int = 1) -> Sent:
        """The next request: what is new, and what is not wanted any more."""
        wanted = {}
        for index, offset in self.offsets.items():
            partition = self.at.replicas._hosted.get(("t", index))
            epoch = 0 if partition is None else partition.leader_epoch
            last_epoch = epoch if offset else -1
            start = 0 if partition is None else min(partition.log_start_offset, offset)
            wanted[index] = (offset, epoch, last_epoch, start)
        news = {key: each for key, each in wanted.items() if self.known.get(key) != each}
        forget = [index for index in self.known if index not in wanted]
        if not self.epoch:
            news, forget = wanted, []
        self.known = wanted
        asked = [
            (
                self.topic_id,
                want(
                    index,
                    offset,
                    current_leader_epoch=epoch,
                    last_fetched_epoch=last_epoch,
                    log_start_offset=start,
                ),
            )
            for index, (offset, epoch, last_epoch, start) in news.items()
        ]
        request = fetch(
            *asked,
            wait_ms=wait_ms,
            min_bytes=min_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            forget=((self.topic_id, forget),) if forget else (),
            replica_state=ReplicaState(replica_id=self.replica_id, replica_epoch=self.broker_epoch),
        )
        self.sent = self.at.send(request, VERSION)
        self.epoch += 1
        return self.sent

    def take(self) -> list[Any]:
        """What an answer tells, if there is one; the replica holds it then."""
        if self.sent is None or not self.sent.answers:
            return []
        answer, self.sent = self.sent.answers[0], None
        assert isinstance(answer, FetchResponse)
        if answer.error_code:
            self.session_id = self.epoch = 0
            return [("error", answer.error_code)]
        self.session_id = answer.session_id
        told = []
        for (_, index), data in fetched(answer).items():
            told.append(
                (
                    *(index, data.error_code, data.high_watermark, data.log_start_offset),
                    *(len(data.records or b""), data.diverging_epoch.end_offset),
                )
            )
            if index not in self.offsets:
                continue
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.offsets[index] = self.at.partition("t", index).log_end_offset
            elif data.diverging_epoch.epoch >= 0:
                self.offsets[index] = data.diverging_epoch.end_offset
            else:
                self.offsets[index] += len(data.records or b"") // SIZE
        return told

    def restart(self, *, forget: bool) -> None:
        """Begin a new session; the leader may not hear that the old one has ended."""
        self.known = {}
        self.epoch = 0
        self.sent = None
        if forget:
            self.session_id = 0


Event = tuple[str, int, int]
NAMES: Final = (
    *(
        *["append"] * 8,
        *["fetch"] * 14,
        "back",
        "pass",
        "pass",
        "shrink",
        "shrink",
        "grow",
        "withdraw",
    ),
    *(
        "epoch",
        "epoch",
        "resign",
        "follow",
        "remove",
        "delete",
        "forget",
        "want",
        "restart",
        "lost",
    ),
    *("late", "hold", "carry_on", "min_isr", "broker_epoch", "throttle", "bytes"),
)
EVENTS: Final = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, PARTITIONS - 1), st.integers(0, 1)),
    min_size=1,
    max_size=60,
)


class Story:
    """One broker with two followers; what happened and what could be seen after each event."""

    def __init__(self, at: Serving) -> None:
        self.at = at
        topic_id = create(at)
        self.topic_id = topic_id
        everything = dict.fromkeys(range(PARTITIONS), 0)
        self.followers = [Follower(at, each, topic_id, 1, 0, 0, {**everything}) for each in (2, 3)]
        self.trace: list[Any] = []
        self.joined: list[tuple[int, int]] = []
        at.node.on_follower_caught_up = lambda partition, replica_id: self.joined.append(
            (partition.index, replica_id)
        )

    def happen(self, event: Event) -> None:
        name, index, number = event
        partition = self.at.replicas._hosted.get(("t", index))
        follower = self.followers[number]
        match name:
            case "fetch":
                if follower.sent is None:
                    follower.fetch()
            case "bytes":
                if follower.sent is None:
                    follower.fetch(min_bytes=3 * SIZE)
            case "late":  # a request before the last one is answered
                follower.fetch()
            case "forget":
                follower.offsets.pop(index, None)
            case "want":
                follower.offsets.setdefault(index, 0)
            case "back":  # it lost the end of its log
                follower.offsets[index] = max(0, follower.offsets.get(index, 0) - 1)
            case "restart" | "lost":
                follower.restart(forget=name == "lost")
            case "broker_epoch":
                follower.broker_epoch += 1
            case _ if partition is None:
                lead(self.at, index, is_new=True)
            case "resign":
                self.at.replicas.resign("t", index, self.topic_id, partition.leader_epoch + 1)
            case "follow":
                self._follow(index, partition.leader_epoch + 1)
            case "remove":
                self.at.replicas.remove("t", index)
            case "epoch":
                lead(self.at, index, leader_epoch=partition.leader_epoch + 1)
            case _ if partition.is_leader:
                self._change(name, partition, number)

    def _follow(self, index: int, leader_epoch: int) -> None:
        leadership = Leadership(
            *("t", index, self.topic_id, leader_epoch, (2,), (1, 2, 3)), leader=2
        )
        self.at.replicas.follow(leadership, topic_config(self.at.node.topic_settings("t")))

    def _change(self, name: str, partition: Partition, number: int) -> None:
        """Something happens to a partition that is led here."""
        leader = partition.leadership
        match name:
            case "append":
                partition.append(bytearray(batch()), 1, NOW)
            case "shrink":
                isr = leader.isr - {REPLICAS[number]}
                partition.on_isr(isr, partition.leader_epoch, leader.partition_epoch + 1)
            case "grow":
                if leader.proposed is None:
                    leader.propose(leader.isr | {REPLICAS[number]})
            case "withdraw":
                if number:
                    partition.withdraw(leader)
                else:
                    isr, epoch = leader.proposed or leader.isr, partition.leader_epoch
                    partition.on_isr(isr, epoch, leader.partition_epoch + 1)
            case "delete":
                partition.delete_records(-1)
            case "hold":
                partition.hold()
            case "carry_on":
                partition.carry_on()
            case "min_isr" | "throttle":
                values: dict[str, str] = (
                    {"min.insync.replicas": str(1 + number)}
                    if name == "min_isr"
                    else {"leader.replication.throttled.replicas": "*" if number else ""}
                )
                settings = topic_settings("t", values, self.at.node.settings)
                partition.configure(topic_config(settings))

    def look(self) -> None:
        """What anybody can see now."""
        seen: list[Any] = [each.take() for each in self.followers]
        for partition in self.at.replicas:
            if not partition.is_leader:
                continue
            leader = partition.leadership
            ends = {
                replica_id: (known.end_offset, known.last_caught_up_ms, known.broker_epoch)
                for replica_id, known in leader._followers.items()
            }
            late = leader.lagging(partition.log_end_offset, self.at.now_ms, LAG_MS)
            seen.append((partition.index, partition.high_watermark, sorted(leader.isr), ends, late))
        seen.append((self.at.now_ms, list(self.joined)))
        self.joined.clear()
        self.trace.append(seen)


def told(events: list[Event], *, is_full: bool) -> list[Any]:
    """The trace of the story, with a look at all partitions each time or at those with news."""
    traces: list[list[Any]] = []

    @serving()
    async def run(at: Serving) -> None:
        story = Story(at)
        await at.pass_ms(500)  # making the logs kept the node busy
        for event in events:
            story.happen(event)
            await at.pass_ms(25 if event[0] == "pass" else 1)
            story.look()
        await at.pass_ms(600)
        story.look()
        traces.append(story.trace)

    view: Callable[..., Any] = FetchContext.view
    if is_full:
        view = lambda *given: None  # noqa: E731
    with patch.object(FetchContext, "view", view):
        run()
    return traces[0]


@hypothesis_settings(max_examples=60, deadline=None)
@given(EVENTS)
@example([("fetch", 0, 0), ("fetch", 0, 0), ("fetch", 0, 0), ("append", 1, 0), ("fetch", 0, 0)])
def test_what_is_told_is_what_a_look_at_all_partitions_tells(events: list[Event]) -> None:
    lazy, full = told(events, is_full=False), told(events, is_full=True)
    for number, (ours, expected) in enumerate(zip(lazy, full, strict=True)):
        assert ours == expected, (number, events[: number + 1])


async def settled(at: Serving, follower: Follower) -> FollowerView:
    """The follower waits, and has all of all partitions."""
    for _ in range(4):
        follower.fetch(wait_ms=0)
        assert follower.take() is not None
    follower.fetch(wait_ms=60_000)
    (session,) = [
        each
        for each in at.node.fetch_sessions.sessions.values()
        if each.session_id == follower.session_id
    ]
    assert session.view is not None
    return session.view


def new_follower(at: Serving, topic_id: bytes, partitions: int = PARTITIONS) -> Follower:
    return Follower(at, 2, topic_id, offsets=dict.fromkeys(range(partitions), 0))


@serving()
async def test_a_write_costs_a_look_at_one_partition(at: Serving) -> None:
    topic_id = create(at, 40)
    await at.replicas.logs_made()
    follower = new_follower(at, topic_id, 40)
    view = await settled(at, follower)
    assert not view.active
    looks: list[int] = []
    find = FetchReader.find

    def counted(self: Any, wanted: Any) -> Any:
        looks.append(wanted.asked.partition)
        return find(self, wanted)

    with patch.object(FetchReader, "find", counted):
        at.partition("t", 17).append(bytearray(batch()), 1, NOW)
        await at.pass_ms(1)
        assert [(row[0], row[4]) for row in follower.take()] == [(17, SIZE)]
        assert set(looks) == {17}
        follower.fetch(wait_ms=60_000)
    assert set(looks) == {17}
    assert len(looks) == 3, "a look, a read, and the read of the next fetch"


@serving()
async def test_the_first_fetch_is_answered_at_once_as_it_has_no_view_yet(at: Serving) -> None:
    follower = new_follower(at, create(at))
    follower.fetch(wait_ms=60_000)
    assert [row[0] for row in follower.take()] == [0, 1, 2, 3]
    assert follower.session_id
    follower.fetch(wait_ms=60_000)
    assert follower.take() == []


@serving()
async def test_the_first_fetch_waits_where_no_session_can_begin(at: Serving) -> None:
    """Else a follower without a session would ask again and again."""
    at.node.fetch_sessions.slots = 0
    follower = new_follower(at, create(at))
    follower.fetch(wait_ms=60_000)
    assert follower.take() == []
    at.partition("t", 3).append(bytearray(batch()), 1, NOW)
    await at.pass_ms(1)
    assert [(row[0], row[4]) for row in follower.take() if row[4]] == [(3, SIZE)]


@serving()
async def test_a_log_start_that_retention_moves_answers_the_waiting_fetch(at: Serving) -> None:
    topic_id = create(at, configs={"retention.ms": "60000"})
    at.partition("t", 1).append(bytearray(batch()), 1, at.wall_ms)
    first, second = new_follower(at, topic_id), new_follower(at, topic_id)
    second.replica_id = 3
    for _ in range(4):
        for follower in (first, second):
            follower.fetch(wait_ms=0)
            assert follower.take() is not None
    assert at.partition("t", 1).high_watermark == 1
    at.replicas.start(at.node.settings)
    first.fetch(wait_ms=3_600_000)
    sent = first.sent
    assert sent is not None
    await sent.answered.wait()
    assert [(row[0], row[3]) for row in first.take()] == [(1, 1)]
    await at.replicas.upkeep.aclose()


@serving()
async def test_two_sessions_of_a_follower_hear_of_the_same_partition(at: Serving) -> None:
    topic_id = create(at)
    first, second = new_follower(at, topic_id), new_follower(at, topic_id)
    await settled(at, first)
    await settled(at, second)
    for number in range(3):
        at.partition("t", 3).append(bytearray(batch()), 1, NOW)
        await at.pass_ms(1)
        for follower in (second, first):
            if follower.sent is None or not follower.sent.answers:
                follower.fetch(wait_ms=0)
            assert follower.take()
            assert follower.offsets[3] == number + 1


@serving()
async def test_a_session_that_ends_lets_no_fetch_wait(at: Serving) -> None:
    follower = new_follower(at, create(at))
    view = await settled(at, follower)
    at.node.fetch_sessions._remove(follower.session_id)
    await at.pass_ms(1)
    assert follower.sent is not None
    assert follower.sent.answers
    assert view.is_closed
    assert not at.partition("t", 0).watchers.by_replica, "nothing is told to it any more"


@serving()
async def test_a_follower_that_had_all_is_late_only_from_the_next_append_on(at: Serving) -> None:
    follower = new_follower(at, create(at))
    await settled(at, follower)
    for _ in range(3):
        await at.pass_ms(10 * LAG_MS)
        follower.fetch(wait_ms=0)
        follower.take()
    partition = at.partition("t", 0)
    partition.append(bytearray(batch()), 1, NOW)
    leader = partition.leadership
    assert 2 not in leader.lagging(partition.log_end_offset, at.now_ms + LAG_MS, LAG_MS)
    assert 2 in leader.lagging(partition.log_end_offset, at.now_ms + LAG_MS + 1, LAG_MS)
