"""docs/streams.md: the names of other libraries, and the differences from Kafka Streams."""

from __future__ import annotations

import re

import moldau.streams
from moldau.streams import Asker, Context, Grouped, Stream, Streams, Table
from moldau.streams.dsl.grouped import Cogrouped
from moldau.streams.dsl.table import GroupedTable
from tests.streams.kafka.page import PAGE, rows

_CLASSES = (Streams, Stream, Table, Grouped, GroupedTable, Cogrouped, Context, Asker)
_CALL = re.compile(r"\b([a-z_]+)\(")


def section(title: str) -> list[str]:
    """The lines of a section of the page."""
    text = PAGE.read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0].splitlines()


def ours(title: str) -> set[str]:
    """The calls in backticks on the right sides of the first table of a section."""
    found: set[str] = set()
    for line in section(title):
        if not line.startswith("| ") and found:
            break
        cells = line.split(" | ")
        if len(cells) == 2:
            for code in re.findall("`([^`]+)`", cells[1]):
                found |= set(_CALL.findall(code))
    return found


def public(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def test_each_difference_on_purpose_has_its_row() -> None:
    lines = section("From Kafka Streams")

    start = lines.index(rows()[0])
    assert lines[start : start + len(rows()) + 1] == [*rows(), ""]


def test_the_names_that_the_tables_give_are_there() -> None:
    known = set(moldau.streams.__all__).union(*map(public, _CLASSES))

    assert ours("From Kafka Streams") - known == set()
    assert ours("From Faust") - known == set()


def test_each_operator_that_kafka_streams_has_is_in_the_table() -> None:
    more = {
        "sum", "min", "max", "mean", "collect", "distinct", "top_k", "late",  # below the table
        "map_batch", "select", "with_columns", "agg", "reply",
    }  # fmt: skip
    operators = set().union(*map(public, (Stream, Table, Grouped)))

    assert operators - ours("From Kafka Streams") - more == set()
