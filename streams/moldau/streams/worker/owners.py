"""The owners of an app's partitions: members exchange their addresses with the assignments.

Each member sends its address (`application.server`) to the leader's assignor, and the leader sends
all addresses with their partitions back. Partitions are assigned as Kafka's range assignor does:
partitions of the same number in all topics go to the same member, if the topics have as many. The
inputs of one program may have different numbers of partitions, where their records do not meet by
key; then the smaller ones follow the largest.
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
    """What a member sends to the leader."""

    server: str
    ends_app: bool = False
    """Whether it asks all members to stop."""


class Addresses(msgspec.Struct):
    """What the leader sends to all members: the partitions by address and topic."""

    servers: dict[str, dict[str, list[int]]]
    ends_app: bool = False
    """Whether one of the members asks all to stop."""


class OwnerAssignor(RangeAssignor):
    """The assignor of one member. It remembers the addresses of the last assignment."""

    def __init__(self, server: str) -> None:
        """`server` is host:port of the member's queries, "" if it serves none."""
        self.together: Sequence[Sequence[str]] = ()
        """The inputs of each program: a task has the partitions of one number of all of them."""
        self.ends_app = False
        """Whether this member asks all to stop, from the next rebalance on."""
        self.is_app_ended = False
        """Whether a member has asked all to stop."""
        self._server = server
        self._owners: dict[TopicPartition, str] = {}

    @property
    def name(self) -> str:
        """The name by which members agree on the assignor."""
        return NAME

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the member's address."""
        return msgspec.json.encode(Address(self._server, self.ends_app))

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Assign partitions by range; each member receives all addresses."""
        assignment = super().assign(topics, members)
        for inputs in self.together:
            _gather(inputs, assignment, members)
        servers: dict[str, dict[str, list[int]]] = {}
        for member, partitions in assignment.items():
            if server := _address_of(members[member]).server:
                found = servers.setdefault(server, {})
                for where in partitions:
                    found.setdefault(where.topic, []).append(where.partition)
        ends_app = any(_address_of(each).ends_app for each in members.values())
        data = msgspec.json.encode(Addresses(servers, ends_app))
        return {member: Share(partitions, data) for member, partitions in assignment.items()}

    def on_assignment(
        self, partitions: Sequence[TopicPartition], generation: int, user_data: bytes | None = None
    ) -> None:
        """Remember the addresses."""
        self._owners = {}
        try:
            reported = msgspec.json.decode(user_data or b"", type=Addresses)
        except msgspec.MsgspecError:
            return
        self.is_app_ended = reported.ends_app
        for server, topics in reported.servers.items():
            for topic, numbers in topics.items():
                for number in numbers:
                    self._owners[TopicPartition(topic, number)] = server

    def owner(self, where: TopicPartition) -> str | None:
        """Return the address of the worker that has the partition; None if it is unknown."""
        return self._owners.get(where)


def _gather(
    inputs: Sequence[str], assignment: Assignment, members: Mapping[str, Subscription]
) -> None:
    """Give the partitions of one number to the member that has the one of the largest input.
    Ranges bring them together by themselves if all inputs have as many partitions."""
    owners: dict[str, dict[int, str]] = {name: {} for name in inputs}
    for member, partitions in assignment.items():
        for where in partitions:
            if where.topic in owners:
                owners[where.topic][where.partition] = member
    most = max(owners.values(), key=len, default={})
    for topic, found in owners.items():
        for number, member in found.items():
            wanted = most.get(number, member)
            if wanted != member and topic in members[wanted].topics:
                where = TopicPartition(topic, number)
                assignment[member].remove(where)
                assignment[wanted].append(where)


def _address_of(member: Subscription) -> Address:
    return address_in(member.user_data)


def address_in(user_data: bytes | None) -> Address:
    """Return what a member says of itself; one of another kind says nothing."""
    try:
        return msgspec.json.decode(user_data or b"", type=Address)
    except msgspec.MsgspecError:
        return Address("")
