"""Scripts of what several members do to one group, and what they hear.

    # A first member learns its id, then joins with it.
    join a
    ----
    a: join MEMBER_ID_REQUIRED id=a1

A block is comment lines, a command, `----`, and the answers that came by the end of the command,
one a line, sorted by member. `pytest --rewrite` writes the answers that our group gives. The same
files are played to Apache Kafka, so an answer stands here only if Kafka gives it too (`test_peer`);
those in `scripts/ours` are about what cannot be brought about there (a log that refuses a record).

Commands: WHAT MEMBER [OPTION=VALUE]...; a member's options are kept for its next commands.

    join a [version= id= instance= session= rebalance= type= protocols=range:t1+t2,sticky:t1]
    sync a [version= id= instance= generation= type= name=] [assign=a:one,b:two]
    heartbeat a [version= id= instance= generation=]
    leave a [version= id= instance=]   more than one: leave a,b
    commit a [generation= id= instance= version=]
    describe | delete | forget TOPIC (OffsetDelete)
    wait MS | refuse ERROR | fail-over

Ids of members are shown by label and number: the second id that client `b` was given is `b2`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from moldau.errors.codes import ErrorCode
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from moldau.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from moldau.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from moldau.protocol.schemas.consumer_protocol import ConsumerProtocolSubscription

RULE: Final = "----"
SCRIPTS: Final = Path(__file__).parent / "scripts"
TOPIC: Final = "t1"
TOPICS: Final = (TOPIC, "t2")
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": 1000,
    "group.min.session.timeout.ms": 100,
    "group.max.session.timeout.ms": 60_000,
    "group.max.size": 3,
}
"""Of the broker that the scripts are about."""

NEWEST: Final = {
    "join": 9,
    "sync": 5,
    "heartbeat": 4,
    "leave": 5,
    "commit": 9,
    "describe": 6,
    "delete": 2,
    "forget": 0,
}


class Peer(Protocol):
    """Who plays the broker."""

    group_id: str

    def ask(self, label: str, request: Request, version: int) -> None: ...

    def collect(self, count: int, wait_ms: int) -> list[tuple[str, Response]]:
        """Lets that time go by; the answers that came, with whose they are. `count` are
        expected."""
        ...

    def disturb(self, command: str, argument: str) -> None:
        """`refuse` and `fail-over`."""
        ...


@dataclass(slots=True)
class Block:
    """One command and what it leads to."""

    comments: list[str]
    command: str
    answers: list[str]

    def text(self) -> str:
        return "\n".join([*self.comments, self.command, RULE, *self.answers]) + "\n"


def parse(text: str) -> Iterator[Block]:
    """The blocks of a script, which blank lines divide."""
    for part in text.strip().split("\n\n"):
        lines = part.splitlines()
        at = lines.index(RULE)
        comments, (command,) = (
            [each for each in lines[:at] if each.startswith("#")],
            [each for each in lines[:at] if not each.startswith("#")],
        )
        yield Block(comments, command, lines[at + 1 :])


@dataclass(frozen=True, slots=True)
class Played:
    """The script with the answers that one peer gave, and what it called whom."""

    text: str
    name: Callable[[str], str]


def play(text: str, peer: Peer) -> Played:
    """A script, performed."""
    cast = Cast(peer)
    blocks = [Block(each.comments, each.command, cast.perform(each)) for each in parse(text)]
    return Played("\n".join(each.text() for each in blocks), cast.name)


@dataclass(slots=True)
class Member:
    """What a client knows of itself, and the options it was given."""

    options: dict[str, str] = field(default_factory=dict)
    member_id: str = ""
    generation: int = -1


class Cast:
    """The members of one play."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._members: dict[str, Member] = {}
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._claimed: set[str] = set()

    def perform(self, block: Block) -> list[str]:
        """One command; the lines that answer it."""
        what, *rest = block.command.split()
        wait_ms = 0
        if what == "wait":
            wait_ms = int(rest[0])
        elif what in ("refuse", "fail-over"):
            self._peer.disturb(what, "".join(rest))
        else:
            self._ask(what, rest)
        answers = self._peer.collect(len(block.answers), wait_ms)
        for label, response in answers:
            self._learn(label, response)
        return sorted(f"{label}: {self._show(response)}" for label, response in answers)

    def _ask(self, what: str, rest: list[str]) -> None:
        labels = rest[0].split(",") if rest else ["admin"]
        given = dict(each.split("=", 1) for each in rest if "=" in each)
        version = int(given.pop("version", NEWEST[what]))
        options = self._members.setdefault(labels[0], Member()).options
        options.update({key: given[key] for key in given.keys() & KEPT})
        options = {**options, **given}
        makers: dict[str, Callable[[], Request]] = {
            "join": lambda: self._join(labels[0], options),
            "sync": lambda: self._sync(labels[0], options, given),
            "heartbeat": lambda: self._heartbeat(labels[0], options),
            "leave": lambda: self._leave(labels, options, version),
            "commit": lambda: self._commit(labels[0], options),
            "describe": lambda: DescribeGroupsRequest(groups=[self._peer.group_id]),
            "delete": lambda: DeleteGroupsRequest(groups_names=[self._peer.group_id]),
            "forget": lambda: self._forget(rest[0]),
        }
        label = "admin" if what in ("describe", "delete", "forget") else labels[0]
        self._peer.ask(label, makers[what](), version)

    def _id(self, label: str, options: dict[str, str]) -> str:
        """`id=none`, `id=b2`, `id=whatever`; else the one it was given last."""
        told = options.get("id")
        if told is None:
            return self._members[label].member_id if label in self._members else ""
        self._claimed.add(told)
        return "" if told == "none" else self._ids.get(told, told)

    def _generation(self, label: str, options: dict[str, str]) -> int:
        return int(options.get("generation", self._members[label].generation))

    def _join(self, label: str, options: dict[str, str]) -> Request:
        kind = options.get("type", "consumer")
        offers = [each for each in options.get("protocols", "range:t1").split(",") if each]
        return JoinGroupRequest(
            group_id=self._peer.group_id,
            session_timeout_ms=int(options.get("session", "30000")),
            rebalance_timeout_ms=int(options.get("rebalance", "60000")),
            member_id=self._id(label, options),
            group_instance_id=options.get("instance"),
            protocol_type="" if kind == "none" else kind,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=_metadata(kind, wish))
                for name, _, wish in (each.partition(":") for each in offers)
            ],
        )

    def _sync(self, label: str, options: dict[str, str], given: dict[str, str]) -> Request:
        shares = [each.partition(":") for each in given.get("assign", "").split(",") if each]
        first = options.get("protocols", "range:t1").partition(":")[0]
        return SyncGroupRequest(
            group_id=self._peer.group_id,
            generation_id=self._generation(label, options),
            member_id=self._id(label, options),
            group_instance_id=options.get("instance"),
            protocol_type=_or_none(given.get("type", options.get("type", "consumer"))),
            protocol_name=_or_none(given.get("name", first)),
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self._members[name].member_id
                    if name in self._members
                    else self._ids.get(name, name),
                    assignment=share.encode(),
                )
                for name, _, share in shares
            ],
        )

    def _heartbeat(self, label: str, options: dict[str, str]) -> Request:
        return HeartbeatRequest(
            group_id=self._peer.group_id,
            generation_id=self._generation(label, options),
            member_id=self._id(label, options),
            group_instance_id=options.get("instance"),
        )

    def _leave(self, labels: list[str], options: dict[str, str], version: int) -> Request:
        if version < 3:
            return LeaveGroupRequest(
                group_id=self._peer.group_id, member_id=self._id(labels[0], options)
            )
        first = MemberIdentity(
            member_id=self._id(labels[0], options), group_instance_id=options.get("instance")
        )
        others = [MemberIdentity(member_id=self._id(each, {})) for each in labels[1:]]
        return LeaveGroupRequest(group_id=self._peer.group_id, members=[first, *others])

    def _commit(self, label: str, options: dict[str, str]) -> Request:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=None
        )
        return OffsetCommitRequest(
            group_id=self._peer.group_id,
            generation_id_or_member_epoch=self._generation(label, options),
            member_id=self._id(label, options),
            group_instance_id=options.get("instance"),
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )

    def _forget(self, topic: str) -> Request:
        partition = OffsetDeleteRequestPartition(partition_index=0)
        return OffsetDeleteRequest(
            group_id=self._peer.group_id,
            topics=[OffsetDeleteRequestTopic(name=topic, partitions=[partition])],
        )

    def _learn(self, label: str, response: Response) -> None:
        if not isinstance(response, JoinGroupResponse):
            return
        member = self._members[label]
        if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            member.member_id = response.member_id
            if response.member_id not in self._names:
                self._counts[label] += 1
                name = f"{label}{self._counts[label]}"
                self._names[response.member_id] = name
                self._ids[name] = response.member_id
        if not response.error_code:
            member.generation = response.generation_id

    def name(self, member_id: str) -> str:
        """An id that its own client was never told stays unnamed."""
        if not member_id:
            return "none"
        return self._names.get(member_id, member_id if member_id in self._claimed else "untold")

    def _show(self, response: Response) -> str:
        shown: Any = SHOWN[type(response)](self, response)
        assert isinstance(shown, str)
        return shown

    def _show_join(self, response: JoinGroupResponse) -> str:
        told = [f"join {_error(response.error_code)}", f"id={self.name(response.member_id)}"]
        if not response.error_code or response.generation_id != -1:
            told.append(f"generation={response.generation_id}")
            told.append(f"protocol={response.protocol_type}/{response.protocol_name}")
            told.append(f"leader={self.name(response.leader)}")
            told += ["skip"] if response.skip_assignment else []
            told += sorted(
                f"{self.name(each.member_id)}{_instance(each.group_instance_id)}"
                f"[{_wish(response.protocol_type or 'consumer', each.metadata)}]"
                for each in response.members
            )
        elif response.protocol_name or response.protocol_type:
            told.append(f"protocol={response.protocol_type}/{response.protocol_name}")
        return " ".join(told)

    def _show_sync(self, response: SyncGroupResponse) -> str:
        told = [f"sync {_error(response.error_code)}"]
        if response.protocol_type is not None or response.protocol_name is not None:
            told.append(f"protocol={response.protocol_type}/{response.protocol_name}")
        if response.assignment:
            told.append(response.assignment.decode())
        return " ".join(told)

    def _show_leave(self, response: LeaveGroupResponse) -> str:
        told = [f"leave {_error(response.error_code)}"]
        told += [
            f"{self.name(each.member_id)}{_instance(each.group_instance_id)}"
            f"={_error(each.error_code)}"
            for each in response.members
        ]
        return " ".join(told)

    def _show_describe(self, response: DescribeGroupsResponse) -> str:
        (group,) = response.groups
        told = [f"describe {_error(group.error_code)} {group.group_state}"]
        told.append(f"protocol={group.protocol_type}/{group.protocol_data}")
        kind = group.protocol_type
        told += sorted(
            f"{self.name(each.member_id)}{_instance(each.group_instance_id)}"
            f"[{each.client_id} {each.client_host} {_wish(kind, each.member_metadata)}"
            f" {each.member_assignment.decode()}]"
            for each in group.members
        )
        return " ".join(told)

    def _show_commit(self, response: OffsetCommitResponse) -> str:
        return f"commit {_error(response.topics[0].partitions[0].error_code)}"

    def _show_deleted(self, response: DeleteGroupsResponse) -> str:
        return f"delete {_error(response.results[0].error_code)}"

    def _show_forgotten(self, response: OffsetDeleteResponse) -> str:
        told = [f"forget {_error(response.error_code)}"]
        told += [f"{each.name}={_error(each.partitions[0].error_code)}" for each in response.topics]
        return " ".join(told)

    def _show_heartbeat(self, response: HeartbeatResponse) -> str:
        return f"heartbeat {_error(response.error_code)}"


