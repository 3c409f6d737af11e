"""Read changelogs from their beginnings, up to the last record that is decided."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import closing
from typing import Final

from moldau.client import EARLIEST, LATEST, TopicPartition
from moldau.client.sync import Admin
from moldau.executors.clients import CLIENTS
from moldau.runtime.children import Mailbox
from moldau.runtime.threads import here
from moldau.streams.changelog.ranges import BrokersAway, RangeReader, RecordsGone, TopicRange
from moldau.streams.engine.batches import Chunk
from moldau.streams.plan.topics import topology_topic
from moldau.streams.problems import StreamsError
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.worker.settings import AppSettings

_POLL_S: Final = 0.05
_CLEANUP_S: Final = 15.0
"""How long after their timeout brokers abort transactions at the latest."""
_QUICK: Final = {"isolation.level": "read_committed", "fetch.max.wait.ms": "50"}


class ChangelogReader:
    """Reads changelogs from their beginnings."""

    def __init__(self, app: str, settings: AppSettings, admin: Admin) -> None:
        self._app = app
        self._admin = admin
        self._open_s = settings.transaction_timeout_ms / 1000 + _CLEANUP_S
        self._settings = {**settings.of("consumer"), **_QUICK}

    def __enter__(self) -> ChangelogReader:
        return self

    def __exit__(self, *_: object) -> None:
        CLIENTS.clear()

    def changes(self, topic: str, partition: int, end: int | None = None) -> ChangelogRecords:
        """Return the records of a partition before `end`, or all. Raise StreamsError if a
        transaction there stays open, or if nothing comes for a long time."""
        found = ChangelogRecords()
        try:
            for chunk in self.chunks(topic, partition, 0, end):
                rows = zip(chunk.keys, chunk.values, chunk.timestamps, strict=True)
                for key, value, time in rows:
                    if key is not None:
                        found.add(key, value, time)
        except RecordsGone:  # by its retention, since the first offset was asked for
            return self.changes(topic, partition, end)
        return found

    def has_records(self, topic: str, partition: int) -> bool:
        """Whether a partition has committed records. Raises what `changes` does."""
        try:
            return any(len(chunk) for chunk in self.chunks(topic, partition, 0))
        except RecordsGone:  # by its retention, since the first offset was asked for
            return self.has_records(topic, partition)

    def kept(self, topics: Container[str]) -> dict[bytes | None, bytes | None]:
        """Return the last record of each key in the topic with the topology of the app and the
        versions of its rows; none if it is not among these topics."""
        topic = topology_topic(self._app)
        found = self.changes(topic, 0) if topic in topics else ChangelogRecords()
        return dict(zip(found.keys, found.values, strict=True))

    def chunks(
        self, topic: str, partition: int, begin: int, end: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the records from `begin` on, or from the first one that is there, as `changes`
        does."""
        where = TopicPartition(topic, partition)
        stop = self._end(where, end)
        first = max(begin, self._admin.list_offsets({where: EARLIEST})[where].offset)
        wanted = TopicRange(topic, first, stop)
        try:
            with closing(RangeReader(self._settings, partition, (wanted,))) as reader:
                while reader.unread:
                    for _, chunk in reader.poll([topic]):
                        yield chunk
        except BrokersAway as error:
            raise StreamsError(f"app={self._app}: {error}; then start again") from None

    def _end(self, where: TopicPartition, wanted: int | None) -> int:
        """Return where the records end, at `wanted` at the latest, when all before are decided.

        A producer knows that its transaction is committed when a broker may still be writing that
        to the partitions. One that was killed leaves a transaction open until its timeout."""
        threads = here()
        deadline = threads.monotonic() + self._open_s
        end = self._admin.list_offsets({where: LATEST})[where].offset
        stop = end if wanted is None else min(end, wanted)
        while self._admin.list_offsets({where: LATEST}, is_committed=True)[where].offset < stop:
            if threads.monotonic() > deadline:
                raise StreamsError(
                    f"app={self._app}: {where} has a transaction that stays open, so the last "
                    f"commit is not known after {self._open_s:.0f} s: stop what writes there, and "
                    "move the app when the transaction has timed out"
                )
            Mailbox[bool]().take(_POLL_S)
        return stop
