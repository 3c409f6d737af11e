"""Which version the rows of each store have: a record for each store and partition.

The records are in the topic that keeps the app's topology, beside it. A worker writes one in the
transaction that changes the rows of the changelog, so both are true at once, on whatever machine
the store is restored. A store without a record has version 1.

A pass over a large store is cut into transactions. Until the last one the record says how far it
has come: rows before `before` have the version `to`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from moldau.deferred import dataclass

_PREFIX: Final = "version/"


@dataclass(frozen=True, slots=True)
class StoreVersion:
    """The version of the rows of a store in one partition."""

    version: int = 1
    to: int | None = None
    before: bytes = b""
    layout: str = ""
    """The layout of the rows, on which the order of their keys depends."""

    @property
    def newest(self) -> int:
        """The newest version that a row may have."""
        return self.version if self.to is None else self.to

    def encoded(self) -> bytes:
        """Return the value of its record."""
        found: dict[str, Any] = {"version": self.version}
        if self.to is not None:
            found |= {"to": self.to, "before": self.before.hex(), "layout": self.layout}
        return json.dumps(found).encode()


FIRST: Final = StoreVersion()


def version_key(store: str, partition: int) -> bytes:
    """Return the key of the record."""
    return f"{_PREFIX}{store}/{partition}".encode()


def versions_in(
    records: Mapping[bytes | None, bytes | None],
) -> dict[tuple[str, int], StoreVersion]:
    """Return the versions in the last records of a topic, by store and partition."""
    found = {}
    for key, value in records.items():
        name = (key or b"").decode(errors="replace")
        store, slash, partition = name.removeprefix(_PREFIX).rpartition("/")
        if name.startswith(_PREFIX) and slash and partition.isdecimal() and value is not None:
            found[store, int(partition)] = _version(value)
    return found


def _version(value: bytes) -> StoreVersion:
    given = json.loads(value)
    if "to" not in given:
        return StoreVersion(given["version"])
    before = bytes.fromhex(given["before"])
    return StoreVersion(given["version"], given["to"], before, given["layout"])
