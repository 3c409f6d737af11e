"""Cores of members of a streams group, and the broker's own group as their coordinator, in one
hand: what happens next is drawn. Requests and responses get lost, members die and come back.

After every event: of the members whose commits the group takes, no two have the same active task;
no member has a task in two roles. When all is calm, each task is active once, and each with state
has a standby at another member.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from moldau.client.group.member import NOBODY, MemberSettings, MemberSubscription
from moldau.client.group.streams import GroupTask, StreamsMember, StreamsSettings
from moldau.client.group.topology import (
    SubtopologyDescription,
    TopicDescription,
    TopologyDescription,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from moldau.runtime.backoff import Backoff
from tests.broker.coordinator.streams.shard import GROUP, Shard

COUNTS: Final = {"lines": 4, "app-words": 4}
TOPOLOGY: Final = TopologyDescription(
    (
        SubtopologyDescription("0", ("lines",), repartition_sinks=("app-words",)),
        SubtopologyDescription(
            "1",
            (),
            (TopicDescription("app-words", 4),),
            changelogs=(TopicDescription("app-counts-changelog"),),
        ),
    )
)
TASKS: Final = {GroupTask(name, number) for name in ("0", "1") for number in range(4)}
TERMS: Final = MemberSettings(GROUP, poll_interval_s=30.0, backoff=Backoff(50, 500))
SESSION_S: Final = 45.0


@dataclass
class Player:
    """A member in its process. Answers travel: they come later, or never."""

    member: StreamsMember
    answers: list[StreamsGroupHeartbeatResponse | KafkaError] = field(default_factory=list)
    request: StreamsGroupHeartbeatRequest | None = None
    is_dead: bool = False


class StreamsGame:
    """A group."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.shard = Shard()
        self.shard.own["streams.num.standby.replicas"] = "1"
        for name in (*COUNTS, "app-counts-changelog"):
            self.shard.topics.put(name, 4)
        self.players: list[Player] = []
        self.now = 1.0

    def join(self) -> Player:
        name = f"m{len(self.players)}"
        process = StreamsSettings(name)
        member = StreamsMember(TERMS, name, self.random, lambda: TOPOLOGY, process)
        member.subscribe(MemberSubscription(frozenset(COUNTS)))
        player = Player(member)
        self.players.append(player)
        self.poll(player)
        return player

    def poll(self, player: Player) -> None:
        """Its user polls."""
        member = player.member
        member.on_poll(self.now)
        error = member.take_error()
        assert error is None, error
        while member.begin_change() is not None:
            self.check()
            member.end_change(self.now)

    def act(self, player: Player) -> None:
        """Send what the core wants, if nothing of it is under way."""
        if player.request is not None:
            return
        ready = player.member.ready(self.now)
        if ready.topics is not None:
            view = {name: [frozenset[str]()] * COUNTS[name] for name in ready.topics}
            player.member.on_topics(view, self.now)
        elif ready.ask is not None:
            assert isinstance(ready.ask.request, StreamsGroupHeartbeatRequest)
            player.request = ready.ask.request

    def arrive(self, player: Player) -> None:
        """The request arrives, and is answered."""
        if player.request is None or player.answers:
            return
        try:
            player.answers.append(self.shard.ask_for(player.request))
        except KafkaError as error:
            refused = StreamsGroupHeartbeatResponse(
                error_code=error.code,
                error_message=error.reason,
                member_id=player.member.member_id,
                member_epoch=0,
                heartbeat_interval_ms=0,
                acceptable_recovery_lag=0,
                task_offset_interval_ms=0,
                status=None,
                endpoint_information_epoch=0,
            )
            player.answers.append(refused)

    def deliver(self, player: Player) -> None:
        """The answer arrives."""
        if player.answers:
            player.request = None
            player.member.on_answer(player.answers.pop(), self.now)

    def lose(self, player: Player) -> None:
        """The connection ends, whether or not the request came."""
        if player.request is not None:
            player.request = None
            player.answers.clear()
            player.member.on_answer(KafkaError(ErrorCode.NETWORK_EXCEPTION), self.now)

    def pass_s(self, seconds: float) -> None:
        self.now += seconds
        self.shard.pass_ms(round(seconds * 1000))

    def play(self, steps: int) -> None:
        for _ in range(2):
            self.join()
        for _ in range(steps):
            player = self.random.choice(self.players)
            what = self.random.random()
            if what < 0.02 and len(self.players) < 6:
                self.join()
            elif what < 0.03:
                self.pass_s(SESSION_S / 2)
            elif what < 0.04:
                player.member.leave(is_closing=False)
            elif what < 0.08:
                self.lose(player)
            elif what < 0.30:
                self.poll(player)
            elif what < 0.50:
                self.act(player)
            elif what < 0.70:
                self.arrive(player)
            elif what < 0.90:
                self.deliver(player)
            else:
                self.pass_s(self.random.uniform(0.0, 3.0))
            self.check()

    def settle(self, seconds: float = 240.0) -> None:
        """No more faults: all poll, and answers come."""
        end = self.now + seconds
        while self.now < end and not self.is_settled():
            self.pass_s(0.25)
            for player in self.players:
                self.poll(player)
                self.act(player)
                self.arrive(player)
                self.deliver(player)
                self.check()
        assert self.is_settled(), [each.member.tasks for each in self.players]

    def is_settled(self) -> bool:
        active = [task for each in self.players for task in each.member.tasks.active]
        copies = [task for each in self.players for task in each.member.tasks.copies]
        standbys = {task for task in TASKS if task.subtopology == "1"}
        is_once = len(active) == len(TASKS) and set(active) == TASKS
        has_standbys = len(copies) == len(standbys) and set(copies) == standbys
        return is_once and (has_standbys or len(self.players) < 2)

    def check(self) -> None:
        """See the module."""
        owners: dict[TopicPartition, StreamsMember] = {}
        for player in self.players:
            member = player.member
            assert member.tasks.active.isdisjoint(member.tasks.copies)
            for task in member.tasks.active:
                (name,) = TOPOLOGY.inputs_of(task.subtopology)
                where = TopicPartition(name, task.partition)
                if self._takes_commit(member, where):
                    assert where not in owners, f"{where} has two owners"
                    owners[where] = member

    def _takes_commit(self, member: StreamsMember, where: TopicPartition) -> bool:
        """Whether the group takes an offset of this partition from the member now."""
        identity = member.identity
        if identity == NOBODY or self.shard.groups.get(GROUP) is None:
            return False
        try:
            check = self.shard.group.check_commit(
                identity.member_id, None, identity.epoch, 10, is_txn=False
            )
            if check is not None:
                check(where.topic, b"", where.partition)
        except KafkaError:
            return False
        return True
