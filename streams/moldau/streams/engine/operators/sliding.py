"""Aggregations in sliding windows: [start, start + difference], both ends inclusive.

A key has a window that ends at each of its records, and one that starts right after each of them if
it holds any record. All windows that would start below 0 are one: [0, difference]. A record is
added to the windows that hold it; a new window folds the records that it holds, in their order of
arrival.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any

from moldau.streams.engine.aggregates import WindowedTable
from moldau.streams.engine.batches import Headers
from moldau.streams.engine.folds import Folds
from moldau.streams.engine.operator import Clock
from moldau.streams.plan.operations import Emit, SlidingAggregate
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.state.journal import MISSING, put_back
from moldau.streams.state.keyvalue import Entry
from moldau.streams.state.records import RecordStore
from moldau.streams.state.windows import WindowStore


class SlidingTable(WindowedTable):
    def __init__(
        self, operation: SlidingAggregate, clock: Clock, windows: WindowStore, records: RecordStore
    ) -> None:
        folds = Folds(operation.folding)
        super().__init__(windows, clock, folds.result, operation.windows.grace_ms)
        # The end is inclusive, so a window is over one millisecond later than others.
        self.size_ms = operation.windows.difference_ms + 1
        self.idle_ms = operation.idle_ms
        self.emits_at_commit = operation.emit is Emit.COMMIT
        self.emits_at_close = operation.emit is Emit.CLOSE
        self._emits_each = operation.emit is Emit.EVERY
        self._difference_ms = operation.windows.difference_ms
        self._folds = folds
        self._codec = windows.spec.value if operation.copies else None
        self._records = records
        # The starts of the windows of each key, in order.
        self._starts: dict[Any, list[int]] = {}

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_record

    def start(self) -> None:
        self._records.load()
        super().start()
        name = self.store.keys.name
        for key, start, _ in self.store.items():
            insort(self._starts.setdefault(name(key), []), start)

    def _on_record(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        if key is None or value is None:
            self.keyless += key is None
            return
        self.clock.time = max(self.clock.time, time)
        over = self.clock.time - self.grace_ms
        difference = self._difference_ms
        if time + 1 + difference <= over:
            self.late += 1
            if self.on_late is not None:
                self.on_late(key, value, time, headers)
        else:
            self._take(key, value, time, headers)
        if self.emits_at_close and self.clock.time >= self.clock.next_close:
            self.close(headers)

    def _take(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        """Change the open windows that hold the record.

        The order is that of Kafka Streams: existing windows, the latest first; windows that begin
        after an earlier record; the one that ends at the record; the one after it. While the window
        from 0 on is the one that ends at the record, it comes last.
        """
        self._records.put(key, value, time)
        difference = self._difference_ms
        starts = self._starts.setdefault(self.store.keys.name(key), [])
        first = max(0, time - difference)
        known = starts[bisect_left(starts, first) : bisect_left(starts, time + 2)]
        is_known = set(known)
        order = [start for start in reversed(known) if start <= time]
        order += [start for start in self._new_starts(key, time) if start not in is_known]
        if time < difference:
            order = [start for start in order if start > 0] + [0]
        for start in order:
            if start + difference < self.clock.time - self.grace_ms:
                continue
            if start not in is_known:
                insort(starts, start)
                if self.undo is not None:
                    self.undo.append((starts.remove, start))
                self._change(key, start, self._folded(key, start), headers)
            else:
                entry = self.store.fetch(key, start)
                assert entry is not None
                self._change(key, start, self._added(entry, key, value, time), headers)

    def _new_starts(self, key: Any, time: int) -> list[int]:
        """Return the starts of windows that a record may open, known ones included.

        Those are the ones after earlier records, the record's own, and the one after it.
        """
        difference = self._difference_ms
        earlier = self._records.fetch(key, max(0, time - 1 - difference), time - 1)
        starts = [at + 1 for at in dict.fromkeys(record[0] for record in earlier)]
        starts.append(max(0, time - difference))
        if self._records.fetch(key, time + 1, time + 1 + difference):
            starts.append(time + 1)
        return list(dict.fromkeys(starts))

    def _added(self, entry: Entry, key: Any, value: Any, time: int) -> tuple[Any, int]:
        old, latest = entry
        if self._codec is not None:
            old = self._codec.decode(self._codec.encode(old))
        return self._folds.add(old, key, value), max(latest, time)

    def _folded(self, key: Any, start: int) -> tuple[Any, int]:
        """Return the aggregate of a window's records, in their order of arrival, and its time."""
        held = self._records.fetch(key, start, start + self._difference_ms)
        aggregate = None
        for _, _, value in sorted(held, key=lambda record: record[1]):
            aggregate = self._folds.add(aggregate, key, value)
        return aggregate, max(record[0] for record in held)

    def _change(self, key: Any, start: int, now: tuple[Any, int], headers: Headers | None) -> None:
        old = self.store.fetch(key, start)
        value, time = now
        window = self.window(start)
        self.store.put(key, start, None if value is None else now)
        if value is None:
            name = self.store.keys.name(key)
            starts = self._starts[name]
            if self.undo is not None:
                deleted = window.deleted.get(name, MISSING)
                self.undo.append((put_back, window.deleted, name, deleted))
                self.undo.append((insort, starts, start))
            window.deleted[name] = time
            # The next record of the key may open it again.
            starts.remove(start)
        if self._emits_each:
            seen = self._folds.seen(value)
            before = None if old is None else self._folds.seen(old[0])
            self.forward(Windowed(key, start, window.end), seen, before, time, headers)

    def expire(self) -> None:
        super().expire()
        self._records.expire()
        first = self.clock.time - self._difference_ms - self.grace_ms
        for name, starts in list(self._starts.items()):
            del starts[: bisect_left(starts, first)]
            if not starts:
                del self._starts[name]
