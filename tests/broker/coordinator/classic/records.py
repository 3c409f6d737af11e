"""What a play leaves in `__consumer_offsets`, as lines that can be compared: ids by the names that
the play gave them, times only by whether there is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from moldau.broker.coordinator.outcome import LogRecord
from moldau.protocol.declare import LogValue
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from moldau.protocol.schemas import UnknownRecordType
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import GroupMetadataKey, GroupMetadataValue
from moldau.records import walk
from tests.broker.coordinator.classic.wire import ask_once

Name = Callable[[str], str]
TOPIC = "__consumer_offsets"
PIECE_BYTES = 1 << 20


def lines(log: list[LogRecord], name: Name) -> list[str]:
    """One a record."""
    return [_line(each.value, each.version, name) for each in log]


def stored(port: int) -> dict[str, list[LogRecord]]:
    """By group, what the only partition of a broker's topic holds of classic groups."""
    found: dict[str, list[LogRecord]] = defaultdict(list)
    for key_bytes, value_bytes in _records(port):
        try:
            key, value = GROUP_LOG.decode(key_bytes, value_bytes)
        except UnknownRecordType:
            continue
        if isinstance(key, GroupMetadataKey):
            version = None if value_bytes is None else int.from_bytes(value_bytes[:2], "big")
            found[key.group].append(LogRecord(key, value, version))
    return found


def _line(value: LogValue | None, version: int | None, name: Name) -> str:
    if value is None:
        return "tombstone"
    assert isinstance(value, GroupMetadataValue)
    members = sorted(
        f"{name(each.member_id)}@{each.group_instance_id} {each.client_id}{each.client_host}"
        f" {each.session_timeout}/{each.rebalance_timeout}"
        f" {each.subscription!r} {each.assignment!r}"
        for each in value.members
    )
    leader = None if value.leader is None else name(value.leader)
    is_dated = value.current_state_timestamp > 0
    return (
        f"v{version} {value.protocol_type!r} {value.protocol!r} generation={value.generation}"
        f" leader={leader} dated={is_dated} {members}"
    )


def _records(port: int) -> Iterator[tuple[bytes, bytes | None]]:
    offset, end = 0, 1
    while offset < end:
        partition = FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=PIECE_BYTES
        )
        topic = FetchTopic(topic=TOPIC, partitions=[partition])
        response = ask_once(port, FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), 11)
        assert isinstance(response, FetchResponse)
        (found,) = response.responses[0].partitions
        assert not found.error_code
        end = found.high_watermark
        for batch in walk(found.records or b""):
            for record in batch.records() if not batch.header.is_control else ():
                if record.offset >= offset and record.key is not None:
                    yield bytes(record.key), record.value and bytes(record.value)
            offset = max(offset, batch.header.last_offset + 1)
