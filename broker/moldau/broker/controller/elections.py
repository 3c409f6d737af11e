"""Elections over many partitions: a broker is fenced, unfenced or stops, or a client requests one.

All of them apply `leadership.change_of` to the partitions concerned, with the settings of their
topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

from moldau.broker.controller.configs import ResourceType
from moldau.broker.controller.image import Image
from moldau.broker.controller.leadership import Circumstances, Election, change_of
from moldau.broker.controller.levels import supports_directories
from moldau.broker.controller.outcome import Outcome, check_record_count
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.topics import Partition
from moldau.broker.settings import topic as topic_rows
from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid
from moldau.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = topic_rows.unclean_leader_election_enable.name

_ELECTION_TYPES = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def topic_config(image: Image, rules: Rules, topic: str, name: str) -> str | None:
    """Return the topic's effective value: its own, this node's, the cluster's, or the default."""
    own = image.configs.of_topic(topic).get(name)
    if own is not None:
        return own
    dynamic = image.configs.of_broker(rules.node_id)
    return rules.configs.default(ResourceType.TOPIC, name, dynamic)


class _TopicRules(NamedTuple):
    """The settings of a topic that its elections depend on."""

    election: Election
    min_isr: int

    @classmethod
    def of(cls, image: Image, rules: Rules, topic: str) -> _TopicRules:
        unclean = topic_config(image, rules, topic, UNCLEAN_ELECTION) == "true"
        min_isr = int(topic_config(image, rules, topic, MIN_ISR) or 1)
        return cls(Election.UNCLEAN if unclean else Election.CLEAN, min_isr)


def circumstances_of(
    image: Image, rules: Rules, topic: str, partition: Partition, active: Collection[int]
) -> Circumstances:
    """Return the conditions of an automatic election of the topic's partition, when these brokers
    are active."""
    return _circumstances(image, _TopicRules.of(image, rules, topic), partition, active)


def _circumstances(
    image: Image, rules: _TopicRules, partition: Partition, active: Collection[int]
) -> Circumstances:

    def may_lead(replica: int) -> bool:
        directory = partition.directory_of(replica)
        return replica in active and image.brokers.by_id[replica].has_online(directory)

    return Circumstances(
        may_lead=may_lead,
        election=rules.election,
        min_isr=rules.min_isr,
        is_elr_enabled=image.features.is_elr_enabled,
        are_directories_known=supports_directories(image.features.metadata_version),
    )


