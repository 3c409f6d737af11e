"""The blocking member of a group, against a broker in this process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from moldau.client.sync import ClientClosed, ClientNotStarted, GenerationAssignment, GroupMember
from moldau.testing import SyncEmbeddedBroker


@pytest.fixture
def bootstrap(moldau_broker: SyncEmbeddedBroker) -> str:
    return moldau_broker.bootstrap_servers


class Sharers:
    """Its methods block, and note in which thread they were called."""

    def __init__(self) -> None:
        self.assigned: list[GenerationAssignment] = []
        self.calls: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.is_assigned = threading.Event()
        self.member: GroupMember | None = None
        self.committed: Any = None

    def metadata(self) -> list[tuple[str, bytes]]:
        self.note("metadata")
        return [("share", b"mine")]

    def assign(self, protocol: str, leader_id: str, members: Mapping[str, bytes]) -> dict[str, Any]:
        self.note("assign")
        return {name: data + b" is yours" for name, data in members.items()}

    def on_assigned(self, assigned: GenerationAssignment) -> None:
        self.note("assigned")
        self.assigned.append(assigned)
        self.is_assigned.set()

    def on_revoked(self) -> None:
        self.note("revoked")
        if self.member is not None:
            self.committed = self.member.committed([("t", 0)])

    def note(self, call: str) -> None:
        self.threads.add(threading.current_thread())
        self.calls.append(call)


def test_it_joins_and_leaves_and_its_methods_may_block(bootstrap: str, moldau_topic: str) -> None:
    sharers = Sharers()
    member = GroupMember(
        {"bootstrap.servers": bootstrap},
        group_id=moldau_topic,
        protocol_type="sharing",
        protocols=sharers,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=200,
    )
    with pytest.raises(ClientNotStarted):
        member.rejoin()
    with member:
        sharers.member = member
        assert sharers.is_assigned.wait(20)
        assert member.is_leader
        assert sharers.assigned[0].assignment == b"mine is yours"
        assert sharers.assigned[0].member_id == member.member_id
        sharers.is_assigned.clear()
        member.rejoin("once more")
        assert sharers.is_assigned.wait(20)
        assert member.generation == sharers.assigned[1].generation == 2
    cycle = ["metadata", "assign", "assigned", "revoked"]
    assert sharers.calls == cycle * 2
    assert sharers.committed == {("t", 0): None}
    assert threading.current_thread() not in sharers.threads
    with pytest.raises(ClientClosed):
        member.rejoin()


def test_what_a_method_raises_is_raised_by_wait(bootstrap: str, moldau_topic: str) -> None:
    class Broken(Sharers):
        def on_assigned(self, assigned: GenerationAssignment) -> None:
            raise ZeroDivisionError("no idea")

    with (
        GroupMember(
            bootstrap_servers=bootstrap,
            group_id=moldau_topic,
            protocol_type="sharing",
            protocols=Broken(),
        ) as member,
        pytest.raises(ZeroDivisionError, match="no idea"),
    ):
        member.wait()
