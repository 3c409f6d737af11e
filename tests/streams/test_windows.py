"""What stores keep of their windows stays the same text: with another one a store is refused."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.streams.windows import (
    UnlimitedWindows,
    count_window,
    hopping,
    session,
    sliding,
    tumbling,
)


@pytest.mark.parametrize(
    ("windows", "kept"),
    [
        (tumbling("1m"), "1m every 1m"),
        (hopping("1m", advance="10s"), "1m every 10s"),
        (sliding("1m"), "sliding 1m"),
        (session("1m"), "sessions with a gap of 1m"),
        (UnlimitedWindows(7), "unlimited from 7"),
        (count_window(20_000, advance=1_000), "20000 records every 1000"),
        (count_window(1), "1 records every 1"),
    ],
    ids=str,
)
def test_a_store_keeps_the_same_text_of_its_windows(windows: Any, kept: str) -> None:
    assert windows.kept == kept
