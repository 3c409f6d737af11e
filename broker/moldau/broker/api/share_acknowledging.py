"""Acknowledgements of ShareFetch and ShareAcknowledge: their checks, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.broker.api.gate import allowed
from moldau.broker.controller.levels import SHARE_VERSION
from moldau.broker.settings.coordinator import group_coordinator_rebalance_protocols
from moldau.broker.share.persister import ShareKey
from moldau.broker.share.piece import AcknowledgeType
from moldau.broker.share.sessions import SessionKey
from moldau.broker.share.window import Acknowledgement
from moldau.config import SourceKind
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.share.sessions import TopicIdPartition
    from moldau.config import Settings
    from moldau.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
    from moldau.protocol.messages.share_fetch import ShareFetchRequest

MEMBER_ID_LENGTH_MAX: Final = 36
RENEW_SINCE: Final = 2
NO_DELAY: Final = -1
REASON_LENGTH_MAX: Final = 1000


def serves_share_groups(node: Node) -> bool:
    """Whether this broker serves share groups: from level 1 of the feature share.version on, unless
    the protocols that are set leave them out; or at any level if those name them. Level 2 adds
    nothing here: in Kafka 4.4 dead letters need it, ours are there at level 1."""
    is_named = _is_named(node.settings)
    if is_named is None:
        return node.image.features.levels.get(SHARE_VERSION, 0) >= 1
    return is_named


@lru_cache(1)
def _is_named(settings: Settings) -> bool | None:
    """Return whether the protocols that are set name share groups; None if none are set."""
    setting = group_coordinator_rebalance_protocols
    if settings.source(setting).kind is SourceKind.DEFAULT:
        return None
    return "share" in settings[setting]


def session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """Return the member of a request. Raise INVALID_REQUEST if it has no valid group or member."""
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId must not be null")
    if not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "MemberId must have 1 to 36 characters", member=member_id
        )
    return SessionKey(group_id, member_id)


class PartitionAcknowledgements(NamedTuple):
    """The acknowledgements of one partition."""

    place: TopicIdPartition
    batches: list[Any]


def acknowledgements_of(
    topics: Sequence[Any], *, with_empty: bool = True
) -> list[PartitionAcknowledgements]:
    """Return the acknowledgements of a request's topics, with the partitions without any or not."""
    if not topics:
        return []
    return [
        PartitionAcknowledgements(
            (topic.topic_id, each.partition_index), each.acknowledgement_batches
        )
        for topic in topics
        for each in topic.partitions
        if with_empty or each.acknowledgement_batches
    ]


class RequestAcknowledgements:
    """The acknowledgements of one request. `then` is called once, when all are stored or
    refused."""

    def __init__(
        self,
        node: Node,
        request: ApiRequest,
        key: SessionKey,
        message: ShareFetchRequest | ShareAcknowledgeRequest,
        then: Callable[[], None],
    ) -> None:
        self._node = node
        self._request = request
        self._key = key
        self._knows_renewal = request.arrival.version >= RENEW_SINCE
        self._is_renew = self._knows_renewal and message.is_renew_ack
        self._then = then
        self._left = 1
        self._empty: list[TopicIdPartition] = []
        self._has_batches = False
        self.results: dict[TopicIdPartition, KafkaError | None] = {}

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def begin(self, said: Sequence[PartitionAcknowledgements]) -> None:
        """Pass the acknowledgements to the share partitions."""
        readable = self._readable(said) if said else {}
        for each in said:
            try:
                batches = self._checked(each.batches)
                self._pass_on(each.place, batches, readable)
            except KafkaError as error:
                self.results[each.place] = without_frames(error)
        self._end_one()

    def _readable(self, said: Iterable[PartitionAcknowledgements]) -> Mapping[bytes, bool]:
        """Return whether the client may read each topic that exists."""
        topics = self._node.image.topics.by_id
        ids = {each.place[0] for each in said if each.place[0] in topics}
        if self._node.authorizer.allows_all:
            return dict.fromkeys(ids, True)
        names = {topic_id: topics[topic_id].name for topic_id in ids}
        may = set(allowed(self._node, self._request, AclResource.TOPIC, tuple(names.values())))
        return {topic_id: name in may for topic_id, name in names.items()}

    def _pass_on(
        self,
        place: TopicIdPartition,
        batches: list[Acknowledgement],
        readable: Mapping[bytes, bool],
    ) -> None:
        topic_id, index = place
        if topic_id not in readable:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic_id.hex())
        if not readable[topic_id]:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = self._node.image.topics.by_id[topic_id]
        if index not in topic.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=topic.name, partition=index
            )
        if not batches:
            self._empty.append(place)
            return
        share = self._node.shares.get(ShareKey(self._key.group_id, topic_id, index))
        if share is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "no member of the group reads the partition here",
                topic=topic.name,
                partition=index,
            )
        self._left += 1
        self._has_batches = True

        def end(error: KafkaError | None) -> None:
            self.results[place] = without_frames(error)
            self._end_one()

        share.acknowledge(self._key.member_id, batches, end)

    def _checked(self, batches: Iterable[Any]) -> list[Acknowledgement]:
        """Return the acknowledgements of a partition. Raise INVALID_REQUEST if they overlap, are
        not in order, or have unknown types or another number of types than offsets."""
        found: list[Acknowledgement] = []
        end = -1
        highest = AcknowledgeType.RENEW if self._knows_renewal else AcknowledgeType.REJECT
        for each in batches:
            first, last, types = each.first_offset, each.last_offset, each.acknowledge_types
            if first > last or first < end:
                raise _invalid("the offsets are not in order, or overlap", each)
            if not types or (len(types) > 1 and len(types) != last - first + 1):
                raise _invalid("give one type for all offsets, or one for each", each)
            if min(types) < 0 or max(types) > highest:
                raise _invalid("an unknown type", each)
            if AcknowledgeType.RENEW in types and not self._is_renew:
                raise _invalid("IsRenewAck must be set to renew locks", each)
            if each.delay_ms < NO_DELAY:
                raise _invalid("a delay must not be negative", each)
            reason = None if each.reason is None else each.reason[:REASON_LENGTH_MAX]
            found.append(Acknowledgement(first, last, tuple(types), each.delay_ms, reason))
            end = last
        return found

    def _end_one(self) -> None:
        self._left -= 1
        if self._left == 0:
            if self._has_batches:  # as in Kafka
                self.results.update(dict.fromkeys(self._empty))
            self._then()


def _invalid(text: str, batch: Any) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST, text, first=batch.first_offset, last=batch.last_offset
    )
