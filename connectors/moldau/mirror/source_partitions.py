"""The partitions of the source that a task reads, also while some of them are gone.

A partition that is gone, or that its broker does not know yet, is left out; the others are read on.
It is looked for at each refresh interval, and taken up where its copy ends. If its topic is another
one by then (`copied`), it is read from its beginning. A topic that is replaced while it is read is
the consumer's affair, with the same result and a line in its log.

Invariant: each partition of the task is either assigned to the consumer or absent.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from moldau.client import LATEST, KafkaError, PartitionColumns, TopicPartition
from moldau.client.sync import Consumer
from moldau.connectors.pace import Pace
from moldau.ids import ZERO_UUID, Uuid
from moldau.mirror.clusters import open_admin, open_consumer, reads_committed
from moldau.mirror.continuation import CopyEnd, continuation
from moldau.mirror.progress import GONE
from moldau.mirror.settings import SourceMirrorConfig

_log = logging.getLogger(__name__)
_RECORDS_MAX: Final = 20_000


class SourcePartitions:
    """The partitions of one task. It owns its consumer."""

    def __init__(
        self,
        config: SourceMirrorConfig,
        props: Mapping[str, str],
        copied: Mapping[TopicPartition, CopyEnd | None],
        pace: Pace,
    ) -> None:
        """Read the partitions of `copied`. Raise ConnectError if the source does not answer."""
        self._config = config
        self._props = props
        self._pace = pace
        self._absent = dict(copied)
        self._given_up: set[TopicPartition] = set()
        self._ids: dict[TopicPartition, Uuid] = {}
        self._look_at = pace.monotonic()
        self._consumer: Consumer[bytes, bytes] = open_consumer(props, "source")

    def close(self) -> None:
        self._consumer.close()

    def take_up(self) -> None:
        """Read the absent partitions that are there (again)."""
        self._look_at = self._pace.monotonic() + self._config.refresh_s
        topics = {each.name: each for each in self._consumer.list_topics()}
        back = {
            where: topics[where.topic].topic_id
            for where in self._absent
            if where.topic in topics and where.partition < len(topics[where.topic].partitions)
        }
        if back:
            offsets = self._offsets(back)
            self._consumer.assign([*self._consumer.assignment, *back])
            for where, offset in offsets.items():
                self._consumer.seek(where, offset)
            for where in back:
                del self._absent[where]
            self._ids |= back
            self._report_gone_back(back)
        for where in self._absent.keys() - self._given_up:
            self._leave_out(where, "its topic does not exist")

    def _offsets(self, back: Mapping[TopicPartition, Uuid]) -> dict[TopicPartition, int]:
        """Return where to continue in partitions that are copied in part."""
        copied = {where: known for where in back if (known := self._absent[where]) is not None}
        if not copied:
            return {}
        begins, ends = self._consumer.beginning_offsets(copied), self._high_watermarks(copied)
        found = {}
        for where, known in copied.items():
            found[where], warning = continuation(
                where, known, back[where], begins[where], ends[where]
            )
            if warning is not None:
                _log.warning("%s", warning)
        return found

    def _high_watermarks(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of logs, with what is not committed. The consumer may not see those."""
        if not reads_committed(self._props):
            return self._consumer.end_offsets(wanted)
        with open_admin(self._props, "source", self._config.admin_timeout_ms) as admin:
            found = admin.list_offsets(dict.fromkeys(wanted, LATEST))
        return {where: end.offset for where, end in found.items()}

    def _report_gone_back(self, back: Iterable[TopicPartition]) -> None:
        for where in self._given_up.intersection(back):
            _log.warning("%s is there again, and is copied on", where)
        self._given_up.difference_update(back)

    def _leave_out(self, where: TopicPartition, reason: str) -> None:
        self._given_up.add(where)
        _log.warning("%s is gone from the source and not copied; it is looked for every %d s: %s",
                     where, self._config.refresh_s, reason)  # fmt: skip

    def poll(self, timeout_s: float) -> list[tuple[PartitionColumns, Uuid]]:
        """Return records with the ids of their topics; ZERO_UUID if it is unknown. Raise KafkaError
        if the source cannot be read."""
        try:
            if self._absent and self._pace.monotonic() >= self._look_at:
                self.take_up()
            if not self._consumer.assignment:
                self._pace.wait(timeout_s)
                return []
            found = self._consumer.poll_batches(timeout_s, max_records=_RECORDS_MAX)
        except KafkaError as error:
            if error.code not in GONE:
                raise
            self._give_up(error)
            return []
        return self._with_ids(found)

    def _with_ids(self, found: list[PartitionColumns]) -> list[tuple[PartitionColumns, Uuid]]:
        """An id that is new since the last poll counts from the next one on: these records may
        still be of the earlier topic."""
        places = [TopicPartition(each.topic, each.partition) for each in found]
        before, ids = self._ids, self._consumer.topic_ids(places)
        self._ids = before | ids
        return [
            (each, ids[where] if before.get(where) in (ids[where], None) else ZERO_UUID)
            for each, where in zip(found, places, strict=True)
        ]

    def _give_up(self, error: KafkaError) -> None:
        """Leave out a topic that is gone, up to the next look."""
        topic = error.context.get("topic")
        assigned = self._consumer.assignment
        gone = [where for where in assigned if where.topic == topic]
        if not gone:
            if topic in {where.topic for where in self._absent}:
                return  # it has gone while it was taken up
            raise error
        for where in gone:
            at = self._consumer.position(where)
            read = None if at is None else CopyEnd(at, self._ids.get(where, ZERO_UUID))
            self._absent[where] = read
            self._leave_out(where, str(error))
        self._consumer.assign([where for where in assigned if where not in self._absent])
