"""Dead letters of Kafka Streams (KIP-1034) and ours: the same record, and the same headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.streams import Streams
from tests.peers.apache_kafka import PeerMissing, fetch_streams_driver

SOURCE = Path(__file__).parent / "DeadLetters.java"
BY_LANGUAGE = ("exception", "message", "stacktrace")
"""What each runtime says in its own words."""


def test_a_dead_letter_is_that_of_kafka_streams() -> None:
    try:
        kafka = fetch_streams_driver()
    except PeerMissing as missing:
        pytest.skip(f"Kafka Streams cannot be had here: {missing}")
    values = ["two", "four"]
    app = Streams("dead", on_error="skip")
    app.stream("in", str, key=str).map_values(int).to("out")
    driver = app.test(dead_letters="dead")
    for value in values:
        driver.pipe("in", value, key="k", timestamp=7, headers=[("own", b"x")])
    ours = []
    for key, value_bytes, timestamp, headers in driver.read_bytes("dead"):
        assert key is not None
        assert value_bytes is not None
        line = [f"{key.decode()} {value_bytes.decode()} {timestamp}"]
        kept = [each for each in headers if not each[0].startswith("moldau.")]
        line += [f"{name} {(text or b'').decode().partition(chr(10))[0]}" for name, text in kept]
        ours.append(line)
    theirs = [line.split("|") for line in kafka.run_source(SOURCE, values, timeout_s=300)]
    assert [len(each) for each in theirs] == [8, 8]
    assert _by_both(ours) == _by_both(theirs)


def _by_both(letters: list[list[str]]) -> list[list[str]]:
    """Without what each language says in its own words."""
    return [
        [name if (name := each.partition(" ")[0]).endswith(BY_LANGUAGE) else each for each in line]
        for line in letters
    ]
