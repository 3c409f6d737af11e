"""The times that an app gives to records, and the stream times that are kept with its offsets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moldau.streams import Streams, tumbling
from moldau.streams.engine.kept_times import TEXT_BYTES_MAX, KeptTimes, times_in
from moldau.streams.testing.driver import Driver

NOW = 1_800_000_000_000


def driver_of(**options: Any) -> Driver:
    app = Streams("app")

    def own_time(value: str, _: int) -> int:
        return int(value.split("@")[1])

    names = app.table("names", str, key=str, timestamp=own_time)
    orders = app.stream("orders", str, key=str, timestamp=own_time, on_error="skip")
    orders.join(names, lambda order, name: f"{order} {name}").to("out")
    return app.test(**options)


def joined(batch: int) -> list[str]:
    driver = driver_of(batch=batch)
    # By the records' own times all names would come first.
    driver.add("names", [("a", "one@10", 1), ("a", "two@30", 2)])
    driver.add("orders", [("a", "x@5", 3), ("a", "y@20", 4), ("a", "poison", 5), ("a", "z@40", 6)])
    driver.run()
    driver.commit()
    return [each.value for each in driver.read("out")]


def test_the_lowest_time_of_the_app_runs_first() -> None:
    assert [joined(batch) for batch in (1, 7, 500)] == [["y@20 one@10", "z@40 two@30"]] * 3


def test_a_time_that_no_record_can_have_fails_its_record() -> None:
    app = Streams("app", on_error="skip")
    stream = app.stream("in", int, key=str, timestamp=lambda value, _: value)
    stream.group_by_key().window(tumbling("1s")).count(name="n").changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 2**63, 0), ("a", 2**63 - 1000, 0), ("b", 2**70, 0)])

    assert driver.counters()["skipped"] == 2
    assert len(driver.read("out")) == 1


def times_of(count: int) -> dict[str, int]:
    """Of operators that are all at another time of the last days."""
    return {f"visits-by-country-and-hour-{at}": NOW - at * 7_654_321 for at in range(count)}


@pytest.mark.parametrize("count", [0, 1, 80, 120, 250])
def test_times_come_back_exactly(count: int) -> None:
    times = times_of(count)
    text = KeptTimes("0_0").text(times)
    assert len(text.encode()) <= TEXT_BYTES_MAX
    assert times_in(text, [*times, "another"]) == times


def test_a_short_text_has_the_names() -> None:
    assert json.loads(KeptTimes("0_0").text({"counts": 5})) == {"time": {"counts": 5}}


def test_too_many_keep_the_least_and_tell_it_once(caplog: pytest.LogCaptureFixture) -> None:
    times = times_of(2000)
    kept = KeptTimes("1_3")
    text = kept.text(times)
    assert kept.text(times) == text
    least = min(times.values())
    assert times_in(text, ["a", "b"]) == {"a": least, "b": least}
    assert [each.getMessage() for each in caplog.records] == [
        "streams: task 1_3: the stream times of 2000 operators do not fit beside an offset; after "
        "a restart all of them begin at the least one, so windows may stay open longer: split the "
        "app"
    ]


@pytest.mark.parametrize(
    "text",
    ["", "x", "5", "[]", '{"time":5}', '{"time":{"a":"b"}}', '{"packed":"?"}', '{"packed":5}'],
)
def test_what_is_no_such_text_says_nothing(text: str) -> None:
    assert times_in(text, ["a"]) == {}
