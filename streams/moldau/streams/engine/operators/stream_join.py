"""Joins of two streams: records of a key that are close in time are joined.

Both sides share one stream time, and every record advances it, even one that is dropped for a null
key or value. In a left or outer join, a record that may still meet another waits; once its window
and the grace are over, it comes out alone. A record that is neither dropped nor late first emits
all waiting records that are over, in the order of time, right before left, then key. Its own
results follow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from moldau.streams.engine.batches import Headers
from moldau.streams.engine.operator import Clock, Operator
from moldau.streams.plan.joins import StreamJoin
from moldau.streams.state.agenda import Agenda
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.state.records import RecordStore

RIGHT, LEFT = 0, 1


class StreamJoinOperator(Operator):
    def __init__(
        self,
        operation: StreamJoin,
        clock: Clock,
        sides: tuple[RecordStore, RecordStore],
        waiting: KeyValueStore | None,
        parents: tuple[str, str],
    ) -> None:
        super().__init__(clock)
        self.idle_ms = operation.windows.idle_ms
        self._operation = operation
        self._left, self._right = sides
        self._waiting = waiting
        self._codecs = {LEFT: sides[0].spec.value, RIGHT: sides[1].spec.value}
        self._parents = parents
        self._join = joined(operation.call.function, takes_key=operation.call.takes_key)
        self._function = None if operation.call.takes_key else operation.call.function
        self._pads: dict[int, Callable[..., None]] = {}
        # By side: how long records wait, and the waiting ones as the bytes of time, side, key.
        self._queues: list[tuple[int, Agenda]] = []
        if waiting is not None:
            windows = operation.windows
            for side, span_ms in ((RIGHT, windows.before_ms), (LEFT, windows.after_ms)):
                read = partial(waiting.first_keys, wanted=partial(_is_of, side))
                self._queues.append((span_ms + windows.grace_ms, Agenda(read)))

    def entry(self, parent: str) -> Callable[..., None]:
        return self._entry(LEFT if parent == self._parents[0] else RIGHT)

    def start(self) -> None:
        self._left.load()
        self._right.load()
        self._pads = {LEFT: self.guard(self._pad_left, 0), RIGHT: self.guard(self._pad_right, 1)}

    def _pad_left(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        self.forward(key, self._join(key, value, None), time, headers)

    def _pad_right(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        self.forward(key, self._join(key, None, value), time, headers)

    def _entry(self, side: int) -> Callable[..., None]:
        """Return the function that takes the records of a side. All that it needs is in locals."""
        operation, clock, is_left = self._operation, self.clock, side == LEFT
        windows, waits = operation.windows, self._waiting is not None
        own, other = (self._left, self._right) if is_left else (self._right, self._left)
        before_ms, after_ms = windows.before_ms, windows.after_ms
        if not is_left:
            before_ms, after_ms = after_ms, before_ms
        pads = operation.pads_left if is_left else operation.pads_right
        put, fetch, join, function = own.put, other.fetch, self._join, self._function

        def on_record(key: Any, value: Any, time: int, headers: Headers | None) -> None:
            if time > clock.time:
                clock.time = time
            if value is None:
                return
            if key is None:
                if pads:
                    self._alone(side, None, value, time, headers)
                else:
                    self.keyless += 1
                return
            put(key, value, time)
            if waits and time == clock.time:
                self._emit_over(headers)
            first, last = time - before_ms, time + after_ms
            if first < 0:
                first = 0
            if last < 0:
                last = 0
            met = fetch(key, first, last)
            for other_time, _, found in met:
                if waits:
                    self._met(1 - side, key, other_time)
                if function is None:
                    pair = join(key, value, found) if is_left else join(key, found, value)
                else:
                    pair = function(value, found) if is_left else function(found, value)
                self.forward(key, pair, time if time > other_time else other_time, headers)
            if pads and not met:
                if last < clock.time:
                    self._alone(side, key, value, time, headers)
                else:
                    self._wait(side, key, value, time)

        return on_record

    def _alone(self, side: int, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        (self._pad_left if side == LEFT else self._pad_right)(key, value, time, headers)

    def _wait(self, side: int, key: Any, value: Any, time: int) -> None:
        assert self._waiting is not None
        place = (time, side, key)
        entry = self._waiting.get(place)
        data = self._codecs[side].encode(value)
        self._waiting.put(place, [data] if entry is None else [*entry[0], data], time)
        if entry is None:
            self._queues[side][1].add(self._waiting.keys.codec.encode(place))

    def _met(self, side: int, key: Any, time: int) -> None:
        """Delete the waiting records of a side: they have met another."""
        if self._waiting is not None and self._waiting.get((time, side, key)) is not None:
            self._waiting.put((time, side, key), None, time)

    def _emit_over(self, headers: Headers | None) -> None:
        """Emit the records that waited in vain."""
        while (first := self._first_over()) is not None:
            entry, queue = first
            queue.pop()
            if self.undo is not None:
                self.undo.append((queue.add, entry))
            assert self._waiting is not None
            time, side, key = place = self._waiting.keys.codec.decode(entry)
            waiting = self._waiting.get(place)
            if waiting is None:
                continue  # it has met another since
            self._waiting.put(place, None, time)
            for data in waiting[0]:
                self._pads[side](key, self._codecs[side].decode(data), time, headers)

    def _first_over(self) -> tuple[bytes, Agenda] | None:
        """Return the first record of both sides whose window and grace are over, and its queue."""
        found = None
        for span_ms, queue in self._queues:
            if queue.first_time + span_ms >= self.clock.time:
                continue
            entry = queue.first()
            if entry is None or queue.first_time + span_ms >= self.clock.time:
                continue
            if found is None or entry < found[0]:
                found = (entry, queue)
        return found

    def expire(self) -> None:
        self._left.expire()
        self._right.expire()

    def advance(self, time: int) -> None:
        super().advance(time)
        self._emit_over(None)


def _is_of(side: int, entry: bytes) -> bool:
    return entry[8] == side


def joined(function: Callable[..., Any], *, takes_key: bool) -> Callable[[Any, Any, Any], Any]:
    """Return a joiner that is always called with key, left and right."""
    return function if takes_key else lambda _, left, right: function(left, right)
