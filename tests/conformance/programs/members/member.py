"""What the members in Python share: what they are told, and how they tell what happens.

A member is started with one argument, a JSON object with the fields of `Wish`. It tells

    {"owned": [0, 2]}              all partitions that it has now
    {"read": [[0, 17], [0, 18]]}   partition and offset of records that it has worked on

and leaves its group when its input ends. It tells of a record before it lets its client commit it:
what is committed was told, even of a member that was killed.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

COMMIT_INTERVAL_MS = 300


@dataclass(frozen=True, slots=True)
class Wish:
    """Which member to be. `strategy` is an assignor, or some in the order of their preference with
    commas between them, or `consumer` for the protocol of KIP-848. `instance` makes it a static
    member."""

    bootstrap: str
    topic: str
    group: str
    name: str
    strategy: str
    session_ms: int
    heartbeat_ms: int
    instance: str

    @classmethod
    def told(cls) -> Self:
        return cls(**json.loads(sys.argv[1]))


class Telling:
    """What this member owns and reads, for whoever started it."""

    def __init__(self) -> None:
        self._out = sys.stdout
        sys.stdout = sys.stderr  # what a library prints must not be taken for an answer
        self._owned: set[int] = set()

    def came(self, partitions: Iterable[int]) -> None:
        self.owns(self._owned.union(partitions))

    def went(self, partitions: Iterable[int]) -> None:
        self.owns(self._owned.difference(partitions))

    def owns(self, partitions: Iterable[int]) -> None:
        self._owned = set(partitions)
        self._write({"owned": sorted(self._owned)})

    def read(self, where: Iterable[tuple[int, int]]) -> None:
        told = list(where)
        if told:
            self._write({"read": told})

    def _write(self, fact: dict[str, Any]) -> None:
        self._out.write(json.dumps(fact) + "\n")
        self._out.flush()


def end_of_input() -> threading.Event:
    """Set when whoever started this process closes its input, or is gone."""
    is_over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait, daemon=True).start()
    return is_over