KEPT: Final = frozenset(("instance", "session", "rebalance", "type", "protocols"))
SHOWN: Final[dict[type[Response], Any]] = {
    JoinGroupResponse: Cast._show_join,
    SyncGroupResponse: Cast._show_sync,
    HeartbeatResponse: Cast._show_heartbeat,
    LeaveGroupResponse: Cast._show_leave,
    DescribeGroupsResponse: Cast._show_describe,
    OffsetCommitResponse: Cast._show_commit,
    DeleteGroupsResponse: Cast._show_deleted,
    OffsetDeleteResponse: Cast._show_forgotten,
}


def _error(code: int) -> str:
    return "ok" if not code else ErrorCode(code).name


def _instance(instance_id: str | None) -> str:
    return f"@{instance_id}" if instance_id is not None else ""


def _or_none(text: str) -> str | None:
    return None if text == "null" else text


def _metadata(kind: str, wish: str) -> bytes:
    """A subscription as consumers encode it; for other types, and for `!` in front, just bytes."""
    if kind != "consumer" or wish.startswith("!"):
        return wish.encode()
    subscription = ConsumerProtocolSubscription(topics=wish.split("+") if wish else [])
    return b"\x00\x01" + bytes(subscription.encode(1))


def _wish(kind: str, metadata: bytes) -> str:
    if kind != "consumer" or not metadata.startswith(b"\x00\x01"):
        return metadata.decode()
    subscription, _ = ConsumerProtocolSubscription.decode_from(metadata, 2, 1)
    return "+".join(subscription.topics)
