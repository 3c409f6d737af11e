"""Scripts of what members do to one group, and what they hear.

    # The first member gets everything.
    join a topics=t1
    ----
    ok epoch=2 t1[0-5]

A block is comment lines, a command, `----`, and the answer. `pytest --rewrite` writes the answers
that our group gives. The same files are played to Apache Kafka (`test_peer`) and to our broker over
its sockets (`test_served`): an answer stands here only if all give it. So a script avoids what
is left to chance, such as which partitions of several topics `uniform` moves.

    join M [topics=t1+t2] [regex=t.*] [instance=i] [rack=r] [assignor=range] [rebalance=MS] ...
    beat M [epoch=N] [owns=t1:0-2,4] [topics=] [regex=] [assignor=] ...   owns=told: all it was told
    leave M | leave-static M
    classic-join M [topics=] [owns=] [instance=] [session=MS] [rebalance=MS] [id=none] [protocols=]
    classic-sync M [gives=t1:0-5] | classic-beat M | classic-leave M       [generation=N]
    commit M TOPIC:PARTITION [epoch=N] [version=9]
    fetch M [epoch=N]
    describe
    topic NAME=SIZE | delete NAME
    set NAME=VALUE   a setting of the group
    wait MS
    keep M+M MS      they send a heartbeat a second for that long; what they hear is not shown

A heartbeat's answer shows `every=MS` where that is not the broker's setting.

Options of every command about a member: id= (sent as the member id; `none` is empty), version=. A
member's id is its label, until a JoinGroup gives it another; it keeps its instance id. `%` in an
expression stands for what the names of topics begin with where the script is played.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.consumer_group_describe import Assignment as DescribedAssignment
from moldau.protocol.messages.consumer_group_describe import DescribedGroup
from moldau.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest
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
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from moldau.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from moldau.protocol.schemas.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from moldau.protocol.schemas.versioned import decode_as_known, encode_versioned
from tests.broker.coordinator.consumer.world import SETTINGS

RULE: Final = "----"
SCRIPTS: Final = Path(__file__).parent / "scripts"
TOPICS: Final = {"t1": 6, "t2": 3, "u1": 4}
"""What there is at the beginning of each script."""

Owned = dict[str, list[int]]


class Peer(Protocol):
    """Who plays the broker."""

    group_id: str
    prefix: str
    """What the names of topics begin with there."""

    def hear(self, request: Request, version: int, client_id: str) -> Response | KafkaError: ...

    def describe(self) -> DescribedGroup | None: ...

    def topic_id(self, name: str) -> Uuid: ...

    def topic_name(self, topic_id: Uuid) -> str: ...

    def change_topic(self, name: str, size: int | None) -> None: ...

    def set(self, name: str, value: str) -> None: ...

    def wait(self, wait_ms: int) -> None: ...


@dataclass(slots=True)
class Block:
    """One command and its answer."""

    comments: list[str]
    command: str
    answer: str

    def text(self) -> str:
        return "\n".join([*self.comments, self.command, RULE, self.answer]).rstrip() + "\n"


def parse(text: str) -> Iterator[Block]:
    """The blocks of a script, which blank lines divide."""
    for part in text.strip().split("\n\n"):
        lines = part.splitlines()
        at = lines.index(RULE)
        comments = [each for each in lines[:at] if each.startswith("#")]
        (command,) = (each for each in lines[:at] if not each.startswith("#"))
        yield Block(comments, command, "\n".join(lines[at + 1 :]))


def play(text: str, peer: Peer) -> str:
    """The script with the answers that this peer gives."""
    cast = Cast(peer)
    return "\n".join(
        Block(each.comments, each.command, cast.perform(each.command)).text()
        for each in parse(text)
    )


@dataclass(slots=True)
class Member:
    """What a client knows of itself."""

    epoch: int = 0
    member_id: str = ""
    instance: str | None = None
    told: Owned = field(default_factory=dict)


class Cast:
    """The members of one play."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._members: dict[str, Member] = {}

    def perform(self, command: str) -> str:
        """One command; what comes of it."""
        what, *rest = command.split()
        match what:
            case "wait":
                self._peer.wait(int(rest[0]))
                return ""
            case "topic":
                name, _, size = rest[0].partition("=")
                self._peer.change_topic(self._peer.prefix + name, int(size))
                return ""
            case "delete":
                self._peer.change_topic(self._peer.prefix + rest[0], None)
                return ""
            case "set":
                name, _, value = rest[0].partition("=")
                self._peer.set(name, value)
                return ""
            case "describe":
                return self._show_group(self._peer.describe())
            case "keep":
                for _ in range(int(rest[1]) // 1000):
                    self._peer.wait(1000)
                    for label in rest[0].split("+"):
                        self.perform(f"beat {label} owns=told")
                return ""
        label = rest[0]
        given = dict(each.split("=", 1) for each in rest[1:] if "=" in each)
        member = self._members.setdefault(label, Member(member_id=label))
        member.instance = given.get("instance", member.instance)
        request, version = self._request(what, label, member, given, rest)
        answer = self._peer.hear(request, int(given.get("version", version)), label)
        if isinstance(answer, KafkaError):
            return answer.code.name
        return self._show(member, answer)

    # Asking

    def _request(
        self, what: str, label: str, member: Member, given: Mapping[str, str], rest: list[str]
    ) -> tuple[Request, int]:
        member_id = given.get("id", member.member_id)
        if member_id == "none":
            member_id = ""
        group_id = self._peer.group_id
        generation = int(given.get("generation", member.epoch))
        match what:
            case "join" | "beat" | "leave" | "leave-static":
                return self._heartbeat(what, member_id, member, given), 1
            case "classic-join":
                return self._classic_join(member_id, member, given), 9
            case "classic-sync":
                return SyncGroupRequest(
                    group_id=group_id,
                    generation_id=generation,
                    member_id=member_id,
                    group_instance_id=member.instance,
                    protocol_type=given.get("type", "consumer"),
                    protocol_name=given.get("name", "range"),
                    assignments=self._given(member_id, given.get("gives")),
                ), 5
            case "classic-beat":
                return HeartbeatRequest(
                    group_id=group_id,
                    generation_id=generation,
                    member_id=member_id,
                    group_instance_id=member.instance,
                ), 4
            case "classic-leave":
                identity = MemberIdentity(member_id=member_id, group_instance_id=member.instance)
                return LeaveGroupRequest(group_id=group_id, members=[identity]), 5
            case "commit":
                return self._commit(member_id, member, given, rest[1]), 9
            case "fetch":
                return self._fetch(member_id, member, given), 9
        raise ValueError(f"no command {what!r}")

    def _heartbeat(
        self, what: str, member_id: str, member: Member, given: Mapping[str, str]
    ) -> ConsumerGroupHeartbeatRequest:
        joins = what == "join"
        epochs = {"join": 0, "leave": -1, "leave-static": -2}
        epoch = int(given.get("epoch", epochs.get(what, member.epoch)))
        owns = given.get("owns", "" if joins else None)
        regex = given.get("regex")
        topics = given.get("topics")
        return ConsumerGroupHeartbeatRequest(
            group_id=self._peer.group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=member.instance,
            rack_id=given.get("rack"),
            rebalance_timeout_ms=int(given.get("rebalance", 60_000 if joins else -1)),
            subscribed_topic_names=None if topics is None else self._names(topics),
            subscribed_topic_regex=None
            if regex is None
            else regex.replace("%", self._peer.prefix.replace(".", "\\.")),
            server_assignor=given.get("assignor"),
            topic_partitions=None if owns is None else self._owned(member, owns),
        )

    def _names(self, topics: str) -> list[str]:
        return [self._peer.prefix + each for each in topics.split("+") if each]

    def _owned(self, member: Member, owns: str) -> list[TopicPartitions]:
        named = member.told if owns == "told" else _read_owned(owns)
        return [
            TopicPartitions(
                topic_id=self._peer.topic_id(self._peer.prefix + name), partitions=partitions
            )
            for name, partitions in named.items()
        ]

    def _classic_join(
        self, member_id: str, member: Member, given: Mapping[str, str]
    ) -> JoinGroupRequest:
        owns = given.get("owns", "")
        owned = member.told if owns == "told" else _read_owned(owns)
        subscription = ConsumerProtocolSubscription(
            topics=self._names(given.get("topics", "t1")),
            owned_partitions=[
                TopicPartition(topic=self._peer.prefix + name, partitions=partitions)
                for name, partitions in owned.items()
            ],
        )
        metadata = encode_versioned(subscription, 3)
        offers = given.get("protocols", "range").split("+")
        return JoinGroupRequest(
            group_id=self._peer.group_id,
            session_timeout_ms=int(given.get("session", 30_000)),
            rebalance_timeout_ms=int(given.get("rebalance", 60_000)),
            member_id=member_id,
            group_instance_id=member.instance,
            protocol_type=given.get("type", "consumer"),
            protocols=[JoinGroupRequestProtocol(name=each, metadata=metadata) for each in offers],
        )

    def _given(self, member_id: str, gives: str | None) -> list[SyncGroupRequestAssignment]:
        """The leader's assignment, to itself."""
        if gives is None:
            return []
        assignment = ConsumerProtocolAssignment(
            assigned_partitions=[
                TopicPartition(topic=self._peer.prefix + name, partitions=partitions)
                for name, partitions in _read_owned(gives).items()
            ]
        )
        encoded = encode_versioned(assignment, 3)
        return [SyncGroupRequestAssignment(member_id=member_id, assignment=encoded)]

    def _commit(
        self, member_id: str, member: Member, given: Mapping[str, str], place: str
    ) -> OffsetCommitRequest:
        name, _, partition = place.partition(":")
        committed = OffsetCommitRequestPartition(
            partition_index=int(partition), committed_offset=1, committed_metadata=None
        )
        topic = OffsetCommitRequestTopic(name=self._peer.prefix + name, partitions=[committed])
        return OffsetCommitRequest(
            group_id=self._peer.group_id,
            generation_id_or_member_epoch=int(given.get("epoch", member.epoch)),
            member_id=member_id,
            group_instance_id=member.instance,
            topics=[topic],
        )

    def _fetch(
        self, member_id: str, member: Member, given: Mapping[str, str]
    ) -> OffsetFetchRequest:
        epoch = int(given.get("epoch", member.epoch))
        of_group = OffsetFetchRequestGroup(
            group_id=self._peer.group_id,
            member_id=member_id or None,
            member_epoch=epoch,
            topics=None,
        )
        return OffsetFetchRequest(groups=[of_group])

    # Answers

    def _show(self, member: Member, answer: Response) -> str:
        match answer:
            case ConsumerGroupHeartbeatResponse():
                return self._show_heartbeat(member, answer)
            case JoinGroupResponse():
                if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                    member.member_id = answer.member_id
                if answer.error_code:
                    return ErrorCode(answer.error_code).name
                member.epoch = answer.generation_id
                return f"ok generation={answer.generation_id} protocol={answer.protocol_name}"
            case SyncGroupResponse():
                if answer.error_code:
                    return ErrorCode(answer.error_code).name
                given = decode_as_known(ConsumerProtocolAssignment, answer.assignment)
                owned = {
                    each.topic.removeprefix(self._peer.prefix): sorted(each.partitions)
                    for each in given.assigned_partitions
                }
                member.told = owned
                return f"ok {_show_owned(owned)}"
            case LeaveGroupResponse():
                codes = [answer.error_code, *(each.error_code for each in answer.members)]
                return ErrorCode(max(codes)).name if any(codes) else "ok"
            case OffsetCommitResponse():
                code = answer.topics[0].partitions[0].error_code
                return ErrorCode(code).name if code else "ok"
            case OffsetFetchResponse():
                code = answer.groups[0].error_code
                return ErrorCode(code).name if code else "ok"
        code = getattr(answer, "error_code", 0)
        return ErrorCode(code).name if code else "ok"

    def _show_heartbeat(self, member: Member, answer: ConsumerGroupHeartbeatResponse) -> str:
        if answer.error_code:
            return ErrorCode(answer.error_code).name
        member.epoch = answer.member_epoch
        shown = f"ok epoch={answer.member_epoch}"
        if answer.heartbeat_interval_ms not in (
            0,
            SETTINGS["group.consumer.heartbeat.interval.ms"],
        ):
            shown += f" every={answer.heartbeat_interval_ms}"
        if answer.assignment is None:
            return shown
        member.told = self._named(answer.assignment)
        return f"{shown} {_show_owned(member.told)}"

    def _named(self, assignment: Assignment) -> Owned:
        return {
            self._name(each.topic_id): sorted(each.partitions)
            for each in assignment.topic_partitions
        }

    def _name(self, topic_id: Uuid) -> str:
        return self._peer.topic_name(topic_id).removeprefix(self._peer.prefix)

    def _show_group(self, group: DescribedGroup | None) -> str:
        if group is None:
            return "no consumer group"
        lines = [
            f"{group.group_state} epoch={group.group_epoch} target={group.assignment_epoch}"
            f" assignor={group.assignor_name}"
        ]
        labels = {member.member_id: label for label, member in self._members.items()}
        for member in sorted(group.members, key=lambda each: labels[each.member_id]):
            lines.append(
                f"{labels[member.member_id]} epoch={member.member_epoch}"
                f" has {self._show_described(member.assignment)}"
                f" shall {self._show_described(member.target_assignment)}"
                + ("" if member.instance_id is None else f" instance={member.instance_id}")
                + (" classic" if member.member_type == 0 else "")
            )
        return "\n".join(lines)

    def _show_described(self, assignment: DescribedAssignment) -> str:
        return _show_owned(
            {self._name(each.topic_id): each.partitions for each in assignment.topic_partitions}
        )


def _read_owned(text: str) -> Owned:
    """`t1:0-2,4;t2:1`"""
    owned = {}
    for part in filter(None, text.split(";")):
        name, _, numbers = part.partition(":")
        owned[name] = [each for run in numbers.split(",") for each in _run(run)]
    return owned


def _run(text: str) -> Iterable[int]:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _show_owned(owned: Owned) -> str:
    """`t1[0-2,4]`; topics by name, so that two peers with other ids show the same."""
    shown = []
    for name in sorted(owned):
        runs: list[list[int]] = []
        for partition in sorted(owned[name]):
            if runs and runs[-1][1] == partition - 1:
                runs[-1][1] = partition
            else:
                runs.append([partition, partition])
        parts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
        if parts:
            shown.append(f"{name}[{','.join(parts)}]")
    return " ".join(shown) or "nothing"
