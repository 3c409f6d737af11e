"""Times by cron, and timers of operators by them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from moldau.streams import Context, Record, Streams, StreamsError
from moldau.streams.cron import cron_times


def after(text: str, now: str, count: int = 2) -> list[str]:
    at = int(datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp() * 1000)
    found = []
    for _ in range(count):
        at = cron_times(text, "here").after(at)
        found.append(datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("0 3 * * *", "2026-01-01 03:00", ["2026-01-02 03:00", "2026-01-03 03:00"]),
        ("0 3 * * *", "2025-12-31 02:59:59.999", ["2025-12-31 03:00", "2026-01-01 03:00"]),
        ("*/20 8-9 * * *", "2026-01-01 08:40", ["2026-01-01 09:00", "2026-01-01 09:20"]),
        ("50/5 23 * * *", "2026-01-01 00:00", ["2026-01-01 23:50", "2026-01-01 23:55"]),
        ("0 0 * * mon-fri", "2026-01-02 00:00", ["2026-01-05 00:00", "2026-01-06 00:00"]),
        ("0 0 * * 7", "2026-01-01 00:00", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("0 0 13 * fri", "2026-02-01 00:00", ["2026-02-06 00:00", "2026-02-13 00:00"]),
        ("0 0 */20 * fri", "2026-01-01 00:00", ["2026-05-01 00:00", "2026-08-21 00:00"]),
        ("30 12 29 FEB *", "2096-03-01 00:00", ["2104-02-29 12:30", "2108-02-29 12:30"]),
        ("0 0 31 4,5 *", "2026-01-01 00:00", ["2026-05-31 00:00", "2027-05-31 00:00"]),
    ],
)
def test_the_next_times(text: str, now: str, expected: list[str]) -> None:
    assert after(text, now) == expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("0 3 * *", "five fields"),
        ("60 3 * * *", "'60' is no minute"),
        ("0 9-8 * * *", "'9-8' is no hour"),
        ("*/0 3 * * *", "no minute"),
        ("0 3 * foo *", "'foo' is no month"),
        ("0 3 1,,2 * *", "no day of the month"),
        ("0 0 30 2 *", "names no day"),
        ("0 0 31 4,6 *", "names no day"),
    ],
)
def test_a_wrong_text_is_named_with_its_field(text: str, named: str) -> None:
    with pytest.raises(StreamsError, match=named):
        cron_times(text, "here")


def scheduled(text: str, by: str, calls: list[int]) -> Streams:
    class Reports:
        def __init__(self, context: Context) -> None:
            context.schedule(text, calls.append, by=by)  # type: ignore[arg-type]

        def process(self, record: Record) -> None: ...

    app = Streams("app")
    app.stream("in", str).process(Reports, name="reports")
    return app


def test_a_timer_by_cron_is_called_once_for_a_time_and_once_for_all_that_were_missed() -> None:
    calls: list[int] = []
    hour = 3_600_000
    driver = scheduled("0 * * * *", "wall", calls).test(now_ms=hour // 2)
    driver.pipe("in", "")
    for minutes in (29, 1, 1, 59, 5 * 60):
        driver.advance(minutes * 60_000)
    assert calls == [hour, 2 * hour, 7 * hour]


def test_a_task_that_is_committed_before_it_has_seen_the_clock_calls_nothing_early() -> None:
    calls: list[int] = []
    hour = 3_600_000
    driver = scheduled("0 * * * *", "wall", calls).test(now_ms=100 * hour + 1)
    driver.commit()
    driver.advance(1)
    assert calls == []
    driver.advance(hour)
    assert calls == [101 * hour + 2]


def test_cron_is_of_the_wall_clock_only() -> None:
    with pytest.raises(StreamsError, match=r'operator=reports.*by="wall"'):
        scheduled("0 3 * * *", "stream", []).test().pipe("in", "")
