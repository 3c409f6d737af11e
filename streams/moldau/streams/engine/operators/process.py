"""Operators that users write: a class with `process(record)`, stores and timers.

An instance belongs to one task. It is made with a context, which gives it its stores, takes the
records that it forwards, and calls its timers: by stream time (as records advance it) or by the
wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any, Final, Literal

from moldau.deferred import dataclass
from moldau.streams.cron import CronTimes, cron_times, is_cron
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.engine.batches import Headers, checked_headers
from moldau.streams.engine.operator import NEVER, UNKNOWN_TIME, Clock, Current, Operator
from moldau.streams.engine.operators.user_stores import Aged, TableRows, UserStore, UserStores
from moldau.streams.engine.row_functions import UpdateCheck, leaving_out
from moldau.streams.plan.operations import Process, ProcessOutput
from moldau.streams.problems import StreamsError
from moldau.streams.serdes.awaitables import true_unless_awaitable
from moldau.streams.state.journal import UndoLog


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a user's operator sees it. A change of a table has in `old` the value before,
    None if there was no row."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()
    old: Any = None

    def changed(self, **parts: Any) -> Record:
        """Return a copy with other parts."""
        return replace(self, **parts)


@dataclass(slots=True)
class Timer:
    """A repeated call. `cancel()` ends it."""

    interval: int | CronTimes
    call: Callable[[int], object]
    due: int
    undo: UndoLog | None = None

    def following(self, now: int) -> int:
        """Return when it is due next, after calls that were missed."""
        if isinstance(self.interval, CronTimes):
            return self.interval.after(now)
        return self.due + ((now - self.due) // self.interval + 1) * self.interval

    def cancel(self) -> None:
        self.move(NEVER)

    def move(self, due: int) -> None:
        """Set when the next call is due."""
        if self.undo is not None:
            self.undo.append((setattr, self, "due", self.due))
        self.due = due


Stores = dict[str, UserStores | TableRows]
Around = tuple[Stores, Current]


class Context:
    """What a user's operator uses: stores, timers, the record that runs, the steps after it."""

    def __init__(self, operator: ProcessOperator, around: Around, name: str) -> None:
        self._operator = operator
        self._stores, self._current = around
        self.name = name

    @property
    def topic(self) -> str | None:
        """The topic of the record that runs; None in a call by the clock, and for what a table
        emits at a commit."""
        place = self._current.place()
        return None if place is None else place[0]

    @property
    def offset(self) -> int | None:
        """The offset of the record that runs, in its topic; None where `topic` is None."""
        place = self._current.place()
        return None if place is None else place[1]

    @property
    def partition(self) -> int:
        """The partition that this instance works on; it is always known."""
        return self._current.partition

    @property
    def timestamp(self) -> int | None:
        """The timestamp of the record that `process` was called with; None without one."""
        return None if self._operator.record is None else self._operator.record.timestamp

    @property
    def headers(self) -> Headers:
        """The headers of the record that `process` was called with; empty without one."""
        return () if self._operator.record is None else self._operator.record.headers

    def commit(self) -> None:
        """Request a commit soon, before the interval is over. It comes after this record."""
        self._current.is_commit_wanted = True

    @property
    def stream_time(self) -> int:
        """The highest time of a record so far; -1 before the first."""
        return self._operator.clock.time

    def store(self, name: str) -> Any:
        """Return a store of the operator: the store of a StateStore, or the rows of a table."""
        if name not in self._stores:
            known = ", ".join(self._stores) or "none"
            raise StreamsError(
                f"operator={self.name}: it has no store {name!r}; it was given {known}: "
                "name it in process(..., stores=[...])"
            )
        return self._stores[name]

    def forward(self, record: Record) -> None:
        """Pass a record on to the next steps. Raise TypeError or ValueError for a time or headers
        that no record can have."""
        if self._operator.refusals:
            self._require("forward")
        time, headers, given = record.timestamp, record.headers, self._operator.record
        if time.__class__ is not int or not 0 <= time < NEVER:
            raise ValueError(f"forward: timestamp={time!r} is no int of milliseconds since 1970")
        if headers and (given is None or headers is not given.headers):
            checked_headers(headers, "forward")
        self._operator.forward(record.key, record.value, time, headers)

    def _require(self, what: str) -> None:
        """Raise StreamsError if an operator in this place cannot do something."""
        if (why := self._operator.refusals.get(what)) is not None:
            raise StreamsError(f"operator={self.name}: {why}")

    def schedule(
        self,
        interval: Duration,
        call: Callable[[int], object],
        *,
        by: Literal["stream", "wall"] = "stream",
    ) -> Timer:
        """Call `call(now_ms)` every `interval`, by stream time or by the wall clock.

        By the wall clock the interval may be times of cron in UTC: `"0 3 * * *"` is each day at
        three. Of times that pass while the app does not run none is made up for.
        """
        self._require("schedule")
        if by not in ("stream", "wall"):
            raise StreamsError(
                f'operator={self.name}: schedule: by={by!r} must be "stream" or "wall"'
            )
        if is_cron(interval):
            where = f"operator={self.name}: schedule"
            if by != "wall":
                raise StreamsError(f'{where}: {interval!r} needs by="wall": cron is of the clock')
            times = cron_times(str(interval), where)
            now = self._operator.now_ms
            due = UNKNOWN_TIME if now == UNKNOWN_TIME else times.after(now)
            timer = Timer(times, call, due, self._operator.undo)
            self._operator.add(timer, by)
            return timer
        interval_ms = milliseconds(interval, f"{self.name} schedule")
        if interval_ms <= 0:
            raise StreamsError(f"operator={self.name}: schedule: {interval!r} must be above 0")
        # By stream time the first call is at the first record, as in Kafka Streams.
        due = 0 if by == "stream" else self._operator.now_ms + interval_ms
        timer = Timer(interval_ms, call, due, self._operator.undo)
        self._operator.add(timer, by)
        return timer


