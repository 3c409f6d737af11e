"""The output of the generated loop: columns by topic."""

from __future__ import annotations

import re
from typing import Any, Final

from moldau.streams.engine.batches import Headers, Outputs
from moldau.streams.plan.partitioners import Partitioning
from moldau.streams.plan.replies import REPLY_TOPICS, ReplyAddress
from moldau.streams.state.journal import Journal

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Columns:
    """The outputs for one topic. The loop appends to the lists; they are never replaced."""

    def __init__(
        self, topic: str, partitioning: Partitioning | None = None, *, is_reply: bool = False
    ) -> None:
        self.topic = topic
        self.is_reply = is_reply
        self.partitioning = partitioning
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers] = []
        self.partitions: list[int | None] = []
        self.undo = (self.drop,)
        """The entry of an undo log for a record that was added."""

    def add_headers(self, headers: Headers) -> None:
        """Set the headers of the record that was added last."""
        self.headers.extend([()] * (len(self.timestamps) - len(self.headers) - 1))
        self.headers.append(headers)

    def add_partition(self, partition: int | None) -> None:
        self.partitions.extend([None] * (len(self.timestamps) - len(self.partitions) - 1))
        self.partitions.append(partition)

    def drop(self) -> None:
        """Remove the record that was added last."""
        del self.keys[-1], self.values[-1], self.timestamps[-1]
        count = len(self.timestamps)
        del self.headers[count:], self.partitions[count:]

    def take(self) -> Outputs:
        count = len(self.timestamps)
        if self.headers:
            self.headers.extend([()] * (count - len(self.headers)))
        if self.partitions:
            self.partitions.extend([None] * (count - len(self.partitions)))
        columns = (self.keys, self.values, self.timestamps, self.headers, self.partitions)
        taken = Outputs(self.topic, *(list(column) for column in columns))  # type: ignore[arg-type]
        taken.partitioning = self.partitioning
        taken.is_reply = self.is_reply
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

    def __init__(self, journal: Journal, reply_topics: str = REPLY_TOPICS) -> None:
        self._columns: dict[tuple[str, Partitioning | None], Columns] = {}
        self._journal = journal
        self._reply_topics = re.compile(reply_topics)
        self._replies: dict[str, Columns] = {}
        self.refused = 0
        """The number of replies left out because no reply may go to their topic."""

    def columns(self, topic: str, partitioning: Partitioning | None = None) -> Columns:
        """Return the columns of a topic with this way to place keys. Raise TypeError or ValueError
        for what is no topic's name: a function of the app may choose it."""
        found = self._columns.get((topic, partitioning))
        if found is None:
            found = self._columns[topic, partitioning] = Columns(_named(topic), partitioning)
        return found

    def add(
        self, topic: str, key: bytes | None, value: bytes | None, time: int, headers: Headers
    ) -> None:
        """Add a record that is not written by the loop."""
        columns = self.columns(topic)
        columns.keys.append(key)
        columns.values.append(value)
        columns.timestamps.append(time)
        columns.add_headers(headers)
        self._journal.log(columns.drop)

    def reply(
        self,
        request: Headers | None,
        key: bytes | None,
        value: bytes | None,
        time: int,
        headers: Headers = (),
    ) -> bool:
        """Add the reply to the request with these headers, if it wants one. Return whether."""
        address = ReplyAddress.of(request)
        if address is None:
            return False
        if not (self._reply_topics.fullmatch(address.topic) and _TOPIC.fullmatch(address.topic)):
            self._journal.log(setattr, self, "refused", self.refused)
            self.refused += 1
            return False
        columns = self._replies.get(address.topic)
        if columns is None:
            columns = self._replies[address.topic] = Columns(address.topic, is_reply=True)
        columns.keys.append(key)
        columns.values.append(value)
        columns.timestamps.append(time)
        columns.add_headers((*address.reply_headers(), *headers))
        columns.add_partition(address.partition)
        self._journal.log(columns.drop)
        return True

    def take(self) -> list[Outputs]:
        replies, self._replies = self._replies, {}  # each client may have a topic of its own
        every = [*self._columns.values(), *replies.values()]
        return [each.take() for each in every if each.timestamps]
