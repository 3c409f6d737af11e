"""Readings of `moldau consume`: of assigned partitions, or as a member of a group.

Partitions without a leader wait, and are read as soon as they have one: their ends cannot be
requested, so it is not known where to begin. The other partitions are read meanwhile.

Invariants: a partition waits until the reading has gone on with it, also if a broker fails
meanwhile. In a group an offset is committed only after all records below it were written and
flushed: if the output is cut short, its last lines may come again, and none is lost.

The listener of a group runs on the client's loop while the command waits for its poll, so its
messages are collected in `notes`, and the command writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import UsageError
from moldau.cli.commands.consume_notes import gone
from moldau.cli.commands.consume_place import (
    BEGINNING,
    OffsetOrTime,
    Stretch,
    cut_ends,
    partitions_there,
)
from moldau.client import RebalanceListener
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.client import Consumer, OffsetAndMetadata, PartitionRecords, TopicPartition
    from moldau.runtime import Clock

_COMMIT_S: Final = 1.0
_POLL_S: Final = 1.0
# Another member reads those partitions now, from the offset that was committed before.
_NO_MEMBER: Final = frozenset(
    (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
)
# The topic was deleted, or another topic has its name now: the records that were read are gone.
_NO_TOPIC: Final = frozenset((ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


_ELECTION_S: Final = 2.0
_EVERY_S: Final = 1.0
_LOOK_S: Final = 5.0


class LeaderlessPartitions:
    """The waiting partitions of one reading."""

    def __init__(
        self,
        client: Consumer,
        clock: Clock,
        notes: list[str],
        on_led: Callable[[list[TopicPartition]], Coroutine[Any, Any, None]],
    ) -> None:
        """`on_led` goes on with partitions that have a leader; `notes` are for the user."""
        self.waiting: set[TopicPartition] = set()
        self._client = client
        self._clock = clock
        self._notes = notes
        self._on_led = on_led
        self._reported: set[TopicPartition] = set()
        self._next_look = 0.0

    async def begin(self, chosen: Collection[TopicPartition]) -> None:
        """Go on with the partitions that have a leader; the others wait. A partition that is
        electing a leader, as in a topic that was just created, gets two seconds for that. If none
        has a leader, go on with all, so that the client waits for them as long as it waits for
        anything.

        A broker that has just failed stays the leader until the cluster notices, some seconds
        later: while its answer is awaited, the metadata are requested again.
        """
        from moldau.cli.shell import unless, within
        from moldau.client.base.offsets import LATEST

        led = list(chosen)
        if not await within(_ELECTION_S, self._client.offsets(dict.fromkeys(chosen, LATEST))):
            led = await self._led(chosen) or led
        self._leave(set(chosen) - set(led))
        while not await unless(self._on_led(led), _EVERY_S, partial(self._has_lost_some, led)):
            led = await self._led(led) or led
            self._leave(set(chosen) - set(led))

    async def _has_lost_some(self, led: list[TopicPartition]) -> bool:
        """Whether some of them lost their leader and others did not; False if that is not known."""
        from moldau.cli.shell import within_or_later

        found = await within_or_later(_LOOK_S, self._led(led))
        return found is not None and 0 < len(found) < len(led)

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions, and go on with those that have a leader as soon as possible."""
        self.waiting.update(partitions)
        await self._look()

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop waiting for these partitions."""
        self.waiting.difference_update(partitions)
        self._reported &= self.waiting

    async def look(self) -> None:
        """Go on with the partitions that have a leader now. Do nothing if the last look was less
        than a second ago, and give up soon: other partitions must be read."""
        if self.waiting and self._clock.monotonic() >= self._next_look:
            await self._look()

    async def _look(self) -> None:
        from moldau.cli.shell import within_or_later

        await within_or_later(_LOOK_S, self._go_on())
        self._next_look = self._clock.monotonic() + _EVERY_S

    async def _go_on(self) -> None:
        led = await self._led(self.waiting)
        self._leave(self.waiting.difference(led))
        if led:
            await self._on_led(led)
            self._notes += [f"{each} has a leader now" for each in led if each in self._reported]
            self.remove(led)

    def _leave(self, leaderless: set[TopicPartition]) -> None:
        """Let these partitions wait, and note each of them once."""
        self.waiting |= leaderless
        self._notes += [
            f"{each} has no leader: it is left out until it has one"
            for each in sorted(leaderless - self._reported)
        ]
        self._reported |= leaderless

    async def _led(self, chosen: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return those of the partitions that have a leader, sorted."""
        led = {
            (topic.name, each.index)
            for topic in await self._client.list_topics(internal=True)
            for each in topic.partitions
            if each.leader >= 0
        }
        return sorted(where for where in chosen if where in led)


class PartitionsReader:
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
        self._leaderless = LeaderlessPartitions(client, clock, self.notes, self._go_to)

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


