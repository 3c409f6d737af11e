"""`moldau consume` without a group: read assigned partitions, and store nothing in the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.command import UsageError
from moldau.cli.commands.consume_leaderless import Leaderless
from moldau.cli.commands.consume_notes import gone
from moldau.cli.commands.consume_place import Stretch, cut_ends, partitions_there

if TYPE_CHECKING:
    from moldau.client import Consumer, PartitionRecords, TopicPartition
    from moldau.runtime import Clock

_POLL_S: Final = 1.0


class AssignedReading:
    """A reading of all partitions of the topics, or of the chosen ones."""

    def __init__(
        self,
        client: Consumer,
        clock: Clock,
        stretch: Stretch,
        *,
        partitions: Sequence[int] | None,
        follow: bool,
    ) -> None:
        """`follow`: go on with later records."""
        self.notes: list[str] = []
        self._client = client
        self._place, self._until, self._last = stretch
        self._partitions = partitions
        self._follow = follow
        self._ends: dict[TopicPartition, int] = {}
        self._has_nothing = False
        self._gone: list[TopicPartition] = []
        self._leaderless = Leaderless(client, clock, self.notes, self._go_to)

    @property
    def is_whole(self) -> bool:
        """Whether no partition was left out, or deleted while it was read."""
        return not (self._leaderless.waiting or self._gone)

    async def begin(self, topics: Sequence[str]) -> None:
        """Seek to the first offsets. A partition without a leader does not delay the others."""
        client = self._client
        chosen = self._chosen(await partitions_there(client, topics))
        client.assign(chosen)
        client.pause(chosen)
        await self._leaderless.begin(chosen)

    async def _go_to(self, led: list[TopicPartition]) -> None:
        """Seek to the first offsets of these partitions, and note their present ends. Ends are
        noted last, so that a partition that loses its leader meanwhile is not waited for."""
        from moldau.client.base.offsets import EARLIEST, LATEST

        client, place = self._client, self._place
        found = await client.offsets(dict.fromkeys(led, LATEST))
        ends = {each: found[each].offset for each in led}
        stops = await self._before_until(ends)
        if place.timestamp_ms is not None:
            await self._seek_to_time(place.timestamp_ms, led, ends)
        elif self._last is None and not place.is_end and place.offset is None:
            await client.seek_to_beginning(led)
        else:
            starts = await client.offsets(dict.fromkeys(led, EARLIEST))
            for each in led:
                start, end, last = starts[each].offset, ends[each], self._last
                if last is None:
                    first = self._first(each, start, end)
                else:
                    first = max(start, stops[each] - last)
                client.seek(each, first)
        self._ends |= stops
        client.resume(led)

    async def _seek_to_time(
        self, timestamp_ms: int, led: list[TopicPartition], ends: dict[TopicPartition, int]
    ) -> None:
        """Seek to the first record of that time or a later one. Note partitions without one."""
        for where, found in (await self._client.offsets(dict.fromkeys(led, timestamp_ms))).items():
            if found.offset < 0:
                self.notes.append(f"{where}: no record is that new: the log ends at {ends[where]}")
            self._client.seek(where, found.offset if found.offset >= 0 else ends[where])

    async def _before_until(self, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the ends to read to: those of the logs, or the place of `--to` if it is before."""
        until = self._until
        if until.timestamp_ms is not None:
            found = await self._client.offsets(dict.fromkeys(ends, until.timestamp_ms))
            return {
                each: end if found[each].offset < 0 else min(end, found[each].offset)
                for each, end in ends.items()
            }
        if until.offset is not None:
            return {each: min(end, until.offset) for each, end in ends.items()}
        return ends

    def _chosen(self, there: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions to read. Raise UsageError for a number that no topic has."""
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

    def _first(self, where: TopicPartition, start: int, end: int) -> int:
        """Return the first offset to read, within the log. If the user gave an offset outside of
        the log, add a note that says where the log begins or ends."""
        offset = self._place.offset
        if offset is None:
            return end
        if offset < start:
            self.notes.append(gone(where, offset, start))
        elif offset > end:
            rest = "reading begins there, not later" if self._follow else f"{offset} is beyond it"
            self.notes.append(f"{where}: the log ends at {end}: {rest}")
        return min(max(start, offset), end)

    async def next(self, max_records: int) -> list[PartitionRecords]:
        """Return more records."""
        await self._leaderless.look()
        parts = await self._client.poll(_POLL_S, max_records=max_records)
        self._has_nothing = not parts
        return parts if self._follow else list(map(self._before_the_end, parts))

    def _before_the_end(self, part: PartitionRecords) -> PartitionRecords:
        """Return the part without records behind the noted end: a busy topic has no real end."""
        end = self._ends.get((part.topic, part.partition), 0)  # type: ignore[call-overload]
        if part.records[-1].offset < end:
            return part
        return part._replace(records=[each for each in part.records if each.offset < end])

    async def is_read(self) -> bool:
        """Whether everything before the noted ends is read. Transaction markers and compacted
        records have offsets too, so positions decide and not counts."""
        if self._has_nothing:
            self._gone += await cut_ends(self._client, self._ends, self.notes)
        positions = ((self._client.position(where), end) for where, end in self._ends.items())
        return all(position is not None and position >= end for position, end in positions)

    async def commit(self) -> None:
        """Do nothing: offsets are committed only in a group."""

    async def finish(self) -> None:
        """Do nothing: offsets are committed only in a group."""
