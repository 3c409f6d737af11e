"""The output of the generated loop: columns by topic."""

from __future__ import annotations

import re
from typing import Any, Final

from moldau.streams.engine.batches import Headers, Outputs

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Columns:
    """The outputs for one topic. The loop appends to the lists; they are never replaced."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers] = []
        self.partitions: list[int | None] = []

    def add_headers(self, headers: Headers) -> None:
        """Set the headers of the record that was added last."""
        self.headers.extend([()] * (len(self.timestamps) - len(self.headers) - 1))
        self.headers.append(headers)

    def add_partition(self, partition: int | None) -> None:
        self.partitions.extend([None] * (len(self.timestamps) - len(self.partitions) - 1))
        self.partitions.append(partition)

    def take(self) -> Outputs:
        count = len(self.timestamps)
        if self.headers:
            self.headers.extend([()] * (count - len(self.headers)))
        if self.partitions:
            self.partitions.extend([None] * (count - len(self.partitions)))
        columns = (self.keys, self.values, self.timestamps, self.headers, self.partitions)
        taken = Outputs(self.topic, *(list(column) for column in columns))  # type: ignore[arg-type]
        for column in columns:
            column.clear()
        return taken


def _named(topic: Any) -> str:
    if not isinstance(topic, str):
        raise TypeError(f"the topic of a record must be a str, not {topic!r}")
    if _TOPIC.fullmatch(topic) is None or topic in (".", ".."):
        raise ValueError(
            f"{topic!r} is no name of a topic: it has 1 to 249 ASCII letters, digits, . _ and -"
        )
    return topic


def chosen_partition(partition: Any) -> int | None:
    """Return the partition that a function of the app has chosen; None leaves the choice to the
    key. Raise TypeError or ValueError for what is none."""
    if partition is None:
        return None
    if not isinstance(partition, int):
        raise TypeError(f"partitioner= returned {partition!r}; return an int, or None")
    if partition < 0:
        raise ValueError(f"partitioner= returned {partition}; partitions begin with 0")
    return partition


class Outlets:
    """The outputs of a task for all topics that it writes to."""

    def __init__(self) -> None:
        self._columns: dict[str, Columns] = {}

    def columns(self, topic: str) -> Columns:
        """Return the columns of a topic. Raise TypeError or ValueError for what is no topic's name:
        a function of the app may choose it."""
        found = self._columns.get(topic)
        if found is None:
            found = self._columns[topic] = Columns(_named(topic))
        return found

    def take(self) -> list[Outputs]:
        return [each.take() for each in self._columns.values() if each.timestamps]
