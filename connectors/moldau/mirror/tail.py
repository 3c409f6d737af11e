"""Reads an internal topic from its beginning, and then what was added since the last read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Final

from moldau.client import TopicPartition
from moldau.client.sync import Consumer
from moldau.mirror.clusters import Side, open_consumer

_POLL_S: Final = 0.5


class TopicTail:
    """The one partition of an internal topic."""

    def __init__(self, props: Mapping[str, str], side: Side, topic: str) -> None:
        self._where = TopicPartition(topic, 0)
        self._consumer: Consumer[bytes, bytes] = open_consumer(props, side)
        with ExitStack() as stack:
            stack.callback(self._consumer.close)
            self._consumer.assign([self._where])
            self._consumer.seek_to_beginning()
            stack.pop_all()

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values up to the present end of the topic, tombstones left out."""
        end = self._consumer.end_offsets([self._where])[self._where]
        while (self._consumer.position(self._where) or 0) < end:
            for part in self._consumer.poll_batches(_POLL_S):
                for key, value in zip(part.keys, part.values, strict=True):
                    if key is not None and value is not None:
                        yield key, value

    def close(self) -> None:
        self._consumer.close()
