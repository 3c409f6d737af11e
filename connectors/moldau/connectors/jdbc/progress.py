"""The read position of a source in one table: Confluent's offsets, and when they may advance.

Invariant: an offset says "every row up to here was delivered". In timestamp mode several rows
share an instant, so a row's offset has its own instant only when the next row has a later one or
does not exist; until then it has the instant before. A crash in the middle of an instant repeats
that instant's rows and skips none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.deferred import dataclass

NANOS_OF_SECOND = 1_000_000_000
NANOS_OF_MILLI = 1_000_000


class BadOffset(ValueError):
    """A stored source offset that does not have Confluent's layout."""


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """The last delivered incrementing value and instant (nanoseconds since 1970)."""

    incrementing: int | None = None
    timestamp_ns: int | None = None

    def to_offset(self) -> dict[str, Any]:
        """Return Confluent's layout: `timestamp` in ms, and `timestamp_nanos` of its second."""
        offset: dict[str, Any] = {}
        if self.incrementing is not None:
            offset["incrementing"] = self.incrementing
        if self.timestamp_ns is not None:
            offset["timestamp"] = self.timestamp_ns // NANOS_OF_MILLI
            offset["timestamp_nanos"] = self.timestamp_ns % NANOS_OF_SECOND
        return offset


def from_offset(offset: Mapping[str, Any] | None) -> ReadProgress:
    """Parse an offset of this connector or of Confluent's; None is the beginning."""
    if not offset:
        return ReadProgress()
    for name in ("incrementing", "timestamp", "timestamp_nanos"):
        value = offset.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise BadOffset(f"offset field {name} must be a whole number, not {value!r}")
    milli = offset.get("timestamp")
    if milli is None:
        return ReadProgress(offset.get("incrementing"))
    nanos = offset.get("timestamp_nanos")
    if nanos is None:
        return ReadProgress(offset.get("incrementing"), milli * NANOS_OF_MILLI)
    if not 0 <= nanos < NANOS_OF_SECOND:
        raise BadOffset(f"offset field timestamp_nanos must be below {NANOS_OF_SECOND}: {nanos}")
    return ReadProgress(offset.get("incrementing"), milli // 1000 * NANOS_OF_SECOND + nanos)


def source_partition(table: str) -> dict[str, str]:
    """Return the source partition of a table, in Confluent's protocol 1."""
    return {"protocol": "1", "table": table}


def known_partitions(catalog: str | None, schema: str | None, name: str) -> list[dict[str, str]]:
    """Return the partitions under which offsets of a table may be stored, the best first.

    Some Java drivers return no catalog, and old versions of the connector wrote only the table
    name.
    """
    full = ".".join(part for part in (catalog, schema, name) if part)
    spellings = [full, f"{schema}.{name}" if schema else name, name]
    unique = list(dict.fromkeys(spellings))
    return [source_partition(each) for each in unique] + [{"table": name}]


QUERY_PARTITION = {"query": "query"}
