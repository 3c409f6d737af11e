"""`moldau consume --group`: read as a member of a group, and commit the records that were written.

Invariant: an offset is committed only after all records below it were written and flushed. If the
output is cut short (Ctrl-C, SIGTERM, a pipe that closes), its last lines may come again; none is
lost.

The listener runs on the client's loop while the command waits for its poll, so its messages are
collected in `notes`, and the command writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.commands.consume_leaderless import Leaderless
from moldau.cli.commands.consume_place import BEGINNING, OffsetOrTime, cut_ends, partitions_there
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


class GroupReading(RebalanceListener):
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
        self._leaderless = Leaderless(client, clock, self.notes, self._go_to)

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
