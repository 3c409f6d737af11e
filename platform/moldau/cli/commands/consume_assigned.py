"""`moldau consume` without a group: reads partitions by hand, and leaves no trace behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.command import UsageError
from moldau.cli.commands.consume_notes import gone
from moldau.cli.commands.consume_place import Place, cut_ends, led_now

if TYPE_CHECKING:
    from moldau.client import Consumer, PartitionRecords, TopicPartition

_POLL_S: Final = 1.0
_MISSING_S: Final = 2.0  # a topic that was made just now may not be known everywhere


class AssignedReading:
    """All partitions, or those that were named."""

    def __init__(
        self,
        client: Consumer,
        place: Place,
        *,
        last: int | None,
        partitions: Sequence[int] | None,
        follow: bool,
    ) -> None:
        """`last`: begin so many offsets before each end; `follow`: what comes later counts too."""
        self.notes: list[str] = []
        self.is_whole = True
        self._client = client
        self._place = place
        self._last = last
        self._partitions = partitions
        self._follow = follow
        self._ends: dict[TopicPartition, int] = {}
        self._has_nothing = False

    async def begin(self, topics: Sequence[str]) -> None:
        """Goes to where reading begins, and notes where each log ends at this moment. A partition
        without a leader keeps nobody from reading the others."""
        from moldau.client.offsets import EARLIEST, LATEST

        client = self._client
        chosen = self._chosen(await client.partitions(*topics, timeout_s=_MISSING_S))
        chosen, left_out = await led_now(client, chosen)
        self.is_whole = not left_out
        self.notes += [f"{each} has no leader: it is not read" for each in left_out]
        client.assign(chosen)
        ends = await client.offsets(dict.fromkeys(chosen, LATEST))
        self._ends = {each: ends[each].offset for each in chosen}
        place = self._place
        if place.timestamp_ms is not None:
            await client.seek_to_time(place.timestamp_ms)
        elif self._last is None and not place.is_end and place.offset is None:
            await client.seek_to_beginning()
        else:
            starts = await client.offsets(dict.fromkeys(chosen, EARLIEST))
            for each in chosen:
                client.seek(each.topic, each.partition, self._first(each, starts[each].offset))

    def _chosen(self, there: list[TopicPartition]) -> list[TopicPartition]:
        """UsageError for each number that none of the topics has."""
        if self._partitions is None:
            return there
        known = {each.partition for each in there}
        missing = [each for each in dict.fromkeys(self._partitions) if each not in known]
        if missing:
            topics = list(dict.fromkeys(each.topic for each in there))
            verb = "has" if len(topics) == 1 else "have"
            numbers = ", ".join(map(str, missing))
            raise UsageError(f"{', '.join(topics)} {verb} no partition {numbers}")
        return [each for each in there if each.partition in self._partitions]

    def _first(self, where: TopicPartition, start: int) -> int:
        """The offset to begin at, within the log: who asks for more of it hears where it ends, and
        what is gone of it."""
        end, offset = self._ends[where], self._place.offset
        if self._last is not None:
            return max(start, end - self._last)
        if offset is None:
            return end
        if offset < start:
            self.notes.append(gone(where, offset, start))
        elif offset > end and self._follow:
            self.notes.append(f"{where}: the log ends at {end}: reading begins there, not later")
        return min(max(start, offset), end)

    async def next(self, max_records: int) -> list[PartitionRecords]:
        """More records."""
        parts = await self._client.poll(_POLL_S, max_records=max_records)
        self._has_nothing = not parts
        return parts if self._follow else list(map(self._before_the_end, parts))

    def _before_the_end(self, part: PartitionRecords) -> PartitionRecords:
        """Without what came after the beginning: a topic that is written to all the time has no
        end."""
        end = self._ends[part.topic, part.partition]  # type: ignore[index]
        if part.records[-1].offset < end:
            return part
        return part._replace(records=[each for each in part.records if each.offset < end])

    async def is_read(self) -> bool:
        """Whether everything that was there at the beginning is read. Transaction markers and
        compacted records have offsets too, so positions decide and not counts."""
        if self._has_nothing:
            await cut_ends(self._client, self._ends)
        positions = ((self._client.position(*where), end) for where, end in self._ends.items())
        return all(position is not None and position >= end for position, end in positions)

    async def commit(self) -> None:
        """There is nobody to tell."""

    async def finish(self) -> None:
        """There is nobody to tell."""
