"""What a search chooses of a batch, whether a sieve was asked first or each record."""

from __future__ import annotations

import asyncio
import json

import pytest

from moldau.cli.commands.consume_where import RecordFilter
from moldau.client.base.columns import PartitionColumns
from moldau.client.consumer.records import FetchedRecords
from moldau.console.pages.rendering import BadForm
from moldau.console.search.matching import SearchFilter
from moldau.link.metadata import TopicPartition
from moldau.records.builder import BatchBuilder

COUNT = 500


def part() -> PartitionColumns:
    """Records with nulls, no and several headers, texts that are no ASCII, and bytes."""
    builder = BatchBuilder()
    for at in range(COUNT):
        order = {"total": at, "name": f"n{at % 9}", "city": "D\u00fcsseldorf" if at % 50 else "NL"}
        value = json.dumps(order, ensure_ascii=at % 3 == 0).encode()
        odd = {7: None, 8: b"\xff\xfe", 9: b"plain NL", 11: (5).to_bytes(8, "big")}
        headers = (("country", b"NL"), ("country", b"DE" if at % 2 else b"NL")) if at % 5 else ()
        key = None if at % 11 == 0 else b"k%d" % at
        builder.append(1_000 + at, key, odd.get(at, value), headers)
    data = bytes(builder.build())
    found = FetchedRecords(TopicPartition("t", 0), 0, data, None, COUNT)
    columns = found.take_columns(COUNT, check_crc=True)
    assert columns is not None
    return columns


async def chosen(matching: SearchFilter, low: int, high: int) -> list[int]:
    async def rest() -> None: ...

    count, found = await matching.chosen(part(), low, high, rest)
    assert count == high - low
    return [each.offset for each in found]


@pytest.mark.parametrize(
    "where",
    [
        "value.total > 490",
        "value.total >= 0",
        'value.city == "NL" and headers.country == "NL"',
        'headers.country == "DE" and value.total < 40',
        'value.name == "n3" or key == "k77"',
        'value.city.startswith("D\u00fc") and value.total % 2 == 0',
        "timestamp == 1077 and offset > 3",
        'value.contains("NL")',
        "key == None",
    ],
)
def test_a_sieve_changes_nothing_that_is_chosen(where: str) -> None:
    wanted = RecordFilter(where)
    expected = [each.offset for each in part().records() if wanted.is_wanted(each)]
    found = asyncio.run(chosen(SearchFilter(None, None, where), 0, COUNT))
    assert found == expected
    inside = asyncio.run(chosen(SearchFilter(None, None, where), 20, 99))
    assert inside == [each for each in expected if 20 <= each < 99]


@pytest.mark.parametrize(
    ("text", "found"),
    [("NL", 11), ("k77", 0), ("64-bit integer 5", 1), ("ff fe", 1), ("k499", 1), ("nothing", 0)],
)
def test_a_text_is_looked_for_as_it_is_shown(text: str, found: int) -> None:
    assert len(asyncio.run(chosen(SearchFilter(None, None, text=text), 0, COUNT))) == found


def test_what_is_no_expression_is_refused_with_its_field() -> None:
    with pytest.raises(BadForm, match="where: there is no valu"):
        SearchFilter(None, None, "valu.x > 1")


def test_others_have_their_turn_after_each_large_record() -> None:
    rests = 0

    async def rest() -> None:
        nonlocal rests
        rests += 1

    builder = BatchBuilder(1 << 24)
    for at in range(20):
        builder.append(at, b"k", b"v" * 100_000, ())
    data = bytes(builder.build())
    found = FetchedRecords(TopicPartition("t", 0), 0, data, None, 20)
    columns = found.take_columns(20, check_crc=True)
    assert columns is not None
    asyncio.run(SearchFilter(None, None, "offset >= 0").chosen(columns, 0, 20, rest))
    assert rests == 20
