"""A batch with other claims in its header."""

from __future__ import annotations

import struct

from crc32c import crc32c

FIELDS = {
    "base_offset": (0, ">q"),
    "batch_length": (8, ">i"),
    "partition_leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}


def lying(batch: bytes, **claims: int) -> bytearray:
    """The batch with other claims in its header, and the checksum that goes with them."""
    changed = bytearray(batch)
    for name, claim in claims.items():
        position, layout = FIELDS[name]
        struct.pack_into(layout, changed, position, claim)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return changed
