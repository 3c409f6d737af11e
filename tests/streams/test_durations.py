"""Durations as users write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams.durations import Duration, in_words, milliseconds
from moldau.streams.problems import TopologyError


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("500ms", 500),
        ("5s", 5000),
        ("1.5m", 90_000),
        ("1h 30m", 5_400_000),
        ("1d", 86_400_000),
        ("-2s", -2000),
        (250, 250),
        (timedelta(seconds=2), 2000),
    ],
)
def test_a_duration_is_read(duration: Duration, expected: int) -> None:
    assert milliseconds(duration, "size") == expected


@pytest.mark.parametrize("duration", ["", "5", "five", "5x", "5s!", "s", "-"])
def test_what_is_no_duration_is_refused_with_what_it_was_for(duration: str) -> None:
    with pytest.raises(TopologyError, match=r"window size: .* is no duration"):
        milliseconds(duration, "window size")


@given(st.integers(0, 10**12))
def test_words_mean_what_they_say(duration_ms: int) -> None:
    assert milliseconds(in_words(duration_ms), "words") == duration_ms
