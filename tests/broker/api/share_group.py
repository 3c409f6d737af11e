"""A share group that can read a topic, and a request for its offsets."""

from __future__ import annotations

from moldau.broker.coordinator.kind import KeyType
from moldau.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.api.serving import Serving

GROUP = "mailer"

EARLIEST = {"share.auto.offset.reset": "earliest"}

GROUP_RESOURCE = 32


def configure(at: Serving, **values: str) -> None:
    """Set settings of the group."""
    configs = [
        AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in values.items()
    ]
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = at.cluster.ask(request, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == 0


async def coordinated(at: Serving, partitions: int = 1) -> bytes:
    """The id of a topic that share groups can read; the group begins at its start."""
    topic_id = at.create("orders", partitions)
    configure(at, **EARLIEST)
    for name, kind in (
        ("__share_group_state", KeyType.SHARE),
        ("__consumer_offsets", KeyType.GROUP),
    ):
        at.create(name, 1)
        at.node.coordinators.of(kind).elect(0)
        while not list(at.node.coordinators.of(kind).loaded()):
            await at.pass_ms(1)
    return topic_id


def described(group: str, *partitions: int) -> DescribeShareGroupOffsetsRequest:
    topic = DescribeShareGroupOffsetsRequestTopic(topic_name="orders", partitions=list(partitions))
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=[topic])
    return DescribeShareGroupOffsetsRequest(groups=[asked])
