"""Reads an internal topic from its beginning, and then what was added since the last read."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from moldau.client import TopicPartition
from moldau.client.sync import Consumer
from moldau.mirror.clusters import Side, open_consumer

_log = logging.getLogger(__name__)
_POLL_S: Final = 0.5


class TopicTail:
    """The one partition of an internal topic. The topic may be made later; it is empty till then.
    It is not made here, as it has to be compacted."""

    def __init__(self, props: Mapping[str, str], side: Side, topic: str) -> None:
        self._side = side
        self._where = TopicPartition(topic, 0)
        self._consumer: Consumer[bytes, bytes] = open_consumer(props, side)

    def _exists(self) -> bool:
        if self._consumer.assignment:
            return True
        topic = self._where.topic
        if topic not in {each.name for each in self._consumer.list_topics(internal=True)}:
            _log.info("%s does not exist on the %s yet", topic, self._side)
            return False
        self._consumer.assign([self._where])
        self._consumer.seek_to_beginning()
        return True

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values up to the present end of the topic, tombstones left out."""
        if not self._exists():
            return
        end = self._consumer.end_offsets([self._where])[self._where]
        while (self._consumer.position(self._where) or 0) < end:
            for part in self._consumer.poll_batches(_POLL_S):
                for key, value in zip(part.keys, part.values, strict=True):
                    if key is not None and value is not None:
                        yield key, value

    def close(self) -> None:
        self._consumer.close()
