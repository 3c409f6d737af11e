"""What Apache Kafka 4.3.1 makes of the same records (GoldenBatches.java wrote golden.json)."""

from __future__ import annotations

import json
from pathlib import Path

_ANSWERS = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="ascii"))

BATCHES = {name: bytes.fromhex(answer) for kind, name, answer in _ANSWERS if kind == "batch"}
MURMUR2 = {bytes.fromhex(key): int(answer) for kind, key, answer in _ANSWERS if kind == "murmur2"}
STRING_HASHES = {
    bytes.fromhex(text).decode(): int(answer) for kind, text, answer in _ANSWERS if kind == "hash"
}

ROWS = [
    (1700000000000, b"key", b"value", ()),
    (1700000000005, None, b"no key", (("h", b"1"), ("n\u00fcll", None))),
    (1699999999000, b"tombstone", None, ()),
    (1700000000005, b"", b"abc" * 40, ()),
]
