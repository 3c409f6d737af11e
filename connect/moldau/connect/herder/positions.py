"""Reads and changes the stored offsets of connectors for the REST API (KIP-875).

The offsets of a source are in the offset store, those of a sink in its consumer group. They can be
changed only while the connector is STOPPED and none of its tasks runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.client import Admin, KafkaError, TopicPartition
from moldau.connect.api import SinkConnector, SourceConnector
from moldau.connect.errors import ConnectError
from moldau.connect.herder.operations import Operations
from moldau.connect.herder.refusals import BadRequest, Refusal
from moldau.connect.installed.plugins import connector_class, resolved
from moldau.connect.storage.keys import TargetState
from moldau.connect.task.file_places import check_files
from moldau.connect.task.settings import beneath, client_settings
from moldau.errors.codes import ErrorCode

Json = dict[str, Any]
Pair = tuple[Json, Json | None]

DONE: Final = "The offsets for this connector have been {done} successfully"
DONE_BY_FRAMEWORK: Final = (
    "The Connect framework-managed offsets for this connector have been {done} successfully. "
    "However, if this connector manages offsets externally, they will need to be manually {done} "
    "in the system that the connector uses."
)


class Positions:
    """The stored offsets of all connectors of a cluster."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._herder = operations.herder

    async def get(self, name: str) -> Json:
        """Return the ConnectorOffsets of a connector."""
        config = self._operations.entry(name).config or {}
        if issubclass(connector_class(config), SinkConnector):
            pairs = await self._of_group(name, config)
        else:
            await self._herder.offsets.log.read_to_end()
            pairs = list(self._herder.offsets.image.all(name))
        return {"offsets": [{"partition": where, "offset": offset} for where, offset in pairs]}

    async def _of_group(self, name: str, config: Mapping[str, str]) -> list[tuple[Json, Json]]:
        async with self._admin(config) as admin:
            found = await admin.group_offsets(group_of(name, config))
        return [
            (
                {"kafka_topic": where.topic, "kafka_partition": where.partition},
                {"kafka_offset": offset.offset},
            )
            for where, offset in sorted(found.items())
        ]

    def _admin(self, config: Mapping[str, str]) -> Admin:
        settings = client_settings(self._herder.settings, "admin.")
        settings |= beneath(config, "admin.override.")
        return Admin(settings, runtime=self._herder.runtime)

    async def alter(self, name: str, body: object) -> str:
        """Change offsets. `body` is a ConnectorOffsets. Return the message for the user."""
        pairs = parse_body(body)
        return await self._change(name, pairs, "altered")

    async def reset(self, name: str) -> str:
        """Delete all offsets of the connector. Return the message for the user."""
        return await self._change(name, None, "reset")

    async def _change(self, name: str, pairs: list[Pair] | None, done: str) -> str:
        await self._operations.check_leader()
        config = self._operations.entry(name).config or {}
        await self._check_stopped(name)
        if issubclass(connector_class(config), SinkConnector):
            is_told = await self._change_group(name, config, pairs)
        else:
            is_told = await self._change_source(name, config, pairs)
        return (DONE if is_told else DONE_BY_FRAMEWORK).format(done=done)

    async def _check_stopped(self, name: str) -> None:
        """Wait for tasks that are stopping. Raise BadRequest unless the connector is stopped."""
        entry = self._operations.entry(name)
        if entry.target is TargetState.STOPPED:
            await self._herder.tasks_ended(name)
        if entry.target is not TargetState.STOPPED or self._herder.core.has_tasks(name):
            raise BadRequest(
                "Connectors must be in the STOPPED state before their offsets can be modified. "
                "This can be done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{name}/stop' endpoint"
            )

    async def _change_source(
        self, name: str, config: Mapping[str, str], pairs: list[Pair] | None
    ) -> bool:
        store = self._herder.offsets
        if self._herder.fencing.applies(config):
            await self._herder.fencing.fence(name)  # a task that still runs must not write later
        await store.log.read_to_end()
        if pairs is None:
            pairs = [(partition, None) for partition, _ in store.image.all(name)]
        wanted = pairs

        def ask() -> bool:
            props, _ = resolved(config, self._herder.settings)
            check_files(props, self._herder.settings)
            connector = connector_class(config)()
            assert isinstance(connector, SourceConnector)
            return connector.alter_offsets(props, wanted)

        is_told = await self._asked(ask)
        await store.write(name, wanted)
        return is_told

    async def _change_group(
        self, name: str, config: Mapping[str, str], pairs: list[Pair] | None
    ) -> bool:
        offsets = None if pairs is None else dict(map(group_pair, pairs))

        def ask() -> bool:
            props, _ = resolved(config, self._herder.settings)
            check_files(props, self._herder.settings)
            connector = connector_class(config)()
            assert isinstance(connector, SinkConnector)
            return connector.alter_offsets(props, offsets or {})

        await self._check_partitions(config, offsets or {})
        is_told = await self._asked(ask)
        group = group_of(name, config)
        try:
            async with self._admin(config) as admin:
                if offsets is None:
                    await _delete_group(admin, group)
                    return is_told
                stored = {at: offset for at, offset in offsets.items() if offset is not None}
                gone = [at for at, offset in offsets.items() if offset is None]
                if stored:
                    await admin.alter_group_offsets(group, stored)
                if gone:
                    await admin.delete_group_offsets(group, gone)
        except KafkaError as error:
            raise Refusal(f"Failed to alter consumer group offsets: {error}") from error
        return is_told

    async def _check_partitions(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> None:
        """Raise BadRequest for partitions that do not exist, before the connector changes anything.
        A topic that was deleted is left to the broker: its offsets may still be removed."""
        topics = {at.topic for at, offset in offsets.items() if offset is not None}
        if not topics:
            return
        async with self._admin(config) as admin:
            described = await admin.describe_topics(topics)
        for at, offset in sorted(offsets.items()):
            topic = described.get(at.topic)
            if offset is None or topic is None or isinstance(topic, KafkaError):
                continue
            if at.partition >= len(topic.partitions):
                raise BadRequest(
                    f"The partition {at} does not exist: the topic has {len(topic.partitions)} "
                    "partitions, numbered from 0"
                )

    async def _asked(self, ask: Any) -> bool:
        try:
            return bool(await self._herder.runtime.run_blocking(ask))
        except ConnectError as error:
            raise BadRequest(f"The connector refuses these offsets: {error}") from error


async def _delete_group(admin: Admin, group: str) -> None:
    try:
        await admin.delete_group(group)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise


def group_of(name: str, config: Mapping[str, str]) -> str:
    """Return the consumer group of a sink."""
    return config.get("consumer.override.group.id", f"connect-{name}")


def parse_body(body: object) -> list[Pair]:
    """Return the pairs of a ConnectorOffsets. Raise BadRequest for any other value."""
    offsets = body.get("offsets") if isinstance(body, dict) else None
    if not isinstance(offsets, list) or not offsets:
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    pairs: list[Pair] = []
    for each in offsets:
        partition = each.get("partition") if isinstance(each, dict) else None
        offset = each.get("offset") if isinstance(each, dict) else None
        if not isinstance(partition, dict) or not (offset is None or isinstance(offset, dict)):
            raise BadRequest("each of the offsets needs a partition and an offset, both objects")
        pairs.append((partition, offset))
    return pairs


def group_pair(pair: Pair) -> tuple[TopicPartition, int | None]:
    """Return a sink's partition and offset. Raise BadRequest if the pair is invalid."""
    partition, offset = pair
    topic, number = partition.get("kafka_topic"), partition.get("kafka_partition")
    if not isinstance(topic, str) or not str(number).isdecimal():
        raise BadRequest(
            "The partition for a sink connector offset must have the keys 'kafka_topic' (a name) "
            "and 'kafka_partition' (a number)"
        )
    where = TopicPartition(topic, int(str(number)))
    if offset is None:
        return where, None
    position = offset.get("kafka_offset")
    if not str(position).isdecimal():
        raise BadRequest(
            "The offset for a sink connector must have the key 'kafka_offset' (0 or more)"
        )
    return where, int(str(position))
