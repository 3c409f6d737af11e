"""Requests in a few words, beside those of tests/broker/api/requests.py.

Batches here have times of long ago, so that they are the same whenever they are made: brokers of
the scenarios keep records for ever unless a scenario says otherwise.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.api import requests

# When the first record was made, by its own account.
THEN: Final = 1_600_000_000_000

_TOPIC: Final = 2
_SET: Final = 0


def batch(count: int = 1, *, at: int = THEN, size: int = 1, **more: Any) -> bytes:
    """`count` records of `size` bytes, a millisecond apart."""
    return requests.batch(count, at=at, size=size, **more)


def new_topic(name: str, partitions: int = 1, **configs: str) -> CreatableTopic:
    """A topic to create; setting names with underscores for dots."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def new_settings(topic: str, **configs: str) -> IncrementalAlterConfigsRequest:
    """Values for settings of a topic, named as in `new_topic`."""
    resource = AlterConfigsResource(
        resource_type=_TOPIC,
        resource_name=topic,
        configs=[
            AlterableConfig(name=name.replace("_", "."), config_operation=_SET, value=value)
            for name, value in configs.items()
        ],
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
