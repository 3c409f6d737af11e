"""Metadata: brokers, topics and leaders of partitions. It also creates missing topics.

An answer that names a leader that has just been lost waits until it is known what becomes of it
(`replication.lost_brokers`).

A request names a topic by its name or (from version 12 on) by its id. If a request has any id, its
names are ignored. Null means all topics, and so does an empty list in version 0.

A missing topic that may be created is created in the background. The response still says that it is
missing, and clients ask again after a moment, as with Kafka. While the controller creates it, no
second request is sent for the same topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.authorized_operations import ALL_OF_CLUSTER, ALL_OF_TOPIC
from moldau.broker.api.delayed_answer import DelayedAnswer, session_of
from moldau.broker.api.forwarding import submit
from moldau.broker.api.internal_topics import BrokerCounts, creatable, is_internal
from moldau.broker.api.listener_view import NOBODY, ListenerView
from moldau.broker.controller.topic_names import check_topic_name
from moldau.broker.decision.context import RequestContext, of_node
from moldau.broker.replication.lost_brokers import LOST_MS
from moldau.broker.replication.purgatory import Pause
from moldau.broker.settings import creation, network
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.protocol.acl_operations import NOT_ASKED
from moldau.protocol.messages.create_topics import (
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.controller.topics import Partition, Topic
    from moldau.protocol.declare import Response

_NO_CONFIGS: Final[Mapping[str, str]] = {}
_EMPTY_MEANS_ALL_UNTIL: Final = 0
_UNREACHABLE_IS_ERROR_UNTIL: Final = 0
_AUTO_CREATES_ALWAYS_UNTIL: Final = 3
_LISTENER_NOT_FOUND_SINCE: Final = 6
_CLUSTER_OPERATIONS: Final = range(8, 11)
_IDS_SINCE: Final = 12
REFRESH_MS: Final = 10
"""How long this node waits before it answers a client that asks for topics again on a connection.
It may have lost a broker, and this node hears of that at about the same time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The response, and the missing topics to create."""

    response: MetadataResponse
    missing: tuple[str, ...] = ()


def serve(node: Node, request: ApiRequest) -> None:
    """Answer from the image, and request missing topics from the controller."""
    message = cast(MetadataRequest, request.decode())
    delayed = DelayedMetadata(node, request, message)
    session = session_of(request.connection)
    if session.has_metadata and message.topics and len(node.image.brokers.by_id) > 1:
        pause = Pause(delayed.begin)
        node.replicas.purgatory.watch(pause, (), REFRESH_MS)
    else:
        delayed.begin()
    session.has_metadata = True


class DelayedMetadata(DelayedAnswer):
    """An answer that waits while it names a leader that is lost."""

    __slots__ = ("_message", "_node")

    def __init__(self, node: Node, request: ApiRequest, message: MetadataRequest) -> None:
        super().__init__(request)
        self._node = node
        self._message = message

    def begin(self) -> None:
        """Answer, or wait."""
        if not self.is_gone and not self.try_complete():
            self.wait(self._node.replicas.purgatory, (self._node.lost_brokers,), LOST_MS)

    def try_complete(self) -> bool:
        node, given = self._node, self._current()
        topics = given.response.topics
        leaders = (each.leader_id for topic in topics for each in topic.partitions)
        if node.lost_brokers.are_any_lost(leaders, node.now_ms()):
            return False
        self._finish(given)
        return True

    def on_timeout(self) -> None:
        self._finish(self._current())

    def _current(self) -> Answer:
        node, version = self._node, self.request.arrival.version
        auto_create = node.settings[creation.auto_create_topics_enable]
        view = ListenerView.of(node, self.request)
        return answer(view, self._message, version, auto_create=auto_create)

    def _finish(self, given: Answer) -> None:
        self.answer(given.response)
        if given.missing:
            create_topics(self._node, given.missing, self.request.context)


def answer(
    view: ListenerView, request: MetadataRequest, version: int, *, auto_create: bool
) -> Answer:
    """Return the answer to a request in this version. `auto_create` is the broker's setting."""
    try:
        topics, missing = _topics(view, request, version)
    except KafkaError as error:
        return Answer(refusal(request, version, error))
    unknown = _unknown_topics(missing)
    topics.extend(unknown)
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None:
                topic.topic_authorized_operations = ALL_OF_TOPIC
    operations = NOT_ASKED
    if version in _CLUSTER_OPERATIONS and request.include_cluster_authorized_operations:
        operations = ALL_OF_CLUSTER
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=at.broker_id, host=at.host, port=at.port, rack=at.rack)
            for at in view.addresses(with_lately_fenced=bool(request.topics))
        ],
        cluster_id=view.cluster_id,
        controller_id=view.controller_id(),
        topics=topics,
        cluster_authorized_operations=operations,
        error_code=ErrorCode.NONE,
    )
    asks = version <= _AUTO_CREATES_ALWAYS_UNTIL or request.allow_auto_topic_creation
    if not (auto_create and asks):
        return Answer(response)
    wanted = (each for each in unknown if each.error_code != ErrorCode.INVALID_TOPIC_EXCEPTION)
    return Answer(response, tuple(each.name for each in wanted if each.name is not None))


