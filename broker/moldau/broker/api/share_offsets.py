"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets (KIP-932, KIP-1226).

The group's coordinator knows which partitions have a state; the share coordinator has the states.
A change goes through both: states first, then what the group remembers, so that a crash in between
leaves nothing that a repeated request does not repair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from moldau.broker.api.gate import allowed, is_allowed
from moldau.broker.api.partition_ends import find_ends
from moldau.broker.api.refusal import message_of
from moldau.broker.api.share_acknowledging import serves_share_groups
from moldau.broker.api.together import PartialAnswers
from moldau.broker.coordinator.group.share import initialization, offsets
from moldau.broker.coordinator.outcome import Outcome
from moldau.broker.share.persister import ShareKey
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.declare import Response
from moldau.protocol.messages import alter_share_group_offsets as altering
from moldau.protocol.messages import delete_share_group_offsets as deleting
from moldau.protocol.messages import describe_share_group_offsets as describing
from moldau.protocol.messages.delete_groups import DeleteGroupsResponse

if TYPE_CHECKING:
    from moldau.broker.api.node import Node, OnAnswer
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.coordinator.group.consumer.partitions import Partitions
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.ids import Uuid

UNKNOWN: Final = -1
_NOT_HOSTED: Final = "This server does not host this topic-partition."
_NOTHING: Final = "There is no offset information to delete."
_LEAST: Final = -(1 << 63)
_DONE: Final = DeleteGroupsResponse(results=[])
"""The answer of decisions whose result is in a closure."""
TopicIdPartition: TypeAlias = "tuple[Uuid, int]"
OnPartition: TypeAlias = "Callable[[describing.DescribeShareGroupOffsetsResponsePartition], None]"
_Partition = describing.DescribeShareGroupOffsetsResponsePartition


def _ask_group(
    node: Node, group_id: str, name: str, decide: Callable[[Groups], Outcome], then: OnAnswer
) -> None:
    """Let the group's shard decide something whose result the caller has in a closure."""

    def decided(groups: Groups, now_ms: int) -> Outcome:
        outcome = decide(groups)
        return outcome._replace(answers=((then, _DONE),))

    node.groups.submit(group_id, decided, then, name)


# Describe.


