"""The records that clients send each other, and their form as JSON between us and a program.

A record is what a client's user sees of it: key, value, headers, timestamp, and once it is stored
its offset. Two are equal when all of these are, so a comparison of lists compares everything.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
# Some time in 2024: far from the broker's now, so that a stamp made by a broker is seen.
FIRST_TIMESTAMP_MS: Final = 1_715_000_000_000

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Record:
    """One record; `offset` is -1 before it is stored."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = FIRST_TIMESTAMP_MS
    offset: int = -1

    def stored_at(self, offset: int) -> Record:
        return replace(self, offset=offset)


def stored(records: Sequence[Record], first_offset: int = 0) -> list[Record]:
    """The records as a log holds them one behind the other."""
    return [each.stored_at(at) for at, each in enumerate(records, first_offset)]


def sample(name: str, count: int = 6) -> list[Record]:
    """Records with each shape that a record may have, told apart by `name`.

    Null and empty keys and values, headers with a null value, an empty value and a repeated name,
    text that is not ASCII, bytes that are no text, timestamps that do not rise.
    """
    label = name.encode()
    shapes = [
        Record(b"key " + label, b"value " + label),
        Record(None, b"without a key " * 40),
        Record(b"deleted", None, timestamp_ms=FIRST_TIMESTAMP_MS + 5_000),
        Record(b"", b"", timestamp_ms=FIRST_TIMESTAMP_MS + 2_000),
        Record(
            "kl\u00ed\u010d".encode(),
            bytes(range(256)) * 8,
            (("trace", b"\x00\xff"), ("empty", b""), ("null", None), ("trace", b"again")),
            FIRST_TIMESTAMP_MS + 9_000,
        ),
        Record(b"last " + label, b"x" * 3_000, (("\u017elu\u0165", label),)),
    ]
    return [shapes[at % len(shapes)] for at in range(count)]


def without_null_headers(record: Record) -> Record:
    """For clients that send none."""
    headers = tuple((name, value) for name, value in record.headers if value is not None)
    return replace(record, headers=headers)


def record_as_told(record: Record) -> Record:
    """What most clients tell: all of it."""
    return record


def record_by_header_name(record: Record) -> Record:
    """For clients that tell headers by name: those of one name behind each other."""
    names = [name for name, _ in record.headers]
    headers = tuple(sorted(record.headers, key=lambda each: names.index(each[0])))
    return replace(record, headers=headers)


# JSON.


def record_to_json(record: Record) -> dict[str, Any]:
    return {
        "key": _to_text(record.key),
        "value": _to_text(record.value),
        "headers": [[name, _to_text(value)] for name, value in record.headers],
        "timestamp": record.timestamp_ms,
    }


def record_from_json(told: Mapping[str, Any]) -> Record:
    headers = tuple((str(name), _to_bytes(value)) for name, value in told["headers"] or ())
    return Record(
        _to_bytes(told["key"]),
        _to_bytes(told["value"]),
        headers,
        int(told["timestamp"]),
        int(told.get("offset", -1)),
    )


def to_line(told: Mapping[str, Any]) -> str:
    return json.dumps(told, separators=(",", ":")) + "\n"


def stored_to_json(record: Record) -> dict[str, Any]:
    return {**record_to_json(record), "offset": record.offset}


def _to_text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")


def _to_bytes(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)