def refusal(request: MetadataRequest, version: int, error: KafkaError) -> MetadataResponse:
    """Return the response for the case that the whole request fails: every topic has the error."""
    return MetadataResponse(
        brokers=[],
        cluster_id=None,
        controller_id=NOBODY,
        topics=[
            MetadataResponseTopic(
                error_code=error.code,
                name=each.name or "",
                topic_id=each.topic_id,
                is_internal=False,
                partitions=[],
            )
            for each in request.topics or ()
        ],
        error_code=error.code,
    )


def _topics(
    view: ListenerView, request: MetadataRequest, version: int
) -> tuple[list[MetadataResponseTopic], list[str]]:
    """Return the requested topics, and the names of the missing ones."""
    image = view.image
    if request.topics is None or (version <= _EMPTY_MEANS_ALL_UNTIL and not request.topics):
        return [_topic(view, each, version) for each in image.topics.by_id.values()], []
    ids = _checked_ids(request, version)
    if ids:
        known = [image.topics.by_id[each] for each in ids if each in image.topics.by_id]
        unknown = (each for each in ids if each not in image.topics.by_id)
        return [
            *(_missing_topic(None, ErrorCode.UNKNOWN_TOPIC_ID, each) for each in unknown),
            *(_topic(view, each, version) for each in known),
        ], []
    found: list[MetadataResponseTopic] = []
    missing: list[str] = []
    for name in dict.fromkeys(each.name for each in request.topics):
        if name is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic has neither a name nor an id")
        topic = image.topics.by_name(name)
        if topic is None:
            missing.append(name)
        else:
            found.append(_topic(view, topic, version))
    return found, missing


def _checked_ids(request: MetadataRequest, version: int) -> list[Uuid]:
    """Return the requested ids, each once. Ids are an error in versions 10 and 11."""
    assert request.topics is not None
    ids = [each.topic_id for each in request.topics if each.topic_id != ZERO_UUID]
    if version < _IDS_SINCE:
        if any(each.name is None for each in request.topics):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"no null names in version {version}")
        if ids:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"no topic ids in version {version}")
    return list(dict.fromkeys(ids))


def _topic(view: ListenerView, topic: Topic, version: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[
            _partition(view, number, partition, version)
            for number, partition in topic.partitions.items()
        ],
    )


def _partition(
    view: ListenerView, number: int, partition: Partition, version: int
) -> MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version <= _UNREACHABLE_IS_ERROR_UNTIL:
        replicas, isr = view.reachable(replicas), view.reachable(isr)
    leader = view.leader(partition)
    error = ErrorCode.NONE
    if leader == NOBODY:
        error = _leaderless(view, partition, version)
    elif (len(replicas), len(isr)) != (len(partition.replicas), len(partition.isr)):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline_replicas(partition),
    )


def _leaderless(view: ListenerView, partition: Partition, version: int) -> ErrorCode:
    """Return the error of a partition without a reachable leader. It is LISTENER_NOT_FOUND only for
    versions whose clients know that error."""
    is_registered = partition.leader in view.image.brokers.by_id
    if is_registered and version >= _LISTENER_NOT_FOUND_SINCE:
        return ErrorCode.LISTENER_NOT_FOUND
    return ErrorCode.LEADER_NOT_AVAILABLE


def _unknown_topics(names: Iterable[str]) -> list[MetadataResponseTopic]:
    return [_missing_topic(name, missing_code(name)) for name in names]


def missing_code(name: str) -> ErrorCode:
    """Return the error of a missing topic: unknown, or a name that is not valid."""
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _missing_topic(
    name: str | None, code: ErrorCode, topic_id: Uuid = ZERO_UUID
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=[],
    )


def broker_counts(node: Node) -> BrokerCounts:
    """Return how many brokers the cluster has."""
    known = node.image.brokers.by_id.values()
    return BrokerCounts(sum(not each.is_fenced for each in known), len(known))


def create_topics(
    node: Node,
    names: Sequence[str],
    cause: RequestContext | None,
    configs: Mapping[str, str] = _NO_CONFIGS,
) -> None:
    """Request these topics from the controller, except those already requested. `cause` is the
    context of the client's request that needs them; None if this node itself needs them. `configs`
    are settings of their own."""
    fresh = [name for name in names if name not in node.topics_in_creation]
    if not fresh:
        return
    node.topics_in_creation.update(fresh)

    def created(response: Response | KafkaError) -> None:
        node.topics_in_creation.difference_update(fresh)
        if isinstance(response, KafkaError):
            node.log.warn(
                "topics not created", count=len(fresh), first=fresh[0], reason=response.reason
            )
            return
        assert isinstance(response, CreateTopicsResponse)
        for each in response.topics:
            if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                node.log.warn("topic not created", topic=each.name, reason=each.error_message)

    timeout_ms = node.settings[network.request_timeout_ms]
    brokers = broker_counts(node)
    topics = [creatable(name, node.settings, brokers) for name in fresh]
    for topic in topics:
        topic.configs += [CreatableTopicConfig(name=each, value=configs[each]) for each in configs]
    message = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)
    version = CreateTopicsRequest.spec.versions.last
    own = of_node(node.node_id, version)
    context = own if cause is None else cause._replace(version=version)
    submit(node, message, context, created, timeout_ms=timeout_ms)
