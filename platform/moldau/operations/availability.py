"""What a cluster cannot do any more when nodes or a rack die: read, write, elect, be found.

The decision takes a cluster as it is seen, and a failure. It needs only what Kafka's own requests
tell, so it works with any Kafka.

A partition needs a replica in sync to be read, and `min.insync.replicas` of them for a write with
acks=all. The metadata quorum needs more than half of its voters, alive and caught up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.client import Admin
    from moldau.client.admin.cluster import ClusterDescription, Quorum, QuorumReplica
    from moldau.link.addresses import Address
    from moldau.link.metadata import Partition, Topic

MIN_INSYNC: Final = "min.insync.replicas"
NOW: Final = "nothing fails"
SILENCE_MS_MAX: Final = 10_000
"""A voter that has not fetched for this long counts as dead."""
_AT_ONCE: Final = 50
_NEEDED_FOR: Final = {
    "__consumer_offsets": "groups cannot commit, join or begin",
    "__transaction_state": "transactions cannot begin or end",
    "__share_group_state": "share groups cannot read",
    "__remote_log_metadata": "nothing can be copied to the remote tier, or found there",
    "_schemas": "schemas cannot be registered",
}


class RiskKind(Enum):
    """What a failure takes away."""

    UNREADABLE = "unreadable"
    UNWRITABLE = "unwritable"
    """Writes with acks=all are refused; reads go on."""
    NO_QUORUM = "no quorum"
    """No topic can change, and no leader can be elected."""
    NOT_FOUND = "not found"
    """Clients with these settings cannot find the cluster."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Nodes that die together."""

    name: str
    nodes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Risk:
    """What a failure takes away from one topic, from the quorum or from clients."""

    failure: str
    kind: RiskKind
    what: str
    partitions: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A cluster as its brokers report it. Without `quorum` it tells nothing about that."""

    described: ClusterDescription
    topics: Sequence[Topic]
    min_insync: Mapping[str, int]
    quorum: Quorum | None = None

    @property
    def nodes(self) -> list[int]:
        """The ids of all living brokers and of all voters."""
        ids = {each.node_id for each in self.described.brokers}
        if self.quorum is not None:
            ids |= {each.node_id for each in self.quorum.voters}
        return sorted(ids)

    def not_in_sync(self) -> Iterator[tuple[str, Partition]]:
        """Yield the partitions that have replicas out of sync, or no leader."""
        for topic in self.topics:
            for each in topic.partitions:
                if each.leader < 0 or not {*each.replicas} <= {*each.isr}:
                    yield topic.name, each


async def look(admin: Admin) -> SeenCluster:
    """Ask the cluster for all that `risks` needs. Raise HiddenNames if topics are hidden."""
    from moldau.operations.hidden import check_all_visible

    await check_all_visible(admin)
    topics = await admin.list_topics(internal=True)
    floors = await min_insync_of(admin, [each.name for each in topics])
    return await look_again(admin, floors)


async def look_again(admin: Admin, min_insync: Mapping[str, int]) -> SeenCluster:
    """Ask again for what changes by itself."""
    try:
        described = await admin.describe_cluster(include_fenced=True)
    except KafkaError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        described = await admin.describe_cluster()
    topics = await admin.list_topics(internal=True)
    return SeenCluster(described, topics, min_insync, await _quorum(admin))


async def _quorum(admin: Admin) -> Quorum | None:
    """Return the quorum; one without a voter if it has no leader, None of a ZooKeeper cluster."""
    from moldau.client.admin.cluster import Quorum

    try:
        return await admin.describe_quorum()
    except KafkaError as error:
        if error.code == ErrorCode.UNSUPPORTED_VERSION:
            return None
        if error.code not in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER):
            raise
        return Quorum(-1, -1, -1, (), ())


async def min_insync_of(admin: Admin, topics: Sequence[str]) -> dict[str, int]:
    """Return `min.insync.replicas` of these topics; 1 for one that is deleted meanwhile."""
    from moldau.client import Resource, ResourceType
    from moldau.client.admin.requests import at_once

    async def ask(topic: str) -> int:
        entries = await admin.describe_configs(
            Resource(ResourceType.TOPIC, topic), names=(MIN_INSYNC,)
        )
        return next((int(each.value or 1) for each in entries if each.name == MIN_INSYNC), 1)

    found: dict[str, int] = {}
    for start in range(0, len(topics), _AT_ONCE):
        answers = await at_once(topics[start : start + _AT_ONCE], ask)
        for topic, answer in answers.items():
            if not isinstance(answer, KafkaError):
                found[topic] = answer
            elif answer.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                found[topic] = 1
            else:
                raise answer
    return found


def failures_of(seen: SeenCluster) -> list[Failure]:
    """Return each node that can die, and each rack of several brokers."""
    racks: dict[str, set[int]] = defaultdict(set)
    for each in seen.described.brokers:
        if each.rack:
            racks[each.rack].add(each.node_id)
    nodes = [Failure(f"node {each}", frozenset({each})) for each in seen.nodes]
    return nodes + [
        Failure(f"rack {rack}", frozenset(ids))
        for rack, ids in sorted(racks.items())
        if len(ids) > 1
    ]


def risks(
    seen: SeenCluster,
    failures: Iterable[Failure],
    clients: Mapping[str, Sequence[Address]] | None = None,
) -> list[Risk]:
    """Return what is at risk: first what is wrong already, then what each failure takes away beside
    that. `clients` are the addresses that clients begin with, by the name of their settings."""
    now = _risks_of(seen, Failure(NOW), clients or {})
    gone = {(each.kind, each.what, number) for each in now for number in each.partitions or (-1,)}
    found = list(now)
    for failure in failures:
        for risk in _risks_of(seen, failure, clients or {}):
            left = [n for n in risk.partitions or (-1,) if (risk.kind, risk.what, n) not in gone]
            if left:
                partitions = tuple(each for each in left if each >= 0)
                found.append(Risk(risk.failure, risk.kind, risk.what, partitions, risk.why))
    return found


def _risks_of(
    seen: SeenCluster, failure: Failure, clients: Mapping[str, Sequence[Address]]
) -> list[Risk]:
    found: list[Risk] = []
    for topic in seen.topics:
        floor = seen.min_insync.get(topic.name, 1)
        by_risk: dict[tuple[RiskKind, str], list[int]] = defaultdict(list)
        for each in topic.partitions:
            risk = _risk_of(each, failure, floor)
            if risk is not None:
                by_risk[risk].append(each.index)
        needed = _NEEDED_FOR.get(topic.name)
        for (kind, reason), partitions in sorted(by_risk.items(), key=lambda each: each[1]):
            why = f"{reason}: {needed}" if needed else reason
            found.append(Risk(failure.name, kind, topic.name, tuple(partitions), why))
    fenced = {each.node_id for each in seen.described.fenced}
    found += _quorum_risks(seen.quorum, fenced, failure)
    dead = {each.address for each in seen.described.brokers if each.node_id in failure.nodes}
    dead |= {each.address for each in seen.described.fenced}
    for name, addresses in clients.items():
        if addresses and dead.issuperset(addresses):
            only = ", ".join(map(str, addresses))
            why = f"its bootstrap.servers are only {only}"
            found.append(Risk(failure.name, RiskKind.NOT_FOUND, name, (), why))
    return found


def _risk_of(partition: Partition, failure: Failure, floor: int) -> tuple[RiskKind, str] | None:
    if not failure.nodes and partition.leader < 0:
        return RiskKind.UNREADABLE, "it has no leader"
    hit = failure.nodes & {*partition.isr}
    if failure.nodes and not hit:
        return None
    left = len({*partition.isr} - failure.nodes)
    if not left:
        if len(partition.replicas) == 1:
            return RiskKind.UNREADABLE, "its only replica"
        where = (
            "all replicas are there"
            if failure.nodes >= {*partition.replicas}
            else ("no other replica is in sync")
        )
        return RiskKind.UNREADABLE, where
    if left < floor:
        return RiskKind.UNWRITABLE, f"{left} in sync would be left, {MIN_INSYNC} is {floor}" if (
            failure.nodes
        ) else f"{left} in sync, {MIN_INSYNC} is {floor}"
    return None


def leader_now_ms(quorum: Quorum) -> int:
    """Return the time by the leader's clock: a leader counts as fetching now."""
    return max((each.last_fetch_ms for each in (*quorum.voters, *quorum.observers)), default=0)


