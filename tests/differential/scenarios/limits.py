"""What one request may ask of the controller at most, and refusals of it in every version."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.ids import ZERO_UUID
from moldau.protocol.messages import alter_configs as replacing
from moldau.protocol.messages import incremental_alter_configs as changing
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.differential.requests import new_topic
from tests.differential.talk import Talk, versions

BROKER = 4
MOST = 10_000


async def scenario(talk: Talk) -> None:
    await talk.topic("t")
    await _settings(talk)
    await _partitions(talk)
    await _refusals(talk)


def changes(
    *counts: tuple[str, int], validate_only: bool = False
) -> changing.IncrementalAlterConfigsRequest:
    """So many new settings of brokers, which may have settings of any name."""
    return changing.IncrementalAlterConfigsRequest(
        resources=[
            changing.AlterConfigsResource(
                resource_type=BROKER,
                resource_name=name,
                configs=[
                    changing.AlterableConfig(name=each, config_operation=0, value="1")
                    for each in _names(count)
                ],
            )
            for name, count in counts
        ],
        validate_only=validate_only,
    )


def replacements(count: int, *, validate_only: bool = False) -> replacing.AlterConfigsRequest:
    return replacing.AlterConfigsRequest(
        resources=[
            replacing.AlterConfigsResource(
                resource_type=BROKER,
                resource_name="1",
                configs=[replacing.AlterableConfig(name=each, value="2") for each in _names(count)],
            )
        ],
        validate_only=validate_only,
    )


def _names(count: int) -> Iterable[str]:
    return (f"own.{number}" for number in range(count))


async def _settings(talk: Talk) -> None:
    both = versions(changing.IncrementalAlterConfigsRequest)
    for validate_only in (True, False):
        said = " to see whether" if validate_only else ""
        one = changes(("1", MOST + 1), validate_only=validate_only)
        await talk.ask(f"one more setting than there may be{said}", one, both)
        two = changes(("1", MOST), ("", 1), validate_only=validate_only)
        await talk.ask(f"too many settings of two{said}", two, both)
        whole = replacements(MOST + 1, validate_only=validate_only)
        every = versions(replacing.AlterConfigsRequest)
        await talk.ask(f"too many settings instead{said}", whole, every)
        await talk.ask(
            f"as many settings as there may be{said}",
            changes(("1", MOST), validate_only=validate_only),
            1,
        )
    await talk.settled()
    await talk.ask("settings that are there already, and one more", changes(("1", MOST + 1)), 1)
    await talk.settled()
    await talk.ask("all of them changed", replacements(MOST + 1), 2)
    await talk.ask("all of them gone", replacements(0), 2)
    await talk.settled()


async def _partitions(talk: Talk) -> None:
    every = versions(CreateTopicsRequest)
    large, small = new_topic("large", MOST + 1), new_topic("small", 1)
    await talk.ask("a topic of too many partitions", create(large, small), every)
    await talk.ask("two topics of too many", create(new_topic("a", 6000), new_topic("b", 6000)), 7)
    for version in versions(CreatePartitionsRequest):
        for count in (0, -1, 1, MOST + 2):
            grown = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="t", count=count, assignments=None)],
                timeout_ms=30_000,
                validate_only=True,
            )
            await talk.ask(f"grown to {count}: version {version}", grown, version)
    nobody = [DeleteTopicState(name=f"no-{number}", topic_id=ZERO_UUID) for number in range(3)]
    deletion = DeleteTopicsRequest(topics=nobody, timeout_ms=1000)
    await talk.ask("deleting what is not there", deletion, 6)


def create(*topics: CreatableTopic) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=30_000, validate_only=True)


async def _refusals(talk: Talk) -> None:
    await talk.producer_id()
    for timeout_ms in (0, -1):
        await talk.ask(
            f"a transaction's time of {timeout_ms} without a transaction",
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=timeout_ms),
            versions(InitProducerIdRequest),
        )
    for label, feature, level in (
        ("unknown", "no.such.version", 1),
        ("too high", "metadata.version", 1000),
        ("negative", "metadata.version", -1),
        ("too low", "metadata.version", 1),
    ):
        update = FeatureUpdateKey(feature=feature, max_version_level=level)
        await talk.ask(
            f"a feature's level that is {label}",
            UpdateFeaturesRequest(feature_updates=[update]),
            versions(UpdateFeaturesRequest),
        )
    for name, index in (("t", 0), ("t", 7), ("nope", 0)):
        placed = [TopicPartitions(topic=name, partitions=[index])]
        await talk.ask(
            f"a leader elected for {name}-{index}",
            ElectLeadersRequest(topic_partitions=placed),
            versions(ElectLeadersRequest),
        )
