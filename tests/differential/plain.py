"""What a message says, as plain data that two brokers can agree on.

    plain(response, version, symbols)   ->   dicts, lists, strings, numbers

Chance is not masked away but named: the second topic id that turns up is `id of t` for both
brokers, a session id is `session 1`, a time that is about now is `now`. So an answer that carries
the wrong id, or the time of another clock, is still found. The words of an error are the sender's
own and are kept only as "there were some", with the key words that scripts and tools look for.

Of records it is told by batch: every field of the header, and a digest of what is in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final
from zlib import crc32

from moldau.errors import CorruptRecord
from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct
from moldau.records import Batch, walk, whole_bytes

DAY_MS: Final = 86_400_000
WORDS: Final = "words"
NOW: Final = "now"
# The sender's own words; what matters is whether there are any.
_WORDINGS: Final = frozenset(
    ("error_message", "batch_index_error_message", "documentation", "client_software_version")
)
KEY_WORDS: Final = (
    *("already exists", "collides with existing topic", "does not host this topic-partition"),
    *("Topic name is invalid", "Unknown topic config name", "Unknown group config name"),
    *("Replication factor", "Number of partitions was set to", "would not be an increase"),
    *("cannot be reached because only", "Topic already has", "Null value not supported"),
    *("no such broker is registered", "election not needed"),
)
"""What scripts look for in Kafka's error messages; where Kafka's has one, ours has it too."""
_COMPRESSED: Final = re.compile(r"'bytes': \d+, 'crc': '\w+', ")
_DISK_SIZES: Final = frozenset(("total_bytes", "usable_bytes"))
_TIMES: Final = ("timestamp", "time_ms", "timestamp_ms")


class Symbols:
    """Names for what chance decides in one conversation, in the order in which it turns up."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._names: dict[tuple[str, Any], str] = {}
        self._counts: dict[str, int] = {}
        self._texts: list[tuple[str, str]] = []

    def call(self, kind: str, value: Any, name: str) -> None:
        """From here on that value of that kind goes by this name."""
        self._names[kind, value] = name

    def call_text(self, text: str, name: str) -> None:
        """From here on this text, inside others too, goes by this name."""
        self._texts.append((text, name))

    def of(self, kind: str, value: Any) -> str:
        """The value's name; the next free one if it has none yet."""
        name = self._names.get((kind, value))
        if name is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            name = self._names[kind, value] = f"{kind} {self._counts[kind]}"
        return name

    def text(self, value: str) -> str:
        for text, name in self._texts:
            value = value.replace(text, name)
        return value

    def time(self, value: int) -> int | str:
        """`now` for what is about now; times that a request chose stay as they are."""
        return NOW if abs(value - self._now_ms()) <= DAY_MS else value

    def id(self, value: bytes) -> str:
        """A UUID; those of one repeated byte are our own inventions."""
        value = bytes(value)
        if value == ZERO_UUID:
            return "no id"
        if len(set(value)) == 1:
            return f"id of {value[:1].hex()} bytes"
        return self.of("id", value)


def fingerprint(request: Request, version: int, symbols: Symbols) -> int:
    """Tells two questions apart; the same for whoever's compressor made the bytes."""
    text = repr(plain(request, version, symbols))
    return crc32(_COMPRESSED.sub("", text).encode())


def plain(message: Request | Response, version: int, symbols: Symbols) -> dict[str, Any]:
    """The message as data: the fields that the version has."""
    return _struct(message, version, symbols)


def _struct(value: Any, version: int, symbols: Symbols) -> dict[str, Any]:
    return {
        field.name: _value(field.name, getattr(value, field.name), version, symbols)
        for field in type(value).spec.fields
        if field.is_present(version) and not field.is_own
    }


def _value(name: str, value: Any, version: int, symbols: Symbols) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        return worded(value) if name in _WORDINGS else symbols.text(value)
    if isinstance(value, int):
        return _number(name, value, symbols)
    if isinstance(value, Struct):
        return _struct(value, version, symbols)
    if isinstance(value, list):
        return [_value(name, each, version, symbols) for each in value]
    if name == "records":
        return batches(value, symbols)
    return symbols.id(bytes(value)) if len(value) == 16 else bytes(value).hex()


def worded(message: str) -> str:
    """`words`, with the key words of the message; nothing for an empty one."""
    found = [each for each in KEY_WORDS if each in message]
    return ": ".join([WORDS, ", ".join(found)]) if found else WORDS if message else ""


def key_words(told: Any) -> set[str] | None:
    """The key words of what `worded` made; None for any other value."""
    if not isinstance(told, str) or told.partition(": ")[0] != WORDS:
        return None
    return set(told.partition(": ")[2].split(", ")) - {""}


def _number(name: str, value: int, symbols: Symbols) -> int | str:
    if name == "session_id":
        return symbols.of("session", value) if value else value
    if name == "port":
        return symbols.of("port", value) if value > 0 else value
    if name in _DISK_SIZES:
        return "size of the disk" if value > 0 else value
    if name.endswith(_TIMES):
        return symbols.time(value)
    return value


def batches(data: Any, symbols: Symbols) -> list[dict[str, Any]]:
    """Each whole batch, and what is left of another."""
    view = memoryview(data)
    try:
        end = whole_bytes(view)
    except CorruptRecord:  # such as a request is made of on purpose
        return [{"offsets": "none", "holds": sha256(view).hexdigest()[:12]}]
    told = [_batch(each, symbols) for each in walk(view[:end])]
    if end < len(view):
        told.append({"offsets": "cut", "bytes": len(view) - end})
    return told


def _batch(batch: Batch, symbols: Symbols) -> dict[str, Any]:
    header = batch.header
    times = [symbols.time(each) for each in (header.base_timestamp, header.max_timestamp)]
    return {
        "offsets": f"{header.base_offset}-{header.last_offset}",
        "epoch": header.partition_leader_epoch,
        "attributes": header.attributes,
        "times": times,
        "producer": f"{header.producer_id}/{header.producer_epoch}/{header.base_sequence}",
        "count": header.record_count,
        "bytes": len(batch.data),
        "crc": _crc(batch, is_chance=NOW in times),
        "holds": digest(batch, symbols),
    }


def _crc(batch: Batch, *, is_chance: bool) -> str:
    """Of what holds times of now it is told only whether it is right."""
    try:
        batch.check_crc()
    except CorruptRecord:
        return f"{batch.header.crc:08x}, which is wrong"
    return NOW if is_chance else f"{batch.header.crc:08x}"


def digest(batch: Batch, symbols: Symbols) -> str:
    """Of the records, however they are compressed."""
    seen = sha256()
    try:
        for record in batch.records():
            told = (record.offset, symbols.time(record.timestamp), record.key, record.value)
            seen.update(repr((told, record.headers)).encode())
    except CorruptRecord:
        return "unreadable"
    return seen.hexdigest()[:12]