def healthy_voters(quorum: Quorum) -> set[int]:
    """Return the voters that are alive and have all that is committed, or had a moment ago."""
    now_ms = leader_now_ms(quorum)

    def is_healthy(voter: QuorumReplica) -> bool:
        if voter.node_id == quorum.leader_id:
            return True
        is_alive = now_ms - voter.last_fetch_ms <= SILENCE_MS_MAX
        has_all = voter.log_end_offset >= quorum.high_watermark
        return is_alive and (has_all or now_ms - voter.last_caught_up_ms <= SILENCE_MS_MAX)

    return {each.node_id for each in quorum.voters if is_healthy(each)}


def _quorum_risks(quorum: Quorum | None, fenced: set[int], failure: Failure) -> Iterator[Risk]:
    """A node that is fenced as a broker has stopped, which the quorum notices seconds later."""
    if quorum is None:
        return
    if quorum.leader_id < 0:
        yield Risk(failure.name, RiskKind.NO_QUORUM, "metadata", (), "the quorum has no leader")
        return
    voters = {each.node_id for each in quorum.voters}
    if failure.nodes and not failure.nodes & voters:
        return
    left = healthy_voters(quorum) - failure.nodes - fenced
    needed = len(voters) // 2 + 1
    if len(left) < needed:
        why = f"{len(left)} of {len(voters)} voters would be left, {needed} are needed"
        yield Risk(failure.name, RiskKind.NO_QUORUM, "metadata", (), why)
