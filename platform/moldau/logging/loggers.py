"""The loggers of one process (or of one simulated node): their levels, their format, their output.

    loggers = Loggers(clock, sys.stderr.write)
    log = loggers.get("moldau.broker.log").bind(partition="orders-0")
    log.info("rolled segment", base_offset=5)

Invariants: a line below its logger's level costs one comparison; the time comes from the given
clock, so a simulated node's log is the same in every run of its seed; the fields of `bind` are
formatted once and not for every line. The standard library's tree of handlers is not used: it is
global to the process, while a simulation has many nodes in one, and a line of it costs over twice
as much (`bench/observing.py`). `moldau.logging.stdlib` adds other libraries' lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from moldau.errors import MoldauError
from moldau.logging.fields import (
    Fields,
    Format,
    json_line,
    json_pairs,
    one_line,
    text_line,
    text_of,
    text_pairs,
)
from moldau.logging.level import ROOT, Level

Write: TypeAlias = Callable[[str], object]


class WallClock(Protocol):
    """The source of timestamps; the runtime's clock fits."""

    def wall_ms(self) -> int: ...


class _Threshold:
    """The level of one logger name, shared by all loggers of that name."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


class Loggers:
    """All loggers that write to one output in one format."""

    def __init__(
        self, clock: WallClock, write: Write, *, json: bool = False, level: Level = Level.INFO
    ) -> None:
        """`write` gets whole lines with their line ends, one call for each line."""
        self._clock = clock
        self._write = write
        self._changes: dict[object, Callable[[str], str]] = {}
        self._line: Format = json_line if json else text_line
        self.pairs: Callable[[Fields], str] = json_pairs if json else text_pairs
        self._json = json
        self._levels: dict[str, Level] = {ROOT: level}
        self._thresholds: dict[str, _Threshold] = {}
        self._second = -1, ""
        """The second of the last line, with its text: one value, as several threads may write."""

    def get(self, name: str) -> Logger:
        """Return the logger of a module or of a part of the system, by its dotted name."""
        threshold = self._thresholds.get(name)
        if threshold is None:
            threshold = self._thresholds[name] = _Threshold(self.level(name))
        return Logger(self, name, threshold, {})

    def level(self, name: str) -> Level:
        """Return the effective level of `name`: its own, or that of the nearest name above it."""
        while name not in self._levels:
            above = name.rpartition(".")[0]
            name = above or ROOT
        return self._levels[name]

    def set_levels(self, levels: Mapping[str, Level | None]) -> None:
        """Change levels while running; None removes a logger's own level."""
        for name, level in levels.items():
            if level is not None:
                self._levels[name] = level
            elif name != ROOT:
                self._levels.pop(name, None)
        for name, threshold in self._thresholds.items():
            threshold.value = self.level(name)

    def levels(self) -> dict[str, Level]:
        """Return the effective levels of the root, of used loggers and of names with a level."""
        names = {*self._levels, *self._thresholds}
        return {name: self.level(name) for name in sorted(names)}

    @contextmanager
    def changed(self, change: Callable[[str], str]) -> Iterator[None]:
        """Write what `change` makes of each line, until the block ends. It hides secrets of a part
        that may write them without knowing it. Parts in threads of their own begin and end
        whenever they like: each has its own key, so that none loses the change of another."""
        key = object()
        self._changes[key] = change
        try:
            yield
        finally:
            del self._changes[key]

    def emit(self, level: Level, logger: Logger, event: str, fields: Fields) -> None:
        """Write one line, whatever the level is."""
        self._emit(level, logger, event, fields, "")

    def emit_failure(self, logger: Logger, event: str, error: BaseException, more: Fields) -> None:
        """Write an error: a MoldauError with its facts, any other exception with its traceback."""
        fields = {**more, "error": type(error).__name__}
        trace = ""
        if isinstance(error, MoldauError):
            facts = {name: value for name, value in error.context.items() if name not in fields}
            fields = {**fields, "reason": error.reason, **facts}
        else:
            fields["reason"] = text_of(error)
            trace = _trace(error)
        if trace and self._json:
            fields["trace"] = trace
            trace = ""
        self._emit(Level.ERROR, logger, event, fields, trace)

    def _emit(self, level: Level, logger: Logger, event: str, fields: Fields, more: str) -> None:
        second, ms = divmod(self._clock.wall_ms(), 1000)
        known, shown = self._second
        if second != known:
            shown = _second_text(second)
            self._second = second, shown
        time = f"{shown}.{ms:03d}Z"
        line = self._line(time, level, logger.name, event, logger.bound_text(fields), fields)
        text = f"{line}\n{more}"
        for change in tuple(self._changes.values()):
            text = change(text)
        self._write(text)


def _second_text(second: int) -> str:
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _trace(error: BaseException) -> str:
    from traceback import format_exception

    lines = "".join(format_exception(error)).splitlines()
    return "".join(f"    {one_line(line)}\n" for line in lines)


class Logger:
    """Writes lines under one name, each with the bound fields: node, partition, client, ..."""

    __slots__ = ("_bound", "_bound_text", "_loggers", "_threshold", "name")

    def __init__(self, loggers: Loggers, name: str, threshold: _Threshold, bound: Fields) -> None:
        self.name = name
        self._loggers = loggers
        self._threshold = threshold
        self._bound = bound
        self._bound_text: str | None = None

    def bind(self, **fields: object) -> Logger:
        """Return a logger that adds `fields` to every line; later fields override earlier ones."""
        return Logger(self._loggers, self.name, self._threshold, {**self._bound, **fields})

    def bound_text(self, fields: Fields) -> str:
        """Return the bound fields in the output format, without those that `fields` override."""
        if fields and not self._bound.keys().isdisjoint(fields):
            kept = {name: fact for name, fact in self._bound.items() if name not in fields}
            return self._loggers.pairs(kept)
        text = self._bound_text
        if text is None:
            text = self._bound_text = self._loggers.pairs(self._bound)
        return text

    def is_enabled(self, level: Level) -> bool:
        """Whether lines of this level are written; check it before facts are computed at a cost."""
        return self._threshold.value <= level

    def trace(self, event: str, /, **fields: object) -> None:
        if self._threshold.value <= 5:
            self._loggers.emit(Level.TRACE, self, event, fields)

    def debug(self, event: str, /, **fields: object) -> None:
        if self._threshold.value <= 10:
            self._loggers.emit(Level.DEBUG, self, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        if self._threshold.value <= 20:
            self._loggers.emit(Level.INFO, self, event, fields)

    def warn(self, event: str, /, **fields: object) -> None:
        if self._threshold.value <= 30:
            self._loggers.emit(Level.WARN, self, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        if self._threshold.value <= 40:
            self._loggers.emit(Level.ERROR, self, event, fields)

    def fatal(self, event: str, /, **fields: object) -> None:
        if self._threshold.value <= 50:
            self._loggers.emit(Level.FATAL, self, event, fields)

    def failure(self, event: str, failure: BaseException, /, **fields: object) -> None:
        """Log an exception at ERROR. A MoldauError is logged with its facts, as it is not a bug of
        ours; any other exception is logged with its traceback."""
        if self._threshold.value <= 40:
            self._loggers.emit_failure(self, event, failure, fields)
