"""The output of the generated loop: columns by topic."""

from __future__ import annotations

from moldau.streams.engine.batches import Headers, Outputs


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


class Outlets:
    """The outputs of a task for all topics that it writes to."""

    def __init__(self) -> None:
        self._columns: dict[str, Columns] = {}

    def columns(self, topic: str) -> Columns:
        found = self._columns.get(topic)
        if found is None:
            found = self._columns[topic] = Columns(topic)
        return found

    def take(self) -> list[Outputs]:
        return [each.take() for each in self._columns.values() if each.timestamps]