class GroupReader(RebalanceListener):
    """A reading as one member of a group."""

    def __init__(self, client: Consumer, clock: Clock, group: str, place: OffsetOrTime) -> None:
        """`place`: where to begin in partitions without a committed offset."""
        self.notes: list[str] = []
        self._client = client
        self._clock = clock
        self._group = group
        self._place = place
        self._ends: dict[TopicPartition, int] = {}
        self._ends_at_first: dict[TopicPartition, int] = {}
        self._unended: set[TopicPartition] = set()
        """The partitions whose log end is not known yet."""
        self._unplaced: set[TopicPartition] = set()
        """This member's partitions that are paused, since their first offset is not known yet."""
        self._has_nothing = False
        self._gone: list[TopicPartition] = []
        self._written: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._last_commit = clock.monotonic()
        self._leaderless = LeaderlessPartitions(client, clock, self.notes, self._go_to)

    @property
    def is_whole(self) -> bool:
        """Whether no partition was left out, or deleted while it was read."""
        return not (self._leaderless.waiting or self._gone)

    async def begin(self, topics: Sequence[str]) -> None:
        """Subscribe; the first poll joins the group. Raise KafkaError for an unknown topic."""
        there = await partitions_there(self._client, topics)
        self._unended.update(there)
        await self._leaderless.begin(there)
        await self._client.subscribe(topics, listener=self)

    async def _go_to(self, led: list[TopicPartition]) -> None:
        """Note the ends that are not known yet, and seek to the first offsets in partitions without
        a committed offset."""
        await self._note_ends([where for where in led if where in self._unended])
        await self._place_at([where for where in led if where in self._unplaced])

    async def _note_ends(self, led: list[TopicPartition]) -> None:
        from moldau.client.base.offsets import EARLIEST, LATEST

        if not led:
            return
        starts = await self._client.offsets(dict.fromkeys(led, EARLIEST))
        ends = await self._client.offsets(dict.fromkeys(led, LATEST))
        for where in led:
            end = self._ends_at_first[where] = ends[where].offset
            if end > starts[where].offset:
                self._ends[where] = end
        self._unended.difference_update(led)

    async def next(self, max_records: int) -> list[PartitionRecords]:
        """Return more records. The earlier ones have been written, and may be committed."""
        self._written = self._consumed()
        if self._clock.monotonic() - self._last_commit >= _COMMIT_S:
            await self.commit()
        await self._leaderless.look()
        parts = await self._client.poll(_POLL_S, max_records=max_records)
        self._has_nothing = not parts
        return parts

    async def finish(self) -> None:
        """Commit everything: all returned records have been written."""
        self._written = self._consumed()
        await self.commit()

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the consumed offsets, without partitions whose first offset is not known: the
        client would take their beginning."""
        found = self._client.consumed()
        return {where: each for where, each in found.items() if where not in self._unplaced}

    async def commit(self) -> None:
        """Commit the offsets of records that are known to be written."""
        self._last_commit = self._clock.monotonic()
        await self._commit(self._written)

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        known = self._committed
        new = {where: each for where, each in offsets.items() if known.get(where) != each}
        if not new:
            return
        try:
            await self._client.commit(new)
        except KafkaError as error:
            if error.code in _NO_MEMBER:
                self.notes.append(f"not committed, so others read it again: {error}")
            elif error.code in _NO_TOPIC:
                self.notes.append(f"not committed: {error}")
            else:
                raise
            return
        known.update(new)

    async def is_read(self) -> bool:
        """Whether the group has read everything before the noted ends: this member in its own
        partitions, the others as far as they have committed."""
        client = self._client
        if self._has_nothing:
            self._gone += await cut_ends(client, self._ends, self.notes)
        positions = self._consumed()
        others = []
        for where, end in self._ends.items():
            if where not in positions:
                others.append(where)
            elif positions[where].offset < end:
                return False
        if not others:
            return True
        committed = await client.committed(others)
        return all(
            found is not None and found.offset >= self._ends[where]
            for where, found in committed.items()
        )

    # Callbacks of the group

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Seek to the first offsets in partitions without a committed offset. Pause those without a
        leader until they have one."""
        self._note("reads now", partitions)
        if not partitions or self._place == BEGINNING:
            return
        committed = await self._client.committed(partitions)
        new = [where for where in partitions if committed[where] is None]
        if new:
            self._unplaced.update(new)
            self._client.pause(new)
            await self._leaderless.add(new)

    async def _place_at(self, new: list[TopicPartition]) -> None:
        if not new:
            return
        if self._place.timestamp_ms is not None:
            await self._client.seek_to_time(self._place.timestamp_ms, new)
        else:
            await self._seek(new)
        self._client.resume(new)
        self._unplaced.difference_update(new)

    async def _seek(self, new: Sequence[TopicPartition]) -> None:
        """Seek to an offset, but not behind the end, where a reset would go to the beginning. The
        end is that of the time when the command began: later records are read, also in a partition
        or topic that was created since, which is read from its beginning."""
        from moldau.client.base.offsets import LATEST

        ends = await self._client.offsets(dict.fromkeys(new, LATEST))
        for where in new:
            offset, end = self._place.offset, ends[where].offset
            if offset is None:
                offset = self._ends_at_first.get(where, 0)
                if offset > end:
                    continue
            self._client.seek(where, min(offset, end))

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit the revoked partitions: this is the last moment to do it."""
        self._note("gives up", partitions)
        gone = set(partitions)
        await self._commit({where: each for where, each in self._written.items() if where in gone})
        self._forget(partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget the lost partitions without a commit: others may own them."""
        self._note("has lost", partitions)
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for where in partitions:
            self._written.pop(where, None)
            self._committed.pop(where, None)
        self._unplaced.difference_update(partitions)
        self._leaderless.remove(set(partitions) - self._unended)

    def _note(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            places = ", ".join(map(str, sorted(partitions)))
            self.notes.append(f"group {self._group} {what} {places}")
