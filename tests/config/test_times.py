"""Times that people and programs write."""

from __future__ import annotations

import pytest

from moldau.config.times import iso_datetime, parse_time_ms


@pytest.mark.parametrize("text", ["20261130", "2026-11-30", "20261130T101500", "2026-11-30 10:15"])
def test_a_datetime_in_iso_form_is_read(text: str) -> None:
    found = iso_datetime(text)
    assert (found.year, found.month, found.day) == (2026, 11, 30)


@pytest.mark.parametrize("text", ["1711010100000", "2026113010000"])
def test_milliseconds_as_text_are_no_datetime(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        iso_datetime(text)
    with pytest.raises(ValueError, match="no time"):
        parse_time_ms(text, 0)
