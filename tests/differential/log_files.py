"""What a broker's log directory holds, as plain data: for a broker that was stopped cleanly.

Every file is read here by its documented format, not by the code that wrote it. Kafka and ours are
then compared like answers: batches, index entries, producers, checkpoints, names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final

from moldau.ids import parse_uuid
from moldau.protocol.schemas.storage import ProducerSnapshot
from moldau.protocol.schemas.versioned import decode_versioned
from moldau.runtime.files import Files
from tests.differential.plain import Symbols, batches

_PARTITION: Final = re.compile(r".+-\d+")
_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
# Made by one of the two brokers alone, or named after what it is for: nothing of a log is in them.
_PASSED_OVER: Final = frozenset((".lock",))
_INTERNAL: Final = "__"


def read(files: Files, data: str, symbols: Symbols) -> dict[str, Any]:
    """All partitions but the broker's own, and the files beside them."""
    names = sorted(set(files.list(data)) - _PASSED_OVER)
    folders = [name for name in names if _PARTITION.fullmatch(name)]
    return {
        "partitions": [
            {"name": name, "files": dict(_partition(files, f"{data}/{name}", symbols))}
            for name in folders
            if not name.startswith(_INTERNAL)
        ],
        "files": {
            name: _beside(name, _bytes(files, f"{data}/{name}"), symbols)
            for name in names
            if name not in folders
        },
    }


def names_in(files: Files, data: str, partition: str) -> list[str]:
    """The files of one partition by name."""
    return sorted(files.list(f"{data}/{partition}"))


def _bytes(files: Files, path: str) -> bytes:
    with files.open(path) as file:
        return file.read_at(0, file.size)


def _partition(files: Files, folder: str, symbols: Symbols) -> Iterator[tuple[str, Any]]:
    for name in sorted(files.list(folder)):
        content = _bytes(files, f"{folder}/{name}")
        ending = name.rpartition(".")[2]
        reader = _READERS.get(name) or _READERS.get(ending)
        holds = reader(content, symbols) if reader else f"{len(content)} bytes"
        yield name, holds


def _offset_index(content: bytes, symbols: Symbols) -> list[str]:
    return [f"{offset} at {position}" for offset, position in _OFFSET_ENTRY.iter_unpack(content)]


def _time_index(content: bytes, symbols: Symbols) -> list[str]:
    entries = _TIME_ENTRY.iter_unpack(content)
    return [f"{symbols.time(timestamp)} at {offset}" for timestamp, offset in entries]


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
    entries = (each for each in lines[2:] if not each.startswith(_INTERNAL))
    return [*lines[:2], *sorted(entries)]


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


def _size(content: bytes, symbols: Symbols) -> str:
    return "some bytes" if content else "no bytes"


def _beside(name: str, content: bytes, symbols: Symbols) -> Any:
    return _READERS.get(name, _size)(content, symbols)


_READERS: Final[dict[str, Callable[[bytes, Symbols], Any]]] = {
    "log": batches,
    "index": _offset_index,
    "timeindex": _time_index,
    "snapshot": _producers,
    "leader-epoch-checkpoint": _lines,
    "partition.metadata": _properties,
    "meta.properties": _properties,
    ".kafka_cleanshutdown": _clean_shutdown,
    "recovery-point-offset-checkpoint": _lines,
    "log-start-offset-checkpoint": _lines,
    "replication-offset-checkpoint": _lines,
    "cleaner-offset-checkpoint": _lines,
}
