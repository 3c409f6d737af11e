"""Values of settings that are put together are judged in time that grows with their length."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from moldau.broker.settings.syntax import parse_host_limits, parse_map, parse_protocol_map

LENGTH = 300_000


@pytest.mark.parametrize("parse", [parse_map, parse_host_limits, parse_protocol_map])
@pytest.mark.parametrize(
    "text",
    ["a" + " " * LENGTH + "b", "a:1" + ", " * LENGTH, " ," * LENGTH, "a:" * LENGTH, ":" * LENGTH],
    ids=["blanks", "items", "commas", "pairs", "colons"],
)
def test_a_long_text_takes_linear_time(parse: Callable[[str], object], text: str) -> None:
    begun = time.process_time()
    parse(text)
    assert time.process_time() - begun < 2