_OF_ROWS: Final = {
    "forward": "process_values forwards nothing: return the value of the row from process(record), "
    "or use process(...), which makes a stream"
}


class ProcessOperator(Operator):
    def __init__(
        self,
        operation: Process,
        clock: Clock,
        around: Around,
        name: str,
        leaves_out: UpdateCheck | None = None,
    ) -> None:
        """`leaves_out` decides on a change for which `process` fails, if the app may go on then."""
        super().__init__(clock)
        self.makes_rows = operation.output is ProcessOutput.ROWS
        self._is_of_table = operation.is_of_table
        self._leaves_out = leaves_out
        check = None if leaves_out is None else self._is_left_out
        self._made = leaving_out(self._make_row, check, None)
        self._mark = 0
        """Where the change that runs began in the undo log."""
        self.refusals: Mapping[str, str] = _OF_ROWS if self.makes_rows else {}
        """Why the operator cannot "forward" or "schedule" where it stands."""
        self.record: Record | None = None
        self._timers: dict[str, list[Timer]] = {"stream": [], "wall": []}
        self._context = Context(self, around, name)
        self._current = around[1]
        self._aged = [each for each in around[0].values() if isinstance(each, Aged)]
        self._plain = [each for each in around[0].values() if isinstance(each, UserStore)]
        self._make = operation.make
        self._process: Callable[[Record], Any] | None = None
        self._close: Callable[[], object] | None = None

    def entry(self, parent: str) -> Callable[..., None]:
        if self.makes_rows:
            return self._on_row
        return self._on_change if self._is_of_table else self._on_record

    def start(self) -> None:
        for each in self._plain:
            each.begin()
        made = self._make(self._context)
        if iscoroutinefunction(made.process):
            raise StreamsError(
                f"operator={self._context.name}: its process is an async function, which nothing "
                "awaits: await before, in map_values, flat_map or another operator"
            )
        self._process = made.process
        self._close = getattr(made, "close", None)

    def announce(self) -> None:
        for each in self._plain:
            each.expire_before_flush()

    def expire(self) -> None:
        for store in self._aged:
            store.expire()

    def end(self) -> None:
        self.record = None
        close, self._close = self._close, None
        if close is not None:
            close()

    def add(self, timer: Timer, by: str) -> None:
        """Add a timer by "stream" or "wall" time."""
        self._timers[by].append(timer)
        if self.undo is not None:
            self.undo.append((self._timers[by].pop,))

    def _on_record(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        self._run(Record(key, value, time, tuple(headers or ())))

    def _on_change(
        self, key: Any, value: Any, old: Any, time: int, headers: Headers | None
    ) -> None:
        self._run(Record(key, value, time, tuple(headers or ()), old))

    def _on_row(self, key: Any, value: Any, old: Any, time: int, headers: Headers | None) -> None:
        """Pass on the row that the operator makes. One that is left out is deleted."""
        self._mark = 0 if self.undo is None else len(self.undo)
        row = self._made(Record(key, value, time, tuple(headers or ()), old))
        self.forward(key, row, time, headers)

    def _make_row(self, record: Record) -> Any:
        row = self._run(record)
        if row is not None:
            true_unless_awaitable(row)
        return row

    def _is_left_out(self, error: Exception) -> bool:
        assert self._leaves_out is not None
        return self._leaves_out(error, self._mark)

    def _run(self, record: Record) -> Any:
        """Return what the user's operator returns for a record."""
        assert self._process is not None
        self.clock.time = max(self.clock.time, record.timestamp)
        self.record = record
        result = self._process(record)
        if self._timers["stream"]:
            for timer in self._due("stream", self.clock.time):
                timer.call(self.clock.time)
        return result

    def on_wall_clock(self, now_ms: int) -> None:
        for timer in self._due("wall", now_ms):
            self._current.has_timer_fired = True
            self.guard_timed(self._call_timer)(timer, now_ms)

    def _call_timer(self, timer: Timer, now_ms: int) -> None:
        self.record = None
        timer.call(now_ms)

    def _due(self, by: str, now: int) -> Iterator[Timer]:
        """Yield each due timer once, however far time has jumped, with its next time set."""
        for timer in list(self._timers[by]):
            if timer.due == UNKNOWN_TIME:
                timer.move(timer.following(now))
            elif timer.due <= now:
                timer.move(timer.following(now))
                yield timer
