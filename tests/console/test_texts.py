"""What people read: texts, pages of lists, plans of offsets, and small assets."""

from __future__ import annotations

from importlib.resources import files

import pytest

from moldau.client.admin.configs import ConfigEntry, ConfigSource
from moldau.client.admin.progress import PartitionProgress
from moldau.console.pages.cluster import SettingRow, meaning_of
from moldau.console.pages.groups import destination_of, movable
from moldau.console.pages.paging import paged
from moldau.console.pages.rendering import BadForm
from moldau.console.pages.texts import SHOWN_BYTES, indented, moment, number, size, text_of
from moldau.console.search.query import readable
from moldau.ids import ZERO_UUID
from moldau.link.metadata import Partition, Topic, TopicPartition
from moldau.operations.offsets import OffsetChange, PartitionOffsets

ASSETS_BYTES_MAX = 300_000


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"abc", "abc"),
        (b"\xff\x00", "ff 00"),
        (None, ""),
        ("\u017e".encode(), "\u017e"),
        (b"8=FIX.4.4\x019=5\x01", "8=FIX.4.4\x019=5\x01"),
        ((5).to_bytes(8, "big"), "00 00 00 00 00 00 00 05 (the 64-bit integer 5)"),
        (b"\0\0\0\x27\x0f{}", "\u2400\u2400\u2400'\x0f{}"),
        (b"\xff" * 4, "ff ff ff ff (the 32-bit integer -1)"),
        (
            (2**62 + 1).to_bytes(8, "big"),
            "40 00 00 00 00 00 00 01 (the 64-bit integer 4611686018427387905)",
        ),
    ],
)
def test_bytes_are_text_where_they_are(data: bytes | None, text: str) -> None:
    assert text_of(data) == text


def test_a_long_value_is_cut_and_says_so() -> None:
    assert text_of(b"x" * 50_000).endswith("... (48.8 KB in all)")


def test_a_text_that_is_cut_within_a_character_stays_a_text() -> None:
    given = "\u20ac" * 50_000
    shown, told = text_of(given.encode()).split(" ", 1)
    assert given.startswith(shown)
    assert len(shown) == SHOWN_BYTES // 3
    assert told == "... (146.5 KB in all)"
    assert text_of(b"\xe2\x82") == "e2 82"
    assert text_of(b"\xff" * 50_000).startswith("ff ff")


@pytest.mark.parametrize("digits", ["12345678901234567890", "0.10", "1e400"])
def test_numbers_keep_every_digit(digits: str) -> None:
    assert indented(f'{{"a": {digits}}}') == f'{{\n  "a": {digits}\n}}'


def test_what_is_no_json_stays() -> None:
    assert indented("{no") == "{no"
    assert indented("[" * 100_000) == "[" * 100_000


def test_numbers_sizes_and_times() -> None:
    assert (number(1234567), number(None), number(-1)) == ("1,234,567", "-", "-")
    assert (size(10), size(1536)) == ("10 B", "1.5 KB")
    assert moment(0) == "1970-01-01 00:00:00.000"
    assert moment(10**18) == str(10**18)
    assert moment(-1) == ""


@pytest.mark.parametrize(
    ("asked", "number_", "first", "last"),
    [(None, 1, 1, 50), ("3", 3, 101, 120), ("9", 3, 101, 120), ("x", 1, 1, 50), ("0", 1, 1, 50)],
)
def test_a_page_is_the_nearest_one_that_there_is(
    asked: str | None, number_: int, first: int, last: int
) -> None:
    part = paged(range(120), asked)

    assert (part.number, part.first, part.last, part.total) == (number_, first, last, 120)
    assert len(part.rows) == last - first + 1


@pytest.mark.parametrize(
    ("way", "amount", "after", "effect"),
    [
        ("beginning", "", 10, "reads 40 again"),
        ("end", "", 100, "skips 50"),
        ("offset", "70", 70, "skips 20"),
        ("offset", "5", 10, "reads 40 again"),
        ("back", "20", 30, "reads 20 again"),
        ("back", "1000", 10, "reads 40 again"),
        ("time", "-1h", 60, "skips 10"),
    ],
)
def test_a_plan_says_what_the_group_reads_again_or_never(
    way: str, amount: str, after: int, effect: str
) -> None:
    rule = destination_of(way, amount, now_ms=10**12).rule
    after_rule, _ = rule(PartitionOffsets(50, 10, 100, at_time=60))
    move = OffsetChange("g", TopicPartition("t", 0), 50, after_rule, 100)

    assert (move.after, move.effect) == (after, effect)


def test_a_partition_without_a_known_end_keeps_no_other_from_its_plan() -> None:
    led, gone = (PartitionProgress(TopicPartition(name, 0), None, end, None)
                 for name, end in (("led", 9), ("gone", None)))  # fmt: skip
    assert movable([led, gone], "") == movable([led, gone], "led") == [led.where]
    for rows, topic in (([gone], ""), ([led, gone], "gone"), ([], "")):
        with pytest.raises(BadForm, match="no partition has a known end"):
            movable(rows, topic)


def test_a_plan_needs_a_way_and_a_number() -> None:
    for way, amount in (("up", ""), ("back", "x"), ("offset", "-1")):
        with pytest.raises(BadForm):
            destination_of(way, amount, now_ms=0)


def test_the_assets_are_small_and_name_their_licence() -> None:
    folder = files("moldau.console") / "static"
    assets = {each.name: each.read_bytes() for each in folder.iterdir()}

    assert sum(map(len, assets.values())) < ASSETS_BYTES_MAX
    assert b"Zero-Clause BSD" in assets["htmx.LICENSE.txt"]


def entry(name: str, value: str | None, source: ConfigSource = ConfigSource.DEFAULT) -> ConfigEntry:
    return ConfigEntry(name, value, source, False, False, (), None)


@pytest.mark.parametrize(
    ("name", "value", "meaning"),
    [
        ("retention.ms", "604800000", "7 d 0 h"),
        ("retention.ms", "-1", "no limit"),
        ("segment.bytes", "1073741824", "1.0 GB"),
        ("flush.ms", str(2**63 - 1), "no limit"),
        ("local.retention.ms", "-2", ""),
        ("min.insync.replicas", "2", ""),
        ("retention.ms", "", ""),
    ],
)
def test_times_and_sizes_have_a_unit(name: str, value: str, meaning: str) -> None:
    assert meaning_of(name, value) == meaning


def test_a_setting_of_few_values_has_choices_and_keeps_its_own() -> None:
    assert SettingRow.of(entry("preallocate", "false")).choices == ("true", "false")
    assert "zstd" in SettingRow.of(entry("compression.type", "producer")).choices
    odd = SettingRow.of(entry("cleanup.policy", "delete,compact", ConfigSource.TOPIC))
    assert odd.choices[0] == "delete,compact"
    assert odd.is_own
    assert SettingRow.of(entry("retention.bytes", None)).choices == ()


def test_a_partition_without_a_leader_keeps_no_other_from_being_read() -> None:
    partitions = tuple(Partition(each, leader, 0, (1,), (1,)) for each, leader in ((0, 1), (1, -1)))
    topic = Topic("orders", ZERO_UUID, partitions)
    assert readable(topic, "") == ([0], [1])
    assert readable(topic, "1") == ([0, 1], [])
