"""Which remote segments of a cluster its backup may copy, as the cluster says.

Invariant: no failure here ends a backup. What cannot be found out is a reason to read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moldau.backups.log_reader import LogReader
from moldau.backups.remote_segments import RemoteCopies, installed_format, shared_tier
from moldau.backups.restored_topic import made, question
from moldau.client.admin.configs import Resource, ResourceType
from moldau.client.base.offsets import EARLIEST, LATEST, list_offsets
from moldau.errors import MoldauError
from moldau.link.metadata import Topic, TopicPartition
from moldau.operations.tiers import METADATA_TOPIC
from moldau.records import iter_records, walk

if TYPE_CHECKING:
    from moldau.backups.backup_store import BackupStore
    from moldau.client.admin.admin import Admin
    from moldau.runtime import Runtime

_STORE: Final = "remote.storage"


async def remote_copies(
    admin: Admin, store: BackupStore, runtime: Runtime, topics: Iterable[Topic], why_not: list[str]
) -> RemoteCopies | None:
    """Return what may be copied inside the store; None if the cluster has nothing remote, or has it
    elsewhere. If that cannot be found out, add a reason to `why_not`."""
    topic = next((each for each in topics if each.name == METADATA_TOPIC), None)
    if topic is None:
        return None
    try:
        address = await _tier_address(admin)
        tier = None if address is None else shared_tier(runtime, address, store.where)
        if tier is None:
            return None
        format = installed_format()
        next_id = (await made(admin, question(topic))).next_producer_id
        segments = format.segments(await _values(admin, store, topic))
    except MoldauError as error:
        why_not.append(str(error))
        return None
    return RemoteCopies(format, tier, store, segments, next_id, why_not)


async def _tier_address(admin: Admin) -> str | None:
    for broker in (await admin.describe_cluster()).brokers:
        resource = Resource(ResourceType.BROKER, str(broker.node_id))
        for each in await admin.describe_configs(resource, names=[_STORE]):
            if each.value:
                return each.value
    return None


async def _values(admin: Admin, store: BackupStore, topic: Topic) -> list[bytes]:
    """Return the values of all records that the topic has now."""
    places = [TopicPartition(topic.name, each.index) for each in topic.partitions]
    found = {}
    for wanted in (EARLIEST, LATEST):
        found[wanted] = await list_offsets(admin._cluster, dict.fromkeys(places, wanted))
    values: list[bytes] = []
    for where in places:
        reader = LogReader(admin._cluster, store, topic.topic_id, where)
        position, end = (found[each][where].offset for each in (EARLIEST, LATEST))
        while position < end:
            records = await reader.fetch(position)
            for batch in walk(records):
                position = max(position, batch.header.next_offset)
            values += [each.value or b"" for each in iter_records(records)]
    return values