def serve_describe(node: Node, request: ApiRequest) -> None:
    message = cast(describing.DescribeShareGroupOffsetsRequest, request.decode())

    def finish(found: Sequence[describing.DescribeShareGroupOffsetsResponseGroup]) -> None:
        request.answer(describing.DescribeShareGroupOffsetsResponse(groups=list(found)))

    together = PartialAnswers[describing.DescribeShareGroupOffsetsResponseGroup](
        len(message.groups), finish
    )
    for number, asked in enumerate(message.groups):
        group_id = asked.group_id

        def put(
            topics: list[describing.DescribeShareGroupOffsetsResponseTopic],
            error: KafkaError | None = None,
            number: int = number,
            group_id: str = group_id,
        ) -> None:
            row = describing.DescribeShareGroupOffsetsResponseGroup(
                group_id=group_id, topics=topics, error_code=ErrorCode.NONE
            )
            if error is not None:
                row.error_code, row.error_message = error.code, message_of(error)
            together.put(number, row)

        if not serves_share_groups(node):
            put([], KafkaError(ErrorCode.UNSUPPORTED_VERSION))
        elif not is_allowed(node, request, AclResource.GROUP, group_id):
            put([], KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        elif not group_id:
            put([], KafkaError(ErrorCode.INVALID_GROUP_ID))
        elif asked.topics is None:
            _describe_all(node, request, group_id, put)
        else:
            _describe(
                node, request, group_id, [(t.topic_name, t.partitions) for t in asked.topics], put
            )


def _describe_all(node: Node, request: ApiRequest, group_id: str, put: Callable[..., None]) -> None:
    """Describe all partitions that have a state."""
    found: list[Partitions] = []

    def decide(groups: Groups) -> Outcome:
        found.append(offsets.kept(groups, group_id))
        return Outcome()

    def then(answer: Response | KafkaError) -> None:
        if isinstance(answer, KafkaError):
            put([], answer)
            return
        topics = node.image.topics.by_id
        wanted = [
            (topics[topic_id].name, sorted(held))
            for topic_id, held in found[0].items()
            if topic_id in topics
        ]
        may = set(allowed(node, request, AclResource.TOPIC, [name for name, _ in wanted]))
        _describe(node, request, group_id, [each for each in wanted if each[0] in may], put)

    _ask_group(node, group_id, "DescribeShareGroupOffsets", decide, then)


def _describe(
    node: Node,
    request: ApiRequest,
    group_id: str,
    wanted: Sequence[tuple[str, Sequence[int]]],
    put: Callable[..., None],
) -> None:
    """Describe these partitions. A topic that does not exist, or that the client may not see, has
    rows without offsets."""
    rows: list[describing.DescribeShareGroupOffsetsResponseTopic] = []
    may = set(allowed(node, request, AclResource.TOPIC, [name for name, _ in wanted]))
    places: list[tuple[list[Any], Uuid, str, int]] = []
    for name, partitions in wanted:
        topic = node.image.topics.by_name(name) if name in may else None
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        row = describing.DescribeShareGroupOffsetsResponseTopic(
            topic_name=name, topic_id=topic_id, partitions=[]
        )
        rows.append(row)
        if name not in may:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            row.partitions += (_row(each, error_code=code) for each in partitions)
        elif topic is None:
            row.partitions += (_row(each) for each in partitions)
        else:
            places += ((row.partitions, topic_id, name, each) for each in partitions)

    def finish(found: Sequence[_Partition]) -> None:
        for (to, *_), each in zip(places, found, strict=True):
            to.append(each)
        put(rows)

    together = PartialAnswers[_Partition](len(places), finish)
    for number, (_, topic_id, name, index) in enumerate(places):
        _describe_one(
            node,
            ShareKey(group_id, topic_id, index),
            name,
            partial(together.put, number),
        )


def _row(index: int, **fields: Any) -> _Partition:
    values: dict[str, Any] = {
        "start_offset": UNKNOWN,
        "leader_epoch": 0,
        "lag": UNKNOWN,
        "error_code": ErrorCode.NONE,
        **fields,
    }
    return _Partition(partition_index=index, **values)


def _describe_one(node: Node, key: ShareKey, topic: str, then: OnPartition) -> None:
    index = key.partition

    def summarized(result: Any) -> None:
        if result.error_code:
            then(_row(index))
            return
        start, done = result.start_offset, result.delivery_complete_count
        if start == UNKNOWN or done == UNKNOWN:
            then(_row(index, start_offset=start, leader_epoch=result.leader_epoch))
            return

        def ended(end: int | KafkaError) -> None:
            if isinstance(end, KafkaError):
                then(_row(index, start_offset=0, lag=UNKNOWN, error_code=end.code))
                return
            epoch = result.leader_epoch
            lag = max(_LEAST, min(end - start - done, -_LEAST - 1))  # a start may be any int64
            then(_row(index, start_offset=start, leader_epoch=epoch, lag=lag))

        find_ends(node, {topic: (index,)}, lambda found: ended(found[topic, index]))

    node.share_persister.summarize(key, summarized)


# Alter.


def serve_alter(node: Node, request: ApiRequest) -> None:
    """Let states begin anew at other offsets, for a group without members. It need not exist."""
    message = cast(altering.AlterShareGroupOffsetsRequest, request.decode())
    group_id = message.group_id
    _check_group(node, request, group_id)
    rows, wanted = _altered(node, request, message)
    resets: list[offsets.Reset] = []

    def decide(groups: Groups) -> Outcome:
        outcome, reset = offsets.begin_reset(offsets.empty_or_new(groups, group_id), wanted)
        resets.append(reset)
        return outcome

    def finish(results: Sequence[Any]) -> None:
        done: dict[Uuid, frozenset[int]] = {}
        for place, result in zip(wanted, results, strict=True):
            if result.error_code:
                rows[place].error_code = result.error_code
                rows[place].error_message = result.error_message
            else:
                done[place[0]] = done.get(place[0], frozenset()) | {place[1]}
        _ask_group(
            node,
            group_id,
            "AlterShareGroupOffsets",
            lambda groups: initialization.on_initialized(groups, group_id, done),
            lambda answer: request.answer(_alter_response(node, rows)),
        )

    def then(answer: Response | KafkaError) -> None:
        if isinstance(answer, KafkaError):
            request.answer(
                altering.AlterShareGroupOffsetsResponse(
                    error_code=answer.code, error_message=message_of(answer), responses=[]
                )
            )
            return
        together = PartialAnswers[Any](len(wanted), finish)
        for number, ((topic_id, index), start) in enumerate(wanted.items()):
            node.share_persister.initialize(
                ShareKey(group_id, topic_id, index),
                resets[0].state_epoch,
                start,
                partial(together.put, number),
            )

    _ask_group(node, group_id, "AlterShareGroupOffsets", decide, then)


def _check_group(node: Node, request: ApiRequest, group_id: str) -> None:
    if not serves_share_groups(node):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if not is_allowed(node, request, AclResource.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


AlteredRows: TypeAlias = "dict[tuple[Uuid | str, int], Any]"


def _altered(
    node: Node, request: ApiRequest, message: altering.AlterShareGroupOffsetsRequest
) -> tuple[AlteredRows, dict[TopicIdPartition, int]]:
    """Return a row for each partition, by topic id (by name if the topic is unknown or hidden), and
    the start offsets of those that can be altered."""
    may = set(
        allowed(node, request, AclResource.TOPIC, [each.topic_name for each in message.topics])
    )
    rows: AlteredRows = {}
    wanted: dict[TopicIdPartition, int] = {}
    for topic in message.topics:
        name = topic.topic_name
        known = node.image.topics.by_name(name) if name in may else None
        for each in topic.partitions:
            index = each.partition_index
            row = altering.AlterShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=ErrorCode.NONE
            )
            if name not in may:
                row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or index not in known.partitions:
                row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                row.error_message = _NOT_HOSTED
            else:
                wanted[known.topic_id, index] = each.start_offset
            rows[name if known is None else known.topic_id, index] = row
    return rows, wanted


def _alter_response(node: Node, rows: AlteredRows) -> Response:
    topics: dict[Uuid | str, altering.AlterShareGroupOffsetsResponseTopic] = {}
    for (topic, _), row in rows.items():
        at = topics.get(topic)
        if at is None:
            known = node.image.topics.by_id.get(topic) if isinstance(topic, bytes) else None
            at = topics[topic] = altering.AlterShareGroupOffsetsResponseTopic(
                topic_name=str(topic) if known is None else known.name,
                topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
                partitions=[],
            )
        at.partitions.append(row)
    return altering.AlterShareGroupOffsetsResponse(
        error_code=ErrorCode.NONE, responses=list(topics.values())
    )


# Delete.


def serve_delete(node: Node, request: ApiRequest) -> None:
    """Forget topics of a group without members: their states, then what the group knows of them."""
    message = cast(deleting.DeleteShareGroupOffsetsRequest, request.decode())
    group_id = message.group_id
    _check_group(node, request, group_id)
    names = [each.topic_name for each in message.topics]
    may = set(allowed(node, request, AclResource.TOPIC, names))
    found: list[Partitions] = []

    def decide(groups: Groups) -> Outcome:
        offsets.check_empty(groups, group_id)
        found.append(offsets.kept(groups, group_id))
        return Outcome()

    def then(answer: Response | KafkaError) -> None:
        if isinstance(answer, KafkaError):
            request.answer(
                deleting.DeleteShareGroupOffsetsResponse(
                    error_code=answer.code, error_message=message_of(answer), responses=[]
                )
            )
            return
        rows = [_deleted_row(node, name, name in may, found[0]) for name in names]
        fine = {each.topic_id: each for each in rows if not each.error_code}
        wanted = {topic_id: found[0][topic_id] for topic_id in fine}

        def finish(errors: Mapping[Uuid, int]) -> None:
            for topic_id, code in errors.items():
                fine[topic_id].error_code = code
            gone = frozenset(wanted) - set(errors)
            _ask_group(
                node,
                group_id,
                "DeleteShareGroupOffsets",
                lambda groups: offsets.forgotten(offsets.check_empty(groups, group_id), gone),
                lambda answer: request.answer(
                    deleting.DeleteShareGroupOffsetsResponse(
                        error_code=ErrorCode.NONE, responses=rows
                    )
                ),
            )

        _delete_states(node, group_id, wanted, finish)

    _ask_group(node, group_id, "DeleteShareGroupOffsets", decide, then)


def _deleted_row(node: Node, name: str, is_allowed: bool, kept: Partitions) -> Any:
    topic = node.image.topics.by_name(name) if is_allowed else None
    row = deleting.DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=ZERO_UUID if topic is None else topic.topic_id,
        error_code=ErrorCode.NONE,
    )
    if not is_allowed:
        row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif topic is None or topic.topic_id not in kept:
        row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        row.error_message = _NOTHING if topic is not None else _NOT_HOSTED
        row.topic_id = ZERO_UUID
    return row


