"""What a broker's log directory holds, as plain data: for a broker that was stopped cleanly.

Every file is read here by its documented format, not by the code that wrote it. Kafka and ours are
then compared like answers: batches, index entries, producers, transactions, checkpoints, names. Of
the metadata log it is told how many records of which type and version it has. A file that nobody
here can read is a failure; what is not compared stands in NOT_COMPARED, which the page has too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from moldau.ids import parse_uuid
from moldau.protocol.schemas.framed_log import METADATA_LOG
from moldau.protocol.schemas.storage import ProducerSnapshot
from moldau.protocol.schemas.versioned import decode_versioned
from moldau.records import ControlType, walk
from moldau.runtime.files import Files
from tests.differential.plain import Symbols, batches

_PARTITION: Final = re.compile(r".+-\d+")
_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_TRANSACTION: Final = Struct(">hqqqq")
_CONTROL_KEY: Final = Struct(">hh")
_METADATA: Final = "__cluster_metadata-0"

NOT_COMPARED: Final = {
    ".lock": "It is empty, and there to be locked.",
    ".kafka_cleanshutdown: the broker's epoch": "It is an offset in the metadata log.",
    "gapless-from-*.deleted": "Ours marks from which offset on it has written a log itself. It is "
    "empty, and Kafka removes it when it opens the log.",
    "*.log.shortened.deleted": "It is there while ours cuts a log, and after a kill meanwhile: the "
    "next start makes the cut durable. It is empty, and Kafka removes it.",
    "quorum-state": "It has the epoch and the vote of an election, which are the quorum's own; "
    "kraft.version 0, which the peer has, and 1 write different fields.",
    f"{_METADATA}: the order of its records, offsets, times, indexes and snapshots": "Kafka adds a "
    "record that does nothing every 500 ms, so that each offset in it is chance. How many records "
    "of each type and version it has is compared.",
    f"{_METADATA}: what its records say": "They have ids, times and epochs of chance in them. What "
    "brokers make of them is compared by their answers; that each reads the other's, by "
    "tests/broker/main/test_kafka_directories.py.",
}
"""What of a log directory is not compared, and why."""
_PASSED_OVER: Final = frozenset((".lock",))
_MARK: Final = "gapless-from-"


def read(files: Files, data: str, symbols: Symbols) -> dict[str, Any]:
    """All partitions, the metadata log, and the files beside them."""
    names = sorted(set(files.list(data)) - _PASSED_OVER)
    folders = [name for name in names if _PARTITION.fullmatch(name)]
    return {
        "partitions": [
            {"name": name, "files": dict(_partition(files, f"{data}/{name}", symbols))}
            for name in folders
            if name != _METADATA
        ],
        "metadata": _metadata(files, f"{data}/{_METADATA}"),
        "files": {
            name: _told(name, _bytes(files, f"{data}/{name}"), symbols)
            for name in names
            if name not in folders
        },
    }


def names_in(files: Files, data: str, partition: str) -> list[str]:
    """The files of one partition by name, without our own mark."""
    listed = files.list(f"{data}/{partition}")
    return sorted(name for name in listed if not name.startswith(_MARK))


def _bytes(files: Files, path: str) -> bytes:
    with files.open(path) as file:
        return file.read_at(0, file.size)


def _partition(files: Files, folder: str, symbols: Symbols) -> Iterator[tuple[str, Any]]:
    for name in sorted(files.list(folder)):
        if name.startswith(_MARK):
            continue
        yield name, _told(name, _bytes(files, f"{folder}/{name}"), symbols)


def _told(name: str, content: bytes, symbols: Symbols) -> Any:
    reader = _READERS.get(name) or _READERS.get(name.rpartition(".")[2])
    assert reader is not None, f"{name}: say here how it is read, or why it is not compared"
    return reader(content, symbols)


def _metadata(files: Files, folder: str) -> dict[str, int]:
    """How many records of each type and version."""
    names = [name for name in sorted(files.list(folder)) if name.endswith(".log")]
    return _records(b"".join(_bytes(files, f"{folder}/{name}") for name in names))


def _snapshot(content: bytes, symbols: Symbols) -> dict[str, int]:
    return _records(content)


def _records(content: bytes) -> dict[str, int]:
    found: Counter[str] = Counter()
    for batch in walk(memoryview(content)):
        for record in batch.records():
            if batch.header.is_control:
                _, kind = _CONTROL_KEY.unpack_from(record.key or b"")
                found[f"control {ControlType(kind).name}"] += 1
            else:
                message, version = METADATA_LOG.decode(record.value or b"")
                found[f"{type(message).__name__} {version}"] += 1
    return dict(sorted(found.items()))


def _offset_index(content: bytes, symbols: Symbols) -> list[str]:
    return [f"{offset} at {position}" for offset, position in _OFFSET_ENTRY.iter_unpack(content)]


def _time_index(content: bytes, symbols: Symbols) -> list[str]:
    entries = _TIME_ENTRY.iter_unpack(content)
    return [f"{symbols.time(timestamp)} at {offset}" for timestamp, offset in entries]


def _transactions(content: bytes, symbols: Symbols) -> list[str]:
    return [
        f"version {version}: producer {producer_id}, {first} to {last}, stable {stable}"
        for version, producer_id, first, last, stable in _TRANSACTION.iter_unpack(content)
    ]


def _producers(content: bytes, symbols: Symbols) -> list[dict[str, Any]]:
    snapshot = decode_versioned(ProducerSnapshot, content)
    return [
        {
            "producer_id": each.producer_id,
            "epoch": each.epoch,
            "last_sequence": each.last_sequence,
            "last_offset": each.last_offset,
            "offset_delta": each.offset_delta,
            "time": symbols.time(each.timestamp),
            "coordinator_epoch": each.coordinator_epoch,
            "transaction": each.current_txn_first_offset,
        }
        for each in snapshot.producer_entries
    ]


def _lines(content: bytes, symbols: Symbols) -> list[str]:
    """A checkpoint's: version, count, and the entries in any order."""
    lines = content.decode().splitlines()
    return [*lines[:2], *sorted(lines[2:])]


def _properties(content: bytes, symbols: Symbols) -> list[str]:
    lines = (line for line in content.decode().splitlines() if not line.startswith("#"))
    named = []
    for line in lines:
        name, _, value = (part.strip() for part in line.replace(":", "=").partition("="))
        if name in {"topic_id", "directory.id"}:
            value = symbols.id(parse_uuid(value))
        named.append(f"{name}={symbols.text(value)}")
    return sorted(named)


def _clean_shutdown(content: bytes, symbols: Symbols) -> dict[str, Any]:
    """The broker's epoch is an offset in its metadata log, which is not compared."""
    said = json.loads(content)
    return {name: value if name == "version" else "some" for name, value in said.items()}


_READERS: Final[dict[str, Callable[[bytes, Symbols], Any]]] = {
    "log": batches,
    "index": _offset_index,
    "timeindex": _time_index,
    "txnindex": _transactions,
    "snapshot": _producers,
    "checkpoint": _snapshot,
    "leader-epoch-checkpoint": _lines,
    "partition.metadata": _properties,
    "meta.properties": _properties,
    ".kafka_cleanshutdown": _clean_shutdown,
    "recovery-point-offset-checkpoint": _lines,
    "log-start-offset-checkpoint": _lines,
    "replication-offset-checkpoint": _lines,
    "cleaner-offset-checkpoint": _lines,
}
