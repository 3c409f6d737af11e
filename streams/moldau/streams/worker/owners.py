"""Which worker of an app has which partition: members tell it each other with their assignments.

Each member sends its address (`application.server`) to the leader's assignor, and the leader sends
all addresses with their partitions back. Partitions are shared out as Kafka's range assignor does:
equal partitions of all topics meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from moldau.client import TopicPartition
from moldau.client.group.assignors.assignor import Assignment, Share, Subscription, Topics
from moldau.client.group.assignors.ranges import RangeAssignor

NAME: Final = "moldau-streams"


class Address(msgspec.Struct):
    """What a member says of itself."""

    server: str


class Addresses(msgspec.Struct):
    """What the leader says of all: by address, by topic, the partitions there."""

    servers: dict[str, dict[str, list[int]]]


class OwnerAssignor(RangeAssignor):
    """One member's. `servers` is as the last assignment had it."""

    def __init__(self, server: str) -> None:
        """`server` is host:port of the member's queries, "" if it serves none."""
        self._server = server
        self._owners: dict[TopicPartition, str] = {}

    @property
    def name(self) -> str:
        """As members agree on it."""
        return NAME

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """The address."""
        return msgspec.json.encode(Address(self._server))

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """By range; each member hears of all addresses."""
        assignment = super().assign(topics, members)
        servers: dict[str, dict[str, list[int]]] = {}
        for member, partitions in assignment.items():
            server = _server_of(members[member])
            if server:
                found = servers.setdefault(server, {})
                for where in partitions:
                    found.setdefault(where.topic, []).append(where.partition)
        data = msgspec.json.encode(Addresses(servers))
        return {member: Share(partitions, data) for member, partitions in assignment.items()}

    def on_assignment(
        self,
        partitions: Sequence[TopicPartition],
        generation: int,
        user_data: bytes | None = None,
    ) -> None:
        """Remembers the addresses."""
        self._owners = {}
        try:
            told = msgspec.json.decode(user_data or b"", type=Addresses)
        except msgspec.MsgspecError:
            return
        for server, topics in told.servers.items():
            for topic, numbers in topics.items():
                for number in numbers:
                    self._owners[TopicPartition(topic, number)] = server

    def owner(self, where: TopicPartition) -> str | None:
        """The address of the worker that has it; None if that is not known."""
        return self._owners.get(where)


def _server_of(member: Subscription) -> str:
    try:
        return msgspec.json.decode(member.user_data or b"", type=Address).server
    except msgspec.MsgspecError:
        return ""