def _delete_states(
    node: Node,
    group_id: str,
    wanted: Partitions,
    then: Callable[[Mapping[Uuid, int]], None],
) -> None:
    """Delete states. `then` gets the error of each topic that has one."""
    places = [(topic_id, index) for topic_id, held in wanted.items() for index in sorted(held)]

    def finish(results: Sequence[Any]) -> None:
        pairs = zip(places, results, strict=True)
        then({place[0]: each.error_code for place, each in pairs if each.error_code})

    together = PartialAnswers[Any](len(places), finish)
    for number, (topic_id, index) in enumerate(places):
        node.share_persister.delete(
            ShareKey(group_id, topic_id, index),
            partial(together.put, number),
        )


def delete_states_of_group(node: Node, group_id: str, then: OnAnswer) -> None:
    """Delete all states of a group that is about to be deleted. `then` is called with an error, or
    with an empty response; for a group of another kind at once."""
    found: list[Partitions] = []

    def decide(groups: Groups) -> Outcome:
        groups.existing(group_id).check_delete()
        found.append(offsets.kept(groups, group_id))
        return Outcome()

    def finish(errors: Mapping[Uuid, int]) -> None:
        then(KafkaError(ErrorCode(next(iter(errors.values())))) if errors else _DONE)

    def decided(answer: Response | KafkaError) -> None:
        if isinstance(answer, KafkaError):
            then(answer)
        else:
            topics = node.image.topics.by_id
            left = {each: held for each, held in found[0].items() if each in topics}
            _delete_states(node, group_id, left, finish)

    _ask_group(node, group_id, "DeleteGroups", decide, decided)