def on_broker_gone(image: Image, rules: Rules, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Yield the changes when the broker leaves every ISR and loses its leaderships."""
    active = image.brokers.active_ids() - {broker_id}
    return _changes(image, rules, active, lambda each: broker_id in each.isr, leaving=broker_id)


def on_broker_back(image: Image, rules: Rules, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Yield the changes for partitions without a leader that may have one again."""
    active = image.brokers.active_ids() | {broker_id}
    return _changes(
        image,
        rules,
        active,
        lambda each: not each.has_leader and broker_id in each.replicas,
    )


def on_unclean_shutdown(
    image: Image, rules: Rules, broker_id: int
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes after an unclean shutdown. The broker may have lost unflushed records, so
    it is neither in sync nor eligible."""
    active = image.brokers.active_ids() - {broker_id}
    return _changes(
        image,
        rules,
        active,
        lambda each: broker_id in each.isr or broker_id in each.elr,
        lost_its_data=broker_id,
    )


def on_directories_lost(
    image: Image, rules: Rules, broker_id: int, directories: Collection[Uuid]
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes after log directories of the broker failed: its replicas there leave the
    ISR and do not lead."""
    return _changes(
        image,
        rules,
        image.brokers.active_ids(),
        lambda each: broker_id in each.isr and each.directory_of(broker_id) in directories,
        leaving=broker_id,
    )


def _changes(
    image: Image,
    rules: Rules,
    active: Collection[int],
    concerns: Callable[[Partition], bool],
    *,
    leaving: int | None = None,
    lost_its_data: int | None = None,
) -> Iterator[PartitionChangeRecord]:
    others = active if leaving is None else set(active) - {leaving}
    of_topic = cache(partial(_TopicRules.of, image, rules))
    for topic, partition_id, partition in image.topics.all_partitions():
        if not concerns(partition):
            continue
        change = change_of(
            (topic.topic_id, partition_id),
            partition,
            _circumstances(image, of_topic(topic.name), partition, others),
            leaving=leaving,
            lost_its_data=lost_its_data,
        )
        if change is not None:
            yield change


def elect_leaders(
    image: Image, rules: Rules, request: ElectLeadersRequest
) -> Outcome[ElectLeadersResponse]:
    """Elect the requested leaders. A request without a list elects for all partitions that need it;
    the response then names only partitions that got a leader or could not."""
    election = _ELECTION_TYPES.get(request.election_type)
    records: list[PartitionChangeRecord] = []
    results: list[ReplicaElectionResult] = []
    if request.topic_partitions is None:
        wanted = {each.name: sorted(each.partitions) for each in image.topics.by_id.values()}
    else:
        wanted = {each.topic: each.partitions for each in request.topic_partitions}
    for name, partition_ids in wanted.items():
        outcomes: list[PartitionResult] = []
        for partition_id in partition_ids:
            result, record = _elect_one(image, rules, (name, partition_id), election)
            if record is not None:
                records.append(record)
            unneeded = result.error_code == ErrorCode.ELECTION_NOT_NEEDED
            if request.topic_partitions is not None or not unneeded:
                outcomes.append(result)
        results.append(ReplicaElectionResult(topic=name, partition_result=outcomes))
    check_record_count(records)
    code = ErrorCode.NONE if election is not None else ErrorCode.INVALID_REQUEST
    return Outcome(
        tuple(records),
        ElectLeadersResponse(error_code=code, replica_election_results=results),
    )


def give_back(image: Image, rules: Rules, most: int) -> tuple[PartitionChangeRecord, ...]:
    """Return leadership to preferred replicas that can take it, for at most `most` partitions."""
    return _elections(image, rules, Election.PREFERRED, most)


def elect_uncleanly(image: Image, rules: Rules, most: int) -> tuple[PartitionChangeRecord, ...]:
    """Elect leaders for at most `most` leaderless partitions that allow unclean elections."""
    return _elections(image, rules, Election.UNCLEAN, most)


def _elections(
    image: Image, rules: Rules, election: Election, most: int
) -> tuple[PartitionChangeRecord, ...]:
    active = image.brokers.active_ids()
    records: list[PartitionChangeRecord] = []
    for topic, partition_id, partition in image.topics.all_partitions():
        if not _is_needed(partition, election):
            continue
        usual = circumstances_of(image, rules, topic.name, partition, active)
        if election is Election.UNCLEAN and usual.election is not Election.UNCLEAN:
            continue
        at = replace(usual, election=election)
        change = change_of((topic.topic_id, partition_id), partition, at)
        if change is not None and _leads(change, partition, election):
            records.append(change)
            if len(records) >= most:
                break
    return tuple(records)


def _elect_one(
    image: Image, rules: Rules, name: tuple[str, int], election: Election | None
) -> tuple[PartitionResult, PartitionChangeRecord | None]:
    topic = image.topics.by_name(name[0])
    partition = None if topic is None else topic.partitions.get(name[1])
    if election is None:
        return _result(name[1], ErrorCode.INVALID_REQUEST, "there is no such election type"), None
    if topic is None or partition is None:
        missing = f"topic {name[0]}" if topic is None else f"partition {name[0]}-{name[1]}"
        text = f"{missing} does not exist"
        return _result(name[1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text), None
    if not _is_needed(partition, election):
        return _result(name[1], ErrorCode.ELECTION_NOT_NEEDED), None
    active = image.brokers.active_ids()
    usual = circumstances_of(image, rules, topic.name, partition, active)
    change = change_of((topic.topic_id, name[1]), partition, replace(usual, election=election))
    if change is None or not _leads(change, partition, election):
        failed = (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if election is Election.PREFERRED
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
        return _result(name[1], failed), None
    return _result(name[1], ErrorCode.NONE), change


def _is_needed(partition: Partition, election: Election) -> bool:
    if election is Election.PREFERRED:
        return partition.leader != partition.preferred_leader
    return not partition.has_leader


def _leads(change: PartitionChangeRecord, partition: Partition, election: Election) -> bool:
    if election is Election.PREFERRED:
        return change.leader == partition.preferred_leader
    return change.leader >= 0


def _result(partition_id: int, code: ErrorCode, message: str | None = None) -> PartitionResult:
    shown = message or (code.message if code else None)
    return PartitionResult(partition_id=partition_id, error_code=code, error_message=shown)


def leads_anything(image: Image, broker_id: int) -> bool:
    """Whether the broker leads any partition."""
    return any(partition.leader == broker_id for _, _, partition in image.topics.all_partitions())
