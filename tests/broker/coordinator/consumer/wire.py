"""A broker over its sockets plays the broker of a script: Apache Kafka, or ours."""

from __future__ import annotations

import threading
import time
from typing import Final, TypeVar

from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.broker.coordinator.classic.wire import ask_once
from tests.broker.coordinator.consumer.script import TOPICS

PATIENCE_S: Final = 20.0
SETTLED_S: Final = 1.0
"""For the coordinator to hear of new metadata that the broker already shows."""

R = TypeVar("R", bound=Response)

_SET: Final = 0
_GROUP: Final = 32


class Wire:
    """Satisfies `script.Peer`; each play has a group and topics of its own."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self.group_id = f"consumer-{name}"
        self.prefix = f"{name}."
        self._ids: dict[str, Uuid] = {}
        self._there: set[str] = set()
        for topic, size in TOPICS.items():
            self.change_topic(self.prefix + topic, size)

    def hear(self, request: Request, version: int, client_id: str) -> Response:
        return ask_once(self._port, request, version)

    def describe(self) -> DescribedGroup | None:
        request = ConsumerGroupDescribeRequest(
            group_ids=[self.group_id], include_authorized_operations=False
        )
        answer = self._ask(request, 1, ConsumerGroupDescribeResponse)
        (group,) = answer.groups
        return None if group.error_code else group

    def topic_id(self, name: str) -> Uuid:
        return self._ids[name]

    def topic_name(self, topic_id: Uuid) -> str:
        return next(name for name, known in self._ids.items() if known == topic_id)

    def change_topic(self, name: str, size: int | None) -> None:
        if size is None:
            delete = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
            (deleted,) = self._ask(delete, 5, DeleteTopicsResponse).responses
            assert not deleted.error_code
        elif name in self._there:
            more = CreatePartitionsTopic(name=name, count=size, assignments=None)
            grow = CreatePartitionsRequest(topics=[more], timeout_ms=10_000, validate_only=False)
            (grown,) = self._ask(grow, 3, CreatePartitionsResponse).results
            assert not grown.error_code
        else:
            topic = CreatableTopic(
                name=name, num_partitions=size, replication_factor=1, assignments=[], configs=[]
            )
            create = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            (created,) = self._ask(create, 5, CreateTopicsResponse).topics
            assert not created.error_code
        self._until_seen(name, size or 0)

    def set(self, name: str, value: str) -> None:
        config = AlterableConfig(name=name, config_operation=_SET, value=value)
        group = AlterConfigsResource(
            resource_type=_GROUP, resource_name=self.group_id, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[group], validate_only=False)
        (done,) = self._ask(request, 1, IncrementalAlterConfigsResponse).responses
        assert not done.error_code, done.error_message
        deadline = time.monotonic() + PATIENCE_S
        while self._setting(name) != value:
            assert time.monotonic() < deadline, f"{name} does not become {value}"
            self.wait(50)
        self.wait(int(SETTLED_S * 1000))

    def _setting(self, name: str) -> str | None:
        group = DescribeConfigsResource(
            resource_type=_GROUP, resource_name=self.group_id, configuration_keys=[name]
        )
        asked = DescribeConfigsRequest(resources=[group])
        (shown,) = self._ask(asked, 4, DescribeConfigsResponse).results
        (config,) = shown.configs
        return config.value

    def wait(self, wait_ms: int) -> None:
        threading.Event().wait(wait_ms / 1000)

    def _ask(self, request: Request, version: int, of: type[R]) -> R:
        answer = ask_once(self._port, request, version)
        assert isinstance(answer, of)
        return answer

    def _until_seen(self, name: str, size: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            topic = self._metadata(name)
            if len(topic.partitions) == size:
                break
            assert time.monotonic() < deadline, f"{name} does not get {size} partitions"
            self.wait(50)
        if topic.error_code:
            self._there.discard(name)
        else:
            self._there.add(name)
            self._ids[name] = topic.topic_id
        self.wait(int(SETTLED_S * 1000))

    def _metadata(self, name: str) -> MetadataResponseTopic:
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        (topic,) = self._ask(asked, 12, MetadataResponse).topics
        assert topic.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic
