"""Cores of members and a model of their coordinator in one hand: what happens next is drawn.

After every event: of the members that may commit, no two own the same partition; what a member is
told of a partition comes in order (assigned, then revoked or lost).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from moldau.client.consumer.membership import AnyMember
from moldau.client.group.assignors import load_assignors
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.member import Ask, Kind, MemberSettings, MemberSubscription
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Request, Response
from moldau.runtime.backoff import Backoff
from tests.client.group.classic_model import ClassicModel
from tests.client.group.consumer_model import ConsumerModel

TOPICS = {"t": (b"t" * 16, 5), "u": (b"u" * 16, 3)}
TERMS = MemberSettings(
    "g",
    session_timeout_s=10.0,
    heartbeat_interval_s=1.0,
    poll_interval_s=8.0,
    backoff=Backoff(50, 500),
)


class Coordinator(Protocol):
    """A model of a group."""

    def handle(self, request: Request, reply: Callable[[Response], None], now: float) -> None: ...

    def tick(self, now: float) -> None: ...

    def may_commit(self, member_id: str, epoch: int) -> bool: ...


@dataclass
class Player:
    """A member and what was said to its user. Answers travel: they come later, or never."""

    member: AnyMember
    told: dict[TopicPartition, Kind] = field(default_factory=dict)
    answers: list[Response | KafkaError] = field(default_factory=list)
    request: Request | None = None
    is_silent: bool = False


class Game:
    """A group."""

    def __init__(self, seed: int, protocol: str, assignor: str = "range") -> None:
        self.random = random.Random(seed)
        self.now = 1.0
        self.protocol = protocol
        self.assignor = assignor
        self.players: list[Player] = []
        self.model: Coordinator
        self.model = ClassicModel() if protocol == "classic" else ConsumerModel(TOPICS)

    def join(self) -> Player:
        """One more."""
        member: AnyMember
        if self.protocol == "classic":
            member = ClassicConsumer(TERMS, load_assignors([self.assignor]), self.random)
        else:
            member = ConsumerMember(TERMS, f"m{len(self.players)}", self.random)
        player = Player(member)
        self.players.append(player)
        member.subscribe(MemberSubscription(frozenset(TOPICS)))
        self.poll(player)
        return player

    def poll(self, player: Player) -> None:
        """Its user polls."""
        member = player.member
        member.on_poll(self.now)
        error = member.take_error()
        assert error is None, error
        while (change := member.begin_change()) is not None:
            for where in change.partitions:
                before = player.told.get(where)
                assert (before is Kind.ASSIGNED) is (change.kind is not Kind.ASSIGNED)
                player.told[where] = change.kind
            member.end_change(self.now)
            member.on_poll(self.now)
            owned = {where for where, kind in player.told.items() if kind is Kind.ASSIGNED}
            assert owned == set(member.owned)

    def act(self, player: Player) -> None:
        """Does what the core wants, if nothing of it is under way."""
        if player.request is not None:
            return
        ready = player.member.ready(self.now)
        if ready.ask is not None:
            self._send(player, ready.ask)
        elif ready.topics is not None:
            view = {name: [frozenset[str]()] * TOPICS[name][1] for name in ready.topics}
            player.member.on_topics(view, self.now)
        elif ready.ids is not None:
            names = {each: name for name, (each, _) in TOPICS.items() if each in ready.ids}
            player.member.on_names(names, self.now)

    def _send(self, player: Player, ask: Ask) -> None:
        request = player.request = ask.request

        def reply(answer: Response) -> None:
            if player.request is request:
                player.answers.append(answer)

        if not player.is_silent:
            self.model.handle(request, reply, self.now)

    def deliver(self, player: Player) -> None:
        """The answer arrives."""
        if player.answers:
            answer = player.answers.pop(0)
            player.request = None
            player.member.on_answer(answer, self.now)

    def lose(self, player: Player) -> None:
        """The connection ends; who knows whether the request came."""
        if player.request is not None:
            player.request = None
            player.answers.clear()
            player.member.on_answer(KafkaError(ErrorCode.NETWORK_EXCEPTION), self.now)

    def check(self) -> None:
        """See above."""
        owners: dict[TopicPartition, Player] = {}
        for player in self.players:
            identity = player.member.identity
            if not self.model.may_commit(identity.member_id, identity.epoch):
                continue
            for where in player.member.owned:
                assert where not in owners, f"{where} has two owners"
                owners[where] = player

    def settle(self, seconds: float = 60.0) -> None:
        """No more faults: everybody polls and answers come."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.1
            self.model.tick(self.now)
            for player in self.players:
                self.poll(player)
                self.act(player)
                self.deliver(player)
                self.check()

    def is_settled(self) -> bool:
        """Whether the members together own everything."""
        every = {
            TopicPartition(name, n) for name, (_, count) in TOPICS.items() for n in range(count)
        }
        owned = [where for player in self.players for where in player.member.owned]
        return len(owned) == len(every) and set(owned) == every
