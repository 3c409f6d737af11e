"""The content of the offset topic: the offset of each source partition of each connector. No IO.

A key that is written again keeps the exact bytes of its first record, for example Java's order of
fields, because compaction compares bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.connect.storage.keys import Json, canonical, dump, offset_key, parse, parse_offset_key
from moldau.connect.storage.log import Entry

Partition = dict[str, Json]
Offset = dict[str, Json]


class OffsetImage:
    """The fold of the offset topic."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[bytes, tuple[Partition, Offset]]] = {}
        self._keys: dict[tuple[str, bytes], bytes] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Apply one record. An unknown or malformed record changes nothing."""
        found = parse_offset_key(key)
        if found is None:
            return
        connector, partition = found
        known = self._offsets.setdefault(connector, {})
        which = canonical(partition)
        offset = None if value is None else parse(value)
        if isinstance(offset, dict):
            known[which] = (partition, offset)
            self._keys[connector, which] = key
        else:
            known.pop(which, None)
            self._keys.pop((connector, which), None)

    def of(self, connector: str, partition: Partition) -> Offset | None:
        """Return the offset of one partition; None if there is none."""
        found = self._offsets.get(connector, {}).get(canonical(partition))
        return None if found is None else dict(found[1])

    def all(self, connector: str) -> list[tuple[Partition, Offset]]:
        """Return every partition of a connector with its offset."""
        return list(self._offsets.get(connector, {}).values())

    def entries(
        self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]
    ) -> list[Entry]:
        """Return the records that store these offsets; None deletes that of a partition."""
        found = []
        for partition, offset in offsets:
            known = self._keys.get((connector, canonical(partition)))
            key = offset_key(connector, partition) if known is None else known
            found.append((key, None if offset is None else dump(offset)))
        return found
