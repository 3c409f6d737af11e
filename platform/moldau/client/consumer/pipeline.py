"""Records from positions to the user, through deserializers and interceptors.

Invariants: each record is returned once between two seeks. If an interceptor is interrupted, its
records are returned by the next poll. If a deserializer fails, the records before the failed one
are returned, the partition goes back to the failed record, and the next poll raises the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.client.base.columns import PartitionColumns
from moldau.client.base.part import Part
from moldau.client.consumer.decoding import Decoding, Undecoded
from moldau.client.consumer.interceptors import Interceptors
from moldau.client.consumer.reading import Reading
from moldau.client.consumer.records import PartitionRecords
from moldau.link.metadata import TopicPartition


class RecordPipeline:
    """Takes records from the positions, and counts them in the metrics."""

    def __init__(
        self, reading: Reading, interceptors: Interceptors, decoding: Decoding | None
    ) -> None:
        self._interceptors = interceptors
        self._decoding = decoding
        self._positions = reading.positions
        self._out = reading.out
        self._fetcher = reading.fetcher
        self._metrics = reading.metrics
        self._undecoded: list[Undecoded] = []

    async def records(self, count_max: int) -> list[PartitionRecords]:
        """Return records that an earlier poll left over, or else the next fetched ones."""
        while True:
            left = self._out.take(count_max, self._positions.chosen)
            if left:
                return left
            if self._decoding is None:
                parts = self._positions.take(count_max)
            else:
                parts = await self._decoded(self._decoding, count_max)
            self._count([(each.topic, len(each.records)) for each in parts])
            if not parts:
                return parts
            seen = self._intercepted(parts)
            if seen:
                return seen

    async def columns(self, count_max: int) -> list[PartitionColumns]:
        """Return whole batches as columns. Records left over by a poll are fetched again."""
        self.fetch_again(self._out.take_all())
        parts = self._positions.take_columns(count_max)
        self._count([(each.topic, len(each)) for each in parts])
        return parts

    def fetch_again(self, parts: Iterable[Part]) -> None:
        """Go back to the beginning of these parts. The user has not seen them."""
        for part in parts:
            position = self._positions.assignment.get(TopicPartition(part.topic, part.partition))
            if position is not None and part.first_offset < position.position:
                position.seek(part.first_offset, position.epoch)

    def _count(self, counts: Sequence[tuple[str, int]]) -> None:
        """Count the records taken by topic, and note whether this made room for another fetch."""
        emptied = self._positions.emptied
        self._metrics.consumed(counts, emptied)
        makes_room = bool(emptied)
        emptied.clear()
        if counts or makes_room:
            self._fetcher.taken(makes_room=makes_room)

    def _intercepted(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        """Return what the interceptors return. An interrupt (Ctrl-C) loses no records."""
        seen: list[PartitionRecords] | None = None
        try:
            seen = self._interceptors.consumed(parts)
        finally:
            if seen is None:
                self._out.take_back(parts)
        return seen

    async def _decoded(self, decoding: Decoding, count_max: int) -> list[PartitionRecords]:
        """Return the next records, deserialized."""
        while True:
            self._raise_undecoded()
            chosen = self._positions.chosen
            parts = self._out.begin_decoding(count_max, chosen)
            if not parts:
                self._out.hold(self._positions.take(count_max))
                parts = self._out.begin_decoding(count_max, chosen)
            decoded, self._undecoded = await decoding.decode(parts)
            wanted = self._out.end_decoding()
            for where, offset, error in self._undecoded:
                position = self._positions.assignment.get(where)
                if where in wanted and position is not None:
                    self._out.drop_waiting([where])  # the rest of what an earlier poll took
                    position.seek(offset, position.epoch)
                    position.fail(error)
            decoded = [each for each in decoded if TopicPartition(*each[:2]) in wanted]
            if decoded or not parts:
                return decoded

    def _raise_undecoded(self) -> None:
        """Raise the error of a failed record once, unless a seek has passed it."""
        chosen = self._positions.chosen
        for each in list(self._undecoded):
            if chosen is not None and each.where not in chosen:
                continue
            self._undecoded.remove(each)
            position, error = self._positions.assignment.get(each.where), each.error
            if position is not None and position.error is error:
                position.take_error()
                raise error
