"""Stream times in the text of an offset: exact where they fit, never more than a broker keeps."""

from __future__ import annotations

import json

import pytest

from moldau.streams.engine.kept_times import TEXT_BYTES_MAX, KeptTimes, times_in

NOW = 1_800_000_000_000


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
