"""The newest offset of each key in the dirty part of a log, for compaction.

Invariants: a key is known by 128 bits of its BLAKE2b digest, so two keys are never confused, not
even keys chosen to collide. The memory is the granted size, 24 bytes for a slot, and never grows
while there are keys in the map.

An open-addressing table in one bytearray. A dict takes six times the memory for the same keys. With
a dict, Kafka's `log.cleaner.dedupe.buffer.size` would not limit the memory.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Final

SLOT_BYTES: Final = 24
NOT_FOUND: Final = -1

_DIGEST_BYTES: Final = 16
_SLOT: Final = struct.Struct(">16sq")
_EMPTY: Final = bytes(_DIGEST_BYTES)
assert _SLOT.size == SLOT_BYTES


class OffsetMap:
    """Keys and their newest offsets, as many as fit into `memory_bytes`."""

    def __init__(self, memory_bytes: int, load_factor: float = 0.9) -> None:
        assert 0 < load_factor < 1
        self._load_factor = load_factor
        self._allocate(max(2, memory_bytes // SLOT_BYTES))

    def __len__(self) -> int:
        return self._count

    def has_room_for(self, count: int) -> bool:
        """Whether `count` more keys fit if all of them are new."""
        return self._count + count <= self.capacity

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` keys, even beyond the granted memory. The map must be empty."""
        assert not self._count
        if capacity > self.capacity:
            self._allocate(int(capacity / self._load_factor) + 2)

    def put(self, key: bytes, offset: int) -> None:
        """Note that the record at `offset` has `key`. Call it in the order of offsets."""
        digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        position, is_new = self._find(digest)
        if is_new:
            assert self._count < self.capacity, "ask has_room_for first"
            self._count += 1
        _SLOT.pack_into(self._table, position, digest, offset)

    def get(self, key: bytes) -> int:
        """Return the newest offset of `key`, or NOT_FOUND."""
        digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        position, is_new = self._find(digest)
        if is_new:
            return NOT_FOUND
        offset: int = _SLOT.unpack_from(self._table, position)[1]
        return offset

    def _allocate(self, slots: int) -> None:
        self._slots = slots
        self._table = bytearray(slots * SLOT_BYTES)
        self._count = 0
        self.capacity = max(1, int(slots * self._load_factor))

    def _find(self, digest: bytes) -> tuple[int, bool]:
        """Return the position of the digest, or where to insert it, and whether it is new. A digest
        of zeros is practically impossible."""
        table = self._table
        position = int.from_bytes(digest[:8], "big") % self._slots * SLOT_BYTES
        while True:
            found = table[position : position + _DIGEST_BYTES]
            if found == digest:
                return position, False
            if found == _EMPTY:
                return position, True
            position += SLOT_BYTES
            if position == len(table):
                position = 0
