"""`partition.metadata`: the id of the topic that a log directory belongs to (KIP-516).

Invariant: once written it never changes. A topic that is deleted and created again has another id,
and its old log must not be taken for the new one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from moldau.broker.log.names import PARTITION_METADATA
from moldau.deferred import deferred_pattern
from moldau.errors import CorruptLog
from moldau.ids import ZERO_UUID, Uuid, format_uuid, parse_uuid
from moldau.runtime.files import Files

VERSION: Final = 0
_LINE: Final = deferred_pattern(r"(\w+):\s*(\S+)\s*")


def write_partition_metadata(
    files: Files, directory: str, topic_id: Uuid, *, sync: bool = True
) -> None:
    """Bind the directory to a topic. Durable on return. Without `sync` it is durable with the first
    flush of its log: nothing was acknowledged before, so a power loss may leave the file half
    written."""
    assert topic_id != ZERO_UUID
    text = f"version: {VERSION}\ntopic_id: {format_uuid(topic_id)}\n"
    path = f"{directory}/{PARTITION_METADATA}"
    if sync:
        files.write_text_atomic(path, text)
        return
    with files.open(path, "create") as file:
        file.append(text.encode())


def read_partition_metadata(files: Files, directory: str) -> Uuid | None:
    """Return the topic's id, or None if the directory is not bound yet."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        return _parsed(files.read_text(path))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CorruptLog("partition metadata is no text", path=path) from error
    except CorruptLog as error:
        raise CorruptLog(error.reason, path=path, **error.context) from error


@lru_cache(maxsize=64)
def _parsed(text: str) -> Uuid:
    """Return the topic's id. The partitions of a topic have the same text."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise CorruptLog("partition metadata has a malformed line", line=line)
        found[match[1]] = match[2]
    try:
        version = int(found.get("version", ""))
        topic_id = parse_uuid(found.get("topic_id", ""))
    except ValueError as error:
        raise CorruptLog("partition metadata is malformed", found=found) from error
    if version != VERSION:
        raise CorruptLog("partition metadata has another version", version=version)
    if topic_id == ZERO_UUID:
        raise CorruptLog("partition metadata has no topic id")
    return topic_id
