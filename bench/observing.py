"""The cost of being observed: counting a metric, writing a log line, reading a setting."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from bench.harness import Case, Goal, Table, seconds
from moldau.config import LONG, Setting, SettingTable, between
from moldau.logging import Level, Loggers
from moldau.metrics import Counter, Registry, render_prometheus

_COUNT = 200_000
_LINES = 20_000


class _Clock:
    def __init__(self) -> None:
        self._now = 1_795_165_578_000

    def wall_ms(self) -> int:
        self._now += 1
        return self._now


def _discard(text: str) -> None:
    pass


def _repeat(work: Callable[[], object]) -> None:
    for _ in range(_COUNT):
        work()


def _nothing() -> None:
    pass


def _in_place(counter: Counter) -> None:
    for _ in range(_COUNT):
        counter.value += 1


def _nanoseconds(work: Callable[[], object], count: int = _COUNT) -> Callable[[], float]:
    run = seconds(work, count)
    return lambda: run() * 1e9


def _metrics() -> Table:
    registry = Registry()
    counter = registry.counter("bench.counter", "Counted.")
    family = registry.counters("bench.family", "Counted by label.", labels=("api", "code"))
    histogram = registry.histogram("bench.histogram", "Observed.")
    cases = [
        Case("a call of nothing", _nanoseconds(partial(_repeat, _nothing))),
        Case("counter.value += 1", _nanoseconds(partial(_in_place, counter))),
        Case("counter.add()", _nanoseconds(partial(_repeat, counter.add))),
        Case(
            "histogram.observe(0.01)",
            _nanoseconds(partial(_repeat, partial(histogram.observe, 0.01))),
        ),
        Case(
            "family.bind(api, code)",
            _nanoseconds(partial(_repeat, partial(family.bind, "Fetch", "0"))),
        ),
    ]
    goals = [
        Goal("counter.value += 1", at_most=100.0),
        Goal("counter.add()", at_most=200.0),
        Goal("histogram.observe(0.01)", at_most=500.0),
    ]
    return Table("Counting, one event", "ns", cases, goals, higher_is_better=False)


def _exposition() -> Table:
    registry = Registry()
    family = registry.histograms("bench.times", "Times.", labels=("api", "listener"))
    for number in range(100):
        family.bind(f"api-{number}", "internal").observe(0.01)
    scrape = seconds(lambda: render_prometheus(registry.snapshot()))
    cases = [Case("scrape of 100 histograms", lambda: scrape() * 1e3)]
    return Table("Prometheus text", "ms", cases, higher_is_better=False)


def _log_lines() -> Table:
    text = Loggers(_Clock(), _discard, level=Level.INFO).get("moldau.bench").bind(node=1)
    json = Loggers(_Clock(), _discard, json=True).get("moldau.bench").bind(node=1)

    def write(info: Callable[..., None]) -> None:
        for number in range(_LINES):
            info("rolled segment", partition="orders-0", base_offset=number)

    standard = _standard_library()

    def write_standard() -> None:
        for number in range(_LINES):
            standard.info("rolled segment node=1 partition=%s base_offset=%d", "orders-0", number)

    cases = [
        Case("the standard library's line", _nanoseconds(write_standard, _LINES)),
        Case("a line below its level", _nanoseconds(partial(write, text.debug), _LINES)),
        Case("a line of text", _nanoseconds(partial(write, text.info), _LINES)),
        Case("a line of JSON", _nanoseconds(partial(write, json.info), _LINES)),
    ]
    goals = [
        Goal("a line below its level", at_most=400.0),
        Goal("a line of text", versus="the standard library's line", ratio_at_most=1.0),
    ]
    return Table("Log lines, two facts each", "ns", cases, goals, higher_is_better=False)


class _DiscardedLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _discard(self.format(record))


def _standard_library() -> logging.Logger:
    logger = logging.getLogger("moldau.bench.standard")
    handler = _DiscardedLines()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)
    return logger


def _settings() -> Table:
    lag = Setting("lag.ms", LONG, 30_000, "Lag.", check=between(1, 2**40))
    settings = SettingTable([lag]).resolve()
    read = partial(settings.__getitem__, lag)
    cases = [Case("settings[row]", _nanoseconds(partial(_repeat, read)))]
    notes = ["Read once where a thing is made, not once a request."]
    return Table("Settings", "ns", cases, higher_is_better=False, notes=notes)


def tables() -> list[Table]:
    return [_metrics(), _exposition(), _log_lines(), _settings()]
